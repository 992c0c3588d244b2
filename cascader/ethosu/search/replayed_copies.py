"""Copies chosen by replays: one copy of a schedule is left out, or issued later, where a replay says that this helps.

A search takes copies to be nearly free where a kernel reads elsewhere. On their way into the arena they hold up the kernels' feature maps,
and a large arena has room for many of them at once. A replay of a small network takes a moment: of such a network every copy is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, tee

from msgspec.structs import replace

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.schedule.later_copies import with_later_copies
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.task import Replay, ignored


def changes(schedule: Schedule, first: int = 0) -> Iterator[tuple[int, Schedule]]:
    """``schedule`` with one copy left out, each in turn from copy ``first`` on, then with one issued later, with the copy's number."""
    copies = schedule.copies
    for number in (*range(first, len(copies)), *range(first)):
        yield number, replace(schedule, copies=copies[:number] + copies[number + 1 :])
    yield from with_later_copies(schedule, first)


Changes = Callable[[Schedule, int], Iterator[tuple[int, Schedule]]]
"""Changes of a schedule's copies, each with its copy's number, those of the given copy first."""

Judge = Callable[[Iterable[Schedule]], Iterator[int]]
"""Cycles of schedules, in their order. It may draw schedules before their turn, and judge them in vain."""


def climbed(
    start: tuple[Schedule, int], changes: Changes, judge: Judge, most: int, target: int = 0, show: Callable[[int], None] = ignored
) -> tuple[Schedule, int]:
    """The schedule of fewest cycles that one change of copies after the other reaches from a schedule of so many, and its cycles.

    It ends with at most ``target`` cycles, after ``most`` judgements, or where no change helps. After a gain the same copy is the next one
    to be tried. ``show`` is told the cycles so far before each round.
    """
    (best, cycles), first, left, improved = start, 0, most, True
    while improved and left > 0 and cycles > target:
        show(cycles)
        improved = False
        made, drawn = tee(islice(changes(best, first), left))
        for (number, one), found in zip(made, judge(schedule for _, schedule in drawn), strict=True):
            left -= 1
            if found < cycles:
                best, cycles, first, improved = one, found, number, True
                break
    return best, cycles


def with_replayed_copies(form: Form, schedule: Schedule, cycles: int, judge: Replay, effort: int) -> tuple[Schedule, int]:
    """A schedule of so many ``cycles`` with its copies changed where replays say that this saves some, and its cycles then.

    The replays take at most ``effort`` cycles together. Nothing is tried where these are not enough to leave out each copy once.
    """

    def judged(schedules: Iterable[Schedule]) -> Iterator[int]:
        return map(form.judge(judge).cycles, schedules)

    most = effort // max(cycles, 1)
    return climbed((schedule, cycles), changes, judged, most if most >= len(schedule.copies) else 0)
