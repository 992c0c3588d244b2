"""The cost model of the cascader for the Ethos-U: cycles of a stripe of a part, from the work of its blocks.

A stripe begins with its first fetch and ends with its last store, as the shared buffer is repartitioned between parts; its
units overlap as :mod:`cascader.ethosu.kernel_flow` says. What stripes overlap is said apart (lead and tail), for a timeline to
count: that is within 7 % of the simulator's cycles, the mere sum up to a quarter too high.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from cascader.ethosu.block_choice import shortlist
from cascader.ethosu.constants import StreamEditor
from cascader.ethosu.kernel_flow import Flow, KernelLoad, Source, kernel_flow, operation_load
from cascader.ethosu.network import ARENA, Network, ethosu_part
from cascader.ethosu.staging import staged_bytes
from cascader.ethosu.stripes import Place, stripe, whole
from cascader.prefetch import JobTimes
from cascader.row_graph import RowGraph
from npu_model.accelerator import Accelerator
from npu_model.memory import Memory, MemorySystem
from npu_model.mlw_work import DecoderWork
from npu_model.program import KernelOperation
from npu_model.shapes import Shape3D, ceil_div
from npu_model.shram import BlockQuery, shram_partition
from npu_model.timing import DEFAULT_TIMING
from npu_model.traffic import BEAT_BYTES
from npu_model.weight_work import operation_work

_ANYWHERE = 1 << 40

BLOCKS = 2
"""Blocks that are looked at beside a layer's own."""

GAIN, CLEAR_GAIN = 0.95, 0.8
"""What part of the own block's cycles another one may have, and may have to be worth it in any company.

A block brings its own partition of the shared buffer, and where that changes from one kernel to the next the pipeline is drained;
which of the two choices is better for a schedule only its replay says. A block with the partition of the layer's own is welcome anyhow.
"""

CROWDED_SHARE = 0.62
"""The part of its memory's bandwidth that a kernel gets beside a copy: seen in replays of MobileNet-v2's last layers."""


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


@dataclass(frozen=True, slots=True)
class _Alone:
    """An operation as it runs on its own: what it asks of the units, how it flows through them, its cycles."""

    operation: KernelOperation
    load: KernelLoad
    flow: Flow
    cycles: int


@dataclass(frozen=True, slots=True)
class _Facts:
    """Cycles of a stripe, and how many fewer they are if its first weights are fetched before it begins; its block configs.

    ``tail`` are the cycles after its last fetch, in which the decoder reads for the next kernel,
    ``crowded_cycles`` are those while a copy keeps the constants' memory busy, ``home_cycles`` those in which it does so itself.
    """

    cycles: int
    lead: int
    tail: int
    crowded_cycles: int
    home_cycles: int
    block: Shape3D | None
    calm_block: Shape3D | None = None


_NOTHING = _Facts(0, 0, 0, 0, 0, None)


