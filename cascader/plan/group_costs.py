"""Costs of stripes as a device states them, and the cycles of part groups with some of their constants staged."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from cascader.plan.depth_first import JobTable

Numbers = npt.NDArray[np.int64]


class FrontTimes(NamedTuple):
    """Cycles of a device's front for a job, and of the copier for its constants; 0 if other work hides them.

    ``commands`` is the cycles in which the job's commands are fetched, ``commands_contended`` the same during copies, ``first_commands``
    the same for the first job that is no transfer. The device fetches commands ``ahead`` by that many cycles of such fetches. ``table`` is
    the cycles to load a table of the job, ``late_table`` the cycles to load a table whose place an earlier job's table has until then.

    ``copy_commands`` is the cycles in which the commands of a copy of the job's constants are fetched. The memory of the constants is free
    during ``copy_wait`` cycles of the copy. ``last_transfer`` is the cycles of its last transfer if that may wait in a queue behind
    another one.
    """

    commands: int = 0
    commands_contended: int = 0
    first_commands: int = 0
    ahead: int = 0
    table: int = 0
    late_table: int = 0
    copy_commands: int = 0
    last_transfer: int = 0
    copy_wait: int = 0


class JobTimes(NamedTuple):
    """Cycles of a job: ``staged`` with its constants copied, ``direct`` reading them at home.

    ``lead`` is the cycles that the job saves if its first constants are read in the previous job's tail, if that tail is long enough.
    ``tail`` is the last cycles of the job, in which the next job may read its first constants. Both are for a job that reads at home;
    ``staged_lead`` and ``staged_tail`` are for a job whose constants are copied. ``contended`` is the cycles of a job that reads at home
    while a copy keeps that memory busy; ``home`` is the cycles in which the job itself does so. ``copier`` is the cycles in which it uses
    the copier: 0 except for a transfer. ``staged_contended`` and ``staged_home`` are ``contended`` and ``home`` of a job whose constants
    are copied, but whose feature maps are in the same memory as their originals. ``reading`` is the cycles in which its constants are read
    at home, if the device reads them ahead; these may be more than ``home``. ``front`` is the cycles of the device's front.
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
    copier: int = 0
    staged_contended: int = 0
    staged_home: int = 0
    reading: int = 0
    front: FrontTimes = FrontTimes()

    @property
    def line(self) -> tuple[int, ...]:
        """The fields in the order of :data:`TIME_FIELDS`."""
        return (*self[1:-1], *self.front)

    @classmethod
    def of(cls, part: int, line: Sequence[int]) -> JobTimes:
        """The times of a part's job from its :attr:`line`."""
        own = len(cls._fields) - 2
        return cls._make((part, *line[:own], FrontTimes(*line[own:])))


TIME_FIELDS = (*JobTimes._fields[1:-1], *FrontTimes._fields)
"""Names of the cycles of a job, the front's last, as the compiled core has them."""


class CostModel(Protocol):
    """Costs that a device states for stripe jobs, which may share their constants' memory with copies."""

    def times(self, part: int, start: int, end: int) -> JobTimes:
        """The cycles of rows ``start`` to ``end``; equal for all stripes of the part with the same height."""

    def hidden(self, part: int, start: int, end: int) -> int:
        """Cycles of rows ``start`` to ``end`` during which other jobs of any group run: plans leave these out."""

    def constant_bytes(self, part: int) -> int:
        """Bytes of the part's weights and scales; 0 if it has none."""

    def transfer_cycles(self, part: int) -> int:
        """Cycles to copy the part's constants into cascade memory."""

    def same_constants(self, part: int) -> int:
        """The first part that has the same constants, which may be the part itself: one copy serves both."""


_TIMES, _COSTS = Struct(f"={len(TIME_FIELDS)}q"), Struct("=2q")

UNKNOWN = -(1 << 62)
"""Stands for a cost until the device is asked."""


