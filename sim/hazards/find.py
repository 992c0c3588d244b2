"""The check of hazards: every pair of operations that may run at the same time, and the bytes that both use.

The command processor issues operations in stream order to two queues, of kernels and of transfers, which run in parallel. Each queue is in
order and holds no more than the device's outstanding operations. An operation is known to be done when

- a KERNEL_WAIT or DMA_WAIT after it let no more than the younger ones remain;
- the largest number of outstanding operations was issued in its queue after it;
- for kernels, of which a chain counts as one: BLOCKDEP says so. Job ``j`` of a kernel starts when ``BLOCKDEP - j`` OFM blocks of the one
  before are unfinished, or fewer.

Between two kernels the pipeline keeps reads in order, keeps writes in order, and keeps a write after the reads of all earlier blocks. So of
two kernels only what the later one reads can be too early. Any other operation may be at any point of its work, unless it is known to be
done. Sources: Vela 5.2.0 ``register_command_stream_generator.py`` (watermarks of outstanding operations, BLOCKDEP), the core driver's
commands.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from npu_model.accelerator import Accelerator, accelerator
from npu_model.compiled.network import CompiledNetwork
from npu_model.program import DmaOperation, DmaWait, KernelOperation, KernelWait, MapStorage, Program, Reverse
from sim.hazards.accesses import Accesses, Overlap, overlap, touch
from sim.hazards.jobs import first_jobs, last_blocks, separate_step, shared_step
from sim.hazards.partition import partition_problem
from sim.hazards.race import SHRAM, LostTable, PartitionFault, Race, operation_name
from sim.hazards.spans import Spans, map_spans, whole
from sim.hazards.tables import lost_tables

Hazard = Race | LostTable | PartitionFault
"""A finding of the check."""


class _Pair(Struct, frozen=True):
    """Two operations that share bytes, and who writes them."""

    overlap: Overlap
    first_writes: bool
    second_writes: bool


def _conflict(accesses: Accesses, first: int, second: int) -> _Pair | None:
    """Bytes that a transfer and a kernel share, at least one of them writing."""
    for one, other in ((True, False), (True, True), (False, True)):
        if touch(accesses.ranges(first, written=one), accesses.ranges(second, written=other)):
            found = overlap(accesses.exact(first, written=one), accesses.exact(second, written=other))
            if found is not None:
                return _Pair(found, one, other)
    return None


def _overwritten_table(accesses: Accesses, first: int, second: int) -> Overlap | None:
    """Bytes of the first kernel's table that the second one's buffers overwrite, while its last blocks may still look up values."""
    table, buffers = (
        [part for part in accesses.ranges(index, written=written) if part.region == SHRAM]
        for index, written in ((first, False), (second, True))
    )
    if not touch(table, buffers):
        return None
    return overlap([(SHRAM, Spans.of(*table))], [(SHRAM, Spans.of(*buffers))])


def _early_reads(accesses: Accesses, before: KernelOperation, op: KernelOperation, device: Accelerator) -> tuple[Overlap | None, int]:
    """Bytes that the jobs of a kernel may read too early from the previous kernel, and the largest BLOCKDEP that prevents it.

    At most that many jobs may start before the previous kernel is done.
    """
    most, step = device.max_blockdep, shared_step(op) if device.buffers is None else separate_step(op, device)
    maps = [fm for fm in (op.ifm, op.ifm2) if fm is not None]
    if not touch(accesses.placed(before.writes()), accesses.placed([part for fm in maps for part in fm.byte_ranges()])):
        return None, most
    memory = accesses.memory(before.ofm.region)
    blocks = [[(memory, map_spans(before.ofm, part, written=True))] for part in last_blocks(before, most)]
    found, safe = None, most
    if before.stored is not before.ofm or before.modes.reverse is not Reverse.NONE:
        # The blocks of an OFM in another order may lie anywhere in it.
        memory_span = [(memory, map_spans(before.stored, whole(before.stored), written=True))]
        blocks = [memory_span] * most
    for job, reads in enumerate(first_jobs(op, most, step)):
        read = [(accesses.memory(fm.region), map_spans(fm, part, written=False)) for fm, part in reads]
        for age, block in enumerate(blocks[: most - job]):
            shared = overlap(read, block)
            if shared is not None and job + age < safe:
                found, safe = shared, job + age
    return found, safe


class _Check:
    """The operations under way as the stream proceeds; each method gives the races of one operation."""

    def __init__(self, program: Program, number: int, programs: int) -> None:
        self._program, self._number, self._programs = program, number, programs
        self._device = accelerator(program.accelerator)
        self._accesses = Accesses(program, self._device)
        # A chain of kernels is under way as a whole.
        self._kernels: list[_Chain] = []
        self._transfers: list[int] = []

    def races(self) -> Iterator[Race]:
        """All of them, in stream order."""
        for index, op in enumerate(self._program.operations):
            if isinstance(op, KernelOperation):
                yield from self._kernel(index, op)
            elif isinstance(op, DmaOperation):
                yield from self._transfer(index)
            elif isinstance(op, KernelWait):
                self._kernels = self._kernels[_others(len(self._kernels), op.outstanding) :]
            elif isinstance(op, DmaWait):
                self._transfers = self._transfers[_others(len(self._transfers), op.outstanding) :]

    def _kernel(self, index: int, op: KernelOperation) -> Iterator[Race]:
        if not _is_chained(op):
            self._kernels = self._kernels[_others(len(self._kernels), self._device.max_outstanding_kernels - 1) :]
        for age, other in enumerate(reversed(self._transfers)):
            pair = _conflict(self._accesses, other, index)
            if pair is not None:
                yield self._race(other, index, pair, f"DMA_WAIT {age} is missing")
        chain = self._kernels.pop() if self._kernels and _is_chained(op) else []
        for age, (other, _) in _aged(self._kernels):
            # Weights and scales are fetched ahead; only a wait holds them back.
            early = self._streams(other, op)
            if early is not None:
                yield self._race(other, index, _Pair(early, True, False), f"KERNEL_WAIT {age} is missing")
        if self._kernels:
            yield from self._after(*self._kernels[-1][-1], index, op)
        self._kernels.append([*chain, (index, op)])

    def _after(self, other: int, before: KernelOperation, index: int, op: KernelOperation) -> Iterator[Race]:
        """A kernel after another kernel that may still run."""
        if not op.blockdep:
            return
        lost = _overwritten_table(self._accesses, other, index)
        if lost is not None:
            yield self._race(other, index, _Pair(lost, False, True), f"BLOCKDEP is {op.blockdep}, but only 0 is safe")
        early, safe = _early_reads(self._accesses, before, op, self._device)
        if early is not None and safe < op.blockdep:
            missing = f"BLOCKDEP is {op.blockdep}, but {safe} is the largest that is safe"
            yield self._race(other, index, _Pair(early, True, False), missing)

    def _streams(self, other: int, op: KernelOperation) -> Overlap | None:
        streams = self._accesses.placed(op.weights + op.scales)
        if not touch(self._accesses.ranges(other, written=True), streams):
            return None
        return overlap(self._accesses.exact(other, written=True), [(part.region, Spans.of(part)) for part in streams])

    def _transfer(self, index: int) -> Iterator[Race]:
        self._transfers = self._transfers[_others(len(self._transfers), self._device.max_outstanding_dma - 1) :]
        for age, (other, _) in _aged(self._kernels):
            pair = _conflict(self._accesses, other, index)
            if pair is not None:
                yield self._race(other, index, pair, f"KERNEL_WAIT {age} is missing")
        self._transfers.append(index)

    def _race(self, first: int, second: int, pair: _Pair, missing: str) -> Race:
        names = [operation_name(self._program, index, self._number, self._programs) for index in (first, second)]
        shared, run = pair.overlap
        return Race(self._number, first, second, (names[0], names[1]), run, shared, pair.first_writes, pair.second_writes, missing)


_Chain = list[tuple[int, KernelOperation]]


def _is_chained(op: KernelOperation) -> bool:
    """Whether a kernel takes its input from a chaining buffer and so continues the previous kernel's chain."""
    return any(fm is not None and fm.storage is MapStorage.CHAINED for fm in (op.ifm, op.ifm2))


