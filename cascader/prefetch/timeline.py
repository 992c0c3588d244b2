"""Prefetch: when and where staged constants are copied, so that the copies hide behind the jobs before their first use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from cascader.prefetch.free_space import CopyRoom, Gaps, Room
from npu_model.values import dataclass


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


class JobTimes(NamedTuple):
    """Cycles of a job: ``staged`` with its constants copied, ``direct`` reading them at home.

    ``lead`` are the cycles that the job saves if its first constants are read in the tail of the job before, a tail as long.
    ``tail`` are the last cycles of the job, in which the next job may read its first constants. Both are for a job that reads at
    home, ``staged_lead`` and ``staged_tail`` for one whose constants are copied. ``contended`` are the cycles of a job that reads at
    home while a copy keeps that memory busy, ``home`` those in which it keeps that memory busy itself.
    """

    part: int
    staged: int
    direct: int
    lead: int
    tail: int
    contended: int
    home: int
    staged_lead: int
    staged_tail: int


class Issue(NamedTuple):
    """A copy issued before job ``step`` to ``address``, which no job from ``start`` on uses otherwise."""

    constants: Constants
    step: int
    start: int
    address: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The copies in the order of issue and the cycles of all jobs with them."""

    issues: tuple[Issue, ...]
    cycles: int

    @property
    def staged(self) -> frozenset[int]:
        """Parts whose constants are copied."""
        return frozenset(issue.constants.part for issue in self.issues)


Shared = Callable[[int, bool, bool], int]
"""Cycles that a job shares with the one before it: by its step, whether the one before is staged, and whether it is."""


def nothing_shared(step: int, before: bool, now: bool) -> int:  # noqa: ARG001, FBT001  # as every Shared
    """For jobs that run one after the other."""
    return 0


_NO_JOB = JobTimes(part=-1, staged=0, direct=0, lead=0, tail=0, contended=0, home=0, staged_lead=0, staged_tail=0)
"""Before the first job."""


@dataclass(slots=True)
class _Moment:
    """State of a run: the next job and the next copy, the cycle in which each unit is free, and the copies so far.

    The command processor reaches job k at ``arrival``, when job k - 1 begins. The constants' port is free from cycle ``port`` on.
    """

    room: CopyRoom
    step: int = 0
    copy: int = 0
    arrival: int = 0
    copier: int = 0
    finish: int = 0
    port: int = 0
    ready: dict[int, int] = field(default_factory=dict)
    issues: list[Issue] = field(default_factory=list)

    def copied(self) -> _Moment:
        """The same moment, to go on from in another way."""
        times = self.arrival, self.copier, self.finish, self.port
        return _Moment(self.room.copied(), self.step, self.copy, *times, self.ready.copy(), self.issues.copy())


