"""The bytes that each operation of a Program uses: in the memories of its regions, and in the shared buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npu_model.accelerator import Accelerator
from npu_model.program import ActivationKind, ByteRange, DmaOperation, KernelOperation, MapStorage, Operation, Program, RegionRole
from sim.functional.activation import table_range
from sim.hazards.race import SHRAM
from sim.hazards.spans import Spans, map_spans, whole

Overlap = tuple[int, ByteRange]
"""The bytes that two operations share: their number, and the first run."""

Uses = Sequence[tuple[int, Spans]]
"""Bytes by their memory: the number of its first region, or :data:`SHRAM`."""

_BANK_BYTES = 1024
_REMEMBERED = 64
"""Number of earlier operations whose bytes are remembered: far more than can be outstanding."""


def overlap(a: Uses, b: Uses) -> Overlap | None:
    """The bytes in both; None if there are none."""
    total, first = 0, None
    for memory, spans in a:
        for other, theirs in b:
            if memory == other:
                count, run = spans.shared(theirs)
                if run is not None:
                    total += count
                    first = first or ByteRange(memory, run.start, run.end)
    return None if first is None else (total, first)


def touch(a: Sequence[ByteRange], b: Sequence[ByteRange]) -> bool:
    """Whether a range of one overlaps a range of the other."""
    return any(one.overlaps(other) for one in a for other in b)


def _memories(program: Program) -> dict[int, int]:
    """Regions that share the memory of another one: the fast scratch is the arena if both have one size.

    The driver binds them so in all of Vela's memory modes except Dedicated_Sram.
    """
    arena = next((region for region in program.regions if region.role is RegionRole.ARENA), None)
    scratch = (region for region in program.regions if region.role is RegionRole.FAST_SCRATCH)
    return {region.index: arena.index for region in scratch if arena is not None and region.size == arena.size}


def _shram(op: Operation, device: Accelerator, *, written: bool) -> Iterator[ByteRange]:
    """Bytes of the shared buffer: a kernel reads its table and writes its buffers, a transfer writes a table."""
    if isinstance(op, DmaOperation) and written and op.to_shram and op.length:
        yield ByteRange(SHRAM, op.destination, op.destination + op.length)
    if isinstance(op, KernelOperation):
        has_table = op.activation.kind is ActivationKind.LUT
        if written:
            banks = device.shram_banks - max(device.reserved_lut_banks, device.lut_banks * has_table)
            yield ByteRange(SHRAM, 0, banks * _BANK_BYTES)
        elif has_table:
            start, length = table_range(op, device.lut_address)
            yield ByteRange(SHRAM, start, start + length)


class Accesses:
    """The bytes that a Program's operations use, computed on demand."""

    def __init__(self, program: Program, device: Accelerator) -> None:
        self._operations = program.operations
        self._device = device
        self._memories = _memories(program)
        self._exact: dict[tuple[int, bool], Uses] = {}

    def memory(self, region: int) -> int:
        """The memory of a region, by the number of its first region."""
        return self._memories.get(region, region)

    def placed(self, parts: Sequence[ByteRange]) -> list[ByteRange]:
        """Ranges of regions as ranges of memories."""
        if not self._memories:
            return [part for part in parts if part.length > 0]
        return [ByteRange(self.memory(part.region), part.start, part.end) for part in parts if part.length > 0]

    def ranges(self, index: int, *, written: bool) -> list[ByteRange]:
        """Ranges that enclose what an operation reads, or writes."""
        op = self._operations[index]
        if not isinstance(op, (KernelOperation, DmaOperation)):
            return []
        return [*self.placed(op.writes() if written else op.reads()), *_shram(op, self._device, written=written)]

    def exact(self, index: int, *, written: bool) -> Uses:
        """The very bytes that an operation reads, or writes."""
        key = index, written
        if key not in self._exact:
            self._exact = {known: uses for known, uses in self._exact.items() if known[0] >= index - _REMEMBERED}
            self._exact[key] = list(self._uses(self._operations[index], written=written))
        return self._exact[key]

    def _uses(self, op: Operation, *, written: bool) -> Iterator[tuple[int, Spans]]:
        parts: Sequence[ByteRange] = ()
        if isinstance(op, KernelOperation):
            for fm in (op.stored,) if written else (op.ifm, op.ifm2):
                if fm is not None and fm.storage is MapStorage.TILES:
                    yield self.memory(fm.region), map_spans(fm, whole(fm), written=written)
            parts = () if written else op.weights + op.scales
        elif isinstance(op, DmaOperation):
            parts = op.writes() if written else op.reads()
        for part in (*self.placed(parts), *_shram(op, self._device, written=written)):
            yield part.region, Spans.of(part)
