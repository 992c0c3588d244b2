"""Blocks chosen by replays: the blocks of a schedule's parts are changed, one part after the other, where a replay says that this helps.

A search knows what a kernel takes in a block to some per cent, and what its neighbours share with it no better. A replay of a small
network takes a moment: of such a network many blocks are tried. Addresses, copies and the order of the jobs stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import kernels
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.task import Replay
from cascader.plan.jobs import Job
from npu_model.shapes import Shape3D

BLOCKS = 8
"""Blocks that are tried for each part, those that are estimated to be fastest."""


class _Stripes(Struct, frozen=True):
    """Jobs of one part that are as high and in one block, by their numbers; in the part's own block if it is None."""

    part: str
    block: Shape3D | None
    steps: tuple[int, ...]


def _stripes(jobs: Sequence[Job]) -> list[_Stripes]:
    """The jobs of each part that are as high and in the same block, in the order of the first ones."""
    found: dict[tuple[str, Shape3D | None, int], list[int]] = {}
    for step, job in enumerate(jobs):
        start, end = job.rows or (0, 0)
        found.setdefault((job.part, job.block, end - start), []).append(step)
    return [_Stripes(part, block, tuple(steps)) for (part, block, _), steps in found.items()]


def _in_block(schedule: Schedule, steps: Iterable[int], block: Shape3D) -> Schedule:
    """The schedule with some of its jobs in another block."""
    jobs = list(schedule.jobs)
    for step in steps:
        jobs[step] = replace(jobs[step], block=block)
    return replace(schedule, jobs=tuple(jobs))


class _Climb:
    """The changes of one schedule's blocks, in at most so many ``replays``."""

    def __init__(self, form: Form, schedule: Schedule, cycles: int, judge: Replay, replays: int) -> None:
        self._form = form
        self._judge = judge
        self._left = replays
        self.schedule = schedule
        self.cycles = cycles

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {part.name: number for number, part in enumerate(self._form.network.graph.parts)}

    @cached_property
    def _blocks(self) -> dict[int, tuple[Shape3D, ...]]:
        """The blocks that are tried for the job of each step, the fastest by their estimates first; stripes as high have the same ones."""
        cost = self._form.cascader.cost
        staged = {name for copy in self.schedule.copies for name in copy.readers}
        made = kernels(self.schedule)
        found: dict[int, tuple[Shape3D, ...]] = {}
        for stripes in _stripes(self.schedule.jobs):
            kernel, number = made[stripes.steps[0]], self._numbers[stripes.part]
            listed = () if kernel is None else cost.blocks(number, kernel, BLOCKS, staged=stripes.part in staged)
            found |= dict.fromkeys(stripes.steps, listed)
        return found

    def _cycles_of(self, stripes: _Stripes) -> int:
        """Cycles that are expected of some jobs, their constants at home: the more, the more another block may save."""
        cascader, job = self._form.cascader, self.schedule.jobs[stripes.steps[0]]
        number = self._numbers[stripes.part]
        return len(stripes.steps) * cascader.cost.times(number, *(job.rows or (0, cascader.graph.parts[number].rows))).direct

    def _try(self, stripes: _Stripes, block: Shape3D) -> bool:
        """Whether some jobs in another block save cycles; if so, they are in that block from now on."""
        made = _in_block(self.schedule, stripes.steps, block)
        cycles = self._form.judge(self._judge).cycles(made)
        self._left -= 1
        if cycles >= self.cycles:
            return False
        self.schedule, self.cycles = made, cycles
        return True

    def round(self) -> bool:
        """Try every block for the jobs of each part, those of the most cycles first. Whether any helped and replays are left."""
        gained = False
        for stripes in sorted(_stripes(self.schedule.jobs), key=self._cycles_of, reverse=True):
            tried = stripes.block
            for block in self._blocks[stripes.steps[0]]:
                if self._left <= 0:
                    return False
                if block != tried and self._try(stripes, block):
                    gained = True
        return gained


def with_replayed_blocks(form: Form, schedule: Schedule, cycles: int, judge: Replay, effort: int) -> tuple[Schedule, int]:
    """A schedule of so many ``cycles`` with its blocks changed where replays say that this saves some, and its cycles then.

    The replays take at most ``effort`` cycles together. Nothing is tried where these are not enough for one block of each part.
    """
    replays = effort // max(cycles, 1)
    if replays >= len(_stripes(schedule.jobs)):
        climb = _Climb(form, schedule, cycles, judge, replays)
        while climb.round():
            pass
        schedule, cycles = climb.schedule, climb.cycles
    return schedule, cycles
