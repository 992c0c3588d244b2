"""Prefetch: time, place and use of copies, against a command processor, a copier and an NPU followed from one command to the next."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from moving_extents import extent
from prefetching import Case, cases, follow, job_times, prefetch, with_ample_room

from cascader.plan.group_costs import JobTimes
from cascader.prefetch.free_space import Room
from cascader.prefetch.timeline import Constants, Issue, Prefetcher, expected

pytestmark = pytest.mark.law


@settings(max_examples=120)
@given(cases(most_transfers=2, front=True))
def test_the_cycles_are_those_of_the_commands_followed_one_by_one(case: Case) -> None:
    timeline = prefetch(case.jobs, case.constants, case.room)
    assert timeline.cycles == follow(case, timeline).jobs[-1][1]


@settings(max_examples=120)
@given(cases(contended=True))
def test_copies_are_issued_in_the_order_of_first_use_no_earlier_than_allowed_and_no_later_than_used(case: Case) -> None:
    timeline = prefetch(case.jobs, case.constants, case.room)
    used = [issue.constants for issue in timeline.issues]
    wanted = sorted(case.constants, key=lambda constants: constants.first)
    assert used == [constants for constants in wanted if constants.part in timeline.staged]
    steps = [issue.step for issue in timeline.issues]
    assert steps == sorted(steps)
    assert all(issue.constants.earliest <= issue.step <= issue.constants.first for issue in timeline.issues)


@settings(max_examples=120)
@given(cases(contended=True))
def test_no_byte_of_a_copy_is_live_in_a_tensor_or_in_another_copy(case: Case) -> None:
    """A copy has its bytes from job ``start`` on, or from the one before its issue, in which it may begin."""
    timeline = prefetch(case.jobs, case.constants, case.room)
    for step in range(len(case.jobs)):
        taken: set[int] = set()
        for tensor, address in zip(case.tensors, case.addresses, strict=True):
            if tensor.start <= step < tensor.end:
                taken |= {address + byte for byte in range(tensor.low[step - tensor.start], tensor.high[step - tensor.start])}
        for issue in timeline.issues:
            begins = issue.step if issue.start == issue.step else max(issue.step - 1, 0)
            if begins <= step <= issue.constants.last:
                mine = set(range(issue.address, issue.address + issue.constants.size))
                assert not mine & taken
                assert max(mine) < case.size
                taken |= mine


@settings(max_examples=120)
@given(cases())
def test_a_copy_that_is_not_needed_yet_holds_up_neither_the_command_processor_nor_a_job(case: Case) -> None:
    """It begins while the job before its issue still runs, so that the next one is handed over in time."""
    timeline = prefetch(case.jobs, case.constants, case.room)
    followed = follow(case, timeline)
    for issue in timeline.issues:
        if issue.step < issue.constants.first and issue.step:
            assert followed.copies[issue.constants.part][0] < followed.jobs[issue.step - 1][1]
            assert issue.start < issue.step


@settings(max_examples=120)
@given(cases(most_transfers=3))
def test_before_the_first_use_of_a_copy_comes_no_transfer_alone_that_could_have_come_behind_it(case: Case) -> None:
    """A transfer may be for a later job: where only transfers come before the use, the copy is issued before all of them."""
    case = with_ample_room(case)
    for issue in prefetch(case.jobs, case.constants, case.room).issues:
        between = case.jobs[issue.constants.earliest : issue.constants.first]
        due = issue.constants.first - sum(1 for _ in takewhile(lambda job: job.copier, reversed(between)))
        assert issue.step <= due


def test_a_transfer_and_the_kernel_beside_it_end_together_and_the_next_transfer_waits_for_the_copier() -> None:
    transfer, kernel = JobTimes(0, 30, 30, 0, 0, 30, 0, 0, 0, 30), JobTimes(1, 20, 20, 0, 0, 20, 0, 0, 0)

    def cycles(jobs: Sequence[JobTimes]) -> int:
        return prefetch(jobs, [], Room([], [], len(jobs), 1), lambda *_: 20).cycles

    assert cycles([transfer, kernel]) == 30
    assert cycles([transfer, kernel, transfer]) == 60
    assert cycles([transfer._replace(copier=0), kernel, transfer._replace(copier=0)]) == 40


def in_a_row(jobs: Sequence[JobTimes], shared: Sequence[int]) -> int:
    """Cycles of jobs that all read at home; each begins so many cycles before the one before ends, but not before that one.

    Of each what the tail of the job before leaves time for is saved, once that one has begun. All of its constants pass the port, from
    when the decoder is done with those of the job before.
    """
    begin = end = port = tail = 0
    for job, overlap in zip(jobs, shared, strict=True):
        before, begin = begin, max(begin, end - overlap)
        end = begin + job.direct - min(job.lead, tail, begin - before)
        if job.home:
            port = max(port, begin - tail) + job.home
            end = max(end, port)
        tail = job.tail
    return end


@settings(max_examples=200)
@given(cases(contended=True), st.data())
def test_without_copies_the_cycles_are_those_of_the_jobs_that_read_at_home(case: Case, data: st.DataObject) -> None:
    overlaps = [0, *(data.draw(st.integers(0, 30)) for _ in case.jobs[1:])]
    assert prefetch(case.jobs, [], case.room).cycles == in_a_row(case.jobs, [0] * len(case.jobs))
    assert prefetch(case.jobs, [], case.room, lambda step, before, now: 999 if before or now else overlaps[step]).cycles == in_a_row(
        case.jobs, overlaps
    )


def test_constants_of_small_jobs_in_a_row_pass_their_port_one_after_the_other() -> None:
    """Each of 10 cycles, all of them on the port: the second may read 5 cycles earlier, but not before the first has read."""
    job = JobTimes(part=0, staged=1, direct=10, lead=5, tail=5, contended=10, home=10, staged_lead=0, staged_tail=0)
    assert prefetch([job, job._replace(part=1)], [], Room([], [], 2, 1)).cycles == 20
    assert prefetch([job, job._replace(part=1, home=0)], [], Room([], [], 2, 1)).cycles == 15


def test_constants_that_were_waited_for_are_not_read_ahead() -> None:
    """The second job's first constants take 4 of its 10 cycles, which the first leaves time for if their copy is done by then."""
    jobs = [JobTimes(0, 20, 20, 0, 6, 20, 0, 0, 6), JobTimes(1, 10, 100, 0, 0, 100, 0, 4, 0)]

    def cycles(transfer: int) -> int:
        return prefetch(jobs, [Constants(1, 1, transfer, 1, 1, 0)], Room([], [], 2, 10, alignment=1)).cycles

    assert [cycles(transfer) for transfer in (10, 16, 18, 20, 25)] == [26, 26, 28, 30, 35]


