"""Jobs with constants to copy, drawn; their timeline from a fresh start; and the same followed from one command to the next."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hypothesis import strategies as st
from moving_extents import extents
from msgspec import Struct
from msgspec.structs import replace

from cascader.allocate.extents import Extent
from cascader.plan.group_costs import FrontTimes, JobTimes
from cascader.prefetch.free_space import Room
from cascader.prefetch.timeline import Constants, Prefetcher, Shared, Timeline, nothing_shared

JOBS = 8


class Case(Struct, frozen=True):
    """Jobs, the constants that they use, and the tensors at their addresses in an arena of ``size`` bytes."""

    jobs: tuple[JobTimes, ...]
    constants: tuple[Constants, ...]
    tensors: tuple[Extent, ...]
    addresses: tuple[int, ...]
    size: int

    @property
    def room(self) -> Room:
        return Room(self.tensors, self.addresses, len(self.jobs), self.size, alignment=1)

    def by_part(self) -> dict[int, Constants]:
        return {constants.part: constants for constants in self.constants}


@st.composite
def job_times(draw: st.DrawFn, part: int, *, contended: bool) -> JobTimes:
    staged = draw(st.integers(1, 20))
    direct = staged + draw(st.integers(0, 30))
    home = draw(st.integers(0, direct)) if contended else 0
    slowest = max(direct, home + 1) + draw(st.integers(0, 20)) if contended else direct
    leads, tails = st.integers(0, staged), st.integers(0, 10)
    times = JobTimes(part, staged, direct, draw(leads), draw(tails), slowest, home, draw(leads), draw(tails))
    beside = draw(st.integers(0, staged)) if contended else 0
    return times._replace(staged_contended=max(staged, beside + 1) + draw(st.integers(0, 20)), staged_home=beside) if beside else times


@st.composite
def with_front(draw: st.DrawFn, times: JobTimes) -> JobTimes:
    """Some times with commands that are fetched, a table that is loaded, and constants that are read ahead."""
    commands, first, ahead = draw(st.integers(0, 30)), draw(st.integers(0, 40)), draw(st.integers(1, 30))
    found = FrontTimes(commands, commands + draw(st.integers(0, 20)), first, ahead, copy_commands=draw(st.integers(0, 10)))
    if not times.copier:
        found = found._replace(table=draw(st.sampled_from([0, 7])), late_table=draw(st.sampled_from([0, 9])))
    return times._replace(front=found, reading=times.home and draw(st.sampled_from([0, times.home // 2, times.home + 9])))


def transfer_times(part: int) -> st.SearchStrategy[JobTimes]:
    return st.integers(1, 30).map(lambda cycles: JobTimes(part, cycles, cycles, 0, 0, cycles, 0, 0, 0, cycles))


@st.composite
def cases(draw: st.DrawFn, *, contended: bool = False, front: bool = False, parts: int = 5, most_transfers: int = 0) -> Case:
    """Up to eight jobs of up to five parts in any order; most parts have constants, and some may be transfers.

    With ``front`` jobs may wait for their commands and tables.
    """
    order = draw(st.lists(st.integers(0, parts - 1), min_size=1, max_size=JOBS))
    transfers = draw(st.sets(st.integers(0, parts - 1), max_size=most_transfers))
    jobs = tuple(draw(transfer_times(part) if part in transfers else job_times(part, contended=contended)) for part in order)
    jobs = tuple(draw(with_front(job)) for job in jobs) if front and draw(st.booleans()) else jobs
    constants = []
    for part in sorted(set(order) - transfers):
        steps = [step for step, at in enumerate(order) if at == part]
        earliest = draw(st.sampled_from([0, 0, steps[0], steps[0] // 2]))
        if draw(st.integers(0, 4)):
            size, transfer = draw(st.integers(1, 12)), draw(st.integers(1, 40))
            constants.append(Constants(part, size, transfer, steps[0], steps[-1], earliest))
    for one in constants:
        times = jobs[one.first]
        if times.front.ahead:
            ended = times._replace(
                front=times.front._replace(
                    last_transfer=draw(st.sampled_from([0, one.transfer // 2, one.transfer])), copy_wait=draw(st.integers(0, one.transfer))
                )
            )
            jobs = (*jobs[: one.first], ended, *jobs[one.first + 1 :])
    tensors = draw(extents(count=3, size=12, steps=len(order), least=0, within=len(order)))
    addresses = [draw(st.integers(0, 16)) for _ in tensors]
    return Case(jobs, tuple(draw(st.permutations(constants))), tuple(tensors), tuple(addresses), draw(st.integers(1, 30)))


def with_ample_room(case: Case) -> Case:
    return replace(case, tensors=(), addresses=(), size=1000)


class Followed(Struct, frozen=True):
    """When each job and each copy begins and ends, in cycles."""

    jobs: tuple[tuple[int, int], ...]
    copies: dict[int, tuple[int, int]]


def follow(case: Case, timeline: Timeline) -> Followed:
    """One command after the other: a copy blocks the command processor while another is on its way or its place is in use;
    a job is handed over when the one before begins and its commands are fetched, and runs when that has ended and its constants and its
    table are there. The tables of all jobs before a copy's first one come before the copy, unless they come late."""
    jobs: list[tuple[int, int]] = []
    copies: dict[int, tuple[int, int]] = {}
    copier = handed = begun = 0
    processor = case.jobs[0].front.ahead
    fetched = processor // 2
    first = next((step for step, job in enumerate(case.jobs) if not job.copier), None)
    waiting = {step: job.front.table for step, job in enumerate(case.jobs) if job.front.table}
    for step, job in enumerate(case.jobs):
        for issue in timeline.issues:
            if issue.step == step:
                in_use_until = jobs[-1][1] if jobs and issue.start == step else 0
                tables = [waiting.pop(at) for at in range(step, issue.constants.first) if at in waiting]
                user = case.jobs[issue.constants.first].front
                fetched = max(fetched, handed - user.ahead) + user.copy_commands
                begin = max(processor, copier, in_use_until, fetched) + sum(tables)
                length = issue.constants.transfer
                # With room for two transfers, a copy of one waits in the queue: the processor waits until the one before has begun.
                waits = max(processor, fetched, in_use_until, begun) if user.last_transfer == length else begin
                processor, copier, begun = begin - tables[-1] if tables else waits, begin + length, begin + length - user.last_transfer
                copies[issue.constants.part] = (begin, copier)
        begin = max(fetched, handed - job.front.ahead)
        if step == first:
            fetched = begin + job.front.first_commands
        else:
            during = min(max(0, copier - begin), job.front.commands_contended)
            more = (job.front.commands_contended - job.front.commands) * during
            fetched = begin + job.front.commands + (more // job.front.commands_contended if more else 0)
        known = max(processor, fetched, copies.get(job.part, (0, 0))[1], copier if job.copier else 0)
        if table := waiting.pop(step, 0) + job.front.late_table:
            copier = max(copier, handed) + table
            known = max(known, copier)
        begin = max(known, jobs[-1][1] if jobs else 0, copier if job.copier else 0)
        copier, begun = (begin + job.copier, begin) if job.copier else (copier, begun)
        last = case.jobs[step - 1] if step else None
        tail = 0 if last is None else last.staged_tail if last.part in copies else last.tail
        cycles, lead = (job.staged, job.staged_lead) if job.part in copies else (job.direct, job.lead)
        # What the job before leaves time for is read before it ends, but not before the job is known of and its constants are there.
        jobs.append((begin, begin + cycles - min(lead, tail, begin - known)))
        processor, handed = begin, known
    return Followed(tuple(jobs), copies)


def prefetch(jobs: Sequence[JobTimes], wanted: Collection[Constants], room: Room, shared: Shared = nothing_shared) -> Timeline:
    """The timeline of the jobs with the constants that find room."""
    return Prefetcher(jobs, room, shared).timeline(wanted)
