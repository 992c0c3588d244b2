"""Prefetch: when and where staged constants are copied, so that earlier jobs hide the copies before their first use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from cascader.plan.group_costs import JobTimes
from cascader.prefetch.free_space import CopyRoom, Gaps, Room
from npu_model.program.alignment import ALIGNMENT


class Constants(NamedTuple):
    """Constants of a part: their ``size`` in bytes, the cycles of a ``transfer``, and the first and the last job that uses them.

    The copy may be issued before job ``earliest`` at the earliest.
    """

    part: int
    size: int
    transfer: int
    first: int
    last: int
    earliest: int = 0


class Issue(NamedTuple):
    """A copy issued before job ``step`` to ``address``, whose bytes no job from ``start`` on uses otherwise."""

    constants: Constants
    step: int
    start: int
    address: int


class Timeline(Struct, frozen=True):
    """The copies in the order of issue and the cycles of all jobs with them."""

    issues: tuple[Issue, ...]
    cycles: int

    @property
    def staged(self) -> frozenset[int]:
        """Parts whose constants are copied."""
        return frozenset(issue.constants.part for issue in self.issues)


Shared = Callable[[int, bool, bool], int]
"""Cycles that a job shares with its predecessor: by its step, whether the predecessor is staged, and whether the job is."""


def nothing_shared(step: int, before: bool, now: bool) -> int:  # noqa: ARG001, FBT001  # as every Shared
    """Shared cycles for jobs that run one after the other."""
    return 0


_NO_JOB = JobTimes(part=-1, staged=0, direct=0, lead=0, tail=0, contended=0, home=0, staged_lead=0, staged_tail=0)
"""State before the first job."""


class _Run:
    """The jobs in order, in parallel with the copier, on one time axis in cycles.

    A copy waits for the previous copy and for the jobs that still use its bytes, and the command processor waits with it. A job waits for
    its constants, and a transfer for the copier. ``step`` and ``copy`` are the next job and the next copy. The command processor reaches
    job k at ``arrival``, when job k - 1 begins. The copier is free from cycle ``copier`` on, the constants' port from ``port``, and the
    last job ends at ``finish``. ``is_copy`` says whether the copier's last work was a copy. The command processor handed on the last job at
    ``handed``, and its commands were fetched at ``fetched``. The tables of all jobs before ``tabled`` are loaded, or on their way.
    ``has_registers`` says that a kernel has set all registers. The last transfer began at ``begun``. The copier's last
    copy keeps its memory busy from ``busy`` on, after ``idle`` cycles.
    """

    def __init__(self, jobs: Sequence[JobTimes], wanted: Sequence[Constants], room: CopyRoom, shared: Shared, *, ends: int) -> None:
        self.jobs = jobs
        self.wanted = wanted
        self.room = room
        self.shared = shared
        self.ends = ends
        self.step = self.copy = self.copier = self.finish = self.port = self.handed = self.tabled = 0
        self.begun = self.busy = self.idle = 0
        self.is_copy = self.has_registers = False
        # Nothing begins before the first fetch, which is half used on average.
        self.arrival = jobs[0].front.ahead if jobs else 0
        self.fetched = self.arrival // 2
        self.ready: dict[int, int] = {}
        self.issues: list[Issue] = []
        self.gaps: Gaps | None = None

    def _worth(self, constants: Constants, ready: int) -> bool:
        """Whether waiting until ``ready`` for a copy may take less time than a read at home next to other copies."""
        own = (job for job in self.jobs[constants.first : constants.last + 1] if job.part == constants.part)
        gain = sum(job.contended - job.staged for job in own)
        return ready - max(self.finish, self.arrival) <= gain

    def _delay(self, step: int, start: int) -> None:
        """Job ``step`` and a copy share the constants' memory from ``start`` on until one of them ends."""
        job = self.jobs[step]
        is_staged = job.part in self.ready
        alone, contended, home = (job.staged, job.staged_contended, job.staged_home) if is_staged else (job.direct, job.contended, job.home)
        # Beside a copy a job takes longer up to its last constants, if these are all that it shares with the copy.
        shares_all = is_staged or job.staged_home or not job.reading
        tail = 0 if shares_all else max(0, min(job.tail, alone - 1, contended - home - 1))
        alone, contended = alone - tail, contended - tail
        # A copy leaves the memory free until its first words come.
        copying, left = self.copier - start - max(0, min(self.idle, self.busy - start)), self.finish - tail - start
        if copying <= 0 or left <= 0 or (not home and contended <= alone):
            return
        # Next to the copy, the job makes alone / contended of its way, and takes home / contended of the copy's turns.
        if left * (contended - home) <= copying * alone:
            self.finish += left * (contended - alone) // alone
            self.copier += left * home // alone
        else:
            together = copying * contended // (contended - home)
            self.copier += together - copying
            self.finish += together * (contended - alone) // contended
        # Only the last issued copy is still under way: the command processor has waited for the earlier ones.
        if self.is_copy:
            self.ready[self.issues[-1].constants.part] = self.copier

    def _is_due(self, constants: Constants) -> bool:
        """Whether only transfers come before the first job that uses the constants.

        They may be for later jobs, and would hold up the copy.
        """
        return all(job.copier for job in self.jobs[self.step : constants.first])

    def _issue(self) -> bool:
        """Issue the next copy before the next job if it delays nothing, or must be issued; returns whether it is done."""
        constants = self.wanted[self.copy]
        must = self._is_due(constants)
        free = max(self.arrival, self.copier)
        if self.step < constants.earliest or (not must and free >= self.finish):
            return False
        if self.gaps is None:
            self.gaps = self.room.gaps(constants.size, constants.first, constants.last)
        if self.gaps is None:
            return self._drop()
        if self.gaps.first_start > (self.step if must else self.step - 1):
            return False
        gap = self.gaps.at(self.step - 1, highest=self.ends > 0 and (self.copy + self.ends) % 2 == 0)
        issue = Issue(constants, self.step, gap.start, gap.address)
        if must and not self._worth(constants, self._start(issue) + constants.transfer):
            return self._drop()
        self.room.put(gap, constants.size, constants.last)
        return self._take(issue)

    def _fetched(self, constants: Constants) -> int:
        """When the commands of a copy are fetched."""
        front = self.jobs[constants.first].front
        return max(self.fetched, self.handed - front.ahead) + front.copy_commands

    def _start(self, issue: Issue) -> int:
        """When a copy starts that is issued before the next job."""
        return max(self._reached(issue), self.copier) + sum(self._tables_before(issue.constants.first))

    def _reached(self, issue: Issue) -> int:
        """When the command processor has the commands of a copy that is issued before the next job, and its bytes are free."""
        return max(self.arrival, self._fetched(issue.constants), self.finish if issue.start == self.step else 0)

    def _take(self, issue: Issue) -> bool:
        """Issue a copy, and continue with the next one."""
        constants, start, tables = issue.constants, self._start(issue), self._tables_before(issue.constants.first)
        last = self.jobs[constants.first].front.last_transfer
        # The last transfer waits in the queue, and the command processor goes on, if the device has room for it behind the one before.
        if tables:
            self.arrival = start - tables[-1]
        else:
            self.arrival = max(self._reached(issue), self.begun) if last == constants.transfer else start
        self.fetched, self.begun = max(self.fetched, self._fetched(constants)), start + constants.transfer - last
        self.tabled = max(self.tabled, constants.first)
        self.issues.append(issue)
        self.copier, self.is_copy = start + constants.transfer, True
        self.idle = self.jobs[constants.first].front.copy_wait
        self.busy = start + self.idle
        self.ready[constants.part] = self.copier
        if self.step:
            self._delay(self.step - 1, start)
        return self._drop()

    def _drop(self) -> bool:
        """Continue with the next copy."""
        self.copy += 1
        self.gaps = None
        return True

    def _tables_before(self, first: int) -> list[int]:
        """Cycles to load each table of the jobs before ``first``, which come before a copy that is used from then on."""
        if not self.jobs[self.step].front.ahead:
            return []
        return [job.front.table for job in self.jobs[max(self.step, self.tabled) : first] if job.front.table]

    def _fetch(self, job: JobTimes) -> None:
        """Fetch the next job's commands, no further ahead than the device's buffer allows, and more slowly during a copy."""
        begin, slowest = max(self.fetched, self.handed - job.front.ahead), job.front.commands_contended
        copying = min(slowest, max(0, self.copier - begin))
        more = (slowest - job.front.commands) * copying // slowest if slowest else 0
        is_first = not (self.has_registers or job.copier)
        self.fetched = begin + (job.front.first_commands if is_first else job.front.commands + more)
        self.has_registers |= is_first

    def _execute(self) -> None:
        """Run the next job."""
        step = self.step
        job, last = self.jobs[step], self.jobs[step - 1] if step else _NO_JOB
        before, staged = last.part in self.ready, job.part in self.ready
        tail = last.staged_tail if before else last.tail
        overlap = self.shared(step, before, staged) if step else 0
        # Nothing is read ahead before its constants are there and the command processor knows of the job.
        self._fetch(job)
        known = max(self.arrival, self.fetched, self.ready.get(job.part, 0), self.copier if job.copier else 0)
        table = job.front.late_table + (job.front.table if step >= self.tabled else 0)
        if table:
            self.copier = max(self.copier, self.handed) + table
            known = max(known, self.copier)
        begin = max(self.finish - overlap, known)
        ahead = min(job.staged_lead if staged else job.lead, tail, begin - known)
        done = begin - ahead + (job.staged if staged else job.direct)
        # A kernel may take longer than the transfer that begins with it.
        self.finish = max(self.finish, done) if job.copier else done
        if job.copier:
            self.begun, self.copier, self.is_copy, self.idle = begin, begin + job.copier, False, 0
        if not staged and job.home:
            # All constants pass their port, at the earliest after the decoder has finished the previous job's constants.
            self.port = max(self.port, begin - tail) + max(job.home, job.reading)
            self.finish = max(self.finish, self.port)
        self._delay(step, begin - ahead)
        self.step, self.arrival, self.handed = step + 1, begin, known

    def timeline(self) -> Timeline:
        """Run all jobs."""
        while self.step < len(self.jobs):
            while self.copy < len(self.wanted) and self._issue():
                pass
            self._execute()
        return Timeline(tuple(self.issues), self.finish)


