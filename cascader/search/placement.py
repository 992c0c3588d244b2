"""Placement: the jobs of groups, with addresses for their tensors that are found by a greedy search or a longer one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from cascader.allocate.extents import Extents
from cascader.allocate.moving import allocate
from cascader.plan.buffers import Buffers, buffers
from cascader.plan.depth_first import JobTable, PullScheduler, group_table
from cascader.search.local_moves import Groups

_HOPEFUL = Fraction(4, 5)
"""What the search for addresses can at best make of a greedy one's peak; there are always other groups to go on with."""

_SEARCHES = 6
"""Groups, those of fewest live bytes, whose addresses are searched for to find the smallest arena."""


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """Jobs in order, the buffers of their tensors with addresses, and the bytes that these reach up to.

    ``live`` are most bytes that are live at one job.
    """

    jobs: JobTable
    stores: Buffers
    addresses: tuple[int, ...]
    peak: int
    live: int

    @property
    def extents(self) -> Extents:
        """The live bytes of the buffers."""
        return self.stores.extents


class Packer:
    """Packs the groups of one graph, those of each set of groups once; ``in_place`` as in :func:`cascader.plan.buffers.storages`."""

    def __init__(self, scheduler: PullScheduler, *, in_place: bool) -> None:
        self._scheduler = scheduler
        self._in_place = in_place
        self._greedy: dict[Groups, Packing] = {}
        self._searched: dict[tuple[Groups, int], Packing] = {}

    def _packed(self, groups: Groups) -> Packing:
        jobs = group_table(self._scheduler, groups)
        stores = buffers(self._scheduler, jobs, groups, in_place=self._in_place)
        peak, addresses = allocate(stores.extents, moves=0)
        return Packing(jobs, stores, addresses, peak, stores.live)

    def greedily(self, groups: Groups) -> Packing:
        """The groups' tensors at the addresses that a greedy search finds."""
        if groups not in self._greedy:
            self._greedy[groups] = self._packed(groups)
        return self._greedy[groups]

    def within(self, budget: int, groups: Groups, moves: int) -> Packing | None:
        """The groups' tensors at addresses within ``budget``; None if none are found. A greedy search has to do if it can."""
        packing = self.greedily(groups)
        # Whether addresses are searched for depends on the budget alone, so that no answer depends on what was asked before.
        if packing.peak > budget >= packing.live and packing.peak * _HOPEFUL <= budget:
            packing = self.searched(groups, moves)
        return packing if packing.peak <= budget else None

    def searched(self, groups: Groups, moves: int) -> Packing:
        """The groups' tensors at the lowest addresses that so many moves find."""
        if (groups, moves) not in self._searched:
            packing = self.greedily(groups)
            peak, addresses = allocate(packing.extents, moves=moves)
            self._searched[groups, moves] = replace(packing, peak=peak, addresses=addresses)
        return self._searched[groups, moves]

    def smallest(self, choices: Sequence[Groups], moves: int) -> dict[Groups, Packing]:
        """Those of some groups that pack into the least bytes; for each that may need fewer than the rest addresses are searched for."""
        found = {groups: self.greedily(groups) for groups in choices}
        least = min(packing.peak for packing in found.values())
        for groups, packing in sorted(found.items(), key=lambda item: item[1].live)[:_SEARCHES]:
            if packing.live < least:
                found[groups] = self.searched(groups, moves)
                least = min(least, found[groups].peak)
        return {groups: packing for groups, packing in found.items() if packing.peak == least}
