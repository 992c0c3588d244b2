"""The divisions of a form that an exhaustive search examines: all groups of consecutive parts, in all their possible rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from cascader.draft.group_moves import Groups
from cascader.ethosu.cascade import Cascader
from cascader.plan.depth_first import Group, StripeJob, stripe_jobs
from cascader.plan.group_bytes import group_bytes


class Divisions:
    """The groups of one form, and the divisions of its parts into groups.

    A group of several parts is asked for each number of rows that the search's plans or its changes know, or that any part has, with each
    bound for the rows of its inner parts and without one. Among groups with the same jobs the first counts. A group does not count if its
    jobs are the jobs of smaller groups one after the other.
    """

    def __init__(self, plans: Cascader) -> None:
        self._plans = plans
        self._graph = plans.graph
        options = plans.options
        # A group that the search joins or moves may be asked for the rows of a part at which it no longer ends.
        self._rows = sorted({*options.plans.stripe_rows, *options.drafts.stripe_rows, *(part.rows for part in self._graph.parts)})
        self._inner = (0, *sorted({*options.plans.inner_rows, *options.drafts.inner_rows} - {0}))
        self.groups = cache(self._groups)
        self.jobs = cache(self._jobs)
        self.between = cache(self._between)
        self.least_bytes = cache(self._least_bytes)
        self.count = cache(self._count)

    def _groups(self, first: int) -> tuple[Group, ...]:
        """The groups that begin with a part."""
        return tuple(group for last in self._lasts(first) for group in self.between(first, last) if not self._falls_apart(group))

    def _falls_apart(self, group: Group) -> bool:
        """Whether a group's jobs are those of two smaller groups, one after the other."""
        jobs = self.jobs(group)
        for cut in range(group.first + 1, group.last + 1):
            at = next(number for number, job in enumerate(jobs) if job.part >= cut)
            if all(job.part >= cut for job in jobs[at:]):
                halves = (group.first, cut - 1, jobs[:at]), (cut, group.last, jobs[at:])
                if all(any(self.jobs(one) == some for one in self.between(first, last)) for first, last, some in halves):
                    return True
        return False

    def _lasts(self, first: int) -> Iterator[int]:
        parts = self._graph.parts
        longest = self._plans.options.plans.group_length if self._plans.options.plans.cascade else 1
        for last in range(first, min(first + longest, len(parts))):
            if parts[last].segment != parts[first].segment:
                return
            yield last

    def _between(self, first: int, last: int) -> tuple[Group, ...]:
        return tuple(self._made(first, last))

    def _made(self, first: int, last: int) -> Iterator[Group]:
        part = self._graph.parts[last]
        if first == last:
            yield Group(first, last, part.rows)
            return
        choices = self._rows if part.atomic else sorted({min(rows, part.rows) for rows in self._rows})
        known = set()
        for rows in choices:
            for inner in self._inner:
                group = Group(first, last, rows, inner)
                jobs = self._plans.scheduler.table(group).tobytes()
                if jobs not in known:
                    known.add(jobs)
                    yield group

    def _jobs(self, group: Group) -> tuple[StripeJob, ...]:
        return stripe_jobs(self._plans.scheduler.table(group))

    def _least_bytes(self, group: Group) -> int:
        """The least bytes that are live at some job of a group, for any neighbouring groups."""
        return group_bytes(self._plans.scheduler, group, in_place=self._plans.options.plans.in_place)

    def _count(self, first: int) -> int:
        """The number of divisions of the parts from ``first`` on."""
        return sum(self.count(group.last + 1) for group in self.groups(first)) if first < len(self._graph.parts) else 1

    def least_of_all(self) -> int:
        """Bytes that every division holds at one job at least: the least over all divisions of their largest group."""
        count = len(self._graph.parts)
        least = [0] * (count + 1)
        for first in range(count - 1, -1, -1):
            # A group that falls apart holds the bytes of its smaller groups, so it needs no entry of its own here.
            groups = (group for last in self._lasts(first) for group in self.between(first, last))
            least[first] = min(max(self.least_bytes(group), least[group.last + 1]) for group in groups)
        return least[0]

    def all_groups(self, first: int = 0) -> Iterator[Groups]:
        """Every division of the parts from ``first`` on."""
        if first == len(self._graph.parts):
            yield ()
            return
        for group in self.groups(first):
            for rest in self.all_groups(group.last + 1):
                yield (group, *rest)
