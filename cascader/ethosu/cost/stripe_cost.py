"""The cost model of the cascader for the Ethos-U: cycles of a stripe of a part, from the work of its blocks.

A stripe begins with its first fetch and ends with its last store, as the shared buffer is repartitioned between parts; its
units overlap as :mod:`cascader.ethosu.cost.kernel_flow` says. What stripes overlap is said apart (lead and tail), for a timeline to
count: that is within 4 % of the simulator's cycles in the cases of its tests, the mere sum up to a sixth too high.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from cascader.ethosu.codegen.constants import StreamEditor
from cascader.ethosu.codegen.stripes import Place, stripe, whole
from cascader.ethosu.cost.block_chain import BlockOption
from cascader.ethosu.cost.block_choice import shortlist
from cascader.ethosu.cost.kernel_flow import Flow, KernelLoad, kernel_flow, operation_load
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.network.network import ARENA, Network, ethosu_part
from cascader.ethosu.schedule.staging import staged_bytes
from cascader.graph.row_graph import RowGraph
from cascader.prefetch.timeline import JobTimes
from npu_model.accelerator import Accelerator
from npu_model.cost.traffic import BEAT_BYTES
from npu_model.memory.system import MemorySystem
from npu_model.program import KernelOperation
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING
from npu_model.weight_stream.mlw_work import DecoderWork
from npu_model.weight_stream.work import operation_work

_ANYWHERE = 1 << 40

BLOCKS = 2
"""Blocks that are looked at beside a layer's own."""

PARTITIONS = 4
"""Partitions of the shared buffer from which neighbours may choose a common one."""

BURDEN = 0.05
"""The part of its reads at home by which a block is thought to be slower than it is: of two that are as fast one may read twice as much."""

CROWDED_SHARE = 0.62
"""The part of its memory's bandwidth that a kernel gets beside a copy: seen in replays of MobileNet-v2's last layers."""


@dataclass(frozen=True, slots=True)
class _Alone:
    """An operation as it runs on its own: what it asks of the units, how it flows through them, its cycles."""

    operation: KernelOperation
    load: KernelLoad
    flow: Flow
    cycles: int


@dataclass(frozen=True, slots=True)
class _Facts:
    """Cycles of a stripe, and how many fewer they are if its first weights are fetched before it begins.

    ``tail`` are the cycles at its end in which the decoder reads for the next kernel,
    ``crowded_cycles`` are those while a copy keeps the constants' memory busy, ``home_cycles`` those in which it does so itself.
    """

    cycles: int
    lead: int
    tail: int
    crowded_cycles: int
    home_cycles: int


_NOTHING = _Facts(0, 0, 0, 0, 0)


