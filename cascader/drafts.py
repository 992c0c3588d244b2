"""Drafts: the fastest ways found to run a row graph in an arena of a given size, with addresses for tensors and copies.

The search goes from the proposals of the dynamic program, which know of copies only whether they are staged, to drafts in
which every copy has its time and place: groups are packed, what they leave free is filled with copies, and then groups and
copies are changed one at a time as long as that saves cycles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Protocol

from cascader.group_costs import CostModel
from cascader.overlap import allocate, live_bytes, placements
from cascader.plans import Plan, PlanOptions
from cascader.prefetch import Constants, JobTimes, Prefetcher, Timeline, choose_copies
from cascader.proposals import propose, smallest_limit
from cascader.pull import PullScheduler, StripeJob, schedule_groups
from cascader.regroup import Groups, divisions, neighbours
from cascader.room import Room
from cascader.storage import Storage, storages

_TRUST = (Fraction(0), Fraction(1, 2), Fraction(1))
"""How far the plans' cycles count their copies as not hidden."""
_SHARES = tuple(Fraction(percent, 100) for percent in (100, 96, 92, 88, 84, 78, 70, 60))
"""Limits for the plans of one budget, in parts of it: addresses may need more than is live, and copies need room."""
_SMALLEST_TRIES = 24
"""Limits near the smallest that are tried for the smallest arena."""
_NO_LIMIT = 1 << 60
_PARTS = 100
"""Parts of the graph for which the numbers of drafts and regroupings are given: a smaller one's are quicker, so that there are more."""
_QUICK = 10
"""How many times fewer moves a quick search for addresses has."""
_PATIENT = 30
"""How many times more moves the search for the addresses of the smallest arena has, of which there is one."""
_HOPEFUL = Fraction(4, 5)
"""What the search for addresses can at best make of a greedy one's peak; there are always other groups to go on with."""
_NEAR_SMALLEST = Fraction(5, 4)
"""Limits up to this many times the smallest may pack into the smallest arena."""


class JobCostModel(CostModel, Protocol):
    """What the device says of stripe jobs beside their cycles: how they share their constants' memory with copies."""

    def times(self, part: int, start: int, end: int) -> JobTimes:
        """Everything that a timeline asks of rows ``start`` to ``end``."""


class Overlap(Protocol):
    """What the device says of two jobs in a row."""

    def shared(self, before: StripeJob, after: StripeJob, *, before_staged: bool, staged: bool) -> int:
        """Cycles that two jobs in a row share, as the second may begin while the first one drains."""


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """How hard is searched: moves of the address search, drafts per budget that are improved, regroupings tried for each.

    ``polished`` and ``regroupings`` are those of a graph of 100 parts; of a smaller one there are more.
    ``stripe_rows`` are the rows that a group's last part may be asked for then, closer together than those of the plans.
    ``prefetch`` off issues a copy only right before the first job that uses it. Of graphs with at most ``every`` parts every
    division is tried.
    """

    moves: int = 600
    polished: int = 3
    regroupings: int = 60
    stripe_rows: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24)
    prefetch: bool = True
    every: int = 5


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """Jobs in order, the buffers of their tensors with addresses, and the bytes that these reach up to.

    ``live`` are most bytes that are live at one job.
    """

    jobs: tuple[StripeJob, ...]
    stores: tuple[Storage, ...]
    addresses: tuple[int, ...]
    peak: int
    live: int


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """Groups, their tensors with places, and the copies with theirs."""

    groups: Groups
    packing: Packing
    timeline: Timeline

    @property
    def cycles(self) -> int:
        """Cycles that are expected."""
        return self.timeline.cycles


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """A draft with what its copies were chosen from."""

    draft: Draft
    constants: Mapping[int, Constants]
    prefetcher: Prefetcher


def _finished(trial: _Trial) -> Draft:
    """The draft with the copies that are best for it."""
    start = trial.draft.timeline.staged
    return replace(trial.draft, timeline=choose_copies(trial.constants, [start], trial.prefetcher))


