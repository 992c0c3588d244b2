"""Measurements: an FVP's PMU trace, the log of firmware with its counters, or a CSV file whose header tells its kind.

- ``cycle,qread``: the NPU's position in its command stream (the QREAD register, in bytes), and the cycle counter at that time
- ``qread``, with ``samples`` and ``stream`` if wanted: positions without times, as a profiler samples a program
- ``layer,cycles``: the cycles of layers, by the names that ``simulate --csv`` writes
- Vela's ``NAME_per-layer.csv``, and the table that ExecuTorch's inspector writes for an ETDump, in cycles: the same by their own columns
- any other columns of layers and cycles, which a mapping names
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from npu_model.errors import InputError, did_you_mean
from npu_model.printable import shown
from validation.fvp.live.counters import is_log, parse_log
from validation.fvp.live.json_events import MAX_BYTES
from validation.fvp.live.pmu_trace import StreamTrace, read_pmu_trace, split_streams
from validation.reading import MAX_TABLE_BYTES, read_file, read_text

_ETDUMP = b"ED00"
"""Bytes 4 to 8 of an ETDump (executorch ``devtools/etdump/etdump_schema_flatcc.fbs``)."""

_JSON = (b"{", b"[", b"\x1f\x8b")
"""First bytes of a trace: JSON, or gzip of it."""

_MAX_COUNT = 1 << 48
"""The PMU's cycle counter has 48 bits (core driver ``ethosu55_interface.h``)."""

_MAX_STREAM_BYTES = 1 << 24
"""A command stream has at most 16 MiB."""

_MAX_STREAMS = 1000
_HEADERS = "'cycle,qread', 'qread[,samples][,stream]', 'layer,cycles' or --columns"


class Traced(Struct, frozen=True):
    """Positions with their times; ``in_cycles`` says whether these count NPU cycles."""

    streams: tuple[StreamTrace, ...]
    in_cycles: bool


class Sampled(Struct, frozen=True):
    """Positions without times: stream, byte offset and number of samples, in rising order."""

    samples: tuple[tuple[int, int, int], ...]


class PerLayer(Struct, frozen=True):
    """Cycles by layer, in the order of the file."""

    cycles: tuple[tuple[str, int], ...]


class Counters(Struct, frozen=True):
    """Counters of a whole inference, by PMU event name."""

    values: tuple[tuple[str, int], ...]


Measured = Traced | Sampled | PerLayer | Counters


def _count(where: str, column: str, text: str, least: int, bound: int) -> int:
    """A whole number in decimal, or a position in hexadecimal with 0x; InputError with the bounds for other text."""
    base = 16 if column == "qread" and text[:2].lower() == "0x" else 10
    digits = text[2:] if base == 16 else text
    plain = digits.isascii() and digits.isalnum() and len(digits) <= 15
    try:
        value = int(digits, base) if plain else -1
    except ValueError:
        value = -1
    if not least <= value < bound:
        raise InputError(f"{where} has {column} {shown(text)}: a whole number from {least} to {bound - 1} is needed.")
    return value


Lines = Sequence[tuple[str, dict[str, str]]]
"""The position of a line, for messages, and its cells by column."""


def _table(path: str | Path) -> tuple[tuple[str, ...], Lines]:
    """The header and the lines below it; InputError for a line with another number of cells."""
    name = Path(path).name
    text = read_text(path, "Measurement", MAX_TABLE_BYTES)
    # ExecuTorch's inspector parts cells by tabulators.
    first = text.partition("\n")[0]
    reader = csv.reader(text.splitlines(), delimiter="\t" if "\t" in first and "," not in first else ",", strict=True)
    try:
        header = tuple(cell.strip() for cell in next(reader, ()))
        lines = []
        for row in reader:
            where = f"Line {reader.line_num} of {name}"
            if row and len(row) != len(header):
                raise InputError(f"{where} has {len(row)} cells and the header {len(header)}: quote cells that hold a comma.")
            if row:
                lines.append((where, dict(zip(header, (cell.strip() for cell in row), strict=True))))
    except csv.Error as error:
        raise InputError(f"Measurement {str(path)!r} is not CSV ({error}): write comma-separated lines.") from None
    return header, lines


def _traced(lines: Lines) -> Traced:
    entries: list[tuple[float, int]] = []
    for where, row in lines:
        cycle = _count(where, "cycle", row["cycle"], 0, _MAX_COUNT)
        if entries and cycle < entries[-1][0]:
            raise InputError(f"{where} has cycle {cycle} after {entries[-1][0]:.0f}: write the samples in the order of time.")
        entries.append((cycle, _count(where, "qread", row["qread"], 0, _MAX_STREAM_BYTES)))
    return Traced(split_streams(entries), in_cycles=True)


