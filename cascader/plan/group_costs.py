"""Group costs: the cycles of part groups with some of their constants staged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from cascader.plan.depth_first import JobTable

Numbers = npt.NDArray[np.int64]


class CostModel(Protocol):
    """Costs that a device states for the stripes of a part."""

    def compute_cycles(self, part: int, start: int, end: int) -> int:
        """Cycles of rows ``start`` to ``end`` with the constants in cascade memory."""

    def direct_cycles(self, part: int, start: int, end: int) -> int:
        """Cycles of the same rows with the constants read from their home memory."""

    def constant_bytes(self, part: int) -> int:
        """Bytes of the part's weights and scales; 0 if it has none."""

    def transfer_cycles(self, part: int) -> int:
        """Cycles to copy the part's constants into cascade memory."""


UNKNOWN = -(1 << 62)
"""In place of a cost until the device is asked."""


class KnownCosts:
    """Costs of stripes, asked of the device once for each part and height: equally high stripes of a part cost the same.

    ``begins`` says where each part's lines of ``costs`` begin, one for each height from 0 on: cycles with the constants in cascade memory,
    and read from home.
    """

    def __init__(self, cost: CostModel, rows: Sequence[int]) -> None:
        """``rows`` are those of each part."""
        self.cost = cost
        self.begins = np.cumsum([0, *(count + 1 for count in rows)], dtype=np.int64)
        self.costs = np.full((int(self.begins[-1]), 2), UNKNOWN, dtype=np.int64)

    def ask(self, part: int, start: int, end: int) -> None:
        """Note what the device says of some rows."""
        cost = self.cost
        self.costs[self.begins[part] + end - start] = cost.compute_cycles(part, start, end), cost.direct_cycles(part, start, end)

    def cycles(self, jobs: JobTable) -> Numbers:
        """Cycles of each job, a line for each as in ``costs``."""
        lines = self.begins[jobs[:, 0]] + jobs[:, 2] - jobs[:, 1]
        new, firsts = np.unique(lines[self.costs[lines, 0] == UNKNOWN], return_index=True)
        if len(new):
            for job in jobs[self.costs[lines, 0] == UNKNOWN][firsts].tolist():
                self.ask(*job)
        found: Numbers = self.costs[lines]
        return found


def worth_staging(jobs: JobTable, known: KnownCosts) -> dict[int, int]:
    """The parts of some jobs, in the order of first use, whose staged constants save cycles, with the bytes of these."""
    saved: dict[int, int] = {}
    for part, (staged, direct) in zip(jobs[:, 0].tolist(), known.cycles(jobs).tolist(), strict=True):
        saved[part] = saved.get(part, 0) + direct - staged
    return {part: size for part, cycles in saved.items() if cycles > 0 and (size := known.cost.constant_bytes(part)) > 0}


def staged_cycles(jobs: JobTable, known: KnownCosts, staged: Sequence[int]) -> tuple[int, int]:
    """Cycles of some jobs with the constants of the parts ``staged``, which stand in the order of their first use.

    First with all copies hidden behind earlier work, as far as the home memory's bandwidth allows. Then with the first copy issued when
    the jobs begin: the others follow, and a part waits for its own before its first job.
    """
    ready: dict[int, int] = {}
    copied = busy = time = 0
    for part in staged:
        ready[part] = copied = copied + known.cost.transfer_cycles(part)
    for part, (quick, direct) in zip(jobs[:, 0].tolist(), known.cycles(jobs).tolist(), strict=True):
        cycles = quick if part in ready else direct
        busy, time = busy + cycles, max(time, ready.get(part, 0)) + cycles
    return max(busy, copied), time
