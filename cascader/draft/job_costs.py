"""Job costs: the cycles of the jobs of any groups and of their overlaps. The device is asked once for each kind of job and of pair."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from cascader.draft.group_moves import Groups
from cascader.plan.depth_first import DepthFirstScheduler, Group, JobTable, StripeJob
from cascader.plan.group_costs import TIME_FIELDS, CostModel, KnownCosts
from cascader.prefetch.copies import CASES, UNKNOWN, CostedJobs

Numbers = npt.NDArray[np.int64]
_START = 1024
"""Initial capacity for kinds of pairs."""


class Overlap(Protocol):
    """Overlap that a device states for two consecutive jobs."""

    def shared(self, before: StripeJob, after: StripeJob, *, before_staged: bool, staged: bool) -> int:
        """Cycles that two consecutive jobs share, because the second may begin while the first one drains.

        Pairs of stripes of the same parts, heights and distance (:meth:`DepthFirstScheduler.distances`) share equally many.
        """


class JobCosts:
    """Costs of the jobs of one graph; without ``overlap`` they run one after the other."""

    def __init__(self, scheduler: DepthFirstScheduler, cost: CostModel, overlap: Overlap | None) -> None:
        self._scheduler = scheduler
        self._stripes = KnownCosts(cost, [part.rows for part in scheduler.graph.parts])
        self._overlap = overlap
        self._pair_numbers: dict[tuple[int | None, ...], int] = {}
        self._examples: list[tuple[StripeJob, StripeJob]] = []
        """A pair of each kind."""
        self._shared = None if overlap is None else self._stated
        self._pair_costs = np.full((_START, CASES), UNKNOWN, dtype=np.int64)
        self.kinds_and_pairs = cache(self._kinds_and_pairs)
        self._border = cache(self._between)

    def _pair(self, before: list[int], after: list[int], distance: int | None) -> int:
        key = before[0], before[2] - before[1], after[0], after[2] - after[1], distance
        if key not in self._pair_numbers:
            self._pair_numbers[key] = len(self._pair_numbers)
            self._examples.append((StripeJob(*before), StripeJob(*after)))
            if len(self._pair_numbers) > len(self._pair_costs):
                self._pair_costs = np.concatenate([self._pair_costs, np.full_like(self._pair_costs, UNKNOWN)])
        return self._pair_numbers[key]

    def _pairs(self, jobs: JobTable) -> list[int]:
        """The kinds of pairs of consecutive jobs, after the first job."""
        lines, distances = jobs.tolist(), self._scheduler.distances(jobs)
        return [self._pair(lines[at - 1], lines[at], distances[at]) for at in range(1, len(lines))]

    def _kinds_and_pairs(self, group: Group) -> tuple[Numbers, Numbers]:
        """The kinds of a group's jobs, and of each job with its predecessor; 0 for the first one."""
        jobs = self._scheduler.table(group)
        pairs = np.array([0, *self._pairs(jobs)] if self._overlap else np.zeros(len(jobs)), dtype=np.int64)
        return self._stripes.lines(jobs), pairs

    def _between(self, before: Group, after: Group) -> int:
        """The kind of the pair at a border: the last job of a group and the first one of the next."""
        ends = np.concatenate([self._scheduler.table(before)[-1:], self._scheduler.table(after)[:1]])
        return self._pairs(ends)[0]

    def borders(self, groups: Groups) -> list[int]:
        """The kinds of the pairs at the borders of groups; empty if no two jobs share cycles."""
        return [self._border(before, after) for before, after in pairwise(groups)] if self._overlap else []

    def of(self, parts: Numbers, kinds: Numbers, pairs: Numbers) -> CostedJobs:
        """Jobs with their costs, given the parts, the kinds of the jobs and the kinds of the pairs."""
        return CostedJobs(parts, kinds, self._stripes.times, pairs, self._pair_costs, self._shared)

    def asked(self) -> tuple[Numbers, Numbers, Callable[[int, int, int], int] | None]:
        """The times of all kinds of jobs, the shared cycles of pairs, and the function that states a kind of pairs; see :meth:`of`."""
        return self._stripes.times, self._pair_costs, self._shared

    def least(self, groups: Groups) -> int:
        """Cycles that no copies can save: for each job the fewer of those with its constants staged and without."""
        known = [self.kinds_and_pairs(group)[0] for group in groups]
        times = {name: self._stripes.times[:, at] for at, name in enumerate(TIME_FIELDS)}
        each = np.minimum(times["staged"] - times["staged_lead"], times["direct"] - times["lead"])
        each -= self._stripes.hidden
        return int(sum(each[kinds].sum() for kinds in known))

    def costed(self, groups: Groups, jobs: JobTable) -> CostedJobs:
        """All jobs of the groups in a table, with their costs."""
        known = [self.kinds_and_pairs(group) for group in groups]
        pairs = np.concatenate([within for _, within in known])
        if self._overlap:
            begins = np.cumsum([len(kinds) for kinds, _ in known[:-1]], dtype=np.int64)
            pairs[begins] = self.borders(groups)
        kinds = np.concatenate([kinds for kinds, _ in known])
        return self.of(jobs[:, 0].copy(), kinds, pairs)

    def _stated(self, pair: int, before: int, now: int) -> int:
        """Answers of the device on a kind of pairs."""
        assert self._overlap is not None  # noqa: S101  # nobody asks without one
        return self._overlap.shared(*self._examples[pair], before_staged=bool(before), staged=bool(now))
