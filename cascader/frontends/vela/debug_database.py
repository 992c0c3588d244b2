"""Vela's debug database: the layer of every operation of a command stream, and Programs with the names of their layers.

The file holds CSV tables in CDATA sections. ``queue`` maps the byte offset of a kernel command in its stream to ``optimised_id``;
``optimised`` maps that to ``source_id``; ``source`` has the operator's index in the .tflite file (``ext_key``). ``perf`` holds Vela's own
name for a scheduled operation, for operations without a source.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import overload

from msgspec.structs import replace

from cascader.frontends.vela.cpu_reasons import said_reasons, with_reasons
from cascader.frontends.vela.result import VelaResult
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.program import Control, Program
from npu_model.tflite.model import TfliteModel, TfliteOperator


class Row(Mapping[str, str]):
    """A row of a table, from column to text.

    Rows share their columns, and rows of one table share equal texts: a table may have 66,000 rows.
    """

    __slots__ = ("_places", "_values")

    def __init__(self, places: Mapping[str, int], values: tuple[str, ...]) -> None:
        self._places, self._values = places, values

    def __getitem__(self, column: str) -> str:
        """The text of a column."""
        return self._values[self._places[column]]

    def __iter__(self) -> Iterator[str]:
        """The columns."""
        return iter(self._places)

    def __len__(self) -> int:
        """The number of columns."""
        return len(self._places)


class DatabaseTable(Sequence[Row]):
    """A table of the database, as CSV text whose first line names the columns. A row's missing columns are "".

    The table is parsed on demand: one may have 33 MB, and two of its columns are used. Text that is not CSV has no rows, because names are
    only annotations.
    """

    __slots__ = ("_body", "_rows")

    def __init__(self, body: str) -> None:
        self._body = body
        self._rows: tuple[Row, ...] | None = None

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows; they are parsed once."""
        if self._rows is None:
            try:
                self._rows = tuple(_rows(self._body))
            except csv.Error:
                self._rows = ()
        return self._rows

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, index: int | slice) -> Row | tuple[Row, ...]:
        return self.rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __eq__(self, other: object) -> bool:
        """Whether the other table has the same rows."""
        return isinstance(other, DatabaseTable) and (self._body == other._body or self.rows == other.rows)

    __hash__ = None  # type: ignore[assignment]  # rows are mappings, which have none

    def columns(self, *names: str) -> list[tuple[str, ...]]:
        r"""The texts of some columns, row by row; "" for a column that the table does not have.

        >>> DatabaseTable("id,name\n1,a\n2").columns("name", "id", "time")
        [('a', '1', ''), ('', '2', '')]
        """
        try:
            return list(_picked(self._body, names))
        except csv.Error:
            return []

    def column_by(self, key: str, column: str) -> dict[str, str]:
        """The texts of one column by the texts of another. If several rows have the same text, the last one counts."""
        return {row[0]: row[1] for row in self.columns(key, column)}


_NO_TABLE = DatabaseTable("")


