"""Row liveness: the rows of every tensor that hold something at each step of a sequence of stripe jobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cascader.graph.cascader_graph import TensorKind
from cascader.graph.row_graph import RowGraph, RowTensor
from cascader.plan.depth_first import StripeJob
from npu_model.values import dataclass

Steps = npt.NDArray[np.int64]
_FAR = 1 << 40


@dataclass(frozen=True, slots=True)
class LiveRows:
    """Rows ``low[i]`` to ``high[i]`` (exclusive) of a tensor are live at step ``start + i``; they may be none."""

    start: int
    low: Steps
    high: Steps

    @property
    def end(self) -> int:
        """First step after the life."""
        return self.start + len(self.low)


def live_rows(graph: RowGraph, jobs: Sequence[StripeJob]) -> dict[int, LiveRows]:
    """Live rows of every tensor that the jobs touch, by index, from the first step at which it holds anything to the last use.

    During a step both the rows that the job reads and those that it writes are live. Inputs are whole from step 0,
    outputs and variables stay to the end.
    """
    steps, used = len(jobs), _uses(graph, jobs)
    lives: dict[int, LiveRows] = {}
    for index, facts in enumerate(graph.tensors):
        uses, before = used.get(index), facts.kind.is_there_at_first
        if uses is not None:
            start = 0 if before else uses.first
            end = steps if facts.kind.stays_to_the_end else uses.last + 1
            lives[index] = _life(uses, start, end, facts)
        elif before:
            # Nobody reads it, but it is filled, and a variable is kept.
            end = max(steps, 1) if facts.kind is TensorKind.VARIABLE else 1
            lives[index] = LiveRows(0, np.zeros(end, np.int64), np.full(end, facts.rows, np.int64))
    return lives


@dataclass(frozen=True, slots=True)
class _Uses:
    """Uses of a tensor by jobs, step by step: the first row that a job ``needs``, and the end of the rows that it has ``written``."""

    needs: list[tuple[int, int]]
    written: list[tuple[int, int]]

    @property
    def first(self) -> int:
        """The step of the first use."""
        return self.needs[0][0]

    @property
    def last(self) -> int:
        """The step of the last use."""
        return self.needs[-1][0]


def _life(uses: _Uses, start: int, end: int, facts: RowTensor) -> LiveRows:
    """The live rows of a tensor from step ``start`` until ``end``."""
    if facts.kind.stays_to_the_end:
        low = np.zeros(end - start, dtype=np.int64)
    else:
        need = np.full(end - start, _FAR, dtype=np.int64)
        for step, row in uses.needs:
            need[step - start] = min(row, need[step - start])
        low = np.minimum.accumulate(need[::-1])[::-1]
        if facts.kind.is_there_at_first:
            low[0] = 0
    if facts.kind.is_there_at_first or not uses.written:
        high = np.full(end - start, facts.rows, dtype=np.int64)
    else:
        high = np.zeros(end - start, dtype=np.int64)
        for step, row in uses.written:
            high[step - start] = row
        high = np.maximum.accumulate(high)
    return LiveRows(start, np.minimum(low, high), high)


def _uses(graph: RowGraph, jobs: Sequence[StripeJob]) -> dict[int, _Uses]:
    """The uses of each tensor that is used."""
    found: dict[int, _Uses] = {}
    for step, job in enumerate(jobs):
        part = graph.parts[job.part]
        for tensor, propagator in part.inputs:
            found.setdefault(tensor, _Uses([], [])).needs.append((step, propagator.demand(job.start, job.end)[0]))
        for output, tensor in enumerate(part.outputs):
            low, high = part.written(output, job.start, job.end, graph.tensors[tensor].rows)
            uses = found.setdefault(tensor, _Uses([], []))
            uses.needs.append((step, low))
            uses.written.append((step, min(graph.tensors[tensor].rows, high)))
    return found
