"""Trials: groups at given addresses, with the copies that fill what their tensors leave free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cascader.plan.depth_first import PullScheduler
from cascader.prefetch.free_space import Room
from cascader.prefetch.timeline import Constants, Prefetcher, Timeline, choose_copies
from cascader.search.job_costs import JobCostModel, Overlap, Pace
from cascader.search.local_moves import Groups
from cascader.search.placement import Packing


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
class Trial:
    """A draft with what its copies were chosen from, and the ways to place them, of which the first one made it."""

    draft: Draft
    constants: Mapping[int, Constants]
    prefetchers: tuple[Prefetcher, ...]

    @property
    def cycles(self) -> int:
        """Cycles that are expected."""
        return self.draft.cycles

    def finished(self) -> Draft:
        """The draft with the copies that are best for it, placed in another way if that is better to begin with."""
        best = choose_copies(self.constants, [self.draft.timeline.staged], self.prefetchers[0])
        for prefetcher in self.prefetchers[1:]:
            if prefetcher.timeline([self.constants[part] for part in best.staged]).cycles < best.cycles:
                best = choose_copies(self.constants, [best.staged], prefetcher)
        return replace(self.draft, timeline=best)


class Placer:
    """Makes the trials of one graph.

    With ``prefetch`` off a copy is issued only right before the first job that uses it, with ``ends`` off none is put as high as it goes.
    """

    def __init__(self, scheduler: PullScheduler, cost: JobCostModel, overlap: Overlap | None, *, prefetch: bool, ends: bool) -> None:
        self._cost = cost
        self._segments = [part.segment for part in scheduler.graph.parts]
        self._pace = Pace(scheduler, cost, overlap)
        self._prefetch = prefetch
        self._ends = (False, True) if ends else (False,)

    def _constants(self, packing: Packing) -> dict[int, Constants]:
        """The constants that could be staged, by part."""
        uses: dict[int, list[int]] = {}
        begins: dict[int, int] = {}
        for step, job in enumerate(packing.jobs):
            uses.setdefault(job.part, []).append(step)
            begins.setdefault(self._segments[job.part], step)
        return {
            part: Constants(
                part=part,
                size=size,
                transfer=self._cost.transfer_cycles(part),
                first=at[0],
                last=at[-1],
                earliest=begins[self._segments[part]] if self._prefetch else at[0],
            )
            for part, at in uses.items()
            if (size := self._cost.constant_bytes(part))
        }

    def trial(self, groups: Groups, packing: Packing, staged: Iterable[frozenset[int]], budget: int) -> Trial:
        """Groups at given addresses with the best of some sets of copies, or all of them."""
        room, constants = Room(packing.extents, packing.addresses, len(packing.jobs), budget), self._constants(packing)
        times, shared = self._pace.times(groups), self._pace.shared(groups)
        prefetchers = tuple(Prefetcher(times, room, shared, ends=ends) for ends in self._ends)
        sets = dict.fromkeys((*staged, frozenset(constants)))
        timelines = (prefetchers[0].timeline([constants[part] for part in parts]) for parts in sets)
        return Trial(Draft(groups, packing, min(timelines, key=lambda timeline: timeline.cycles)), constants, prefetchers)

    def least(self, groups: Groups) -> int:
        """Cycles that no copies can save: of each job those with its constants staged, or without if these are fewer."""
        return sum(min(time.staged - time.staged_lead, time.direct - time.lead) for time in self._pace.times(groups))
