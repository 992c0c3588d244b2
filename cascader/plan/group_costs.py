"""Group costs: the cycles of part groups with each choice of staged constants, worked out at once for all groups that end alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Protocol

import numpy as np
import numpy.typing as npt

from cascader.plan.depth_first import Group, JobTable
from npu_model.values import dataclass

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


@dataclass(frozen=True, slots=True)
class StagedCosts:
    """Costs of a group with the constants of the parts ``staged``, which stand in the order of their first use.

    ``cycles`` count all copies as hidden behind earlier work, as far as the home memory's bandwidth allows. In
    ``cold_cycles`` the first copy is issued when the group begins, and the others follow in the order of first use.
    """

    staged: tuple[int, ...]
    constant_bytes: int
    cycles: int
    cold_cycles: int


@dataclass(frozen=True, slots=True)
class _Work:
    """Cycles of the parts of some jobs, in the order of their first jobs.

    The columns of ``direct`` and ``saved`` are parts: their cycles so far with the constants read from home, and the cycles that
    staging saves of them. The rows are times: before the first job of each part, and in the end.
    """

    parts: tuple[int, ...]
    direct: Numbers
    saved: Numbers


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


def _work(jobs: JobTable, known: KnownCosts) -> _Work:
    """The work of the jobs."""
    parts = jobs[:, 0]
    present, first_jobs = np.unique(parts, return_index=True)
    order = np.argsort(first_jobs, kind="stable")
    column = np.empty(len(present), dtype=np.int64)
    column[order] = np.arange(len(present))
    spent = np.zeros((2, len(jobs) + 1, len(present)), dtype=np.int64)
    spent[:, np.arange(1, len(jobs) + 1), column[np.searchsorted(present, parts)]] = known.cycles(jobs).T
    staged, direct = np.cumsum(spent, axis=1)[:, [*first_jobs[order], len(jobs)]]
    return _Work(tuple(present[order].tolist()), direct, direct - staged)


def _worth(work: _Work, sizes: Numbers) -> npt.NDArray[np.bool_]:
    """Whether to stage the constants of each part of some work, of so many bytes, saves cycles."""
    return np.asarray((work.saved[-1] > 0) & (sizes > 0))


def staged_parts(jobs: JobTable, known: KnownCosts, limit: int) -> tuple[int, ...]:
    """The parts of some jobs whose constants of at most ``limit`` bytes each are staged, in the order of their first use."""
    work = _work(jobs, known)
    sizes = np.array([known.cost.constant_bytes(part) for part in work.parts], dtype=np.int64)
    return tuple(compress(work.parts, _worth(work, sizes) & (sizes <= limit)))


def staged_costs(longest: Group, jobs: JobTable, known: KnownCosts, staging: Sequence[int]) -> Iterator[tuple[StagedCosts, ...]]:
    """The costs of every group that ends like ``longest``, from that one to the last part alone, with each choice of staged constants.

    ``jobs`` are those of the longest group; a shorter one has those that fall to its parts. Each size of ``staging`` is a choice:
    to stage the constants of at most as many bytes, where that saves cycles; they ascend. Choices that come to the same are given once.
    """
    work, cost = _work(jobs, known), known.cost
    sizes, transfers = (np.array([f(part) for part in work.parts], dtype=np.int64) for f in (cost.constant_bytes, cost.transfer_cycles))
    worth = _worth(work, sizes)
    # Axes: group, choice, part or time.
    inside = np.array(work.parts) >= np.arange(longest.first, longest.last + 1)[:, None, None]
    chosen = inside & worth & (sizes <= np.array(staging, dtype=np.int64)[:, None])
    spent = inside @ work.direct.T - chosen @ work.saved.T
    copied = np.cumsum(chosen * transfers, axis=-1)
    # A part that waits for its copy waits before its first job, and everything after that is late by as much.
    late = np.where(chosen, copied - spent[..., :-1], 0).max(axis=-1, initial=0)
    columns = (chosen @ sizes, np.maximum(spent[..., -1], copied[..., -1]), spent[..., -1] + late)
    for choices, costs in zip(chosen, np.stack(columns, axis=-1).tolist(), strict=True):
        # A larger size stages all that a smaller one does: where it stages no more, the choice is the same.
        staged = choices.sum(axis=1).tolist()
        new = [at for at, count in enumerate(staged) if at == 0 or count != staged[at - 1]]
        yield tuple(StagedCosts(tuple(compress(work.parts, choices[at].tolist())), *costs[at]) for at in new)
