"""Changes by replays: other blocks of a schedule, and copies left out or issued later, where a replay says that this helps.

A search knows what a kernel takes in a block to some per cent, and what its neighbours share with it no better. It takes copies to be
nearly free where a kernel reads elsewhere, but on their way into the arena they hold up the kernels' feature maps. Addresses and the order
of the jobs stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import kernels
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.judge.replay import Replay
from cascader.ethosu.search.form import Form
from cascader.plan.jobs import Job
from cascader.search.climb import climbed, from_place
from npu_model.shapes import Shape3D

BLOCKS = 8
"""Blocks that are tried for each part, those that are estimated to be fastest."""


class _Stripes(Struct, frozen=True):
    """Jobs of one part that are as high and in one block, by their numbers, with the blocks that are tried for them."""

    steps: tuple[int, ...]
    blocks: tuple[Shape3D, ...]


def _alike(jobs: Sequence[Job]) -> Iterable[tuple[int, ...]]:
    """The numbers of the jobs of each part that are as high and in the same block, in the order of the first ones."""
    found: dict[tuple[str, Shape3D | None, int], list[int]] = {}
    for step, job in enumerate(jobs):
        start, end = job.rows or (0, 0)
        found.setdefault((job.part, job.block, end - start), []).append(step)
    return map(tuple, found.values())


def _stripes(form: Form, schedule: Schedule) -> Iterator[_Stripes]:
    """The jobs of a schedule that are alike, those first that are expected to take the most cycles: another block may save the more."""
    cost, graph = form.cascader.cost, form.cascader.graph
    numbers = {part.name: number for number, part in enumerate(form.network.graph.parts)}
    staged = {name for copy in schedule.copies for name in copy.readers}
    made = kernels(schedule)

    def cycles_of(steps: tuple[int, ...]) -> int:
        job = schedule.jobs[steps[0]]
        number = numbers[job.part]
        return len(steps) * cost.times(number, *(job.rows or (0, graph.parts[number].rows))).direct

    for steps in sorted(_alike(schedule.jobs), key=cycles_of, reverse=True):
        kernel, part = made[steps[0]], schedule.jobs[steps[0]].part
        yield _Stripes(steps, () if kernel is None else cost.blocks(numbers[part], kernel, BLOCKS, staged=part in staged))


def _in_block(schedule: Schedule, steps: Iterable[int], block: Shape3D) -> Schedule:
    """The schedule with some of its jobs in another block."""
    jobs = list(schedule.jobs)
    for step in steps:
        jobs[step] = replace(jobs[step], block=block)
    return replace(schedule, jobs=tuple(jobs))


def with_replayed_blocks(form: Form, schedule: Schedule, cycles: int, judge: Replay, effort: int) -> tuple[Schedule, int]:
    """A schedule of so many ``cycles`` with its blocks changed where replays say that this saves some, and its cycles then.

    The replays take at most ``effort`` cycles together. Nothing is tried where these are not enough for one block of each part.
    """
    replays = effort // max(cycles, 1)
    if replays < len(list(_alike(schedule.jobs))):
        return schedule, cycles
    pairs = [(some.steps, block) for some in _stripes(form, schedule) for block in some.blocks]

    def moves(best: Schedule, judged: Sequence[int]) -> Iterator[tuple[int, Schedule]]:
        for number in from_place(len(pairs), judged[-1] + 1 if judged else 0):
            steps, block = pairs[number]
            if best.jobs[steps[0]].block != block:
                yield number, _in_block(best, steps, block)

    asked = form.judge(judge)
    return climbed(schedule, cycles, moves, lambda some: map(asked.cycles, some), replays)


def _last_uses(schedule: Schedule) -> list[int]:
    """For each copy the last job that reads it."""
    return [max(step for step, job in enumerate(schedule.jobs) if job.part in copy.readers) for copy in schedule.copies]


def with_later_copies(schedule: Schedule, first: int = 0) -> Iterator[tuple[int, Schedule]]:
    """``schedule`` with one copy issued one job later, and those behind it that would come before it at the same job, each in turn.

    It begins with copy ``first`` and ends with the one before that; each comes with its number. A copy is issued at its last reader at
    the latest; what reads it before that reads at home. It has its bytes for less long, so that whatever passes
    :func:`~cascader.ethosu.verify.check.check_schedule` does so later, too: who takes one checks it.
    """
    latest = _last_uses(schedule)
    for number in from_place(len(schedule.copies), first):
        step = schedule.copies[number].step + 1
        moved = tuple(
            replace(other, step=step) if at >= number and other.step < step else other for at, other in enumerate(schedule.copies)
        )
        if all(other.step <= last for other, last in zip(moved, latest, strict=True)):
            yield number, replace(schedule, copies=moved)


def changed_copies(schedule: Schedule, first: int = 0) -> Iterator[tuple[int, Schedule]]:
    """``schedule`` with one copy left out, each in turn from copy ``first`` on, then with one issued later, with the copy's number."""
    copies = schedule.copies
    for number in from_place(len(copies), first):
        yield number, replace(schedule, copies=copies[:number] + copies[number + 1 :])
    yield from with_later_copies(schedule, first)


def with_replayed_copies(form: Form, schedule: Schedule, cycles: int, judge: Replay, effort: int) -> tuple[Schedule, int]:
    """A schedule of so many ``cycles`` with its copies changed where replays say that this saves some, and its cycles then.

    The replays take at most ``effort`` cycles together. Nothing is tried where these are not enough to leave out each copy once. After a
    gain the same copy is the next one to be tried.
    """

    def moves(best: Schedule, judged: Sequence[int]) -> Iterator[tuple[int, Schedule]]:
        return changed_copies(best, judged[-1] if judged else 0)

    asked, most = form.judge(judge), effort // max(cycles, 1)
    return climbed(schedule, cycles, moves, lambda some: map(asked.cycles, some), most if most >= len(schedule.copies) else 0)
