"""Measurements of single layers: an FVP's PMU trace, or a CSV file whose header says which of three kinds it is.

- ``cycle,qread``: where in its command stream the NPU read (the QREAD register, in bytes), and the cycle counter at that time
- ``qread``, with ``samples`` and ``stream`` if wanted: the same at times that nobody counted, as a profiler samples a program
- ``layer,cycles``: the cycles of layers, by the names that ``simulate --csv`` writes
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from npu_model.errors import InputError
from npu_model.printable import shown
from npu_model.values import dataclass
from validation.fvp.live import StreamTrace, read_pmu_trace
from validation.fvp.live.json_events import MAX_BYTES
from validation.fvp.live.pmu_trace import split_streams
from validation.reading import MAX_TABLE_BYTES, read_file, read_text

_JSON = (b"{", b"[", b"\x1f\x8b")
"""First bytes of a trace: JSON, or gzip of it."""

_MAX_COUNT = 1 << 48
"""The PMU's cycle counter has 48 bits (core driver ``ethosu55_interface.h``)."""

_MAX_STREAM_BYTES = 1 << 24
"""A command stream has at most 16 MiB."""

_MAX_STREAMS = 1000
_HEADERS = "'cycle,qread', 'qread[,samples][,stream]' or 'layer,cycles'"


@dataclass(frozen=True, slots=True)
class Traced:
    """Positions with their times; ``in_cycles`` says whether these count NPU cycles."""

    streams: tuple[StreamTrace, ...]
    in_cycles: bool


@dataclass(frozen=True, slots=True)
class Sampled:
    """Positions without times: stream, byte offset and number of samples, in rising order."""

    samples: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class PerLayer:
    """Cycles by layer, in the order of the file."""

    cycles: tuple[tuple[str, int], ...]


Measured = Traced | Sampled | PerLayer


def _count(where: str, column: str, text: str, least: int, bound: int) -> int:
    """A whole number in decimal, or of a position in hexadecimal with 0x; InputError with the bounds if it is none."""
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
"""Where a line stands, for messages, and its cells by column."""


def _table(path: str | Path) -> tuple[tuple[str, ...], Lines]:
    """The header and the lines below it; InputError for a line with another number of cells."""
    name = Path(path).name
    reader = csv.reader(read_text(path, "Measurement", MAX_TABLE_BYTES).splitlines(), strict=True)
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
"""The readers of the lines below a header, by its columns in the order of the alphabet."""


def read_measured(path: str | Path) -> Measured:
    """The measurement in a file; its content says of which kind it is. InputError names the line and what is wrong with it."""
    data = read_file(path, "Measurement", MAX_BYTES)
    if data.startswith(_JSON):
        return Traced(read_pmu_trace(data), in_cycles=False)
    header, lines = _table(path)
    kind = _KINDS.get(tuple(sorted(header)))
    if kind is None:
        columns = shown(",".join(header))
        raise InputError(f"Measurement {str(path)!r} has the header {columns}: {_HEADERS} is needed, or a PMU trace as the FVP writes it.")
    if not lines:
        raise InputError(f"Measurement {str(path)!r} has 0 lines: 1 or more are needed below the header.")
    return kind(lines)
