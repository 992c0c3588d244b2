"""Streamed input: rows of an input that arrive while the network runs, as a camera or a sensor sends them.

The schedule is cut before every job that reads a row for the first time. Each piece is a command stream of its own, which the host passes
to the NPU when the rows have arrived. Pieces run one after the other, and the NPU drains between two pieces.

The rows lie in a ring, row y in place y mod R, if the input is read row by row. A piece reads rows from ``low`` on. The source may write
row y as soon as the NPU runs a piece whose ``low`` is above y - R.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise
from math import lcm

from msgspec import Struct

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.job.stripes import BufferPlace, stripe
from cascader.ethosu.network.network import EthosuPart, Home, Port
from cascader.ethosu.network.views import view_of
from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from npu_model.printable import shown
from npu_model.program import ByteRange, DmaOperation, KernelOperation, Program
from npu_model.shapes import ceil_div, round_up
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from sim import counted_network

_WHOLE = 1 << 62
_IMAGE = 3
"""Axes of an image at the end of a shape: rows, columns, channels."""


class Piece(Struct, frozen=True):
    """A command stream: it may begin when the rows before ``until`` have arrived, reads no row before ``first``, and takes ``cycles``."""

    first: int
    until: int
    cycles: int


class StreamCut(Struct, frozen=True):
    """A schedule in command streams for an input of ``rows`` rows of ``row_bytes`` that arrive in a ring of ``ring`` rows.

    A ring of all rows is the whole frame. Rows before ``until[k]`` have arrived when command stream k begins. It reads no row before
    ``low[k]``, and later streams do not either.
    """

    network: CompiledNetwork
    name: str
    rows: int
    row_bytes: int
    ring: int
    until: tuple[int, ...]
    low: tuple[int, ...]

    @property
    def freed(self) -> tuple[int, ...]:
        """For each command stream, the rows that may be overwritten when it ends."""
        return (*self.low[1:], self.rows)


class StreamedInput(Struct, frozen=True):
    """An input of ``rows`` rows of ``row_bytes``, one every ``cycles_per_row``, and the pieces that run while they arrive.

    Row y has arrived at cycle (y + 1) * cycles_per_row. The rows lie in a ring of ``ring`` rows (0: a whole frame).
    """

    name: str
    rows: int
    row_bytes: int
    cycles_per_row: int
    pieces: tuple[Piece, ...]
    ring: int = 0

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
        """Cycles that the NPU waits for rows after its first piece has begun."""
        spans = self.spans
        return spans[-1][1] - spans[0][0] - sum(piece.cycles for piece in self.pieces)

    @property
    def never_waits(self) -> int | None:
        """Most cycles between rows at which the NPU never waits after its start; None if one piece reads everything."""
        first = self.pieces[0].until
        done = accumulate((piece.cycles for piece in self.pieces), initial=0)
        later = [(cycles, piece.until - first) for cycles, piece in zip(done, self.pieces, strict=False) if piece.until > first]
        return min((cycles // rows for cycles, rows in later), default=None)

    @property
    def held_rows(self) -> int:
        """Most rows that have arrived and are not yet consumed at one time: the rows that a ring would hold."""
        lowest = list(accumulate((piece.first for piece in reversed(self.pieces)), min))[::-1]
        arrived = (min(self.rows, end // self.cycles_per_row) for _, end in self.spans)
        return max(count - low for count, low in zip(arrived, lowest, strict=True))


def stream_of(text: str) -> tuple[str, int]:
    """The input and the cycles per row in ``NAME=CYCLES``; InputError for other text.

    >>> stream_of("input=2000")
    ('input', 2000)
    """
    name, _, cycles = text.rpartition("=")
    if not name or not (cycles.isascii() and cycles.isdecimal() and len(cycles) < 13 and int(cycles)):
        raise InputError(f"--stream {shown(text)} is not a stream: write NAME=CYCLES_PER_ROW, such as input=2000.")
    return name, int(cycles)


def streamed_input(
    plan: Schedule, name: str, cycles_per_row: int, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING
) -> StreamedInput:
    """The run of a schedule while rows of an input arrive, one every ``cycles_per_row``, in the memory that is its home.

    InputError if there is no such input, if it is not an image, if it lives in the arena, or if a piece would read a row before its
    arrival.
    """
    least = 1
    while True:
        cut = cut_for_stream(plan, name, least)
        replay = counted_network(cut.network, system, timing)
        parts = zip(cut.low, cut.until, replay.replays, strict=True)
        pieces = tuple(Piece(low, until, one.cycles) for low, until, one in parts)
        found = StreamedInput(cut.name, cut.rows, cut.row_bytes, cycles_per_row, pieces, cut.ring)
        # Addresses in a ring change the cycles a little, and so the rows that have arrived by then.
        if found.held_rows <= cut.ring:
            return found
        least = found.held_rows


def cut_for_stream(plan: Schedule, name: str, ring: int = 1) -> StreamCut:
    """The schedule in several command streams, with its input in a ring of at least ``ring`` rows.

    InputError as :func:`streamed_input` raises it.
    """
    port, home = _port(plan, name)
    rows = port.shape[-_IMAGE]
    cuts, spans = _pieces(plan, port)
    until = tuple(until for _, until in spans)
    low = tuple(accumulate((first for first, _ in reversed(spans)), min))[::-1]
    held = _ring(plan, port, max(ring, *(end - first for first, end in zip(low, until, strict=True))))
    place = BufferPlace(home.address, held, port.size // rows)
    lowered = lower(plan, cuts=cuts, rings={port.tensor: place} if held < rows else {})
    made = StreamCut(lowered, port.name, rows, port.size // rows, held, until, low)
    _check(made, home)
    return made


def cut_in_pace(plan: Schedule, text: str) -> StreamCut:
    """The cut of ``NAME``, whose source waits for room in the ring, or of ``NAME=CYCLES_PER_ROW``, whose source never waits.

    InputError as :func:`streamed_input` and :func:`stream_of` raise it.
    """
    if "=" not in text:
        return cut_for_stream(plan, text)
    name, cycles = stream_of(text)
    system = plan.provenance.memory_system
    if system is None:
        raise InputError(f"--stream {shown(text)} needs a replay, and the schedule names no memory system: give the input's name alone.")
    return cut_for_stream(plan, name, streamed_input(plan, name, cycles, system, plan.provenance.timing).ring)


def _ring(plan: Schedule, port: Port, least: int) -> int:
    """The smallest ring of ``least`` rows or more in which no kernel's row wraps; all rows for an input that is not read row by row."""
    rows, unit, multiples = port.shape[-_IMAGE], port.size // port.shape[-_IMAGE], [1]
    if port.offset:
        return rows
    for part in plan.network.kernels.values():
        for view in (view_of(read) for name, read in part.operands if name == port.tensor):
            step, reach = view.step(part.axis.number), view.reach(part.axis.number)
            if step is None or step % unit or view.base % step + reach > step:
                return rows
            multiples.append(step // unit)
    return min(rows, round_up(least, lcm(*multiples)))


def _pieces(plan: Schedule, port: Port) -> tuple[list[int], list[tuple[int, int]]]:
    """The jobs before which a piece begins, except the first; for each piece its first row, and the rows that it waits for."""
    rows = port.shape[-_IMAGE]
    reads = _reads(plan, port, port.size // rows)
    cuts, until = [], 0
    for job, (_, end) in reads.items():
        if end > until:
            cuts.append(job)
            until = end
    spans, until = list[tuple[int, int]](), 0
    for start, end in pairwise([0, *cuts[1:], len(plan.jobs)]):
        own = [span for job, span in reads.items() if start <= job < end]
        until = max([until, *(last for _, last in own)])
        spans.append((min((first for first, _ in own), default=rows), until))
    return cuts[1:], spans


def _port(plan: Schedule, name: str) -> tuple[Port, Home]:
    """The named input, or the only one for "input", with its home."""
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
    """First and last (exclusive) row of the input for each job that reads rows."""
    places = {tensor.name: BufferPlace(0, 1, _WHOLE) for tensor in plan.network.graph.tensors}
    kernels, found = plan.network.kernels, {}
    for step, job in enumerate(plan.jobs):
        part = kernels[job.part]
        if port.tensor not in (part.ifm, part.ifm2):
            continue
        spans = [span for one in _operands(part, job.rows, places, port.tensor) for span in one]
        low, high = min(start for start, _ in spans) - port.offset, max(end for _, end in spans) - port.offset
        found[step] = max(low, 0) // row_bytes, min(ceil_div(high, row_bytes), port.size // row_bytes)
    return found


def _operands(part: EthosuPart, rows: tuple[int, int] | None, places: dict[str, BufferPlace], tensor: str) -> list[list[tuple[int, int]]]:
    """The bytes of a tensor that a job reads, operand by operand, from the tensor's start."""
    start, end = rows or (0, part.axis.extent(part.operation.ofm.shape))
    made = stripe(part, start, end, places)
    maps = ((part.ifm, made.ifm), (part.ifm2, made.ifm2))
    return [[(span.start, span.end) for span in one.byte_ranges()] for name, one in maps if name == tensor and one is not None]


def _check(cut: StreamCut, home: Home) -> None:
    """InputError if an operation reads a byte that may not have arrived yet, or that may already be overwritten."""
    for number, (program, low, until) in enumerate(zip(cut.network.programs, cut.low, cut.until, strict=True)):
        there = {row % cut.ring for row in range(low, until)}
        for span in _reads_of(program, home):
            wrong = set(range(span.start // cut.row_bytes, ceil_div(span.end, cut.row_bytes))) - there
            if wrong or until - low > cut.ring:
                raise InputError(
                    f"Command stream {number} reads place {min(wrong, default=0)} of a ring of {cut.ring} rows of input {shown(cut.name)} "
                    f"when rows {low} to {until} are there: the cuts are wrong; schedule the network again."
                )


def _reads_of(program: Program, home: Home) -> Iterator[ByteRange]:
    """The bytes that a program reads in a home, counted from the home's first byte."""
    moving = (one for one in program.operations if isinstance(one, (KernelOperation, DmaOperation)))
    for span in (span for one in moving for span in one.reads() if span.region == home.region):
        yield ByteRange(span.region, span.start - home.address, span.end - home.address)
