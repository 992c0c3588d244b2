"""Prefetch: when and where staged constants are copied, so that the copies hide behind the jobs before their first use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from cascader.room import CopyRoom, Gaps, Room


@dataclass(frozen=True, slots=True)
class Constants:
    """What is known of a part's constants: ``size`` in bytes and the cycles of a copy, the first and the last job that uses them.

    The copy may be issued before job ``earliest`` at the earliest.
    """

    part: int
    size: int
    transfer: int
    first: int
    last: int
    earliest: int = 0


@dataclass(frozen=True, slots=True)
class JobTimes:
    """Cycles of a job: ``staged`` with its constants copied, ``direct`` reading them at home.

    Of the latter ``lead`` are saved if the job before has a ``tail`` as long, in which the constants are read already.
    ``crowded`` are those of a job that reads them at home while a copy keeps their memory busy, ``home`` those in which
    it keeps that memory busy itself.
    """

    part: int
    staged: int
    direct: int
    lead: int
    tail: int
    crowded: int
    home: int


@dataclass(frozen=True, slots=True)
class Issue:
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


class _Run:
    """The jobs in order, with the copier beside them, on one time axis in cycles.

    The command processor reaches job k when job k - 1 begins. A copy waits for the one before it and for the jobs that
    still use its place, and the command processor with it; a job waits for its constants.
    """

    def __init__(self, jobs: Sequence[JobTimes], wanted: Sequence[Constants], room: CopyRoom, shared: Shared) -> None:
        self.jobs = jobs
        self.shared = shared
        self.waiting = list(reversed(wanted))
        self.room = room
        self.gaps: Gaps | None = None
        self.issues: list[Issue] = []
        self.ready: dict[int, int] = {}
        self.arrival = self.copier = self.finish = self.begin = self.port = 0

    def _worth(self, constants: Constants, ready: int) -> bool:
        """Whether waiting until ``ready`` for a copy may take less time than to read at home beside other copies."""
        own = (job for job in self.jobs[constants.first : constants.last + 1] if job.part == constants.part)
        gain = sum(job.crowded - job.staged for job in own)
        return ready - max(self.finish, self.arrival) <= gain

    def _delay(self, step: int, start: int) -> None:
        """Job ``step`` and a copy share the constants' memory from ``start`` on until one of them ends."""
        job = self.jobs[step]
        if job.part in self.ready or not job.home or self.copier <= start or self.finish <= start:
            return
        # Beside the copy the job makes direct / crowded of its way, and takes home / crowded of the copy's turns.
        copying, left = self.copier - start, self.finish - start
        if left * (job.crowded - job.home) <= copying * job.direct:
            self.finish = start + left * job.crowded // job.direct
            self.copier += left * job.home // job.direct
        else:
            together = copying * job.crowded // (job.crowded - job.home)
            self.copier = start + together
            self.finish += together * (job.crowded - job.direct) // job.crowded
        # Only the copy issued last is still on its way: the command processor has waited for those before it.
        self.ready[self.issues[-1].constants.part] = self.copier

    def _issue(self, step: int) -> bool:
        """Issue the next copy before job ``step`` if it holds nobody up, or must be; whether it is done with."""
        constants = self.waiting[-1]
        must = constants.first == step
        free = max(self.arrival, self.copier)
        if step < constants.earliest or (not must and free >= self.finish):
            return False
        if self.gaps is None:
            self.gaps = self.room.gaps(constants.size, constants.first, constants.last)
        if self.gaps is None:
            return self._drop()
        if self.gaps.first_start > (step if must else step - 1):
            return False
        gap = self.gaps.at(step - 1)
        start = max(free, self.finish if gap.start == step else 0)
        if must and not self._worth(constants, start + constants.transfer):
            return self._drop()
        self.room.put(gap, constants.size, constants.last)
        self.issues.append(Issue(constants, step, gap.start, gap.address))
        self.arrival, self.copier = start, start + constants.transfer
        self.ready[constants.part] = self.copier
        if step:
            self._delay(step - 1, start)
        return self._drop()

    def _drop(self) -> bool:
        """Go on to the next copy."""
        self.waiting.pop()
        self.gaps = None
        return True

    def run(self) -> Timeline:
        """All jobs."""
        before = False
        for step, job in enumerate(self.jobs):
            self.arrival = self.begin
            while self.waiting and self._issue(step):
                pass
            staged = job.part in self.ready
            overlap = self.shared(step, before, staged) if step else 0
            self.begin = max(self.finish - overlap, self.arrival, self.ready.get(job.part, 0))
            before = staged
            duration = job.staged if staged else job.direct - min(job.lead, self.jobs[step - 1].tail if step else 0)
            self.finish = self.begin + duration
            if not staged and job.home:
                # All constants pass their port, at the earliest once the decoder is done with those of the job before.
                self.port = max(self.port, self.begin - (self.jobs[step - 1].tail if step else 0)) + job.home
                self.finish = max(self.finish, self.port)
            self._delay(step, self.begin)
        return Timeline(tuple(self.issues), self.finish)


def prefetch(jobs: Sequence[JobTimes], wanted: Collection[Constants], room: Room, shared: Shared = nothing_shared) -> Timeline:
    """Copy the ``wanted`` constants as early as there is room for them and the copier is free, in the order of first use.

    A copy that finds no room is left out, and one that can be issued no earlier than right before its first use if it would
    then be waited for longer than it saves.
    """
    ordered = sorted(wanted, key=lambda constants: (constants.first, constants.part))
    return _Run(jobs, ordered, room.copies(), shared).run()


def choose_copies(
    jobs: Sequence[JobTimes],
    constants: Mapping[int, Constants],
    starts: Sequence[frozenset[int]],
    room: Room,
    shared: Shared = nothing_shared,
) -> Timeline:
    """The best timeline found by adding and leaving out one part's copy at a time, from the best of some sets of parts."""

    def timeline(parts: frozenset[int]) -> Timeline:
        return prefetch(jobs, [constants[part] for part in parts], room, shared)

    best = min((timeline(parts) for parts in starts), key=lambda t: t.cycles)
    improved = True
    while improved:
        improved = False
        for part in sorted(constants, key=lambda p: (constants[p].first, p)):
            found = timeline(best.staged ^ {part})
            if found.cycles < best.cycles:
                best, improved = found, True
    return best
