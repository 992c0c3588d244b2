"""Prefetch: order, room and time of copies, against a copier followed from copy to copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cascader.prefetch import Issue, Staged, prefetch

AMPLE = 1 << 30


@st.composite
def problems(draw: st.DrawFn, shortest: int = 0, longest_copy: int = 20) -> tuple[list[Staged], list[int]]:
    """Up to five copies for up to ten jobs, in any order, each part's from its first to its last job."""
    durations = draw(st.lists(st.integers(shortest, 20), min_size=1, max_size=10))
    staged = []
    for part in range(draw(st.integers(1, 5))):
        first, last = sorted((draw(st.integers(0, len(durations) - 1)), draw(st.integers(0, len(durations) - 1))))
        staged.append(Staged(part, first, last, draw(st.integers(1, 8)), draw(st.integers(1, longest_copy)), draw(st.integers(0, first))))
    return draw(st.permutations(staged)), durations


def rooms(jobs: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(-3, 20), min_size=jobs, max_size=jobs)


@settings(max_examples=300)
@given(problems(), st.data())
def test_copies_are_issued_in_the_order_of_first_use_and_no_later(problem: tuple[list[Staged], list[int]], data: st.DataObject) -> None:
    staged, durations = problem
    issues = prefetch(staged, durations, np.array(data.draw(rooms(len(durations)))))
    assert [issue.staged for issue in issues] == sorted(staged, key=lambda item: (item.first, item.part))
    steps = [issue.step for issue in issues]
    assert steps == sorted(steps)
    assert all(issue.staged.earliest <= issue.step <= issue.staged.first for issue in issues)
    assert all(0 <= issue.start <= issue.step for issue in issues)


@settings(max_examples=300)
@given(problems(), st.data())
def test_copies_take_only_room_that_is_free(problem: tuple[list[Staged], list[int]], data: st.DataObject) -> None:
    staged, durations = problem
    room = data.draw(rooms(len(durations)))
    given_room = np.array(room)
    issues = prefetch(staged, durations, given_room)
    for job, free in enumerate(room):
        assert sum(issue.staged.size for issue in issues if issue.start <= job < issue.staged.first) <= max(0, free)
    assert given_room.tolist() == room


def begins(durations: Sequence[int]) -> list[int]:
    """Cycle at which each job begins if none waits for a copy."""
    return [sum(durations[:job]) for job in range(len(durations))]


def all_in_time(issues: Sequence[Issue], durations: Sequence[int]) -> bool:
    """Whether one copy after the other, each from its issue on, is complete when its first job begins."""
    clock = 0
    for issue in issues:
        issued = begins(durations)[issue.step - 1] if issue.step else 0
        clock = max(clock, issued) + issue.staged.transfer
        if clock > begins(durations)[issue.staged.first]:
            return False
    return True


def anywhere(staged: Sequence[Staged]) -> list[Staged]:
    return [replace(item, earliest=0) for item in staged]


@settings(max_examples=500)
@given(problems())
def test_with_ample_room_all_copies_are_in_time_if_the_bandwidth_allows_it(problem: tuple[list[Staged], list[int]]) -> None:
    staged, durations = anywhere(problem[0]), problem[1]
    at_once = [Issue(item, 0, 0) for item in sorted(staged, key=lambda item: (item.first, item.part))]
    issues = prefetch(staged, durations, np.full(len(durations), AMPLE))
    assert all_in_time(issues, durations) == all_in_time(at_once, durations)


@settings(max_examples=300, suppress_health_check=[HealthCheck.filter_too_much])  # half of the problems have a copy for job 0
@given(problems(shortest=15, longest_copy=8))
def test_with_ample_room_a_copy_that_is_issued_one_job_later_makes_one_late(problem: tuple[list[Staged], list[int]]) -> None:
    staged, durations = anywhere(problem[0]), problem[1]
    issues = prefetch(staged, durations, np.full(len(durations), AMPLE))
    assume(all_in_time(issues, durations))
    for index, issue in enumerate(issues):
        if issue.step < issue.staged.first:
            later = [replace(issue, step=issue.step + 1) if i == index else other for i, other in enumerate(issues)]
            assert not all_in_time(later, durations)


def test_copies_wait_for_room_and_then_go_at_once() -> None:
    """100 cycles to copy before job 4; jobs of 50 cycles; no room before job 3."""
    item = Staged(part=7, first=4, last=4, size=8, transfer=100)
    early = prefetch([item], [50] * 5, np.full(5, 8))
    assert [(issue.step, issue.start) for issue in early] == [(3, 1)]
    late = prefetch([item], [50] * 5, np.array([8, 8, 7, 8, 0]))
    assert [(issue.step, issue.start) for issue in late] == [(3, 3)]


def test_a_copy_keeps_to_its_segment() -> None:
    item = Staged(part=7, first=4, last=4, size=8, transfer=1000, earliest=3)
    assert prefetch([item], [50] * 5, np.full(5, 8))[0].step == 3
