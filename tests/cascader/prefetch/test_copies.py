"""The choice of copies and their places, beside all sets of copies and the bytes that are taken."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prefetching import Case, cases, prefetch

from cascader.allocate.extents import NO_EXTENTS
from cascader.plan.group_costs import JobTimes
from cascader.prefetch.copies import CopyEffort, CopySearch, CostedJobs
from cascader.prefetch.free_space import Room
from cascader.prefetch.timeline import Constants, Prefetcher, choose_copies

pytestmark = pytest.mark.law


def subsets(parts: Sequence[int]) -> list[frozenset[int]]:
    return [frozenset(some) for count in range(len(parts) + 1) for some in combinations(parts, count)]


@settings(max_examples=150)
@given(cases(most_transfers=2, contended=True), st.data())
def test_the_choice_of_copies_is_no_worse_than_its_starts_nor_than_one_copy_more_or_less(case: Case, data: st.DataObject) -> None:
    constants = case.by_part()
    every = subsets(sorted(constants))
    starts = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=3))
    prefetcher = Prefetcher(case.jobs, case.room)
    start = min((prefetcher.timeline([constants[part] for part in parts]) for parts in starts), key=lambda timeline: timeline.cycles)
    best = choose_copies(constants, start, prefetcher)

    def cycles(parts: frozenset[int]) -> int:
        return prefetch(case.jobs, [constants[part] for part in parts], case.room).cycles

    assert best.cycles <= min(cycles(parts) for parts in starts)
    assert best.cycles <= min((cycles(best.staged ^ {part}) for part in constants), default=best.cycles)
    assert best is start or best.cycles < start.cycles


def one_place_for_two() -> Case:
    """Two constants that share the one byte there is: neither one copy more nor one less leads to the best choice, 17 cycles, not 20."""
    jobs = (JobTimes(1, 1, 5, 0, 0, 5, 0, 0, 0), JobTimes(0, 1, 16, 0, 0, 16, 0, 0, 0))
    return Case(jobs, (Constants(0, 1, 16, 1, 1, 0), Constants(1, 1, 3, 0, 0, 0)), (), (), 1)


def test_the_choice_of_copies_is_mostly_the_best_of_all_sets() -> None:
    """Measured of eight times 300 cases: 294 to 299 of each, and 1.0009 to 1.0046 times the best on average; one case 1.53 times."""
    outcome: list[Fraction] = []

    @settings(max_examples=300)
    @given(cases(contended=True))
    @example(one_place_for_two())
    def compare(case: Case) -> None:
        constants = case.by_part()
        every = frozenset(constants)
        prefetcher = Prefetcher(case.jobs, case.room)
        starts = (prefetcher.timeline([constants[part] for part in parts]) for parts in (frozenset[int](), every))
        found = choose_copies(constants, min(starts, key=lambda timeline: timeline.cycles), prefetcher).cycles
        best = min(prefetch(case.jobs, [constants[part] for part in parts], case.room).cycles for parts in subsets(sorted(every)))
        assert best <= found
        outcome.append(Fraction(found, best))

    compare()
    assert sum(ratio == 1 for ratio in outcome) >= len(outcome) * 0.95
    assert sum(outcome) <= len(outcome) * Fraction(101, 100)


def test_copies_at_both_ends_by_turns_need_not_fit_between_others() -> None:
    """Two of 44 to 53 bytes in 100: put as low as it goes, the second lies where the third, longer than the first, cannot pass it."""
    sizes = (48, 45, 52, 44, 53, 46)
    jobs = tuple(JobTimes(part, 100, 400, 0, 0, 500, 300, 0, 0) for part in range(len(sizes)))
    constants = tuple(Constants(part, size, 90, part, part, 0) for part, size in enumerate(sizes))
    room = Room((), (), len(jobs), 100, alignment=1)
    low, ends = (Prefetcher(jobs, room, ends=ends).timeline(constants) for ends in (0, 1))
    assert [issue.address for issue in ends.issues] == [0, 55, 0, 56, 0, 54]
    assert ends.cycles < low.cycles


@pytest.mark.parametrize(("ends", "expected"), [(0, [0, 10, 30]), (1, [0, 80, 10]), (2, [90, 0, 60])])
def test_copies_by_turns_begin_with_either_end(ends: int, expected: list[int]) -> None:
    jobs = tuple(JobTimes(part, 100, 400, 0, 0, 500, 300, 0, 0) for part in range(4))
    constants = tuple(Constants(part, 10 * part, 10, part, part, 1) for part in range(1, 4))
    timeline = Prefetcher(jobs, Room((), (), len(jobs), 100, alignment=1), ends=ends).timeline(constants)
    assert [issue.address for issue in timeline.issues] == expected


def test_a_patient_search_finds_places_that_are_just_large_enough() -> None:
    """Two copies of 80,016 bytes fill an arena of 160,032, of which another search sees pieces of 80 bytes alone."""
    size, jobs, kinds = 80_016, 3, np.zeros(3, dtype=np.int64)
    times = np.array([JobTimes(0, 100_000, 400_000, 0, 0, 500_000, 300_000, 0, 0).line], dtype=np.int64)
    costed = CostedJobs(np.arange(jobs), kinds, times, kinds, np.zeros((1, 4), dtype=np.int64), None)
    constants = np.array([[part, size, 90_000, part, part, 0] for part in (1, 2)], dtype=np.int64)
    sets = [frozenset({1, 2})]

    def cycles(effort: CopyEffort) -> int:
        found = CopySearch(costed, constants, NO_EXTENTS, 2 * size).best((), sets, effort)
        assert found is not None
        return found.cycles

    assert cycles(CopyEffort.PATIENT) < cycles(CopyEffort.ENDS)


@given(cases(contended=True, front=True), st.integers(0, 2))
def test_wherever_copies_are_put_they_keep_out_of_the_way_of_tensors_and_of_each_other(case: Case, ends: int) -> None:
    timeline = Prefetcher(case.jobs, case.room, ends=ends).timeline(case.constants)
    assert timeline == prefetch(case.jobs, case.constants, case.room) or ends
    taken: dict[tuple[int, int], str] = {}
    for tensor, address in zip(case.tensors, case.addresses, strict=True):
        for step, (low, high) in enumerate(zip(tensor.low, tensor.high, strict=True), tensor.start):
            taken |= {(step, byte): tensor.name for byte in range(address + int(low), address + int(high))}
    for issue in timeline.issues:
        for step in range(issue.start, issue.constants.last + 1):
            bytes_taken = {(step, byte) for byte in range(issue.address, issue.address + issue.constants.size)}
            assert not bytes_taken & taken.keys()
            assert all(0 <= byte < case.size for _, byte in bytes_taken)
            taken |= dict.fromkeys(bytes_taken, str(issue.constants.part))
