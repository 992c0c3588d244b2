"""Neighbours: the cycles that two stripes in a row share, before anything has an address."""

from __future__ import annotations

from cascader.ethosu.block_chain import BlockOption, shared_cycles
from cascader.ethosu.network import Network, ethosu_part
from cascader.ethosu.stripe_cost import StripeCost
from cascader.ethosu.stripes import Place, stripe
from cascader.pull import StripeJob
from cascader.row_graph import RowGraph
from npu_model.accelerator import Accelerator
from npu_model.program import KernelOperation

_APART = 1 << 48
"""Bytes from one tensor to the next, in an arena where each has room for all of its rows."""


class Neighbours:
    """What pairs of jobs share; pairs of as many rows as far apart are worked out once."""

    def __init__(self, network: Network, graph: RowGraph, cost: StripeCost, accelerator: Accelerator) -> None:
        self._payloads = [ethosu_part(part) for part in network.graph.parts]
        self._graph = graph
        self._cost = cost
        self._accelerator = accelerator
        self._places = {t.name: Place(index * _APART, 1 if t.rows == 1 else _APART, t.row_bytes) for index, t in enumerate(graph.tensors)}
        self._known: dict[tuple[object, ...], int] = {}

    def _distance(self, before: StripeJob, after: StripeJob) -> int | None:
        """Rows from the first one that the second job reads of the first one's result to the first that is made; None if it reads none."""
        tensors = self._graph.parts[before.part].outputs
        read = (p.demand(after.start, after.end)[0] for tensor, p in self._graph.parts[after.part].inputs if tensor in tensors)
        return min((before.start - first for first in read), default=None)

    def _operation(self, job: StripeJob) -> KernelOperation | None:
        payload = self._payloads[job.part]
        return None if payload is None else stripe(payload, job.start, job.end, self._places)

    def _options(self, job: StripeJob, *, staged: bool) -> tuple[BlockOption, ...]:
        return self._cost.options(job.part, job.start, job.end, staged=staged)

    def _shared(self, before: StripeJob, after: StripeJob, *, before_staged: bool, staged: bool) -> int:
        first, second = self._operation(before), self._operation(after)
        if first is None or second is None:
            return 0
        ones, twos = self._options(before, staged=before_staged), self._options(after, staged=staged)
        least = min(one.cost for one in ones) + min(two.cost for two in twos)
        gains = (
            shared_cycles((first, one), (second, two), self._accelerator) - (one.cost + two.cost - least) for one in ones for two in twos
        )
        return max(0, *gains)

    def shared(self, before: StripeJob, after: StripeJob, *, before_staged: bool, staged: bool) -> int:
        """Cycles that two jobs in a row save over the fastest blocks of each, with the blocks that are best for both."""
        distance = self._distance(before, after)
        rows = before.end - before.start, after.end - after.start
        key = before.part, after.part, rows, distance, before_staged, staged
        if key not in self._known:
            self._known[key] = self._shared(before, after, before_staged=before_staged, staged=staged)
        return self._known[key]
