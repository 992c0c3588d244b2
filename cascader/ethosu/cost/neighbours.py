"""Neighbours: the cycles that two stripes in a row share, before anything has an address."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cache, partial

from cascader.ethosu.cost.block_option import BlockOption
from cascader.ethosu.cost.coupling import Coupling, further_responses
from cascader.ethosu.cost.stripe_cost import StripeCost
from cascader.ethosu.job.stripes import BufferPlace, stripe
from cascader.ethosu.network.network import Network, ethosu_part
from cascader.graph.row_graph import RowGraph
from cascader.plan.depth_first import StripeJob, first_read
from cascader.plan.group_costs import JobTimes
from npu_model.accelerator import Accelerator
from npu_model.program import KernelOperation

_APART = 1 << 48
"""Bytes from one tensor to the next, in an arena where each has room for all of its rows."""


class Neighbours:
    """Cycles that pairs of jobs share. One pair near the middle of its part represents all pairs of the same heights and distance."""

    def __init__(self, network: Network, graph: RowGraph, cost: StripeCost, accelerator: Accelerator) -> None:
        self._payloads = [ethosu_part(part) for part in network.graph.parts]
        self._are_kernels = [payload is not None and not payload.transfer for payload in self._payloads]
        self._graph = graph
        self._cost = cost
        self._accelerator = accelerator
        self._places = {t.name: BufferPlace(index * _APART, 1, _APART) for index, t in enumerate(graph.tensors)}
        self._known: dict[tuple[object, ...], int] = {}
        self._pairs: dict[tuple[object, ...], tuple[StripeJob, StripeJob]] = {}
        self._starts, self._distance, self._coupled = cache(self._from_the_middle), cache(self._apart), cache(self._coupling)
        self._first_read = cache(partial(first_read, graph))
        self._facts, self._same, self._kernel = cache(self._stripe_facts), cache(self._same_tensors), cache(self._operation)

    def _typical(self, job: StripeJob) -> StripeJob:
        """A stripe of the same height in the middle of the part."""
        start = self._graph.parts[job.part].typical(job.end - job.start)
        return StripeJob(job.part, start, start + job.end - job.start)

    def _from_the_middle(self, number: int, height: int) -> list[int]:
        """The first rows of a part's stripes of that height, those nearest to the middle of the part first."""
        part = self._graph.parts[number]
        starts, middle = {part.border_until(start) for start in range(part.rows - height + 1)}, part.typical(height)
        return sorted(starts, key=lambda start: (abs(start - middle), start))

    def _apart(self, before: StripeJob, after: StripeJob) -> int | None:
        """Rows from the first row that the next job reads to the start of this job; None if it reads no row of this job."""
        first = self._first_read(before.part, after)
        return None if first is None else before.start - first

    def _typical_pair(self, before: StripeJob, after: StripeJob, distance: int) -> tuple[StripeJob, StripeJob]:
        """The pair of stripes of the same heights and distance whose second one is nearest to the middle of its part."""
        height = after.end - after.start
        last = self._graph.parts[before.part].rows - (before.end - before.start)
        for start in self._starts(after.part, height):
            second = StripeJob(after.part, start, start + height)
            first = self._first_read(before.part, second)
            if first is not None and 0 <= first + distance <= last:
                return StripeJob(before.part, first + distance, first + distance + before.end - before.start), second
        raise AssertionError(f"{before} and {after} are not such a pair themselves")

    def _operation(self, job: StripeJob, *, whole: bool) -> KernelOperation | None:
        """The operation of a job, or the uncut one of its part; None of a transfer and of a CPU part."""
        payload = self._payloads[job.part]
        if payload is None or payload.transfer:
            return None
        return payload.operation if whole else stripe(payload, job.start, job.end, self._places)

    def _coupling(self, before: StripeJob, after: StripeJob, *, reads: bool) -> Coupling | None:
        """The coupling of the kernels of two jobs, wherever their constants are; None with a transfer or a CPU part.

        Where the second one ``reads`` nothing that the first one makes, all of their stripes are coupled alike.
        """
        first, second = (self._kernel(job, whole=not reads) for job in (before, after))
        return Coupling(first, second, self._accelerator, reads=reads) if first and second else None

    def _options(self, job: StripeJob, *, staged: bool) -> Sequence[BlockOption]:
        return self._cost.options(job.part, job.start, job.end, staged=staged)

    @staticmethod
    def _one_by_one(before: JobTimes, after: JobTimes, *, before_staged: bool, staged: bool) -> int:
        """Cycles of two jobs if the second begins when the first is done; the first job's first weights are read."""
        tail = before.staged_tail if before_staged else before.tail
        first = before.staged - before.staged_lead if before_staged else max(before.direct - before.lead, before.home, before.reading)
        if staged:
            return first + after.staged - min(after.staged_lead, tail)
        return first + max(after.direct - min(after.lead, tail), after.home, after.reading)

    def _pair(self, before: StripeJob, after: StripeJob, distance: int | None) -> tuple[StripeJob, StripeJob]:
        """The pair that represents a pair."""
        key = before.part, after.part, before.end - before.start, after.end - after.start, distance
        if key not in self._pairs:
            alone = self._typical(before), self._typical(after)
            self._pairs[key] = alone if distance is None else self._typical_pair(before, after, distance)
        return self._pairs[key]

    def _stripe_facts(self, job: StripeJob) -> Hashable:
        """The rows of a kernel's stripe, and the stripe that represents its own cycles, in any network."""
        return self._cost.layer(job.part), job.start, job.end, self._typical(job).start, self._graph.parts[job.part].atomic

    def _same_tensors(self, before: int, after: int) -> tuple[int, ...]:
        """The first position of each tensor's name among the tensors of two kernels: it says which are the same."""
        payloads = self._payloads[before], self._payloads[after]
        names = [name for one in payloads if one is not None for name in (one.ifm, one.ifm2, one.ofm)]
        return tuple(map(names.index, names))

    def _shared(self, before: StripeJob, after: StripeJob, distance: int | None, *, before_staged: bool, staged: bool) -> int:
        before, after = self._pair(before, after, distance)
        if not (self._are_kernels[before.part] and self._are_kernels[after.part]):
            return 0
        # All facts that decide the shared cycles of two kernels, in any network.
        same = self._same(before.part, after.part)
        key = self._facts(before), self._facts(after), same, distance is not None, before_staged, staged
        found = self._cost.pairs.get(key)
        if found is None:
            found = self._cost.pairs[key] = self._together(
                before, after, reads=distance is not None, before_staged=before_staged, staged=staged
            )
        return found

    def _together(self, before: StripeJob, after: StripeJob, *, reads: bool, before_staged: bool, staged: bool) -> int:
        """Cycles that the kernels of two jobs share in their best blocks; the second one ``reads`` the first one's result."""
        coupling = self._coupled(before, after, reads=reads)
        assert coupling is not None  # noqa: S101  # both are kernels
        together = coupling.together(self._options(before, staged=before_staged), self._options(after, staged=staged))
        times = (self._cost.times(job.part, job.start, job.end) for job in (before, after))
        # The worst case is one after the other, except for a drained kernel's further responses.
        least = min(0, -further_responses(self._cost.sources, self._cost.latency))
        return max(least, self._one_by_one(*times, before_staged=before_staged, staged=staged) - together)

    def shared(self, before: StripeJob, after: StripeJob, *, before_staged: bool, staged: bool) -> int:
        """Cycles that two jobs in a row save over their times one by one, with the blocks that are best for both."""
        transfers = self._cost.transfers
        beside = transfers.shared(before, after, (before_staged, staged)) if transfers else None
        if beside is not None:
            return beside
        distance = self._distance(before, after)
        rows = before.end - before.start, after.end - after.start
        key = before.part, after.part, rows, distance, before_staged, staged
        if key not in self._known:
            self._known[key] = self._shared(before, after, distance, before_staged=before_staged, staged=staged)
        return self._known[key]