class _Given(_Run):
    """The jobs with given copies, in the order of issue."""

    def __init__(self, jobs: Sequence[JobTimes], issues: Sequence[Issue], shared: Shared) -> None:
        nothing = Room((), (), len(jobs), ALIGNMENT).copies()
        super().__init__(jobs, [issue.constants for issue in issues], nothing, shared, ends=0)
        self._given = issues

    def _issue(self) -> bool:
        issue = self._given[self.copy]
        return issue.step <= self.step and self._take(issue)


def expected(jobs: Sequence[JobTimes], issues: Sequence[Issue], shared: Shared = nothing_shared) -> Timeline:
    """The timeline of some jobs with given copies, each issued before its step; they are in the order of issue."""
    return _Given(jobs, issues, shared).timeline()


class Prefetcher:
    """The timelines of some jobs in one room, each with other copies."""

    def __init__(self, jobs: Sequence[JobTimes], room: Room, shared: Shared = nothing_shared, *, ends: int = 0) -> None:
        """With ``ends`` copies take the lowest and the highest of equally good gaps in turn: 1 the lowest first, 2 the highest.

        So two copies at the same time stay at both ends of the free bytes, and the next one need not fit between them.
        """
        self._jobs = jobs
        self._room = room
        self._shared = shared
        self._ends = ends

    def timeline(self, wanted: Collection[Constants]) -> Timeline:
        """Copy the ``wanted`` constants as early as there is room for them and the copier is free, in the order of first use.

        A copy that finds no room is left out. So is one that can only be issued right before its first use, if its user would wait for it
        longer than it saves.
        """
        ordered = sorted(wanted, key=lambda constants: (constants.first, constants.part))
        return _Run(self._jobs, ordered, self._room.copies(), self._shared, ends=self._ends).timeline()


def choose_copies(constants: Mapping[int, Constants], start: Timeline, prefetcher: Prefetcher) -> Timeline:
    """The best timeline found from ``start``, which adds or leaves out one part's copy at a time."""
    best = start
    improved = True
    while improved:
        improved = False
        for part in sorted(constants, key=lambda p: (constants[p].first, p)):
            found = prefetcher.timeline([constants[part] for part in best.staged ^ {part}])
            if found.cycles < best.cycles:
                best, improved = found, True
    return best
