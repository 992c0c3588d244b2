"""Pace: the cycles of the jobs of any groups and what neighbours share, asked of the device once for each group and border."""

from __future__ import annotations

from itertools import chain
from typing import Protocol

from cascader.plan.depth_first import Group, PullScheduler, StripeJob, schedule_groups
from cascader.plan.group_costs import CostModel
from cascader.prefetch.timeline import JobTimes, Shared, nothing_shared
from cascader.search.local_moves import Groups

_Known = dict[tuple[bool, bool], int]
"""What two jobs in a row share, by whether each of them is staged, as far as it was asked for."""


class JobCostModel(CostModel, Protocol):
    """What the device says of stripe jobs beside their cycles: how they share their constants' memory with copies."""

    def times(self, part: int, start: int, end: int) -> JobTimes:
        """Everything that a timeline asks of rows ``start`` to ``end``."""


class Overlap(Protocol):
    """What the device says of two jobs in a row."""

    def shared(self, before: StripeJob, after: StripeJob, *, before_staged: bool, staged: bool) -> int:
        """Cycles that two jobs in a row share, as the second may begin while the first one drains."""


class Pace:
    """What a device says of the jobs of one graph; without ``overlap`` they run one after the other."""

    def __init__(self, scheduler: PullScheduler, cost: JobCostModel, overlap: Overlap | None) -> None:
        self._scheduler = scheduler
        self._cost = cost
        self._overlap = overlap
        self._times: dict[Group, list[JobTimes]] = {}
        self._within: dict[Group, list[_Known]] = {}
        self._between: dict[tuple[Group, Group], _Known] = {}

    def times(self, groups: Groups) -> list[JobTimes]:
        """The times of all jobs of the groups, in order."""
        for group in groups:
            if group not in self._times:
                self._times[group] = [self._cost.times(job.part, job.start, job.end) for job in self._scheduler.jobs(group)]
        return list(chain.from_iterable(self._times[group] for group in groups))

    def _pairs(self, groups: Groups) -> list[_Known]:
        """What is known of each job of the groups and the one before; of the first one it is never asked for."""
        pairs: list[_Known] = []
        for at, group in enumerate(groups):
            if group not in self._within:
                self._within[group] = [{} for _ in self._scheduler.jobs(group)[1:]]
            pairs.append(self._between.setdefault((groups[at - 1], group), {}))
            pairs += self._within[group]
        return pairs

    def shared(self, groups: Groups) -> Shared:
        """What neighbours among all jobs of the groups share."""
        overlap = self._overlap
        if overlap is None:
            return nothing_shared
        jobs, pairs = schedule_groups(self._scheduler, groups), self._pairs(groups)

        def shared(step: int, before: bool, now: bool) -> int:  # noqa: FBT001  # as every Shared
            known, case = pairs[step], (before, now)
            if case not in known:
                known[case] = overlap.shared(jobs[step - 1], jobs[step], before_staged=before, staged=now)
            return known[case]

        return shared
