"""Schedules with one copy issued later.

The search lets a copy begin as early as it has a place. Until it ends it shares the memory of the constants with kernels that read there,
which it may hold up for longer than the kernels behind it gain. A part of many stripes may read its constants at home for the first
ones and make the others wait for no copy.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from cascader.ethosu.job.schedule import Schedule


def _last_uses(schedule: Schedule) -> list[int]:
    """For each copy the last job that reads it."""
    return [max(step for step, job in enumerate(schedule.jobs) if job.part in copy.readers) for copy in schedule.copies]


def with_later_copies(schedule: Schedule, first: int = 0) -> Iterator[tuple[int, Schedule]]:
    """``schedule`` with one copy issued one job later, and those behind it that would come before it at the same job, each in turn.

    It begins with copy ``first`` and ends with the one before that; each comes with its number. A copy is issued at its last reader at
    the latest; what reads it before that reads at home. It has its bytes for less long, so that whatever passes
    :func:`~cascader.ethosu.verify.check.check_schedule` does so later, too: who takes one checks it.
    """
    latest, count = _last_uses(schedule), len(schedule.copies)
    for number in (*range(first, count), *range(first)):
        step = schedule.copies[number].step + 1
        moved = tuple(
            replace(other, step=step) if at >= number and other.step < step else other for at, other in enumerate(schedule.copies)
        )
        if all(other.step <= last for other, last in zip(moved, latest, strict=True)):
            yield number, replace(schedule, copies=moved)