class StripeCost:
    """Costs of the stripes of one network on one accelerator and memory system; each is computed once.

    Of the stripes of a part that are equally high, one in its middle speaks for all.
    """

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
        arena = system.ports[system.port_of(ARENA)]
        self._staged, self._direct = Sources.staged(system), Sources.direct(system)
        home = self._direct.constants
        # While a copy runs its transactions have every other turn at the port.
        turn = ceil(home.rate * DEFAULT_TIMING.grant * home.burst)
        slow = replace(home, latency=home.latency + turn, reads=0, sustained=home.rate / CROWDED_SHARE)
        self._crowded = replace(self._direct, constants=slow)
        self._overhead = arena.write_latency
        self._places = {t.name: Place(0, 1, _ANYWHERE) for t in graph.tensors}
        self._options: dict[tuple[int, int, bool], tuple[BlockOption, ...]] = {}
        self._known: dict[tuple[int, int, bool], _Facts] = {}

    def _operations(self, part: int, height: int, *, staged: bool, partitions: int = 0) -> list[KernelOperation]:
        """The operation of a typical stripe of ``height`` rows, and those with other blocks that may be faster; none for a CPU part."""
        payload = self._payloads[part]
        if payload is None:
            return []
        start = self._graph.parts[part].typical(height)
        end = start + height
        operation = whole(payload, self._places) if self._graph.parts[part].atomic else stripe(payload, start, end, self._places)
        found = [operation]
        if self._choose_blocks:
            decoding = max((core.turns[-1] for core in self._work(part) if core.turns), default=0) if operation.weights else None
            sources = self._staged if staged else self._direct
            blocks = shortlist(operation, self._accelerator, sources, partitions or BLOCKS, decoding, partitions=partitions > 0)
            found += [replace(operation, block=block, shram=shram) for block, shram in blocks]
        return found

    def _facts(self, part: int, start: int, end: int, *, staged: bool) -> _Facts:
        """What is known of stripes of this height."""
        key = (part, end - start, staged and self.constant_bytes(part) > 0)
        if key not in self._known:
            operations = self._operations(part, end - start, staged=key[2])
            # Whatever neighbours may agree on counts for one alone too: else each of two pairs would be said to gain by it.
            operations += self._operations(part, end - start, staged=key[2], partitions=PARTITIONS)[1:]
            self._known[key] = self._chosen(part, operations, staged=key[2])
        return self._known[key]

    def _chosen(self, part: int, operations: list[KernelOperation], *, staged: bool) -> _Facts:
        """The facts of the fastest operation; of one that reads its constants in the arena that counts with the first ones there."""
        if not operations:
            return _NOTHING
        alone = [self._alone(part, operation, staged=staged, led=staged) for operation in operations]
        return self._beside(min(alone, key=lambda one: one.cycles + self._burden(one.load, staged=staged)), staged=staged)

    def _burden(self, load: KernelLoad, *, staged: bool) -> int:
        """Cycles that are set against a kernel's reads at home, which hold up the copies beside it."""
        return 0 if staged else int(load.constants * self._direct.constants.rate * BURDEN)

    def _work(self, part: int) -> tuple[DecoderWork, ...]:
        """What the part's weight streams ask of the decoder, whatever rows are made of it."""
        if part not in self._decoder_work:
            payload = self._payloads[part]
            assert payload is not None  # noqa: S101  # only kernels have weights
            streams = tuple(self._stored.read(where) for where in payload.operation.weights)
            self._decoder_work[part] = operation_work(payload.operation, streams, self._accelerator) if streams else ()
        return self._decoder_work[part]

    def _alone(self, part: int, operation: KernelOperation, *, staged: bool, led: bool) -> _Alone:
        """A kernel with its constants in the arena if ``staged``, else at home; the first ones are there already if ``led``."""
        sources = self._staged if staged else self._direct
        load = operation_load(operation, self._accelerator, self._work(part), sources.maps.burst, sources.constants.burst)
        return self._flowing(operation, load, sources, led=led)

    def _flowing(self, operation: KernelOperation, load: KernelLoad, sources: Sources, *, led: bool = False) -> _Alone:
        flow = kernel_flow(load, sources, led=led)
        # What passes a port moves no faster than its memory keeps up.
        words = load.maps + (load.constants if sources.shared else 0)
        return _Alone(operation, load, flow, ceil(max(flow.cycles, words * sources.pace)) + self._overhead)

    def _beside(self, alone: _Alone, *, staged: bool) -> _Facts:
        """The facts of a kernel: what it takes if its first weights are there already and if not, and beside a copy."""
        load = alone.load
        if not load.constants:
            return _Facts(alone.cycles, 0, ceil(alone.flow.tail) + self._overhead, alone.cycles, 0)
        sources = self._staged if staged else self._direct
        led, cold = (self._flowing(alone.operation, load, sources, led=led) for led in (True, False))
        tail = ceil(cold.flow.tail) + self._overhead
        if staged:
            return _Facts(cold.cycles, cold.cycles - led.cycles, tail, cold.cycles, 0)
        crowded = self._flowing(alone.operation, load, self._crowded)
        home = ceil(load.constants * self._direct.constants.rate)
        return _Facts(cold.cycles, cold.cycles - led.cycles, tail, max(crowded.cycles, cold.cycles), home)

    def options(self, part: int, start: int, end: int, *, staged: bool) -> tuple[BlockOption, ...]:
        """The blocks that rows ``start`` to ``end`` may be made in, the layer's own first; none for a CPU part.

        They are the fastest ones of different partitions of the shared buffer, so that neighbours may agree on one.
        """
        key = (part, end - start, staged and self.constant_bytes(part) > 0)
        if key not in self._options:
            operations = self._operations(part, end - start, staged=key[2], partitions=PARTITIONS)
            self._options[key] = tuple(self._option(part, operation, staged=key[2]) for operation in operations)
        return self._options[key]

    def _option(self, part: int, operation: KernelOperation, *, staged: bool) -> BlockOption:
        """What is known of a block while the kernel before drains: the first weights are read, but all of them pass their port."""
        sources = self._staged if staged else self._direct
        led, cold = (self._alone(part, operation, staged=staged, led=led) for led in (True, False))
        cycles = max(led.cycles, ceil(led.load.constants * sources.constants.rate) + self._overhead)
        burden = self._burden(led.load, staged=staged)
        lead, tail = max(0, cold.cycles - cycles), ceil(cold.flow.tail) + self._overhead
        return BlockOption(operation.block, operation.shram, cycles, led.load, sources, self._overhead, burden, lead, tail)

    def compute_cycles(self, part: int, start: int, end: int) -> int:
        """Cycles of rows ``start`` to ``end`` with the constants in cascade memory, where the first are read before."""
        facts = self._facts(part, start, end, staged=True)
        return facts.cycles - facts.lead

    def direct_cycles(self, part: int, start: int, end: int) -> int:
        """Cycles of the same rows with the constants read from their home memory."""
        return self._facts(part, start, end, staged=False).cycles

    def times(self, part: int, start: int, end: int) -> JobTimes:
        """What a timeline asks of rows ``start`` to ``end``."""
        staged, direct = (self._facts(part, start, end, staged=staged) for staged in (True, False))
        home = direct.home_cycles if self.constant_bytes(part) else 0
        return JobTimes(
            part=part,
            staged=staged.cycles,
            direct=direct.cycles,
            lead=direct.lead,
            tail=direct.tail,
            crowded=direct.crowded_cycles,
            home=home,
            staged_lead=staged.lead,
            staged_tail=staged.tail,
        )

    def constant_bytes(self, part: int) -> int:
        """Bytes of the part's weights and scales."""
        return self._constants[part]

    def transfer_cycles(self, part: int) -> int:
        """Cycles to copy the part's constants into the arena."""
        return ceil(ceil_div(self.constant_bytes(part), BEAT_BYTES) * self._direct.constants.rate) + self._overhead