class StripeCost:
    """Costs of the stripes of one network on one accelerator and memory system; each is computed once."""

    def __init__(
        self, network: Network, graph: RowGraph, accelerator: Accelerator, system: MemorySystem, *, choose_blocks: bool = True
    ) -> None:
        self._payloads = [ethosu_part(part) for part in network.graph.parts]
        self._constants = [staged_bytes(payload.operation) if payload else 0 for payload in self._payloads]
        self._stored = StreamEditor(network.constants)
        self._decoder_work: dict[int, tuple[DecoderWork, ...]] = {}
        self._graph = graph
        self._accelerator = accelerator
        self._choose_blocks = choose_blocks
        home, arena = system.ports[system.port_of(0)], system.ports[system.port_of(ARENA)]
        self._home = Source(cycles_per_word(home), home.read_latency)
        # While a copy runs its transactions have every other turn at the port.
        turn = ceil(self._home.rate * DEFAULT_TIMING.grant * home.burst_bytes / BEAT_BYTES)
        self._crowded_home = Source(self._home.rate, home.read_latency + turn)
        self._arena = Source(1.0, arena.read_latency)
        self._overhead = arena.read_latency + arena.write_latency
        self._places = {t.name: Place(0, t.rows if t.rows == 1 else _ANYWHERE, t.row_bytes) for t in graph.tensors}
        self._known: dict[tuple[int, int, bool], _Facts] = {}

    def _operations(self, part: int, start: int, end: int, *, staged: bool) -> list[KernelOperation]:
        """The stripe's operation, and those with other blocks that may be faster; none for a CPU part."""
        payload = self._payloads[part]
        if payload is None:
            return []
        operation = whole(payload, self._places) if self._graph.parts[part].atomic else stripe(payload, start, end, self._places)
        found = [operation]
        for block in shortlist(operation, self._accelerator, None if staged else self._home.rate, BLOCKS) if self._choose_blocks else ():
            shram = shram_partition(BlockQuery.of(operation), block, self._accelerator)
            if shram is not None:
                found.append(replace(operation, block=block, shram=shram))
        return found

    def _facts(self, part: int, start: int, end: int, *, staged: bool) -> _Facts:
        """What is known of stripes of this height; of equally high ones the first that is asked for speaks for all."""
        key = (part, end - start, staged and self.constant_bytes(part) > 0)
        if key not in self._known:
            self._known[key] = self._chosen(part, self._operations(part, start, end, staged=key[2]), staged=key[2])
        return self._known[key]

    def _chosen(self, part: int, operations: list[KernelOperation], *, staged: bool) -> _Facts:
        """The facts of the fastest operation, with the block that a calm choice takes; the first operation has the layer's own block."""
        if not operations:
            return _NOTHING
        own, *others = [self._alone(part, operation, staged=staged) for operation in operations]
        bold = calm = own
        for other in sorted(others, key=lambda alone: alone.cycles, reverse=True):
            if other.cycles < own.cycles * GAIN:
                bold = other
            if other.cycles < own.cycles * (1 if other.operation.shram == own.operation.shram else CLEAR_GAIN):
                calm = other
        return self._crowded(bold, calm.operation.block, staged=staged)

    def _work(self, part: int) -> tuple[DecoderWork, ...]:
        """What the part's weight streams ask of the decoder, whatever rows are made of it."""
        if part not in self._decoder_work:
            payload = self._payloads[part]
            assert payload is not None  # noqa: S101  # only kernels have weights
            streams = tuple(self._stored.read(where) for where in payload.operation.weights)
            self._decoder_work[part] = operation_work(payload.operation, streams, self._accelerator) if streams else ()
        return self._decoder_work[part]

    def _alone(self, part: int, operation: KernelOperation, *, staged: bool) -> _Alone:
        """A kernel with its constants on the feature maps' port if ``staged``, else on their own."""
        load = operation_load(operation, self._accelerator, self._work(part))
        flow = kernel_flow(load, self._arena, self._arena if staged else self._home, led=staged)
        # Alone on its port each unit is as fast as it can be; together they move a word a cycle.
        words = load.maps + load.constants if staged else load.maps
        return _Alone(operation, load, flow, ceil(max(flow.cycles, words)) + self._overhead)

    def _crowded(self, alone: _Alone, calm_block: Shape3D | None, *, staged: bool) -> _Facts:
        """The facts of a kernel: what it takes if its first weights are there already, and beside a copy."""
        load, tail, block = alone.load, ceil(alone.flow.tail) + self._overhead, alone.operation.block
        if staged or not load.constants:
            return _Facts(alone.cycles, 0, tail, alone.cycles, 0, block, calm_block)
        led, crowded = kernel_flow(load, self._arena, self._home, led=True), kernel_flow(load, self._arena, self._crowded_home)
        least, most = (ceil(max(flow.cycles, load.maps)) + self._overhead for flow in (led, crowded))
        home = ceil(load.constants * self._home.rate)
        crowded_cycles = max(alone.cycles, most, ceil(home / CROWDED_SHARE))
        return _Facts(alone.cycles, alone.cycles - least, tail, crowded_cycles, home, block, calm_block)

    def block(self, part: int, start: int, end: int, *, staged: bool, calm: bool) -> Shape3D | None:
        """Block config of rows ``start`` to ``end``, with constants in cascade memory or read from home; None for a CPU part.

        The fastest on its own, or with ``calm`` the layer's own one unless another one is a clear gain.
        """
        facts = self._facts(part, start, end, staged=staged)
        return facts.calm_block if calm else facts.block

    def compute_cycles(self, part: int, start: int, end: int) -> int:
        """Cycles of rows ``start`` to ``end`` with the constants in cascade memory."""
        return self._facts(part, start, end, staged=True).cycles

    def direct_cycles(self, part: int, start: int, end: int) -> int:
        """Cycles of the same rows with the constants read from their home memory."""
        return self._facts(part, start, end, staged=False).cycles

    def times(self, part: int, start: int, end: int) -> JobTimes:
        """What a timeline asks of rows ``start`` to ``end``."""
        staged, direct = (self._facts(part, start, end, staged=staged) for staged in (True, False))
        home = direct.home_cycles if self.constant_bytes(part) else 0
        return JobTimes(part, staged.cycles, direct.cycles, direct.lead, direct.tail, direct.crowded_cycles, home)

    def constant_bytes(self, part: int) -> int:
        """Bytes of the part's weights and scales."""
        return self._constants[part]

    def transfer_cycles(self, part: int) -> int:
        """Cycles to copy the part's constants into the arena."""
        return ceil(ceil_div(self.constant_bytes(part), BEAT_BYTES) * self._home.rate) + self._overhead
