"""Row liveness: the rows of every tensor that hold data at each step of a sequence of stripe jobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from cascader.graph.cascader_graph import TensorKind
from cascader.graph.row_graph import RowGraph, RowTensor
from cascader.plan.depth_first import JobTable, StripeJob

Steps = npt.NDArray[np.int64]
_FAR = 1 << 40


class LiveRows(Struct, frozen=True):
    """Rows ``low[i]`` to ``high[i]`` (exclusive) of a tensor are live at step ``start + i``; they may be none."""

    start: int
    low: Steps
    high: Steps

    @property
    def end(self) -> int:
        """First step after the life."""
        return self.start + len(self.low)


def live_rows(graph: RowGraph, jobs: JobTable | Sequence[StripeJob]) -> dict[int, LiveRows]:
    """Live rows of every tensor that the jobs touch, by index, from the first step at which it holds data to the last use.

    During a step both the rows that the job reads and those that it writes are live. Inputs are whole from step 0, outputs and variables
    stay to the end.
    """
    lives: dict[int, LiveRows] = {}
    for index, (facts, uses) in enumerate(zip(graph.tensors, _uses(graph, jobs), strict=True)):
        if uses.needs:
            lives[index] = _life(uses, facts, len(jobs))
        elif facts.kind.is_there_at_first:
            # No part reads it, but it is filled, and a variable is kept.
            end = max(len(jobs), 1) if facts.kind is TensorKind.VARIABLE else 1
            lives[index] = LiveRows(0, np.zeros(end, np.int64), np.full(end, facts.rows, np.int64))
    return lives


class _Uses(Struct, frozen=True):
    """Uses of a tensor, part by part, each with the part's steps: the first row that each job ``needs``, the end of those ``written``."""

    needs: list[tuple[Steps, Steps]]
    written: list[tuple[Steps, Steps]]


def _uses(graph: RowGraph, jobs: JobTable | Sequence[StripeJob]) -> list[_Uses]:
    """The uses of each tensor."""
    found = [_Uses([], []) for _ in graph.tensors]
    parts, starts, ends = np.array(jobs, dtype=np.int64).reshape(-1, 3).T
    for index in np.unique(parts, return_index=True)[0].tolist():
        part, steps = graph.parts[index], np.flatnonzero(parts == index)
        for tensor, propagator in part.inputs:
            found[tensor].needs.append((steps, propagator.first_rows(starts[steps])))
        for output, tensor in enumerate(part.outputs):
            rows, at = graph.tensors[tensor].rows, part.map(output)
            if at is not None:
                low, high = at.lows(starts[steps]), at.highs(ends[steps])
            else:
                low, high = (np.zeros_like(steps), np.full_like(steps, rows)) if part.atomic else (starts[steps], ends[steps])
            found[tensor].needs.append((steps, low))
            found[tensor].written.append((steps, np.minimum(rows, high)))
    return found


def _life(uses: _Uses, facts: RowTensor, count: int) -> LiveRows:
    """The live rows of a tensor that is used, among ``count`` jobs."""
    there, stays = facts.kind.is_there_at_first, facts.kind.stays_to_the_end
    start = 0 if there else min(int(steps[0]) for steps, _ in uses.needs)
    end = count if stays else max(int(steps[-1]) for steps, _ in uses.needs) + 1
    need, high = np.full(end - start, 0 if stays else _FAR, dtype=np.int64), np.zeros(end - start, dtype=np.int64)
    for steps, rows in uses.needs:
        need[steps - start] = np.minimum(rows, need[steps - start])
    low = np.minimum.accumulate(need[::-1])[::-1]
    if there:
        low[0] = 0
    for steps, rows in uses.written:
        high[steps - start] = rows
    high = np.full_like(high, facts.rows) if there or not uses.written else np.maximum.accumulate(high)
    return LiveRows(start, np.minimum(low, high), high)
