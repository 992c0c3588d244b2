"""Schedules with one copy issued later.

The search lets a copy begin as early as it has a place. Until it ends it shares the memory of the constants with kernels that read there,
which it may hold up for longer than the kernels behind it gain. A part of many stripes may read its constants at home for the first
ones and make the others wait for no copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cascader.ethosu.schedule.schedule import Schedule


def _last_uses(schedule: Schedule) -> list[int]:
    """For each copy the last job that reads it."""
    return [max(step for step, job in enumerate(schedule.jobs) if job.part in copy.readers) for copy in schedule.copies]


def with_later_copies(schedule: Schedule) -> Iterator[Schedule]:
    """``schedule`` with one copy issued one job later, and those behind it that would come before it at the same job, each in turn.

    A copy is issued at its last reader at the latest; what reads it before that reads at home. It has its bytes for less long, so that
    whatever passes :func:`~cascader.ethosu.verify.check.check_schedule` does so later, too: who takes one checks it.
    """
    latest = _last_uses(schedule)
    for number, copy in enumerate(schedule.copies):
        step = copy.step + 1
        moved = tuple(
            replace(other, step=step) if at >= number and other.step < step else other for at, other in enumerate(schedule.copies)
        )
        if all(other.step <= last for other, last in zip(moved, latest, strict=True)):
            yield replace(schedule, copies=moved)
