"""Prefetch: when the copies of staged constants are issued, so that they hide behind the jobs before their first use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Steps = npt.NDArray[np.int64]

JOBS_AHEAD = 2
"""Jobs that may still be running when a copy is issued: the depth of the device's job queue."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Constants of ``size`` bytes that ``first`` is the first and ``last`` the last job to use; ``transfer`` cycles to copy.

    The copy may be issued before job ``earliest`` at the earliest.
    """

    part: int
    first: int
    last: int
    size: int
    transfer: int
    earliest: int = 0


@dataclass(frozen=True, slots=True)
class Issue:
    """A copy issued before job ``step``; its memory is taken from job ``start`` on, if possible before any job that may still run."""

    staged: Staged
    step: int
    start: int


def _latest_starts(staged: Sequence[Staged], begins: Steps) -> list[int]:
    """Latest time at which each copy can start so that it and all later ones are in time, one at a time.

    Time counts only the cycles in which no job reads the home memory itself; ``begins`` are the jobs' in that time.
    """
    starts = []
    following = 1 << 60
    for item in reversed(staged):
        following = min(int(begins[item.first]), following) - item.transfer
        starts.append(following)
    return starts[::-1]


def prefetch(staged: Sequence[Staged], durations: Sequence[int], room: Steps, home: Sequence[int] | None = None) -> tuple[Issue, ...]:
    """Issue each copy as late as possible but in time, as far as ``room`` (free bytes at every job) allows.

    Copies keep the order of first use. ``room`` must already leave out what is staged while it is used. ``home`` are the
    cycles in which each job keeps the constants' memory busy itself: copies gain nothing there.
    """
    items = sorted(staged, key=lambda s: (s.first, s.part))
    spare = np.asarray(durations, dtype=np.int64)
    if home is not None:
        spare = np.maximum(0, spare - np.asarray(home, dtype=np.int64))
    begins = np.concatenate(([0], np.cumsum(spare)))
    free = room.copy()
    issues = []
    previous = 0
    for item, latest in zip(items, _latest_starts(items, begins), strict=True):
        # Before job k the command processor arrives when job k - 1 begins.
        wished = min(item.first, int(np.searchsorted(begins, latest, side="right")))
        step = max(wished, previous, item.earliest)
        start = max(0, step - JOBS_AHEAD)
        crowded = np.nonzero(free[start : item.first] < item.size)[0]
        if len(crowded):
            # The bytes come free late: take them at once, and let the copy wait for the jobs that still run on them.
            start += int(crowded[-1]) + 1
            step = max(step, start)
        start = min(start, item.first)
        free[start : item.first] -= item.size
        issues.append(Issue(item, step, start))
        previous = step
    return tuple(issues)


def timeline(parts: Sequence[int], durations: Sequence[int], issues: Sequence[Issue], home: Sequence[int] | None = None) -> int:
    """Cycles of the jobs with their copies: a job waits for its constants, a copy for the one before it.

    ``parts[k]`` is the part of job k. The command processor reaches job k when job k - 1 begins, and is held up by a copy
    that cannot start yet. A job and a copy that read the home memory together (``home`` cycles of each job) delay each other.
    """
    waiting = sorted(issues, key=lambda issue: issue.step)
    ready: dict[int, int] = {}
    copier = begin = finish = 0
    position = 0
    for job, (part, duration) in enumerate(zip(parts, durations, strict=True)):
        arrival = begin
        while position < len(waiting) and waiting[position].step <= job:
            issue = waiting[position]
            arrival = max(arrival, copier)
            copier = arrival + issue.staged.transfer
            ready[issue.staged.part] = copier
            position += 1
        begin = max(finish, arrival, ready.get(part, 0))
        finish = begin + duration
        if home is not None and copier > begin and duration:
            shared = (min(copier, finish) - begin) * home[job] // duration
            finish += shared
            copier += shared
    return finish
