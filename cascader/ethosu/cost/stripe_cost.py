"""The cost model of the cascader for the Ethos-U: cycles of a stripe of a part, from the work of its blocks.

A stripe begins with its first fetch and ends with its last store, as the shared buffer is repartitioned between parts; its
units overlap as :mod:`cascader.ethosu.cost.kernel_flow` says. The overlap of stripes is a separate value (lead and tail), which a timeline
counts. The timeline is within 4 % of the simulator's cycles in its tests; the plain sum is up to a sixth too high.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from math import ceil

from cascader.ethosu.cost.block_option import BlockOption
from cascader.ethosu.cost.estimate_terms import NOTHING, Facts, Terms
from cascader.ethosu.cost.estimates import Estimate, KernelEstimates, decoding_bytes, shared_estimates
from cascader.ethosu.cost.front_cycles import FrontCycles
from cascader.ethosu.cost.kernel_estimate import ranked
from cascader.ethosu.cost.memory_path import EQUAL_SHARE, IN_ARENA, Source, Sources, Where
from cascader.ethosu.cost.transfers_beside import TransfersBeside
from cascader.ethosu.job.constants import StreamEditor
from cascader.ethosu.job.staging import staged_bytes, staged_content, weight_ranges
from cascader.ethosu.job.stripes import BufferPlace, stripe, whole
from cascader.ethosu.job.transfers import copied_bytes
from cascader.ethosu.network.network import ARENA, CONSTANTS, Network, ethosu_part
from cascader.graph.row_graph import RowGraph
from cascader.plan.group_costs import JobTimes
from npu_model.accelerator import Accelerator
from npu_model.cost.traversal import reduces_depth
from npu_model.memory.system import MemorySystem
from npu_model.program import KernelOperation
from npu_model.shapes import Shape3D, ceil_div
from npu_model.timing import DEFAULT_TIMING, DMA_CHUNK_BEATS, HIDDEN_LATENCY, TimingParameters
from npu_model.weight_stream.mlw_work import DecoderWork
from npu_model.weight_stream.work import operation_work

_ANYWHERE = 1 << 40


def _first_with_same_constants(network: Network) -> list[int]:
    """For every part the first one of its segment with the same constants, byte for byte."""
    segment_of = {name: number for number, segment in enumerate(network.segments) for name in segment.parts}
    firsts: dict[tuple[int, tuple[bytes, ...]], int] = {}
    found = []
    for index, part in enumerate(network.graph.parts):
        payload = ethosu_part(part)
        content = staged_content(payload.operation, network.constants) if payload else ()
        found.append(firsts.setdefault((segment_of[part.name], content), index) if content else index)
    return found


class StripeCost:
    """Costs of the stripes of one network on one accelerator and memory system; each is computed once.

    One stripe in the middle of a part stands for all of its stripes of the same height.
    """

    def __init__(
        self,
        network: Network,
        graph: RowGraph,
        accelerator: Accelerator,
        system: MemorySystem,
        timing: TimingParameters = DEFAULT_TIMING,
        *,
        choose_blocks: bool = True,
    ) -> None:
        self._payloads = [ethosu_part(part) for part in network.graph.parts]
        self._constants = [staged_bytes(payload.operation) if payload else 0 for payload in self._payloads]
        self._copies = [len(weight_ranges(payload.operation)) if payload else 0 for payload in self._payloads]
        self._same = _first_with_same_constants(network)
        self._stored = StreamEditor(network.constants)
        self._graph = graph
        self._accelerator = accelerator
        self._where = partial(Where.of, by_size=accelerator.access.ifm_ahead)

        @cache
        def terms(where: Where = IN_ARENA, *, own_channels: bool = False) -> Terms:
            return Terms.of(accelerator, system, timing, choose_blocks=choose_blocks, where=where, own_channels=own_channels)

        self._terms = terms()
        self._front = FrontCycles(network, self._terms)
        self._bursts = [Source.of(system.ports[port], accelerator.port_bytes_per_cycle) for port in system.region_ports]
        home = system.port_of(CONSTANTS)
        self._beside = frozenset(
            region for region, port in enumerate(system.region_ports) if port == home != system.port_of(ARENA) and region != CONSTANTS
        )
        """Regions of feature maps in the memory of the constants, apart from the arena."""
        operations = [one and one.operation for one in self._payloads]
        self._own_terms = [terms(self._where(one), own_channels=not reduces_depth(one)) if one else self._terms for one in operations]
        self._estimates = [shared_estimates(terms) for terms in self._own_terms]
        self._places = {t.name: BufferPlace(0, 1, _ANYWHERE) for t in graph.tensors}
        self._known, self.decoder_work, self._timed = cache(self._made), cache(self._work), cache(self._times)
        self.layer = cache(self._layer)
        self.pairs = shared_estimates(self._terms).pairs
        """Cycles that pairs of stripes share, of all networks on these terms."""
        self.transfers = TransfersBeside(network, graph, self.times, counts_memory=accelerator.access.ifm_ahead)

    def _estimate(self, part: int, height: int, *, staged: bool) -> Estimate | None:
        """The estimate of stripes of this height, by that of a typical one; None for a transfer or a CPU part."""
        found = self._known(part, height)
        if found is None:
            return None
        return found.staged if staged and self._constants[part] else found.direct

    def _made(self, part: int, height: int) -> KernelEstimates | None:
        payload, rows = self._payloads[part], self._graph.parts[part]
        if payload is None or payload.transfer:
            return None
        start = rows.typical(height)
        if rows.atomic:
            start, height = 0, payload.axis.extent(payload.operation.ofm.shape)
        estimates, key = self._estimates[part], (self.layer(part), start, height)
        found = estimates.stripes.get(key)
        if found is None:
            operation = whole(payload, self._places) if rows.atomic else stripe(payload, start, start + height, self._places)
            work = self.decoder_work(part)
            found = estimates.stripes[key] = estimates.of(operation, work, decoding_bytes(work))
        return found

    def _layer(self, part: int) -> int:
        """The number of a part's kernel. Parts with the same number have the same costs for equal rows, in any network."""
        payload = self._payloads[part]
        assert payload is not None  # noqa: S101  # only kernels have one
        return self._estimates[part].layer(payload.operation, payload.axis, decoding_bytes(self.decoder_work(part)))

    def _work(self, part: int) -> tuple[DecoderWork, ...]:
        """The decoder's work for each of the part's weight streams, the same for all of its rows; empty if streams are not decoded."""
        payload = self._payloads[part]
        assert payload is not None  # noqa: S101  # only kernels have weights
        streams = tuple(self._stored.read(where) for where in payload.operation.weights) if self._terms.timing.decodes_streams else ()
        return operation_work(payload.operation, streams, self._accelerator) if streams else ()

    def _facts(self, part: int, height: int, *, staged: bool) -> Facts:
        payload = self._payloads[part]
        if payload is not None and payload.transfer:
            return self._moving(part, ceil_div(copied_bytes(payload.operation) * height, self._graph.parts[part].rows))
        estimate = self._estimate(part, height, staged=staged)
        return NOTHING if estimate is None else estimate.facts

    def _moving(self, part: int, size: int) -> Facts:
        """A transfer of ``count`` bytes, as if it ran alone. A transfer to or from a home has whole bursts, like the DMA's."""
        terms, payload = self._own_terms[part], self._payloads[part]
        where = self._where(payload.operation) if payload is not None else IN_ARENA
        if where == IN_ARENA:
            cycles = max(terms.staged.maps.moving(size), terms.staged.target.moving(size)) + terms.overhead
        else:
            ends = [self._bursts[region] for region in (*where.reads, where.writes)]
            cycles = max(end.moving(size) for end in ends) + terms.overhead
            if self._accelerator.access.ifm_ahead:
                # The slower memory waits for the first chunk, or the faster one writes the last chunk.
                chunk = min(DMA_CHUNK_BEATS, ceil_div(size, ends[0].word_bytes)) * min(end.word for end in ends)
                cycles += max(end.latency for end in ends[:-1]) + ceil(chunk)
            else:
                # A write passes behind the reads that are under way.
                cycles += max(0, *(end.latency - HIDDEN_LATENCY for end in ends))
        return Facts(cycles, 0, 0, cycles, 0, 0)

    def _maps_beside(self, part: int, height: int) -> int:
        """Cycles in which a stripe's feature maps keep the memory of the constants busy."""
        payload, estimate = self._payloads[part], self._estimate(part, height, staged=True)
        if not self._beside or payload is None or estimate is None:
            return 0
        where, load = self._where(payload.operation), estimate.options[0].load
        read = (load.maps - load.stored) * sum(region in self._beside for region in where.reads) / len(where.reads)
        written = load.stored if where.writes in self._beside else 0
        return ceil((read + written) * self._terms.direct.constants.rate)

    def _in_arena(self, part: int, height: int, *, staged: bool) -> int:
        """The least cycles of a stripe whose words pass the arena's port between those of a copy, if the device requests ahead."""
        estimate, (to, home) = self._estimate(part, height, staged=staged), (self._terms.staged.target, self._terms.direct.constants)
        if estimate is None or not self._accelerator.access.ifm_ahead or self._terms.direct.shared:
            return 0
        load, beside = estimate.options[0].load, self._maps_beside(part, height) / home.rate
        words = load.maps - beside + (load.constants if staged and self._constants[part] else 0)
        return ceil(words * to.word / (1 - min(to.word / home.rate, EQUAL_SHARE)))

    def options(self, part: int, start: int, end: int, *, staged: bool) -> Sequence[BlockOption]:
        """The blocks in which rows ``start`` to ``end`` may be computed, the layer's own first; none for a transfer or a CPU part.

        They are the fastest blocks of different partitions of the shared buffer, so that neighbours may agree on one.
        """
        estimate = self._estimate(part, end - start, staged=staged)
        return () if estimate is None else estimate.options

    def blocks(self, part: int, operation: KernelOperation, count: int, *, staged: bool) -> tuple[Shape3D, ...]:
        """Blocks in which an ``operation`` of a part may be computed: its own, and the ``count`` blocks with the best estimates."""
        terms, known, copied = self._own_terms[part], self._estimates[part].near, staged and bool(self._constants[part])
        key = self.layer(part), operation, count, copied
        found = known.get(key)
        if found is None:
            ranking = ranked(operation, terms, self.decoder_work(part), terms.staged if copied else terms.direct)
            found = known[key] = (operation.block, *ranking.near(count))
        return found

    def times(self, part: int, start: int, end: int) -> JobTimes:
        """All facts on rows ``start`` to ``end`` that a timeline needs."""
        return self._timed(part, end - start)

    def _times(self, part: int, height: int) -> JobTimes:
        staged, direct = (self._facts(part, height, staged=staged) for staged in (True, False))
        beside = self._maps_beside(part, height)
        home = direct.home_cycles if self.constant_bytes(part) else 0
        share = self._own_terms[part].direct.map_share if beside else 1
        shared, held, least = ceil(beside / share), 0, 0
        if beside and self._accelerator.access.ifm_ahead:
            # A device that requests ahead keeps the memory busy with its maps, too, and a copy holds up their first read.
            least, held = ceil(home / EQUAL_SHARE) + shared, self._terms.direct.held_cycles
            home += beside
        # Writes of a copy pass the arena's port, too, between the words of the job.
        in_arena = [self._in_arena(part, height, staged=is_staged) for is_staged in (True, False)]
        # The stripes of a part share one load of its table, which does not count.
        front = self._front.of(part)
        return JobTimes(
            part=part,
            staged=staged.cycles,
            direct=direct.cycles,
            lead=direct.lead,
            tail=direct.tail,
            contended=max(direct.contended_cycles if home else 0, direct.cycles + held, least, in_arena[1]),
            home=home,
            staged_lead=staged.lead,
            staged_tail=staged.tail,
            copier=direct.cycles if part in self.transfers else 0,
            staged_contended=max(staged.cycles + held, shared, in_arena[0]),
            staged_home=beside,
            reading=direct.read_cycles if home and self._accelerator.access.weight_bursts else 0,
            front=front if height == self._graph.parts[part].rows else front._replace(table=0, late_table=0),
        )

    def hidden(self, part: int, start: int, end: int) -> int:
        """Cycles of rows ``start`` to ``end`` during which other jobs run, as plans count them: 0 except for transfers that run ahead."""
        return self.transfers.hidden(part, end - start)

    @property
    def timing(self) -> TimingParameters:
        """The timing parameters of these costs."""
        return self._terms.timing

    @property
    def sources(self) -> Sources:
        """The memories of kernels whose feature maps are in the arena."""
        return self._terms.direct

    @property
    def latency(self) -> int:
        """Cycles from a job's last word to the response to it."""
        return self._terms.overhead

    def constant_bytes(self, part: int) -> int:
        """Bytes of the part's weights and scales."""
        return self._constants[part]

    def same_constants(self, part: int) -> int:
        """The first part of the segment that has the same constants, which may be the part itself."""
        return self._same[part]

    def transfer_cycles(self, part: int) -> int:
        """Cycles to copy the part's constants into the arena."""
        return self._terms.copy_cycles(self.constant_bytes(part), self._copies[part])
