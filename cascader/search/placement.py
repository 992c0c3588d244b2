"""Placement: the jobs of groups, with addresses for their tensors that are found by a greedy search or a longer one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from cascader.allocate.extents import Extents
from cascader.allocate.moving import allocate
from cascader.plan.buffers import Buffers, buffers
from cascader.plan.depth_first import DepthFirstScheduler, JobTable, group_table
from cascader.search.local_moves import Groups

_SEARCHES = 6
"""Groups, those of fewest live bytes, whose addresses are searched for to find the smallest arena."""


class Placement(Struct, frozen=True, eq=False):
    """Jobs in order, the buffers of their tensors with their addresses, and the ``peak`` in bytes that the buffers reach."""

    jobs: JobTable
    stores: Buffers
    addresses: tuple[int, ...]
    peak: int

    @property
    def live(self) -> int:
        """Most bytes that are live at one job."""
        return self.stores.live

    @property
    def extents(self) -> Extents:
        """The live bytes of the buffers."""
        return self.stores.extents


class PlacementSearch:
    """Addresses for the groups of one graph, found once for each set; ``in_place`` as in :func:`cascader.plan.buffers.storages`."""

    def __init__(self, scheduler: DepthFirstScheduler, *, in_place: bool) -> None:
        self._scheduler = scheduler
        self.in_place = in_place
        self.greedily = cache(self._greedily)
        self.searched = cache(self._searched)

    def _greedily(self, groups: Groups) -> Placement:
        """The groups' tensors at the addresses that a greedy search finds."""
        jobs = group_table(self._scheduler, groups)
        stores = buffers(self._scheduler, jobs, groups, in_place=self.in_place)
        peak, addresses = allocate(stores.extents, moves=0)
        return Placement(jobs, stores, addresses, peak)

    def within(self, budget: int, groups: Groups, moves: int) -> Placement | None:
        """The groups' tensors at addresses within ``budget``, a greedy search's if they fit; None if none are found."""
        placement = self.greedily(groups)
        # Whether addresses are searched for depends on the budget alone, so that no answer depends on what was asked before.
        if placement.peak > budget >= placement.live:
            placement = self.searched(groups, moves)
        return placement if placement.peak <= budget else None

    def _searched(self, groups: Groups, moves: int) -> Placement:
        """The groups' tensors at the lowest addresses that so many moves find."""
        placement = self.greedily(groups)
        peak, addresses = allocate(placement.extents, moves=moves)
        return replace(placement, peak=peak, addresses=addresses)

    def smallest(self, choices: Sequence[Groups], moves: int) -> dict[Groups, Placement]:
        """The choices of groups that pack into the fewest bytes. Those of few live bytes have their addresses searched for."""
        found = {groups: self.greedily(groups) for groups in choices}
        least = min(placement.peak for placement in found.values())
        for groups, placement in sorted(found.items(), key=lambda item: item[1].live)[:_SEARCHES]:
            if placement.live < least:
                found[groups] = self.searched(groups, moves)
                least = min(least, found[groups].peak)
        return {groups: placement for groups, placement in found.items() if placement.peak == least}