def test_what_jobs_share_depends_on_where_both_read_their_constants() -> None:
    """The first one's constants are copied in its 4 cycles before it, the second one's are read at home."""
    jobs = [JobTimes(0, 20, 100, 0, 0, 100, 0, 0, 0), JobTimes(1, 10, 30, 0, 0, 30, 0, 0, 0)]
    asked = []

    def shared(step: int, before: bool, now: bool) -> int:  # noqa: FBT001  # as every Shared
        asked.append((step, before, now))
        return 7

    assert prefetch(jobs, [Constants(0, 1, 4, 0, 0, 0)], Room([], [], 2, 10, alignment=1), shared).cycles == 4 + 20 + 30 - 7
    assert asked == [(1, True, False)]


@settings(max_examples=100)
@given(cases(contended=True))
def test_an_arena_that_is_full_of_tensors_has_no_copies(case: Case) -> None:
    full = Room([extent(0, *[(0, case.size)] * len(case.jobs))], [0], len(case.jobs), case.size, alignment=1)
    assert prefetch(case.jobs, case.constants, full) == prefetch(case.jobs, [], case.room)


@settings(max_examples=100)
@given(cases(most_transfers=2, contended=True))
def test_the_order_in_which_copies_are_asked_for_does_not_matter(case: Case) -> None:
    assert prefetch(case.jobs, tuple(reversed(case.constants)), case.room) == prefetch(case.jobs, case.constants, case.room)