def _picked(body: str, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Some columns of each line; most lines have all of them."""
    lines = csv.reader(io.StringIO(body))
    columns = next(lines, [])
    places = [columns.index(name) if name in columns else -1 for name in names]
    for line in lines:
        if line:
            most = len(line)
            yield tuple([line[place] if -1 < place < most else "" for place in places])


Tables = Mapping[str, DatabaseTable]
"""The tables by name."""


def with_quoted_names(text: str, model: TfliteModel) -> str:
    """The text of a debug database of ``model`` with quotes doubled and ends of CDATA split in names, as Vela 5.2 writes them plainly."""
    for name in {tensor.name for tensor in model.tensors if '"' in tensor.name or _END in tensor.name}:
        quoted = name.replace('"', '""').replace(_END, _SPLIT_END)
        text = text.replace(f'"{name}"', f'"{quoted}"')
    return text


_TABLE = re.compile(r'<table name=["\'](\w+)["\']>\s*<!\[CDATA\[')
_END, _SPLIT_END = "]]>", "]]]]><![CDATA[>"
"""The end of a CDATA section, and how a section writes these characters as text."""


@lru_cache(maxsize=1)
def read_tables(text: str) -> Tables:
    """The tables of a debug database by name.

    The last results are kept, because each check of a compilation reads them. No caller changes them.
    """
    tables, position = {}, 0
    while found := _TABLE.search(text, position):
        end = text.find(_END, found.end())
        while end >= 0 and text.startswith(_SPLIT_END, end - 2):
            end = text.find(_END, end + len(_SPLIT_END))
        if end < 0:
            break
        tables[found[1]] = DatabaseTable(text[found.end() : end].strip().replace(_SPLIT_END, _END))
        position = end
    return tables


def table(tables: Tables, name: str) -> DatabaseTable:
    """The table of that name; an empty table if the database has none."""
    return tables.get(name, _NO_TABLE)


def _rows(body: str) -> Iterator[Row]:
    texts: dict[str, str] = {}
    lines = csv.reader(io.StringIO(body))
    columns = {name: place for place, name in enumerate(next(lines, ()))}
    for line in lines:
        if line:
            padded = line + [""] * (len(columns) - len(line))
            yield Row(columns, tuple(map(texts.setdefault, padded, padded)))


def source_operators(tables: Tables, model: TfliteModel) -> dict[str, TfliteOperator]:
    """The operators of the .tflite file by their ids in the ``source`` table."""
    keys = {row.get("id", ""): row.get("ext_key", "") for row in tables.get("source", ())}
    return {name: model.operators[int(key)] for name, key in keys.items() if key.isdecimal() and int(key) < len(model.operators)}


def by_command(tables: Tables, column: str) -> tuple[dict[int, str], ...]:
    """For every command stream in order: a column of the ``queue`` table by the byte offset of each kernel command."""
    streams: dict[int, dict[int, str]] = {}
    for stream, offset, text in table(tables, "queue").columns("cmdstream_id", "offset", column):
        if stream.isdecimal() and offset.isdecimal():
            streams.setdefault(int(stream), {})[int(offset)] = text
    return tuple(streams[stream] for stream in sorted(streams))


def layer_names(text: str, model: TfliteModel) -> tuple[dict[int, str], ...]:
    """For every command stream in order: the name of each kernel command's layer, by byte offset.

    A layer is called by its (first) output tensor in the original ``model``; a kernel without a source operator has Vela's name.
    """
    tables = read_tables(text)
    sources = {key: model.tensors[one.outputs[0]].name for key, one in source_operators(tables, model).items() if one.outputs}
    optimised = {name: sources.get(source, "") for name, source in table(tables, "optimised").columns("id", "source_id")}
    scheduled = table(tables, "perf").column_by("id", "name")
    known, own = by_command(tables, "optimised_id"), by_command(tables, "scheduled_id")
    return tuple(
        {offset: optimised.get(name, "") or scheduled.get(other[offset], "") for offset, name in names.items()}
        for names, other in zip(known, own, strict=True)
    )


def name_operations(program: Program, layers: dict[int, str]) -> Program:
    """``program`` with the names of its layers, which ``layers`` gives by the byte offset of the kernel command.

    A DMA transfer or a wait belongs to the next kernel, which it prepares. STOP belongs to no kernel.
    """
    names = [""] * len(program.operations)
    upcoming, offsets = "", program.kernel_offsets
    for index in reversed(range(len(names))):
        upcoming = layers.get(offsets[index], "") if index in offsets else upcoming
        names[index] = "" if isinstance(program.operations[index], Control) else upcoming
    return replace(program, names=tuple(names))


def named_network(result: VelaResult) -> CompiledNetwork:
    """Decode a compilation.

    Every Program gets ``names`` if the debug database was asked for, and operators on the CPU get their reasons.
    """
    network = with_reasons(read_compiled(result.compiled), said_reasons(result.said), result.cpu_operators)
    if not result.layers:
        return network
    streams = iter(result.layers)
    steps = tuple(name_operations(step, next(streams, {})) if isinstance(step, Program) else step for step in network.steps)
    return replace(network, steps=steps)
