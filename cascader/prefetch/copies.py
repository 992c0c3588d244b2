"""Copies: which constants are copied into the free bytes of an arena, when and where, so that jobs take the fewest cycles."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from cascader.allocate.extents import Extents
from cascader.plan.group_costs import JobTimes
from cascader.prefetch.free_space import Room, most_units
from cascader.prefetch.timeline import Constants, Issue, Prefetcher, Shared, Timeline, choose_copies, expected, nothing_shared
from npu_model.native import native
from npu_model.program.alignment import ALIGNMENT

Numbers = npt.NDArray[np.int64]
CopyTable = Numbers
"""Constants that could be copied, in the order of their first use: a line for each, with the fields of :class:`Constants`."""
UNKNOWN = -1
"""Stands for the shared cycles of a pair until the device is asked."""
CASES = 4
"""Whether each job of a pair has its constants staged."""
NO_LIMIT = 1 << 62
"""More cycles than anything takes."""
_NATIVE = native("cascader")


class CopyEffort(IntEnum):
    """Effort of a search for copies: what it does with the best of the given sets."""

    NONE = 0
    """It takes that set."""
    LOW = 1
    """It adds and removes one copy at a time as long as that saves cycles. Each copy lies as low as possible."""
    ENDS = 2
    """It then repeats this from a timeline whose copies go to both ends of the free bytes, if that is better."""
    PATIENT = 3
    """It improves the best set for copies at both ends anyway, beginning with either end. Places are as fine as
    :data:`~cascader.prefetch.free_space.FINEST` allows."""


class CostedJobs(Struct, frozen=True, eq=False):
    """Jobs with their costs.

    ``parts`` and ``kinds`` have a number for each job. ``times`` has a line for each kind: the part, and then the fields of JobTimes.
    ``pairs`` holds the kinds of each job and its predecessor. ``pair_costs`` has four numbers for each kind: the cycles that the two share
    if neither is staged, only the second, only the first, and both. A number is :data:`UNKNOWN` until ``shared`` (by kind and case) was
    asked.
    """

    parts: Numbers
    kinds: Numbers
    times: Numbers
    pairs: Numbers
    pair_costs: Numbers
    shared: Callable[[int, int, int], int] | None


class CopySearch:
    """The search for copies next to some jobs, in an arena of ``budget`` bytes that holds ``extents`` at any addresses.

    ``constants`` holds those that could be copied.
    """

    def __init__(self, jobs: CostedJobs, constants: CopyTable, extents: Extents, budget: int) -> None:
        self._jobs = jobs
        self._constants = constants
        self._extents = extents
        # An arena of no bytes, where all tensors lie outside, has room for no copy. One byte has neither, and divides into units.
        self._budget = max(budget, 1)
        self._work = np.concatenate([jobs.parts, jobs.kinds])
        self._parts = constants[:, 0].tolist()
        self.every = frozenset(self._parts)
        """All parts that have constants."""

    def best(
        self,
        addresses: Sequence[int],
        sets: Sequence[frozenset[int]],
        effort: CopyEffort = CopyEffort.NONE,
        *,
        below: int = NO_LIMIT,
    ) -> Timeline | None:
        """The timeline with the best of some sets of copies, improved; None if it takes ``below`` cycles or more."""
        if _NATIVE is None:
            found = self.best_in_python(addresses, sets, effort)
            return found if found.cycles < below else None
        jobs = self._jobs
        marks = array("q", [part in chosen for chosen in sets for part in self._parts])
        units = most_units(self._budget, patient=effort is CopyEffort.PATIENT)
        improves, at_ends = effort > CopyEffort.NONE, max(0, effort - CopyEffort.LOW)
        how = array("q", (int(jobs.parts.max()) + 1, self._budget, ALIGNMENT, units, improves, at_ends))
        tables = jobs.times, jobs.pairs, jobs.pair_costs, self._constants
        places = array("q", addresses)
        raw = _NATIVE.copies(self._work, *tables, *self._extents.arrays, places, marks, how, jobs.shared)
        cycles, *issues = np.frombuffer(raw, dtype=np.int64).tolist()
        return self._timeline(cycles, issues) if cycles < below else None

    def best_in_python(self, addresses: Sequence[int], sets: Sequence[frozenset[int]], effort: CopyEffort = CopyEffort.NONE) -> Timeline:
        """Like :meth:`best`, without the compiled core."""
        jobs = self._jobs
        room = Room(tuple(self._extents), addresses, len(jobs.parts), self._budget, patient=effort is CopyEffort.PATIENT)
        times = self._times()
        known = {line[0]: Constants(*line) for line in self._constants.tolist()}
        low, *others = (Prefetcher(times, room, _shared(jobs), ends=at_ends) for at_ends in range(3))
        begun = min((low.timeline([known[part] for part in chosen]) for chosen in sets), key=lambda timeline: timeline.cycles)
        if effort is CopyEffort.NONE:
            return begun
        best = choose_copies(known, begun, low)
        if effort is CopyEffort.PATIENT:
            at_ends = (choose_copies(known, other.timeline([known[part] for part in begun.staged]), other) for other in others)
            return min((best, *at_ends), key=lambda timeline: timeline.cycles)
        if effort is CopyEffort.ENDS:
            found = others[0].timeline([known[part] for part in best.staged])
            best = choose_copies(known, found, others[0]) if found.cycles < best.cycles else best
        return best

    def expected(self, addresses: Sequence[int], copies: Sequence[tuple[int, int, int]]) -> int:
        """Cycles of the jobs with exactly these copies, in the order of issue: the step, the address and the part of each."""
        jobs = self._times()
        known = {line[0]: Constants(*line) for line in self._constants.tolist()}
        used = [(np.arange(one.start, one.end) + 1, one.low + at, one.high + at) for one, at in zip(self._extents, addresses, strict=True)]
        issues = list[Issue]()
        for step, address, part in copies:
            end = address + known[part].size
            before = [0, *(one.constants.last + 1 for one in issues if one.address < end and address < one.address + one.constants.size)]
            for after, low, high in used:
                before += after[(low < end) & (high > address) & (high > low)].tolist()
            issues.append(Issue(known[part], step, max(one for one in before if one <= step), address))
        return expected(jobs, issues, _shared(self._jobs)).cycles

    def _times(self) -> list[JobTimes]:
        jobs = self._jobs
        return [JobTimes.of(part, jobs.times[kind].tolist()) for part, kind in zip(jobs.parts.tolist(), jobs.kinds.tolist(), strict=True)]

    def _timeline(self, cycles: int, issues: list[int]) -> Timeline:
        """The timeline of the compiled core's result: number, step, start and address of each copy."""
        lines = self._constants.tolist()
        found = (
            Issue(Constants(*lines[copy]), step, start, address) for copy, step, start, address in zip(*[iter(issues)] * 4, strict=True)
        )
        return Timeline(tuple(found), cycles)


def _shared(jobs: CostedJobs) -> Shared:
    ask = jobs.shared
    if ask is None:
        return nothing_shared

    def shared(step: int, before: bool, now: bool) -> int:  # noqa: FBT001  # as every Shared
        pair = int(jobs.pairs[step])
        costs, case = jobs.pair_costs[pair], 2 * before + now
        if costs[case] == UNKNOWN:
            costs[case] = ask(pair, before, now)
        return int(costs[case])

    return shared