def one_left_out() -> Case:
    """The first of two copies is not worth waiting for, which is known once its job is to run: so long the other one waits, too."""
    jobs = tuple(JobTimes(part, 1, 1, 0, 0, 1, 0, 0, 0) for part in (0, 0, 1, 2))
    return Case(jobs, (Constants(1, 1, 2, 2, 2, 2), Constants(2, 1, 1, 3, 3, 0)), (), (), 1)


@settings(max_examples=120)
@given(cases())
@example(one_left_out())
def test_with_ample_room_every_copy_begins_as_soon_as_the_copier_is_free_and_a_job_hides_it(case: Case) -> None:
    """It is issued before the first job that is handed over while the one before it outlasts the copier, from its earliest on.

    Copies are issued in order, so that it is not issued before the last one either, nor before the use of one that was left out.
    """
    case = with_ample_room(case)
    timeline = prefetch(case.jobs, case.constants, case.room)
    followed, copier, last = follow(case, timeline), 0, 0
    left_out = {one.first for one in case.constants} - {issue.constants.first for issue in timeline.issues}
    for issue in timeline.issues:
        last = max(last, issue.constants.earliest, *(first for first in left_out if first < issue.constants.first))
        for step in range(last, issue.step):
            handed_over, ends = (followed.jobs[step - 1][0], followed.jobs[step - 1][1]) if step else (0, 0)
            assert max(copier, handed_over) >= ends
        copier, last = followed.copies[issue.constants.part][1], issue.step


@settings(max_examples=120)
@given(cases(most_transfers=2, contended=True, front=True))
def test_jobs_with_given_copies_take_what_a_timeline_with_them_takes(case: Case) -> None:
    timeline = prefetch(case.jobs, case.constants, case.room)
    assert expected(case.jobs, timeline.issues) == timeline


@settings(max_examples=120)
@given(cases(parts=1))
def test_one_copy_that_saves_more_than_it_takes_is_never_slower_with_more_room(case: Case) -> None:
    jobs = tuple(job._replace(direct=job.direct + 40, contended=job.direct + 40, lead=0, staged_lead=0) for job in case.jobs)
    constants = [constants._replace(earliest=0) for constants in case.constants]
    cycles = [prefetch(jobs, constants, Room(case.tensors, case.addresses, len(jobs), size, 1)).cycles for size in range(1, 60, 3)]
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[-1] == prefetch(jobs, constants, with_ample_room(case).room).cycles


def shared(jobs: Sequence[JobTimes], transfer: int, tick: float = 0.01) -> float:
    """When both some jobs, which read at home, and a copy of ``transfer`` cycles have ended, that begin together.

    They are followed tick by tick: beside the copy a job goes at direct / contended of its pace, and takes home / contended of
    the copy's turns.
    """
    time, copy = 0.0, float(transfer)
    for job in jobs:
        work = float(job.direct)
        while work > 0:
            together = copy > 0
            work -= tick * (job.direct / job.contended if together else 1)
            copy -= tick * (1 - job.home / job.contended if together else 1)
            time += tick
    return time + max(copy, 0)


@settings(max_examples=100)
@given(st.lists(job_times(0, contended=True), min_size=1, max_size=3), st.integers(1, 60))
def test_jobs_and_a_copy_that_share_a_memory_take_each_other_the_turns_that_they_use(jobs: list[JobTimes], transfer: int) -> None:
    """The copy is issued with the first job and waited for by the last, which saves more by it than it could wait.

    Cycles are rounded down once for each job, of the copy and of the job.
    """
    jobs = [job._replace(lead=0) for job in jobs]
    last = JobTimes(1, 1, 1000, 0, 0, 1000, 0, 0, 0)
    timeline = prefetch([*jobs, last], [Constants(1, 1, transfer, len(jobs), len(jobs), 1)], Room([], [], len(jobs) + 1, 10, alignment=1))
    assert [issue.step for issue in timeline.issues] == [1]
    exact = shared(jobs, transfer) + last.staged
    assert exact - 2 * len(jobs) <= timeline.cycles <= exact + 1