class Drafter:
    """Makes the drafts of one graph; what several budgets have in common is worked out once.

    ``ending[i]`` holds the plans whose last part is i.
    """

    def __init__(
        self,
        scheduler: PullScheduler,
        cost: JobCostModel,
        ending: Sequence[Sequence[Plan]],
        plans: PlanOptions,
        options: DraftOptions,
        overlap: Overlap | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._cost = cost
        self._overlap = overlap
        self._ending = ending
        self._plans = plans
        self._options = options
        self._greedy: dict[Groups, Packing] = {}
        self._searched: dict[tuple[Groups, int], Packing] = {}

    def _packed(self, groups: Groups) -> Packing:
        """The groups' tensors at the addresses that a greedy search finds."""
        jobs = schedule_groups(self._scheduler, groups)
        stores = storages(self._scheduler.graph, jobs, in_place=self._plans.in_place)
        extents = [store.extent for store in stores]
        peak, addresses = allocate(extents, moves=0)
        return Packing(jobs, stores, addresses, peak, int(live_bytes(extents, len(jobs)).max()))

    def _greedily(self, groups: Groups) -> Packing:
        if groups not in self._greedy:
            self._greedy[groups] = self._packed(groups)
        return self._greedy[groups]

    def _packing(self, groups: Groups, budget: int, moves: int) -> Packing | None:
        """The groups' tensors at addresses within ``budget``; None if none are found. A greedy search has to do if it can."""
        packing = self._greedily(groups)
        # Whether addresses are searched for depends on the budget alone, so that no answer depends on what was asked before.
        if packing.peak > budget >= packing.live and packing.peak * _HOPEFUL <= budget:
            if (groups, moves) not in self._searched:
                peak, addresses = allocate([store.extent for store in packing.stores], moves=moves)
                self._searched[groups, moves] = replace(packing, peak=peak, addresses=addresses)
            packing = self._searched[groups, moves]
        return packing if packing.peak <= budget else None

    def _constants(self, jobs: Sequence[StripeJob]) -> dict[int, Constants]:
        """The constants that could be staged, by part."""
        uses: dict[int, list[int]] = {}
        begins: dict[int, int] = {}
        segment = [part.segment for part in self._scheduler.graph.parts]
        for step, job in enumerate(jobs):
            uses.setdefault(job.part, []).append(step)
            begins.setdefault(segment[job.part], step)
        return {
            part: Constants(
                part=part,
                size=size,
                transfer=self._cost.transfer_cycles(part),
                first=at[0],
                last=at[-1],
                earliest=begins[segment[part]] if self._options.prefetch else at[0],
            )
            for part, at in uses.items()
            if (size := self._cost.constant_bytes(part))
        }

    def _trial(self, groups: Groups, staged: Iterable[frozenset[int]], budget: int, moves: int) -> _Trial | None:
        """Groups with the best of some sets of copies, or all of them; None if they do not fit."""
        packing = self._packing(groups, budget, moves)
        return None if packing is None else self._placed(groups, packing, staged, budget)

    def _placed(self, groups: Groups, packing: Packing, staged: Iterable[frozenset[int]], budget: int) -> _Trial:
        """Groups at given addresses with the best of some sets of copies, or all of them."""
        jobs, overlap = packing.jobs, self._overlap
        room = Room([store.extent for store in packing.stores], packing.addresses, len(jobs), budget)
        times, constants = [self._cost.times(job.part, job.start, job.end) for job in jobs], self._constants(jobs)
        sets = dict.fromkeys((*staged, frozenset(constants)))

        def shared(step: int, before: bool, now: bool) -> int:  # noqa: FBT001  # as every Shared
            return overlap.shared(jobs[step - 1], jobs[step], before_staged=before, staged=now) if overlap else 0

        prefetcher = Prefetcher(times, room, shared)
        timelines = (prefetcher.timeline([constants[part] for part in parts]) for parts in sets)
        return _Trial(Draft(groups, packing, min(timelines, key=lambda timeline: timeline.cycles)), constants, prefetcher)

    def _regrouped(self, best: _Trial, budget: int) -> _Trial:
        """The best that is found by changing the groups, one change after the other, round and round as long as any helps."""
        graph, rows = self._scheduler.graph, self._options.stripe_rows
        changes = list(neighbours(graph, best.draft.groups, rows))
        # There are many, so that none of them is worth a long search for addresses.
        moves = self._options.moves // _QUICK
        at = idle = 0
        for _ in range(self._options.regroupings * _PARTS // len(graph.parts)):
            if idle >= len(changes):
                break
            found = self._trial(changes[at % len(changes)], [best.draft.timeline.staged], budget, moves)
            at, idle = at + 1, idle + 1
            if found is not None and found.draft.cycles < best.draft.cycles:
                best, idle = found, 0
                changes = list(neighbours(graph, best.draft.groups, rows))
        return best

    def _proposals(self, budget: int) -> dict[Groups, list[frozenset[int]]]:
        """Groups that are worth a try under a budget, with the sets of parts that their plans stage."""
        found: dict[Groups, list[frozenset[int]]] = {}
        for share in _SHARES:
            for cold in _TRUST:
                proposal = propose(self._ending, int(budget * share), cold)
                if proposal is not None:
                    groups = tuple(plan.group for plan in proposal.plans)
                    found.setdefault(groups, []).append(frozenset(part for plan in proposal.plans for part in plan.staged))
        return found

    def _least(self, groups: Groups) -> int:
        """Cycles that no copies can save: of each job those with its constants staged, or without if these are fewer."""
        times = (self._cost.times(job.part, job.start, job.end) for job in schedule_groups(self._scheduler, groups))
        return sum(min(time.staged, time.direct - time.lead) for time in times)

    def _best_of_every(self, budget: int, cycles: int) -> Draft | None:
        """The fastest draft of less than ``cycles`` of every division and every order of its buffers; None if there is none."""
        graph = self._scheduler.graph
        order = sorted((self._least(groups), at, groups) for at, groups in enumerate(divisions(graph, self._plans.stripe_rows)))
        best = None
        for least, _, groups in order:
            if least >= cycles:
                break
            greedy = self._greedily(groups)
            for peak, addresses in placements([store.extent for store in greedy.stores], budget):
                draft = _finished(self._placed(groups, replace(greedy, peak=peak, addresses=addresses), [], budget))
                if draft.cycles < cycles:
                    best, cycles = draft, draft.cycles
        return best

    def drafts(self, budget: int) -> tuple[Draft, ...]:
        """Drafts for an arena of ``budget`` bytes, the one expected to be fastest first; none if nothing that is tried fits."""
        trials = [self._trial(groups, staged, budget, self._options.moves) for groups, staged in self._proposals(budget).items()]
        fitting = sorted((trial for trial in trials if trial is not None), key=lambda trial: trial.draft.cycles)
        drafts: dict[Groups, Draft] = {}
        for trial in fitting[: max(1, self._options.polished * _PARTS // len(self._scheduler.graph.parts))]:
            best = _finished(self._regrouped(trial, budget))
            drafts.setdefault(best.groups, best)
        if len(self._scheduler.graph.parts) <= self._options.every:
            one = self._best_of_every(budget, min((draft.cycles for draft in drafts.values()), default=_NO_LIMIT))
            drafts |= {} if one is None else {one.groups: one}
        if not drafts and self.smallest().packing.peak <= budget:
            return (self.smallest(),)
        return tuple(sorted(drafts.values(), key=lambda draft: draft.cycles))

    @cached_property
    def _smallest(self) -> Draft:
        """The draft in the smallest arena found: of plans near the least limit, as addresses may pack better there."""
        least = smallest_limit(self._ending)
        sizes = sorted({plan.memory for plans in self._ending for plan in plans if least <= plan.memory <= least * _NEAR_SMALLEST})
        tried = sizes[:: max(1, len(sizes) // _SMALLEST_TRIES)]
        proposals = dict.fromkeys(propose(self._ending, size) for size in tried)
        groups = dict.fromkeys(tuple(plan.group for plan in proposal.plans) for proposal in proposals if proposal is not None)
        budget, packings = _NO_LIMIT, {}
        for one in groups:
            packing = self._packing(one, budget, self._options.moves * _PATIENT)
            if packing is not None:
                budget, packings[one] = packing.peak, packing
        trials = (self._placed(one, packing, [], budget) for one, packing in packings.items() if packing.peak <= budget)
        return _finished(min(trials, key=lambda trial: trial.draft.cycles))

    def smallest(self) -> Draft:
        """The draft in the smallest arena found."""
        return self._smallest