class KnownCosts:
    """Costs of stripes. The device is asked once for each part and height, because stripes of one height cost the same.

    ``begins`` says where each part's lines begin, one for each height from 0 on. A line of ``times`` has :data:`TIME_FIELDS`. A line of
    ``costs`` has the numbers that plans count: cycles with the constants in cascade memory, where the first ones are read before the
    stripe, and cycles with the constants read from home. ``hidden`` is the cycles that both leave out, because other jobs run at the same
    time.
    """

    def __init__(self, cost: CostModel, rows: Sequence[int]) -> None:
        """``rows`` holds the rows of each part."""
        self.cost = cost
        self.begins = np.cumsum([0, *(count + 1 for count in rows)], dtype=np.int64)
        self.times = np.zeros((int(self.begins[-1]), len(TIME_FIELDS)), dtype=np.int64)
        self.costs = np.full((int(self.begins[-1]), 2), UNKNOWN, dtype=np.int64)
        self.hidden = np.zeros(int(self.begins[-1]), dtype=np.int64)
        self._begins: list[int] = self.begins.tolist()
        self._flat = self.times.data, self.costs.data

    @classmethod
    def alike(cls, cost: CostModel, rows: Sequence[int]) -> KnownCosts:
        """The costs of a device on which all stripes cost the same: it is asked only for the first row of the first part."""
        known = cls(cost, rows)
        if len(rows):
            known.ask(0, 0, 1)
            known.times[:], known.costs[:] = known.times[1], known.costs[1]
        return known

    def ask(self, part: int, start: int, end: int) -> None:
        """Store the device's costs of some rows."""
        line, times = self._begins[part] + end - start, self.cost.times(part, start, end)
        hidden, commands = self.cost.hidden(part, start, end), times.front.commands
        if hidden:
            self.hidden[line] = hidden
        # An assignment to an array's row takes several times longer.
        _TIMES.pack_into(self._flat[0], line * _TIMES.size, *times.line)
        costs = max(times.staged - times.staged_lead, commands) - hidden, max(times.direct, commands) - hidden
        _COSTS.pack_into(self._flat[1], line * _COSTS.size, *costs)

    def lines(self, jobs: JobTable) -> Numbers:
        """The line of each job, with all costs of the device stored there."""
        lines: Numbers = self.begins[jobs[:, 0]] + jobs[:, 2] - jobs[:, 1]
        is_new = self.costs[lines, 0] == UNKNOWN
        if np.count_nonzero(is_new):
            # The first job of each new line; reversed, because a dictionary keeps the last one.
            firsts = dict(zip(lines[is_new][::-1].tolist(), jobs[is_new][::-1].tolist(), strict=True))
            for line in sorted(firsts):
                self.ask(*firsts[line])
        return lines

    def cycles(self, jobs: JobTable) -> list[list[int]]:
        """Cycles of each job, a line for each as in ``costs``."""
        found: list[list[int]] = self.costs[self.lines(jobs)].tolist()
        return found


def worth_staging(jobs: JobTable, known: KnownCosts) -> dict[int, int]:
    """The parts of some jobs, in the order of first use, whose staged constants save cycles, with the bytes of these."""
    saved: dict[int, int] = {}
    for part, (staged, direct) in zip(jobs[:, 0].tolist(), known.cycles(jobs), strict=True):
        saved[part] = saved.get(part, 0) + direct - staged
    return {part: size for part, cycles in saved.items() if cycles > 0 and (size := known.cost.constant_bytes(part)) > 0}


def staged_cycles(jobs: JobTable, known: KnownCosts, staged: Sequence[int]) -> tuple[int, int]:
    """Cycles of some jobs with the constants of the parts ``staged``, which are in the order of their first use.

    First with all copies hidden behind earlier work, as far as the home memory's bandwidth allows. Then with the first copy issued when the
    jobs begin: the others follow, and a part waits for its own before its first job.
    """
    ready: dict[int, int] = {}
    copied = busy = time = 0
    for part in staged:
        ready[part] = copied = copied + known.cost.transfer_cycles(part)
    for part, (quick, direct) in zip(jobs[:, 0].tolist(), known.cycles(jobs), strict=True):
        cycles = quick if part in ready else direct
        busy, time = busy + cycles, max(time, ready.get(part, 0)) + cycles
    return max(busy, copied), time
