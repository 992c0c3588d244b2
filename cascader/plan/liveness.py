"""Row liveness: the rows of every tensor that hold something at each step of a sequence of stripe jobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cascader.graph.cascader_graph import TensorKind
from cascader.graph.row_graph import RowGraph
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

    @property
    def most(self) -> int:
        """Most rows that are live at one step: what a rolling buffer must hold."""
        return int((self.high - self.low).max())


def live_rows(graph: RowGraph, jobs: Sequence[StripeJob]) -> dict[int, LiveRows]:
    """Live rows of every tensor that the jobs touch, by index, from the first step at which it holds anything to the last use.

    During a step both the rows that the job reads and those that it writes are live. Inputs are whole from step 0,
    outputs and variables stay to the end.
    """
    steps, used = len(jobs), _uses(graph, jobs)
    # One row per tensor: whole steps of all tensors are faster to handle than each tensor on its own.
    low = np.minimum.accumulate(used.need[:, ::-1], axis=1)[:, ::-1]
    high = np.maximum.accumulate(used.written, axis=1)
    for index, facts in enumerate(graph.tensors):
        if facts.kind.is_there_at_first or index not in used.made:
            high[index] = facts.rows
        if facts.kind.stays_to_the_end:
            low[index] = 0
        elif facts.kind.is_there_at_first and steps:
            low[index, 0] = 0
    low = np.minimum(low, high)
    lives: dict[int, LiveRows] = {}
    for index, facts in enumerate(graph.tensors):
        if index in used.first:
            span = slice(
                0 if facts.kind.is_there_at_first else used.first[index], steps if facts.kind.stays_to_the_end else used.last[index] + 1
            )
            lives[index] = LiveRows(span.start, low[index, span], high[index, span])
        elif facts.kind.is_there_at_first:
            # Nobody reads it, but it is filled, and a variable is kept.
            end = max(steps, 1) if facts.kind is TensorKind.VARIABLE else 1
            lives[index] = LiveRows(0, np.zeros(end, np.int64), np.full(end, facts.rows, np.int64))
    return lives


@dataclass(frozen=True, slots=True)
class _Uses:
    """Uses of tensors by jobs, in arrays with a row per tensor and a column per step.

    ``need`` has the first row that the step needs (``_FAR``: none), ``written`` the end of the rows that it writes (0: none).
    ``first`` and ``last`` are the steps of the first and the last use of each tensor that is used; ``made`` are those written.
    """

    need: Steps
    written: Steps
    first: dict[int, int]
    last: dict[int, int]
    made: set[int]


def _uses(graph: RowGraph, jobs: Sequence[StripeJob]) -> _Uses:
    shape = len(graph.tensors), len(jobs)
    uses = _Uses(np.full(shape, _FAR, dtype=np.int64), np.zeros(shape, dtype=np.int64), {}, {}, set())
    for step, job in enumerate(jobs):
        part = graph.parts[job.part]
        needed = [(tensor, propagator.demand(job.start, job.end)[0]) for tensor, propagator in part.inputs]
        for output, tensor in enumerate(part.outputs):
            low, high = part.written(output, job.start, job.end, graph.tensors[tensor].rows)
            needed.append((tensor, low))
            uses.written[tensor, step] = min(graph.tensors[tensor].rows, high)
            uses.made.add(tensor)
        for tensor, low in needed:
            uses.need[tensor, step] = min(low, uses.need[tensor, step])
            uses.first.setdefault(tensor, step)
            uses.last[tensor] = step
    return uses
