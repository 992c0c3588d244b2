"""Copies chosen by replays: one copy of a schedule is left out, or issued later, where a replay says that this helps.

A search takes copies to be nearly free where a kernel reads elsewhere. On their way into the arena they hold up the kernels' feature maps,
and a large arena has room for many of them at once. A replay of a small network takes a moment: of such a network every copy is tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.later_copies import with_later_copies
from cascader.ethosu.schedule.schedule import Schedule
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.task import Replay


def changes(schedule: Schedule, first: int = 0) -> Iterator[tuple[int, Schedule]]:
    """``schedule`` with one copy left out, each in turn from copy ``first`` on, then with one issued later, with the copy's number."""
    copies = schedule.copies
    for number in (*range(first, len(copies)), *range(first)):
        yield number, replace(schedule, copies=copies[:number] + copies[number + 1 :])
    yield from with_later_copies(schedule, first)


def with_replayed_copies(form: Form, schedule: Schedule, cycles: int, judge: Replay, effort: int) -> tuple[Schedule, int]:
    """A schedule of so many ``cycles`` with its copies changed where replays say that this saves some, and its cycles then.

    The replays take at most ``effort`` cycles together. Nothing is tried where these are not enough to leave out each copy once. After a
    gain the same copy is the next one to be tried.
    """
    replays = effort // max(cycles, 1)
    first, improved = 0, replays >= len(schedule.copies)
    while improved:
        improved = False
        for number, made in changes(schedule, first):
            if not replays:
                break
            replays -= 1
            fewer = judge(lower(made, checked=False, kept=form.kept))
            if fewer < cycles:
                schedule, cycles, first, improved = made, fewer, number, True
                break
    return schedule, cycles
