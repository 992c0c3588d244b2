"""Vela's debug database: which layer every operation of a command stream belongs to, and Programs with the names of their layers.

The file holds CSV tables in CDATA sections. ``queue`` maps the byte offset of a kernel command in its stream to
``optimised_id``; ``optimised`` maps that to ``source_id``; ``source`` has the operator's index in the .tflite file
(``ext_key``). ``perf`` holds Vela's own name for a scheduled operation, for those that have no source.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache

from msgspec.structs import replace

from cascader.frontends.vela.cpu_reasons import said_reasons, with_reasons
from cascader.frontends.vela.result import VelaResult
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.program import Control, Program
from npu_model.tflite.model import TfliteModel, TfliteOperator


class Row(Mapping[str, str]):
    """A row of a table, as column to text. Rows share their columns, and those of one table equal texts: a database may have 100,000."""

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


Tables = Mapping[str, tuple[Row, ...]]
"""The tables by name."""

_TABLE = re.compile(r'<table name=["\'](\w+)["\']>\s*<!\[CDATA\[(.*?)\]\]>', re.DOTALL)


@lru_cache(maxsize=1)
def read_tables(text: str) -> Tables:
    """The tables of a debug database by name; one that is no CSV is left out: names are annotations.

    The last ones are kept: each check of a compilation looks into them. Nobody changes them.
    """
    tables = {}
    for found in _TABLE.finditer(text):
        with suppress(csv.Error):
            tables[found[1]] = tuple(_rows(found[2].strip()))
    return tables


def _rows(body: str) -> Iterator[Row]:
    """The rows of a table that begins with the names of its columns; what a row lacks of these is ""."""
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


def kernel_rows(tables: Tables) -> tuple[dict[int, Row], ...]:
    """For every command stream in order: the row of the ``queue`` table of each kernel command, by its byte offset."""
    streams: dict[int, dict[int, Row]] = {}
    for row in tables.get("queue", ()):
        stream, offset = row.get("cmdstream_id", ""), row.get("offset", "")
        if stream.isdecimal() and offset.isdecimal():
            streams.setdefault(int(stream), {})[int(offset)] = row
    return tuple(streams[stream] for stream in sorted(streams))


def layer_names(text: str, model: TfliteModel) -> tuple[dict[int, str], ...]:
    """For every command stream in order: byte offset of a kernel command to the name of its layer.

    A layer is called by its (first) output tensor in the original ``model``; kernels without a source operator by Vela's name.
    """
    tables = read_tables(text)
    sources = {key: model.tensors[one.outputs[0]].name for key, one in source_operators(tables, model).items() if one.outputs}
    optimised = {row.get("id", ""): sources.get(row.get("source_id", ""), "") for row in tables.get("optimised", ())}
    scheduled = {row.get("id", ""): row.get("name", "") for row in tables.get("perf", ())}

    def layer(row: Row) -> str:
        return optimised.get(row.get("optimised_id", "")) or scheduled.get(row.get("scheduled_id", ""), "")

    return tuple({offset: layer(row) for offset, row in rows.items()} for rows in kernel_rows(tables))


def name_operations(program: Program, layers: dict[int, str]) -> Program:
    """``program`` with the names of its layers, which ``layers`` gives by the byte offset of the kernel command.

    A DMA transfer or a wait belongs to the kernel that it prepares, the next one; STOP to none.
    """
    names = [""] * len(program.operations)
    upcoming, offsets = "", program.kernel_offsets
    for index in reversed(range(len(names))):
        upcoming = layers.get(offsets[index], "") if index in offsets else upcoming
        names[index] = "" if isinstance(program.operations[index], Control) else upcoming
    return replace(program, names=tuple(names))


def named_network(result: VelaResult) -> CompiledNetwork:
    """Decode a compilation; every Program gets ``names`` if the debug database was asked for, operators on the CPU their reasons."""
    network = with_reasons(read_compiled(result.compiled), said_reasons(result.said), result.cpu_operators)
    if not result.layers:
        return network
    streams = iter(result.layers)
    steps = tuple(name_operations(step, next(streams, {})) if isinstance(step, Program) else step for step in network.steps)
    return replace(network, steps=steps)