def _sampled(lines: Lines) -> Sampled:
    counts: Counter[tuple[int, int]] = Counter()
    for where, row in lines:
        stream = _count(where, "stream", row.get("stream", "0"), 0, _MAX_STREAMS)
        offset = _count(where, "qread", row["qread"], 0, _MAX_STREAM_BYTES)
        counts[stream, offset] += _count(where, "samples", row.get("samples", "1"), 1, _MAX_COUNT)
    return Sampled(tuple((stream, offset, count) for (stream, offset), count in sorted(counts.items())))


def _per_layer(lines: Lines) -> PerLayer:
    cycles: dict[str, int] = {}
    for where, row in lines:
        if row["layer"] in cycles:
            raise InputError(f"{where} has layer {shown(row['layer'])} a second time: give each layer one line.")
        cycles[row["layer"]] = _count(where, "cycles", row["cycles"], 0, _MAX_COUNT)
    return PerLayer(tuple(cycles.items()))


_KINDS: dict[tuple[str, ...], Callable[[Lines], Measured]] = {
    ("cycle", "qread"): _traced,
    ("qread",): _sampled,
    ("qread", "samples"): _sampled,
    ("qread", "stream"): _sampled,
    ("qread", "samples", "stream"): _sampled,
    ("cycles", "layer"): _per_layer,
}
"""The readers of the lines below a header, by its columns in alphabetical order."""


VELA_COLUMNS = {"layer": "Name", "cycles": "Op Cycles"}
"""Columns of Vela's ``NAME_per-layer.csv`` (5.2.0)."""

EXECUTORCH_COLUMNS = {"layer": "event_name", "cycles": "avg (cycles)"}
"""Columns that ExecuTorch's inspector writes with ``TimeScale.CYCLES``."""


def column_map(text: str) -> dict[str, str]:
    """The mapping in ``layer=COLUMN,cycles=COLUMN``; InputError for an unknown key, and for a repeated or missing one.

    >>> column_map("cycles=npu_active,layer=name")
    {'cycles': 'npu_active', 'layer': 'name'}
    """
    pairs = [pair.partition("=") for pair in text.split(",")]
    found = {key.strip(): column.strip() for key, _, column in pairs}
    if len(found) < len(pairs) or set(found) != set(VELA_COLUMNS) or not all(found.values()):
        raise InputError(f"--columns {shown(text)} names no columns: write layer=COLUMN,cycles=COLUMN.")
    return found


def _mapped(header: Sequence[str], lines: Lines, columns: dict[str, str], path: str | Path) -> PerLayer:
    """The layers of a table with other columns. Fractional cycles are rounded; lines without cycles are left out."""
    for column in columns.values():
        if column not in header:
            near = did_you_mean(column, header)
            raise InputError(f"Measurement {str(path)!r} has no column {shown(column)}{near}: it has {shown(', '.join(header))}.")
    named = [(where, {key: row[column] for key, column in columns.items()}) for where, row in lines]
    kept = [(where, row | {"cycles": _whole(row["cycles"])}) for where, row in named if row["cycles"]]
    return _per_layer(kept)


def _whole(text: str) -> str:
    """A number of cycles, rounded to a whole one. Other text stays, and is refused where it is read."""
    return str(round(float(text))) if re.fullmatch(r"\d{1,15}\.\d{1,9}", text) else text


def _counters(data: bytes) -> Counters | None:
    """The counters in a log; None if the bytes are not a firmware's log."""
    text = data.decode("utf-8", "replace")
    return Counters(tuple(sorted(parse_log(text).values.items()))) if is_log(text) else None


def read_measured(path: str | Path, columns: dict[str, str] | None = None) -> Measured:
    """The measurement in a file. Its content tells its kind; ``columns`` may name the columns of layers and cycles.

    InputError names the line and its fault.
    """
    data = read_file(path, "Measurement", MAX_BYTES)
    if data[4:8] == _ETDUMP:
        raise InputError(
            f"Measurement {str(path)!r} is an ETDump: write its table with ExecuTorch's Inspector(etdump_path=..., "
            "target_time_scale=TimeScale.CYCLES).save_data_to_tsv, or to_dataframe().to_csv(...), and give that."
        )
    if columns is None and data.startswith(_JSON):
        return Traced(read_pmu_trace(data), in_cycles=False)
    if columns is None and (counters := _counters(data)) is not None:
        return counters
    header, lines = _table(path)
    for known in () if columns is not None else (VELA_COLUMNS, EXECUTORCH_COLUMNS):
        columns = known if set(known.values()) <= set(header) else columns
    if columns is not None:
        return _mapped(header, lines, columns, path)
    kind = _KINDS.get(tuple(sorted(header)))
    if kind is None:
        found = shown(",".join(header))
        raise InputError(f"Measurement {str(path)!r} has the header {found}: {_HEADERS} is needed, or a PMU trace or a log of counters.")
    if not lines:
        raise InputError(f"Measurement {str(path)!r} has 0 lines: 1 or more are needed below the header.")
    return kind(lines)
