"""Streamed input: rows of an input that arrive while the network runs, as a camera or a sensor sends them.

The schedule is cut before every job that reads a row which no job before it has read: each piece is a command stream of its own, which the
host hands to the NPU when the rows are there. Pieces run one after the other; between two of them the NPU has drained.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from msgspec import Struct

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.job.stripes import Place, stripe
from cascader.ethosu.network.network import EthosuPart, Home, Port
from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from npu_model.printable import shown
from npu_model.program import DmaOperation, KernelOperation, Program
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from sim import counted_network

_WHOLE = 1 << 62
_IMAGE = 3
"""Axes of an image at the end of a shape: rows, columns, channels."""


class Piece(Struct, frozen=True):
    """A command stream: it may begin when rows before ``until`` have arrived, reads none before ``first``, and takes ``cycles``."""

    first: int
    until: int
    cycles: int


class StreamedInput(Struct, frozen=True):
    """An input of ``rows`` rows of ``row_bytes``, one every ``cycles_per_row``, and the pieces that run while they arrive.

    Row y has arrived at cycle (y + 1) * cycles_per_row.
    """

    name: str
    rows: int
    row_bytes: int
    cycles_per_row: int
    pieces: tuple[Piece, ...]

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Cycles at which each piece begins and ends."""
        found, now = [], 0
        for piece in self.pieces:
            start = max(now, piece.until * self.cycles_per_row)
            now = start + piece.cycles
            found.append((start, now))
        return tuple(found)

    @property
    def latency(self) -> int:
        """Cycles from the arrival of the last row to the result."""
        return self.spans[-1][1] - self.rows * self.cycles_per_row

    @property
    def waiting(self) -> int:
        """Cycles that the NPU waits for rows, once its first piece has begun."""
        spans = self.spans
        return spans[-1][1] - spans[0][0] - sum(piece.cycles for piece in self.pieces)

    @property
    def never_waits(self) -> int | None:
        """Most cycles from row to row at which the NPU never waits once it has begun; None if one piece reads all that is read."""
        first = self.pieces[0].until
        done = accumulate((piece.cycles for piece in self.pieces), initial=0)
        later = [(cycles, piece.until - first) for cycles, piece in zip(done, self.pieces, strict=False) if piece.until > first]
        return min((cycles // rows for cycles, rows in later), default=None)

    @property
    def held_rows(self) -> int:
        """Most rows that have arrived and are still to be read, or being read, at one time: what a ring of rows would hold."""
        lowest = list(accumulate((piece.first for piece in reversed(self.pieces)), min))[::-1]
        arrived = (min(self.rows, end // self.cycles_per_row) for _, end in self.spans)
        return max(count - low for count, low in zip(arrived, lowest, strict=True))


def stream_of(text: str) -> tuple[str, int]:
    """The input and the cycles per row that ``NAME=CYCLES`` says; InputError if it says none.

    >>> stream_of("input=2000")
    ('input', 2000)
    """
    name, _, cycles = text.rpartition("=")
    if not name or not (cycles.isascii() and cycles.isdecimal() and len(cycles) < 13 and int(cycles)):
        raise InputError(f"--stream {shown(text)} is no stream: write NAME=CYCLES_PER_ROW, such as input=2000.")
    return name, int(cycles)


def streamed_input(
    plan: Schedule, name: str, cycles_per_row: int, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING
) -> StreamedInput:
    """The run of a schedule while rows of an input arrive, one every ``cycles_per_row``, in the memory that is its home.

    InputError if there is no such input, it is no image, it lives in the arena, or a piece would read a row before it has arrived.
    """
    port, home = _port(plan, name)
    lowered, spans = _cut(plan, port, home)
    replay = counted_network(lowered, system, timing)
    pieces = tuple(Piece(*span, one.cycles) for span, one in zip(spans, replay.replays, strict=True))
    rows = port.shape[-_IMAGE]
    return StreamedInput(port.name, rows, port.size // rows, cycles_per_row, pieces)


def cut_for_stream(plan: Schedule, name: str) -> tuple[CompiledNetwork, tuple[int, ...]]:
    """The schedule in several command streams, and the rows of an input that must have arrived when each of them begins.

    InputError as :func:`streamed_input` raises it.
    """
    lowered, spans = _cut(plan, *_port(plan, name))
    return lowered, tuple(until for _, until in spans)


def _cut(plan: Schedule, port: Port, home: Home) -> tuple[CompiledNetwork, tuple[tuple[int, int], ...]]:
    """The schedule cut before every job that reads a new row; of each piece the first row that it reads, and those that it waits for."""
    rows = port.shape[-_IMAGE]
    reads = _reads(plan, port, port.size // rows)
    cuts, until = [], 0
    for job, (_, end) in reads.items():
        if end > until:
            cuts.append(job)
            until = end
    lowered = lower(plan, cuts=cuts[1:])
    spans, until = [], 0
    for start, end in pairwise([0, *cuts[1:], len(plan.jobs)]):
        own = [span for job, span in reads.items() if start <= job < end]
        until = max([until, *(last for _, last in own)])
        spans.append((min((first for first, _ in own), default=rows), until))
    _check(lowered, home, port, [until for _, until in spans])
    return lowered, tuple(spans)


def _port(plan: Schedule, name: str) -> tuple[Port, Home]:
    """The input of a name, or the only one for "input", with its home."""
    ports = plan.network.inputs
    found = [port for port in ports if name in (port.name, "input")]
    if len(found) != 1:
        names = ", ".join(shown(port.name) for port in ports)
        raise InputError(f"--stream names {shown(name)} and the schedule's inputs are {names}: give the name of one of them.")
    (port,) = found
    if len(port.shape) < _IMAGE or port.size == 0 or any(extent != 1 for extent in port.shape[:-_IMAGE]):
        raise InputError(f"Input {shown(port.name)} has shape {port.shape}: a stream is of the rows of one image; give such an input.")
    home = next((home for home in plan.network.homes if home.tensor == port.tensor), None)
    if home is None:
        raise InputError(f"Input {shown(port.name)} lives in the arena, where no row may arrive late: schedule with --home input=MEMORY.")
    if len(plan.network.segments) > 1:
        raise InputError(f"The network has {len(plan.network.segments)} runs, of the NPU and of the CPU: only one of the NPU is streamed.")
    return port, home


def _reads(plan: Schedule, port: Port, row_bytes: int) -> dict[int, tuple[int, int]]:
    """First and last (exclusive) row of the input that each job reads which reads any."""
    places = {tensor.name: Place(0, 1, _WHOLE) for tensor in plan.network.graph.tensors}
    kernels, found = plan.network.kernels, {}
    for step, job in enumerate(plan.jobs):
        part = kernels[job.part]
        if port.tensor not in (part.ifm, part.ifm2):
            continue
        spans = [span for one in _operands(part, job.rows, places, port.tensor) for span in one]
        low, high = min(start for start, _ in spans) - port.offset, max(end for _, end in spans) - port.offset
        found[step] = max(low, 0) // row_bytes, min(ceil_div(high, row_bytes), port.size // row_bytes)
    return found


def _operands(part: EthosuPart, rows: tuple[int, int] | None, places: dict[str, Place], tensor: str) -> list[list[tuple[int, int]]]:
    """The bytes of a tensor that a job reads, operand by operand, from the tensor's start."""
    start, end = rows or (0, part.axis.extent(part.operation.ofm.shape))
    made = stripe(part, start, end, places)
    maps = ((part.ifm, made.ifm), (part.ifm2, made.ifm2))
    return [[(span.start, span.end) for span in one.byte_ranges()] for name, one in maps if name == tensor and one is not None]


def _check(lowered: CompiledNetwork, home: Home, port: Port, arrived: Sequence[int]) -> None:
    """InputError if an operation of a piece reads a byte of the input that has not ``arrived`` when the piece may begin."""
    row_bytes = port.size // port.shape[-_IMAGE]
    for number, (program, rows) in enumerate(zip(lowered.programs, arrived, strict=True)):
        last = max(_ends(program, home.region), default=0) - home.address - port.offset
        if last > rows * row_bytes:
            raise InputError(
                f"Command stream {number} reads byte {last - 1} of input {shown(port.name)} when {rows} rows of {row_bytes} "
                "bytes have arrived: the cuts are wrong; schedule the network again."
            )


def _ends(program: Program, region: int) -> Sequence[int]:
    """The end of each range of a region that a program reads."""
    moving = (one for one in program.operations if isinstance(one, (KernelOperation, DmaOperation)))
    return [span.end for one in moving for span in one.reads() if span.region == region]
