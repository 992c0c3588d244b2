"""Row liveness: which rows of every tensor hold something at every step of a sequence of stripe jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cascader.graph import TensorKind
from cascader.pull import StripeJob
from cascader.row_graph import RowGraph

Steps = npt.NDArray[np.int64]


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
    steps = len(jobs)
    need: dict[int, Steps] = {}
    written: dict[int, Steps] = {}
    first_use: dict[int, int] = {}
    last_use: dict[int, int] = {}

    def touch(tensor: int, step: int) -> None:
        first_use.setdefault(tensor, step)
        last_use[tensor] = step

    far = 1 << 40
    for step, job in enumerate(jobs):
        part = graph.parts[job.part]
        for tensor, propagator in part.inputs:
            low, _ = propagator.demand(job.start, job.end)
            need.setdefault(tensor, np.full(steps, far, dtype=np.int64))
            need[tensor][step] = min(low, need[tensor][step])
            touch(tensor, step)
        for tensor in part.outputs:
            rows = graph.tensors[tensor].rows
            written.setdefault(tensor, np.zeros(steps, dtype=np.int64))
            written[tensor][step] = rows if part.atomic else min(rows, job.end)
            need.setdefault(tensor, np.full(steps, far, dtype=np.int64))
            need[tensor][step] = min(0 if part.atomic else job.start, need[tensor][step])
            touch(tensor, step)
    lives = {t: _life(graph, t, steps, need[t], written.get(t), first_use[t], last_use[t]) for t in need}
    for index, facts in enumerate(graph.tensors):
        if index not in need and facts.kind in (TensorKind.INPUT, TensorKind.VARIABLE):
            # Nobody reads it, but it is filled, and a variable is kept.
            end = max(steps, 1) if facts.kind is TensorKind.VARIABLE else 1
            lives[index] = LiveRows(0, np.zeros(end, np.int64), np.full(end, facts.rows, np.int64))
    return dict(sorted(lives.items()))


def _life(graph: RowGraph, tensor: int, steps: int, need: Steps, written: Steps | None, first: int, last: int) -> LiveRows:
    facts = graph.tensors[tensor]
    present = facts.kind in (TensorKind.INPUT, TensorKind.VARIABLE)
    kept = facts.kind in (TensorKind.OUTPUT, TensorKind.VARIABLE)
    start, end = (0 if present else first), (steps if kept else last + 1)
    high = np.full(steps, facts.rows, dtype=np.int64) if present or written is None else np.maximum.accumulate(written)
    low = np.minimum.accumulate(need[::-1])[::-1]
    if kept:
        low = np.zeros(steps, dtype=np.int64)
    low, high = low[start:end], high[start:end]
    return LiveRows(start, np.minimum(low, high), high)
