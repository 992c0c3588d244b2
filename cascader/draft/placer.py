"""The placer: drafts of groups at given addresses, with copies in the bytes that their tensors leave free."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import accumulate
from operator import itemgetter

import numpy as np
from msgspec.structs import replace

from cascader.allocate.extents import NO_EXTENTS
from cascader.draft.draft import COPY, Draft, lines
from cascader.draft.group_moves import Groups
from cascader.draft.job_costs import JobCosts, Overlap
from cascader.draft.placement import Addresses, Placement
from cascader.plan.depth_first import DepthFirstScheduler, Group, JobTable, group_table
from cascader.plan.group_costs import CostModel
from cascader.prefetch.copies import NO_LIMIT, CopyEffort, CopySearch, CopyTable, CostedJobs
from cascader.prefetch.free_space import most_units
from cascader.prefetch.timeline import Constants, Timeline
from npu_model.native import native
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up

SEARCH = -2
"""Stands for the cycles of groups that a greedy search does not place."""
_NATIVE = native("cascader")


_FEW = 64
"""Number of sets of copies and of budgets that are cached in the compiled core's form. Changes of one draft share them."""


def _terms(budget: int, in_place: bool) -> array[int]:  # noqa: FBT001  # a cache knows arguments by their places
    """The budget (bytes) of a trial and the terms of its search, in the compiled core's form."""
    return array("q", (budget, ALIGNMENT, most_units(budget, patient=False), in_place))


