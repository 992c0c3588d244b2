"""The SRAM that a replay uses: the touched bytes, and the bytes whose content is still needed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from msgspec import Struct

from npu_model.program import Binding, ByteRange, DmaOperation, KernelOperation, Program, RegionRole

Access = tuple[tuple[ByteRange, ...], tuple[ByteRange, ...]]
"""The byte ranges that one operation reads, and those that it writes."""


class Footprint(Struct, frozen=True):
    """Arena bytes of one or more Programs run one after the other.

    ``peak`` is the end of the highest touched byte, which the arena must include. ``live_peak`` is the largest number of bytes that are
    written and still to be read at one time; ``live[i]`` is the number during operation ``i`` (counted over all Programs). Even a perfectly
    packed arena needs these bytes for this schedule.
    """

    peak: int
    live_peak: int
    live: tuple[int, ...]


def _arena_regions(program: Program) -> frozenset[int]:
    """Regions of the arena. The fast scratch is the same memory unless the mode is Dedicated_Sram."""
    return frozenset(r.index for r in program.regions if r.role in (RegionRole.ARENA, RegionRole.FAST_SCRATCH))


def _arena_only(ranges: Iterable[ByteRange], regions: frozenset[int]) -> tuple[ByteRange, ...]:
    return tuple(r for r in ranges if r.region in regions and r.length > 0)


def _accesses(program: Program) -> Iterable[Access]:
    regions = _arena_regions(program)
    for op in program.operations:
        if isinstance(op, (KernelOperation, DmaOperation)):
            yield _arena_only(op.reads(), regions), _arena_only(op.writes(), regions)
        else:
            yield (), ()


class _Segments:
    """The arena cut at every address where an access begins or ends."""

    def __init__(self, ranges: Iterable[ByteRange]) -> None:
        self.cuts = sorted({edge for r in ranges for edge in (r.start, r.end)})

    def of(self, access: ByteRange) -> range:
        """Numbers of the segments inside an access."""
        return range(bisect_left(self.cuts, access.start), bisect_left(self.cuts, access.end))

    def size(self, segment: int) -> int:
        """Bytes of a segment."""
        return self.cuts[segment + 1] - self.cuts[segment]


class _Lives:
    """The life of every segment, from its write to the last use before its next write, as changes of the live bytes."""

    def __init__(self, segments: _Segments, steps: int) -> None:
        self._segments = segments
        self._born: dict[int, int] = {}
        self._last_use: dict[int, int] = {}
        self._change = [0] * (steps + 1)

    def read(self, step: int, access: ByteRange) -> None:
        """A segment that was never written lives from the start."""
        for segment in self._segments.of(access):
            self._born.setdefault(segment, 0)
            self._last_use[segment] = step

    def write(self, step: int, access: ByteRange) -> None:
        """A segment that the same operation reads (in place) lives on; any other begins from scratch."""
        for segment in self._segments.of(access):
            if self._last_use.get(segment) != step:
                self._end(segment)
                self._born[segment] = step
            self._last_use[segment] = step

    def _end(self, segment: int) -> None:
        if segment in self._born:
            self._change[self._born[segment]] += self._segments.size(segment)
            self._change[self._last_use[segment] + 1] -= self._segments.size(segment)

    def live_bytes(self) -> tuple[int, ...]:
        """Live bytes at each step. Call it once, at the end."""
        for segment in self._born:
            self._end(segment)
        return tuple(accumulate(self._change[:-1]))


def _live_bytes(accesses: Sequence[Access]) -> tuple[int, ...]:
    """Live bytes during each access."""
    lives = _Lives(_Segments(r for reads, writes in accesses for r in reads + writes), len(accesses))
    for step, (reads, writes) in enumerate(accesses):
        for access in reads:
            lives.read(step, access)
        for access in writes:
            lives.write(step, access)
    return lives.live_bytes()


def _bound(bindings: Sequence[Binding], homes: frozenset[int]) -> tuple[ByteRange, ...]:
    """The ranges of arrays inside the arena."""
    return tuple(b.byte_range for b in bindings if b.region not in homes)


def footprint(programs: Sequence[Program], inputs: Sequence[Binding], outputs: Sequence[Binding]) -> Footprint:
    """Replay the accesses of ``programs`` between the network's ``inputs`` and ``outputs``.

    Inputs are written before the first operation, outputs read after the last; both count as touched. Tensors between CPU operators and
    Programs are bindings of the Programs.
    """
    homes = frozenset(region.index for program in programs for region in program.regions if region.role is RegionRole.HOME)
    accesses: list[Access] = [((), _bound(inputs, homes))]
    for program in programs:
        accesses.append(((), _bound([b for b in program.inputs if b not in inputs], homes)))
        accesses += _accesses(program)
        accesses.append((_bound([b for b in program.outputs if b not in outputs], homes), ()))
    accesses.append((_bound(outputs, homes), ()))
    arena = [tuple(ByteRange(1, r.start, r.end) for r in side) for access in accesses for side in access]
    merged = list(zip(arena[::2], arena[1::2], strict=True))
    live = _live_bytes(merged)
    touched = [r.end for reads, writes in merged for r in reads + writes]
    return Footprint(peak=max(touched, default=0), live_peak=max(live, default=0), live=_per_operation(programs, live))


def _per_operation(programs: Sequence[Program], live: Sequence[int]) -> tuple[int, ...]:
    """The entries of ``live`` that belong to operations (the others are inputs and outputs)."""
    values: list[int] = []
    position = 1
    for program in programs:
        values += live[position + 1 : position + 1 + len(program.operations)]
        position += len(program.operations) + 2
    return tuple(values)