class _Run:
    """The jobs in order, with the copier beside them, on one time axis in cycles.

    A copy waits for the one before it and for the jobs that still use its place, and the command processor with it; a job
    waits for its constants. ``moments[i]`` is when copy i of those ``wanted`` came to the head of the line: nothing before it
    depends on that copy or a later one, so that other lines with the same copies before it go on from there.
    """

    def __init__(self, jobs: Sequence[JobTimes], wanted: Sequence[Constants], shared: Shared, moments: list[_Moment], *, ends: int) -> None:
        self.jobs = jobs
        self.wanted = wanted
        self.shared = shared
        self.moments = moments
        self.ends = ends
        self.now = moments[-1].copied()
        self.gaps: Gaps | None = None

    def _worth(self, constants: Constants, ready: int) -> bool:
        """Whether waiting until ``ready`` for a copy may take less time than to read at home beside other copies."""
        own = (job for job in self.jobs[constants.first : constants.last + 1] if job.part == constants.part)
        gain = sum(job.contended - job.staged for job in own)
        return ready - max(self.now.finish, self.now.arrival) <= gain

    def _delay(self, step: int, start: int) -> None:
        """Job ``step`` and a copy share the constants' memory from ``start`` on until one of them ends."""
        now, job = self.now, self.jobs[step]
        if now.copier <= start or not job.home or now.finish <= start or job.part in now.ready:
            return
        # Beside the copy the job makes direct / contended of its way, and takes home / contended of the copy's turns.
        copying, left = now.copier - start, now.finish - start
        if left * (job.contended - job.home) <= copying * job.direct:
            now.finish = start + left * job.contended // job.direct
            now.copier += left * job.home // job.direct
        else:
            together = copying * job.contended // (job.contended - job.home)
            now.copier = start + together
            now.finish += together * (job.contended - job.direct) // job.contended
        # Only the copy issued last is still on its way: the command processor has waited for those before it.
        now.ready[now.issues[-1].constants.part] = now.copier

    def _issue(self) -> bool:
        """Issue the next copy before the next job if it holds nobody up, or must be; whether it is done with."""
        now, constants = self.now, self.wanted[self.now.copy]
        must = constants.first == now.step
        free = max(now.arrival, now.copier)
        if now.step < constants.earliest or (not must and free >= now.finish):
            return False
        if self.gaps is None:
            self.gaps = now.room.gaps(constants.size, constants.first, constants.last)
        if self.gaps is None:
            return self._drop()
        if self.gaps.first_start > (now.step if must else now.step - 1):
            return False
        gap = self.gaps.at(now.step - 1, highest=self.ends > 0 and (now.copy + self.ends) % 2 == 0)
        start = max(free, now.finish if gap.start == now.step else 0)
        if must and not self._worth(constants, start + constants.transfer):
            return self._drop()
        now.room.put(gap, constants.size, constants.last)
        now.issues.append(Issue(constants, now.step, gap.start, gap.address))
        now.arrival, now.copier = start, start + constants.transfer
        now.ready[constants.part] = now.copier
        if now.step:
            self._delay(now.step - 1, start)
        return self._drop()

    def _drop(self) -> bool:
        """Go on to the next copy."""
        self.now.copy += 1
        self.gaps = None
        self.moments.append(self.now.copied())
        return True

    def _execute(self) -> None:
        """The next job."""
        now, step = self.now, self.now.step
        job, last = self.jobs[step], self.jobs[step - 1] if step else _NO_JOB
        before, staged = last.part in now.ready, job.part in now.ready
        tail = last.staged_tail if before else last.tail
        overlap = self.shared(step, before, staged) if step else 0
        # Before its constants are there, and before the command processor knows of the job, nothing is read ahead.
        known = max(now.arrival, now.ready.get(job.part, 0))
        begin = max(now.finish - overlap, known)
        ahead = min(job.staged_lead if staged else job.lead, tail, begin - known)
        now.finish = begin - ahead + (job.staged if staged else job.direct)
        if not staged and job.home:
            # All constants pass their port, at the earliest once the decoder is done with those of the job before.
            now.port = max(now.port, begin - tail) + job.home
            now.finish = max(now.finish, now.port)
        self._delay(step, begin - ahead)
        now.step, now.arrival = step + 1, begin

    def timeline(self) -> Timeline:
        """All jobs."""
        now, copies = self.now, len(self.wanted)
        while now.step < len(self.jobs):
            while now.copy < copies and self._issue():
                pass
            self._execute()
        return Timeline(tuple(now.issues), now.finish)


class Prefetcher:
    """The timelines of some jobs in one room, each with other copies; it goes on from where it parts from the one before."""

    def __init__(self, jobs: Sequence[JobTimes], room: Room, shared: Shared = nothing_shared, *, ends: int = 0) -> None:
        """With ``ends`` copies take the lowest and the highest of equally good places by turns: 1 the lowest first, 2 the highest.

        So two that are there at the same time stay apart at both ends of what is free, and the next one need not fit between them.
        """
        self._jobs = jobs
        self._shared = shared
        self._ends = ends
        self._wanted: Sequence[Constants] = ()
        self._moments = [_Moment(room.copies())]

    def timeline(self, wanted: Collection[Constants]) -> Timeline:
        """Copy the ``wanted`` constants as early as there is room for them and the copier is free, in the order of first use.

        A copy that finds no room is left out. So is one that can only be issued right before its first use, if its user would wait for it
        longer than it saves.
        """
        ordered = sorted(wanted, key=lambda constants: (constants.first, constants.part))
        pairs = zip(ordered, self._wanted, strict=False)
        same = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(ordered), len(self._wanted)))
        run = _Run(self._jobs, ordered, self._shared, self._moments[: same + 1], ends=self._ends)
        self._wanted, self._moments = ordered, run.moments
        return run.timeline()


def choose_copies(constants: Mapping[int, Constants], start: Timeline, prefetcher: Prefetcher) -> Timeline:
    """The best timeline found from ``start`` by adding and leaving out one part's copy at a time."""
    best = start
    improved = True
    while improved:
        improved = False
        for part in sorted(constants, key=lambda p: (constants[p].first, p)):
            found = prefetcher.timeline([constants[part] for part in best.staged ^ {part}])
            if found.cycles < best.cycles:
                best, improved = found, True
    return best