class Placer:
    """Makes the drafts of one graph.

    Without ``prefetch``, a copy is issued only right before its first job; without ``ends``, no copy is placed as high as possible.
    """

    def __init__(  # what drafts are made of, and two switches
        self,
        scheduler: DepthFirstScheduler,
        placement: Placement,
        cost: CostModel,
        overlap: Overlap | None,
        *,
        prefetch: bool,
        ends: bool,
    ) -> None:
        self._scheduler = scheduler
        self._placement = placement
        parts = range(len(scheduler.graph.parts))
        self._costs = JobCosts(scheduler, cost, overlap)
        self._segments = [part.segment for part in scheduler.graph.parts]
        self._constants_of, self._flat = cache(self._group_constants), cache(self._group_numbers)
        self._marked, self._how = lru_cache(_FEW)(self._marks), lru_cache(_FEW)(_terms)
        self._sizes = [cost.constant_bytes(part) for part in parts]
        self._transfers = [cost.transfer_cycles(part) if size else 0 for part, size in zip(parts, self._sizes, strict=True)]
        self._same = np.array([cost.same_constants(part) for part in parts], dtype=np.int64)
        self._ways = (False, True) if any(self._same != np.arange(len(parts))) else (False,)
        self._prefetch = prefetch
        self.copy_effort = CopyEffort.ENDS if ends else CopyEffort.LOW
        """Effort of a search for copies that improves them."""

    @property
    def shares(self) -> bool:
        """Whether parts have equal constants, so that a copy may serve several."""
        return len(self._ways) > 1

    def same_constants(self, part: int) -> int:
        """The first part with the same constants."""
        return int(self._same[part])

    def draft(self, groups: Groups, addresses: Addresses, timeline: Timeline, *, shares: bool) -> Draft:
        """The draft of some groups with the copies of a timeline."""
        found, end = list[tuple[int, ...]](), 0
        for issue in timeline.issues:
            part = issue.constants.part
            others = np.flatnonzero(self._same == part).tolist() if shares else ()
            found += [(issue.step, issue.address, part, reader) for reader in dict.fromkeys((part, *others))]
            end = max(end, issue.address + issue.constants.size)
        copies = np.array(found, dtype=np.int64).reshape(-1, COPY)
        return self._placement.outline(groups).draft(addresses, copies, end, timeline.cycles, shares=shares)

    def _group_constants(self, group: Group) -> CopyTable:
        """Like :meth:`constants` for one group alone, without sharing."""
        used = self._scheduler.table(group)[:, 0].tolist()
        lasts = {part: step for step, part in enumerate(used)}
        firsts = {part: len(used) - 1 - step for step, part in enumerate(reversed(used))}
        lines = [
            (part, size, self._transfers[part], first, lasts[part], 0 if self._prefetch else first)
            for part, first in sorted(firsts.items(), key=itemgetter(1))
            if (size := self._sizes[part]) > 0
        ]
        return np.array(lines, dtype=np.int64).reshape(-1, len(Constants._fields))

    def constants(self, groups: Groups, *, shares: bool = False) -> CopyTable:
        """The constants that could be staged, in the order of their first use. A copy never comes before the jobs of its segment."""
        tables = [self._constants_of(group) for group in groups]
        counts, lengths = [len(table) for table in tables], [len(self._scheduler.table(group)) for group in groups]
        begins = [0, *accumulate(lengths[:-1])]
        earliest = begins
        if self._prefetch:
            segments = [self._segments[group.first] for group in groups]
            first = dict(zip(reversed(segments), reversed(begins), strict=True))
            earliest = [first[segment] for segment in segments]
        lines = np.concatenate(tables)
        lines[:, 3:5] += np.repeat(begins, counts)[:, None]
        lines[:, 5] += np.repeat(earliest, counts)
        return self._shared(lines) if shares else lines

    def _shared(self, lines: CopyTable) -> CopyTable:
        """One line for all parts with the same constants: from their first use to their last."""
        _, firsts, numbers = np.unique(self._same[lines[:, 0]], return_index=True, return_inverse=True)
        lasts = np.zeros(len(firsts), dtype=np.int64)
        np.maximum.at(lasts, numbers.reshape(len(lines)), lines[:, 4])
        found = lines[firsts]
        found[:, 0], found[:, 4] = self._same[found[:, 0]], lasts
        return np.ascontiguousarray(found[np.argsort(found[:, 3], kind="stable")])

    def search(self, groups: Groups, budget: int, *, shares: bool = False) -> CopySearch:
        """The search for copies next to the groups, with their buffers at any addresses."""
        table, stores = self._placement.stored(groups)
        if _NATIVE is not None and not shares:
            jobs, constants = self._joined(groups)
        else:
            jobs, constants = self.joined_in_python(groups, table)
        if shares:
            jobs, constants = replace(jobs, parts=self._same[jobs.parts]), self._shared(constants)
        return CopySearch(jobs, constants, stores.extents, budget)

    def joined_in_python(self, groups: Groups, jobs: JobTable) -> tuple[CostedJobs, CopyTable]:
        """The jobs of the groups in a table with their costs, and the constants that could be staged."""
        return self._costs.costed(groups, jobs), self.constants(groups)

    def _joined(self, groups: Groups) -> tuple[CostedJobs, CopyTable]:
        """Like :meth:`joined_in_python`, compiled."""
        assert _NATIVE is not None  # noqa: S101  # whoever calls knows
        raw = np.frombuffer(_NATIVE.joined(*self._beside(groups)), dtype=np.int64)
        count = int(raw[0])
        parts, kinds, pairs = raw[2 : 2 + 3 * count].reshape(3, count)
        return self._costs.of(parts, kinds, pairs), raw[2 + 3 * count :].reshape(-1, len(Constants._fields))

    def _beside(self, groups: Groups) -> tuple[list[array[int]], array[int], array[int]]:
        """Each group, the pairs at their borders, and their segments, as the compiled core takes them."""
        segments = [self._segments[group.first] for group in groups] if self._prefetch else []
        return list(map(self._flat, groups)), array("q", self._costs.borders(groups)), array("q", segments)

    def _group_numbers(self, group: Group) -> array[int]:
        """The numbers of a group's jobs and constants, as the compiled core reads them."""
        kinds, pairs = self._costs.kinds_and_pairs(group)
        table, lines = self._scheduler.table(group), self._constants_of(group)
        flat = array("q", (len(table), len(lines), group.first, group.last))
        for column in (table[:, 0], kinds, pairs, table[:, 1], table[:, 2], lines):
            flat.frombytes(column.tobytes())
        return flat

    def tried(self, groups: Groups, staged: frozenset[int], budget: int) -> int:
        """The cycles of the :meth:`trial` of groups that a greedy search places, compiled; no copy serves several parts.

        :data:`~cascader.prefetch.copies.NO_LIMIT` if more than ``budget`` bytes are live, :data:`SEARCH` if addresses are to be searched
        for.
        """
        assert _NATIVE is not None  # noqa: S101  # whoever calls knows
        known, borders, segments = self._beside(groups)
        kinds, pair_costs, shared = self._costs.asked()
        marked, how = self._marked(staged), self._how(budget, self._placement.in_place)
        return int(_NATIVE.trial(known, self._scheduler.flat, borders, segments, marked, kinds, how, pair_costs, shared))

    def _marks(self, staged: frozenset[int]) -> array[int]:
        """A mark for each part that says whether its constants are copied."""
        return array("q", [part in staged for part in range(len(self._segments))])

    def trial(
        self, groups: Groups, addresses: Addresses, staged: Iterable[frozenset[int]], budget: int, below: int = NO_LIMIT
    ) -> Draft | None:
        """Groups at given addresses with the best of some sets of copies, or all of them; None if it takes ``below`` cycles or more."""
        found = self._best(groups, addresses, staged, budget, below)
        return found and self.draft(groups, addresses, found[0], shares=found[1])

    def fastest(self, proposed: Iterable[tuple[Groups, Addresses, Iterable[frozenset[int]]]], budget: int, most: int) -> list[Draft]:
        """The :meth:`trial` of some groups: at most ``count`` of the fastest."""
        tried = [(groups, addresses, self._best(groups, addresses, staged, budget)) for groups, addresses, staged in proposed]
        found = [(groups, addresses, best[0], best[1]) for groups, addresses, best in tried if best is not None]
        ordered = sorted(found, key=lambda one: one[2].cycles)[:most]
        return [self.draft(groups, addresses, timeline, shares=shares) for groups, addresses, timeline, shares in ordered]

    def _best(
        self, groups: Groups, addresses: Addresses, staged: Iterable[frozenset[int]], budget: int, below: int = NO_LIMIT
    ) -> tuple[Timeline, bool] | None:
        """The timeline of a :meth:`trial`, and whether its copies serve all parts with the same constants."""
        some, best = list(staged), None
        for shares in self._ways:
            search = self.search(groups, budget, shares=shares)
            asked = [frozenset(int(self._same[part]) for part in parts) for parts in some] if shares else some
            sets = dict.fromkeys((*asked, search.every))
            timeline = search.best(addresses, list(sets), below=best[0].cycles if best else below)
            best = (timeline, shares) if timeline else best
        return best

    def whole(
        self, groups: Groups, addresses: Addresses, staged: Iterable[frozenset[int]], budget: int, *, patient: bool = False
    ) -> Draft | None:
        """A :meth:`trial` that is :meth:`finished`; ``patient`` also places its copies in other ways."""
        found = self._best(groups, addresses, staged, budget)
        if found is None:
            return None
        search = self.search(groups, budget, shares=found[1])
        improved = self._improved(search, addresses, found[0].staged, found[0].cycles, patient=patient)
        return self.draft(groups, addresses, improved or found[0], shares=found[1])

    def finished(self, draft: Draft, budget: int) -> Draft:
        """The draft with its best copies. They are placed in another way, too, if that is better at the start."""
        groups, addresses = draft.part_groups, self._placement.addresses(draft)
        search = self.search(groups, budget, shares=draft.shares)
        found = self._improved(search, addresses, draft.copied, draft.cycles, patient=False)
        return draft if found is None else self.draft(groups, addresses, found, shares=draft.shares)

    def expected(self, draft: Draft) -> int:
        """Cycles of a draft with exactly its copies, which replays may have changed since it was made."""
        copies = lines(draft.copies, COPY)
        if not len(copies):
            return draft.cycles
        search = self.search(draft.part_groups, draft.memory, shares=draft.shares)
        own = copies[copies[:, 2] == copies[:, 3], :3].tolist()
        return search.expected(self._placement.addresses(draft), [(step, address, part) for step, address, part in own])

    def _improved(self, search: CopySearch, addresses: Addresses, staged: frozenset[int], below: int, *, patient: bool) -> Timeline | None:
        """The best copies found from an initial set; None if they take ``below`` cycles or more."""
        effort = CopyEffort.PATIENT if patient and self.copy_effort is CopyEffort.ENDS else self.copy_effort
        return search.best(addresses, [staged], effort, below=below)

    def unbounded(self, groups: Groups) -> int:
        """Cycles of the groups with their best copies, in an arena with unlimited bytes."""
        constants = self.constants(groups)
        budget = 2 * int(sum(round_up(size, ALIGNMENT) for size in constants[:, 1].tolist())) + ALIGNMENT
        search = CopySearch(self._costs.costed(groups, group_table(self._scheduler, groups)), constants, NO_EXTENTS, budget)
        found = search.best((), [search.every], CopyEffort.LOW)
        assert found is not None  # noqa: S101  # there is no limit
        return found.cycles

    def least(self, groups: Groups) -> int:
        """Cycles that no copies can save: for each job the fewer of those with its constants staged and without."""
        return self._costs.least(groups)