@pytest.mark.parametrize(("beside", "cycles"), [(60, 122), (0, 116)])
def test_a_job_with_copied_constants_shares_the_memory_of_its_maps_with_the_next_copy(beside: int, cycles: int) -> None:
    """Its copy takes 5 cycles. The next one, of 30, takes 50 beside the job, which loses a third of these.

    A job that takes no turns of the copy still loses a third: words of the copy pass between its own.
    """
    job = JobTimes(0, 100, 1000, 0, 0, 1000, 0, 0, 0, staged_contended=150, staged_home=beside)
    last = JobTimes(1, 1, 1000, 0, 0, 1000, 0, 0, 0)
    wanted = [Constants(0, 1, 5, 0, 0), Constants(1, 1, 30, 1, 1, 1)]
    assert prefetch([job, last], wanted, Room([], [], 2, 10, alignment=1)).cycles == cycles


@pytest.mark.parametrize(("tail", "delay"), [(0, 15), (60, 25), (95, 40)])
def test_a_job_that_reads_ahead_is_held_up_by_a_copy_until_its_last_constants_are_there(tail: int, delay: int) -> None:
    """It takes 100 cycles alone and 150 beside a copy, all 50 of these before its tail: of 45 cycles of a copy 15, 25 or 41 hold it up."""
    job, last = (JobTimes(part, 1, 100, 0, tail, 150, 0, 0, 0, reading=10) for part in range(2))
    found = expected([job, last], [Issue(Constants(2, 1, 45, 1, 1), 1, 0, 0)])
    assert found.cycles == 200 + delay


def side_by_side(job: JobTimes, transfers: Sequence[int], tick: float = 0.01) -> tuple[float, list[float]]:
    """When a job that reads at home has ended, and each of some copies that follow one another beside it, tick by tick."""
    time, work, ended, ends = 0.0, float(job.direct), 0.0, list[float]()
    for transfer in transfers:
        left = float(transfer)
        while left > 0:
            together = work > 0
            left -= tick * (1 - job.home / job.contended if together else 1)
            work -= tick * (job.direct / job.contended if together else 1)
            time += tick
            ended = ended or (time if work <= 0 else 0.0)
        ends.append(time)
    return ended or time + work, ends


@settings(max_examples=100)
@given(job_times(0, contended=True), st.integers(1, 30), st.integers(1, 30))
def test_copies_beside_a_job_follow_one_another_each_slowed_by_its_reads(job: JobTimes, first: int, second: int) -> None:
    """Both are waited for: their users save more by them than they could wait. Cycles are rounded down at most once for each pair."""
    jobs = [job._replace(lead=0), *(JobTimes(part, 1, 1000, 0, 0, 1000, 0, 0, 0) for part in (1, 2))]
    constants = [Constants(1, 1, first, 1, 1), Constants(2, 1, second, 2, 2)]
    timeline = prefetch(jobs, constants, Room([], [], len(jobs), 10, alignment=1))
    done, (there, here) = side_by_side(jobs[0], (first, second))
    exact = max(max(done, there) + 1, here) + 1
    assert exact - 4 <= timeline.cycles <= exact + 1


@settings(max_examples=200)
@given(cases(most_transfers=2, contended=True, front=True), st.data())
def test_a_timeline_does_not_depend_on_those_that_were_asked_for_before(case: Case, data: st.DataObject) -> None:
    prefetcher = Prefetcher(case.jobs, case.room, lambda step, before, now: step + 2 * before + now)
    for wanted in data.draw(st.lists(st.lists(st.sampled_from(case.constants), unique=True), max_size=5)) if case.constants else ():
        fresh = prefetch(case.jobs, wanted, case.room, lambda step, before, now: step + 2 * before + now)
        assert prefetcher.timeline(wanted) == fresh