def _aged(chains: list[_Chain]) -> Iterator[tuple[int, tuple[int, KernelOperation]]]:
    """The kernels of chains, youngest chain first, each with the number of later chains."""
    return ((age, kernel) for age, chain in enumerate(reversed(chains)) for kernel in chain)


def _others(running: int, most: int) -> int:
    """The number of operations under way that are known to be done once at most ``most`` remain."""
    return max(0, running - most)


def find_races(program: Program, number: int = 0, programs: int = 1) -> Iterator[Race]:
    """The races of a Program, in stream order; ``number`` is its place among the network's ``programs``.

    The Program must keep the rules of :func:`~npu_model.program.check.check_program`.
    """
    return _Check(program, number, programs).races()


def network_hazards(network: CompiledNetwork) -> tuple[Hazard, ...]:
    """Races and lost tables of all Programs of a network, and kernels whose partition of the shared buffer is wrong, program by program.

    Nothing is under way when a Program begins, because the CPU waits for the previous one.
    """
    found: list[Hazard] = []
    programs = network.programs
    for number, program in enumerate(programs):
        device = accelerator(program.accelerator)
        for index, op in enumerate(program.operations):
            problem = partition_problem(op, device) if isinstance(op, KernelOperation) else ""
            if problem:
                found.append(PartitionFault(number, index, operation_name(program, index, number, len(programs)), problem))
        found += find_races(program, number, len(programs))
        found += lost_tables(program, number, len(programs))
    return tuple(found)
