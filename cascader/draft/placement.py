"""Placement: addresses for the tensors of some groups, found by a greedy search or a longer one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from cascader.allocate.moving import allocate, placements
from cascader.allocate.resting import resting
from cascader.draft.draft import ADDRESS, PLACE, Draft, lines
from cascader.draft.group_moves import Groups
from cascader.draft.outline import GroupOutline, Outlines
from cascader.plan.buffers import Buffers, buffers
from cascader.plan.depth_first import DepthFirstScheduler, JobTable, group_table

_SEARCHES = 6
"""Number of groups, those with the fewest live bytes, whose addresses are searched for the smallest arena."""

_EVERY_ORDER = 6
"""Number of buffers that are placed in every order: at most 720 orders."""

Addresses = tuple[int, ...]
"""The address of each buffer of some groups."""


class Placement:
    """Places the groups of one graph, each once, with the bytes that their buffers reach. ``in_place`` as in :mod:`cascader.plan.buffers`.

    ``homes`` are the addresses of tensors outside the arena, 0 of all others.
    """

    def __init__(self, scheduler: DepthFirstScheduler, *, in_place: bool, homes: Sequence[int] = ()) -> None:
        self._scheduler = scheduler
        self.in_place = in_place
        self._outlines = Outlines(scheduler.graph, homes)
        self.stored = cache(self._stored)
        self.outline = cache(self._outline)
        self.greedily = cache(self._greedily)
        self.searched = cache(self._searched)

    def _stored(self, groups: Groups) -> tuple[JobTable, Buffers]:
        """The jobs of some groups, and the buffers of their tensors."""
        jobs = group_table(self._scheduler, groups)
        return jobs, buffers(self._scheduler, jobs, groups, in_place=self.in_place)

    def _outline(self, groups: Groups) -> GroupOutline:
        """Everything of a draft that its groups decide."""
        return self._outlines.of(groups, *self.stored(groups))

    def live(self, groups: Groups) -> int:
        """Most bytes that are live during one job."""
        return self.stored(groups)[1].live

    def reached(self, groups: Groups, below: int, moves: int) -> tuple[int, int]:
        """The live bytes, and the bytes that searched addresses reach: these too are the live bytes if those are not ``below`` that many.

        Keeps no buffers, because a walk asks for hundreds of groups once.
        """
        found = self._stored(groups)[1]
        return found.live, allocate(found.extents, moves=moves)[0] if found.live < below else found.live

    def _greedily(self, groups: Groups) -> tuple[int, Addresses]:
        """The bytes that a greedy search needs, and its addresses."""
        return allocate(self.stored(groups)[1].extents, moves=0)

    def within(self, budget: int, groups: Groups, moves: int) -> Addresses | None:
        """Addresses within ``budget``: a greedy search's if they fit; None if none are found."""
        peak, addresses = self.greedily(groups)
        # Whether addresses are searched for depends on the budget alone, so that no answer depends on earlier requests.
        if peak > budget >= self.live(groups):
            peak, addresses = self.searched(groups, moves)
        return addresses if peak <= budget else None

    def _searched(self, groups: Groups, moves: int) -> tuple[int, Addresses]:
        """The fewest bytes that a number of moves finds, and the addresses."""
        return allocate(self.stored(groups)[1].extents, moves=moves)

    def every_order(self, groups: Groups, budget: int) -> Iterable[Addresses]:
        """The addresses within ``budget`` of first fit over every order of the buffers; none if there are many buffers."""
        extents = self.stored(groups)[1].extents
        return (addresses for _, addresses in placements(extents, budget)) if len(extents) <= _EVERY_ORDER else ()

    def at_peak(self, groups: Groups, moves: int) -> frozenset[int]:
        """The parts (indices) that use the buffers at the peak of the searched addresses, or buffers below them."""
        found, graph = self.stored(groups)[1], self._scheduler.graph
        tensors = {tensor for buffer in resting(found.extents, self.searched(groups, moves)[1]) for tensor in found.tensors[buffer]}
        used = ((number, {*part.outputs, *(tensor for tensor, _ in part.inputs)}) for number, part in enumerate(graph.parts))
        return frozenset(number for number, some in used if tensors & some)

    def addresses(self, draft: Draft) -> Addresses:
        """The addresses of the buffers of a draft."""
        outline = self.outline(draft.part_groups)
        found = [0] * len(self.stored(draft.part_groups)[1].heights)
        for store, address in zip(outline.stores.tolist(), lines(draft.places, PLACE)[outline.tensors, ADDRESS].tolist(), strict=True):
            found[store] = address
        return tuple(found)

    def smallest(self, choices: Sequence[Groups], moves: int) -> dict[Groups, tuple[int, Addresses]]:
        """The choices of groups that pack into the fewest bytes. Addresses are searched only for choices with few live bytes."""
        found = {groups: self.greedily(groups) for groups in choices}
        least = min(peak for peak, _ in found.values())
        for groups in sorted(found, key=self.live)[:_SEARCHES]:
            if self.live(groups) < least:
                found[groups] = self.searched(groups, moves)
                least = min(least, found[groups][0])
        return {groups: placed for groups, placed in found.items() if placed[0] == least}
