"""The cost model of the cascader for the Ethos-U: cycles of a stripe of a part, from the work of its blocks.

A stripe runs its blocks one after the other, each as long as its slowest unit; it begins with its first fetch and ends
with its last output and store, as the shared buffer is repartitioned between parts. The sum over a whole schedule is
within a few per cent of the simulator's cycles, and a thousand times faster to have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from cascader.ethosu.block_choice import choose_block
from cascader.ethosu.network import ARENA, Network, ethosu_part
from cascader.ethosu.staging import staged_bytes
from cascader.ethosu.stripes import Place, stripe, whole
from cascader.row_graph import RowGraph
from npu_model.accelerator import Accelerator
from npu_model.block_jobs import BlockJob, block_jobs
from npu_model.memory import Memory, MemorySystem
from npu_model.program import KernelOperation
from npu_model.shapes import Shape3D, ceil_div
from npu_model.shram import BlockQuery, shram_partition
from npu_model.traffic import BEAT_BYTES

_ANYWHERE = 1 << 40


def cycles_per_word(memory: Memory) -> float:
    """Cycles of one data word in a long stream of reads: the slowest of data path, pulse gate and latency."""
    words = memory.burst_bytes // BEAT_BYTES
    rate = float(memory.cycles_per_word)
    if memory.pulse is not None and memory.pulse.cap_words:
        # The transaction that crosses the cap passes whole.
        rate = max(rate, (memory.pulse.on + memory.pulse.off) / (ceil_div(memory.pulse.cap_words, words) * words))
    if memory.max_reads:
        turn = memory.read_latency + words * float(memory.cycles_per_word)
        rate = max(rate, turn / (memory.max_reads * words))
    return rate


def _beats(job: BlockJob) -> tuple[int, int]:
    """Beats of feature maps (both directions) and of weights and scales."""
    maps = sum(sum(read.runs) for step in job.steps for read in step.fetches) + sum(job.writes)
    constants = sum(sum(read.runs) for step in job.steps for read in step.weights) + sum(sum(read.runs) for read in job.scales)
    return maps, constants


@dataclass(frozen=True, slots=True)
class _Facts:
    """Cycles of a stripe, those in which it keeps its constants' memory busy, and the block config that they are for."""

    cycles: int
    home_cycles: int
    block: Shape3D | None


_NOTHING = _Facts(0, 0, None)


class StripeCost:
    """Costs of the stripes of one network on one accelerator and memory system; each is computed once."""

    def __init__(
        self, network: Network, graph: RowGraph, accelerator: Accelerator, system: MemorySystem, *, choose_blocks: bool = True
    ) -> None:
        self._payloads = [ethosu_part(part) for part in network.graph.parts]
        self._constants = [staged_bytes(payload.operation) if payload else 0 for payload in self._payloads]
        self._graph = graph
        self._accelerator = accelerator
        self._choose_blocks = choose_blocks
        home, arena = system.ports[system.port_of(0)], system.ports[system.port_of(ARENA)]
        self._home_rate = cycles_per_word(home)
        self._home_latency, self._arena_latency = home.read_latency, arena.read_latency
        self._overhead = arena.read_latency + arena.write_latency
        self._places = {t.name: Place(0, t.rows if t.rows == 1 else _ANYWHERE, t.row_bytes) for t in graph.tensors}
        self._known: dict[tuple[int, int, bool], _Facts] = {}

    def _operation(self, part: int, start: int, end: int, *, staged: bool) -> KernelOperation | None:
        """The stripe's operation with the block that is chosen for it; None for a CPU part."""
        payload = self._payloads[part]
        if payload is None:
            return None
        operation = whole(payload, self._places) if self._graph.parts[part].atomic else stripe(payload, start, end, self._places)
        if not self._choose_blocks:
            return operation
        block = choose_block(operation, self._accelerator, None if staged else self._home_rate)
        shram = shram_partition(BlockQuery.of(operation), block, self._accelerator)
        return operation if shram is None or block == operation.block else replace(operation, block=block, shram=shram)

    def _facts(self, part: int, start: int, end: int, *, staged: bool) -> _Facts:
        """What is known of stripes of this height; of equally high ones the first that is asked for speaks for all."""
        key = (part, end - start, staged and self.constant_bytes(part) > 0)
        if key not in self._known:
            operation = self._operation(part, start, end, staged=key[2])
            self._known[key] = _NOTHING if operation is None else self._compute(operation, staged=key[2])
        return self._known[key]

    def _compute(self, operation: KernelOperation, *, staged: bool) -> _Facts:
        """Facts of a kernel, its constants on the feature maps' port if ``staged``, else on their own."""
        cycles = read = 0.0
        jobs = block_jobs(operation, self._accelerator)
        rate, latency = (1.0, self._arena_latency) if staged else (self._home_rate, self._home_latency)
        for job in jobs:
            maps, constants = _beats(job)
            busy = max(sum(step.mac_cycles for step in job.steps), job.output_cycles)
            # The weight decoder asks for the next step's weights when it has the last one's.
            decoder = constants * rate + latency * sum(1 for step in job.steps if step.weights)
            read += constants * rate
            cycles += max(busy, decoder, maps + constants if staged else maps)
        # Of MAC and output unit the slower one is in the sum already; the other fills or drains the pipeline once.
        drain = min(sum(step.mac_cycles for step in jobs[-1].steps), jobs[-1].output_cycles) + sum(jobs[-1].writes)
        ends = sum(sum(fetch.runs) for fetch in jobs[0].steps[0].fetches) + drain
        return _Facts(ceil(cycles + ends + self._overhead), 0 if staged else ceil(read), operation.block)

    def block(self, part: int, start: int, end: int, *, staged: bool) -> Shape3D | None:
        """Block config of rows ``start`` to ``end``, with constants in cascade memory or read from home; None for a CPU part."""
        return self._facts(part, start, end, staged=staged).block

    def compute_cycles(self, part: int, start: int, end: int) -> int:
        """Cycles of rows ``start`` to ``end`` with the constants in cascade memory."""
        return self._facts(part, start, end, staged=True).cycles

    def direct_cycles(self, part: int, start: int, end: int) -> int:
        """Cycles of the same rows with the constants read from their home memory."""
        return self._facts(part, start, end, staged=False).cycles

    def home_cycles(self, part: int, start: int, end: int) -> int:
        """Cycles in which rows ``start`` to ``end`` keep their home memory busy if they read their constants there."""
        return self._facts(part, start, end, staged=False).home_cycles if self.constant_bytes(part) else 0

    def constant_bytes(self, part: int) -> int:
        """Bytes of the part's weights and scales."""
        return self._constants[part]

    def transfer_cycles(self, part: int) -> int:
        """Cycles to copy the part's constants into the arena."""
        return ceil(ceil_div(self.constant_bytes(part), BEAT_BYTES) * self._home_rate) + self._overhead
