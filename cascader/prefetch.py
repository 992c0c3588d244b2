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
    """A copy issued before job ``step``; its memory is taken from job ``start`` on, so that no running job is disturbed."""

    staged: Staged
    step: int
    start: int


def _latest_starts(staged: Sequence[Staged], begins: Steps) -> list[int]:
    """Latest cycle at which each copy can start so that it and all later ones are in time, one at a time."""
    starts = []
    following = 1 << 60
    for item in reversed(staged):
        following = min(int(begins[item.first]), following) - item.transfer
        starts.append(following)
    return starts[::-1]


def prefetch(staged: Sequence[Staged], durations: Sequence[int], room: Steps) -> tuple[Issue, ...]:
    """Issue each copy as late as possible but in time, as far as ``room`` (free bytes at every job) allows.

    Copies keep the order of first use. ``room`` must already leave out what is staged while it is used.
    """
    items = sorted(staged, key=lambda s: (s.first, s.part))
    begins = np.concatenate(([0], np.cumsum(np.asarray(durations, dtype=np.int64))))
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
            start += int(crowded[-1]) + 1
            step = max(step, min(item.first, start + JOBS_AHEAD))
        start = min(start, item.first)
        free[start : item.first] -= item.size
        issues.append(Issue(item, step, start))
        previous = step
    return tuple(issues)
