"""Plans: part groups executed depth-first in stripes, each with the memory that it needs and the cycles that it takes.

A Plan (RFC 0037) is a group of consecutive parts, the stripe that its last part is asked for, and the constants that are
staged in the cascade memory for it. Tensors inside the group are rolling buffers of exactly the rows that are needed;
forks and joins (residual sums, concatenations) need nothing special, as a skip tensor stays until its last reader.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from cascader.graph import TensorKind
from cascader.pareto import pareto
from cascader.pull import Group, PullScheduler, StripeJob
from cascader.row_graph import RowGraph

Steps = npt.NDArray[np.int64]
_UNREAD = 1 << 40


class CostModel(Protocol):
    """What the device says of a part's stripes."""

    def compute_cycles(self, part: int, start: int, end: int) -> int:
        """Cycles of rows ``start`` to ``end`` with the constants in cascade memory."""

    def direct_cycles(self, part: int, start: int, end: int) -> int:
        """Cycles of the same rows with the constants read from their home memory."""

    def constant_bytes(self, part: int) -> int:
        """Bytes of the part's weights and scales; 0 if it has none."""

    def transfer_cycles(self, part: int) -> int:
        """Cycles to copy the part's constants into cascade memory."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What plans are tried, each a switch of its own.

    ``stripe_rows`` are the row counts that a group's last part is asked for, ``group_length`` the most parts of a
    group. ``staging`` are the sizes in bytes up to which constants are staged (0: none). ``cascade`` off leaves single
    parts only, ``in_place`` off keeps results and operands apart.
    """

    stripe_rows: tuple[int, ...] = (1, 2, 4, 8, 16)
    group_length: int = 24
    staging: tuple[int, ...] = (0, 2048, 4096, 8192, 16384, 40960, 1 << 30)
    cascade: bool = True
    in_place: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """A group with its staged parts; ``memory`` counts everything that is live while it runs, tensors that pass by too.

    ``cycles`` are those with all copies hidden behind earlier work, as far as the home memory's bandwidth allows,
    ``cold_cycles`` those with the first copy issued when the group begins.
    """

    group: Group
    staged: tuple[int, ...]
    memory: int
    cycles: int
    cold_cycles: int


class _GroupRows:
    """Live rows of the tensors that one group touches, step by step, as numpy arrays over its jobs."""

    def __init__(self, planner: Planner, group: Group, jobs: tuple[StripeJob, ...]) -> None:
        self.planner = planner
        self.group = group
        self.jobs = jobs
        self.read: dict[int, Steps] = {}
        self.written: dict[int, Steps] = {}
        self._collect()

    def _collect(self) -> None:
        graph = self.planner.graph
        parts, starts, ends = np.array([(job.part, job.start, job.end) for job in self.jobs], dtype=np.int64).T
        for index in range(self.group.first, self.group.last + 1):
            part = graph.parts[index]
            steps = np.flatnonzero(parts == index)
            for tensor, propagator in part.inputs:
                self._need(tensor, steps, propagator.first_rows(starts[steps]))
            for tensor in part.outputs:
                self._need(tensor, steps, np.zeros_like(steps) if part.atomic else starts[steps])
                if tensor not in self.written:
                    self.written[tensor] = np.zeros(len(parts), dtype=np.int64)
                rows = graph.tensors[tensor].rows
                self.written[tensor][steps] = rows if part.atomic else np.minimum(rows, ends[steps])

    def _need(self, tensor: int, steps: Steps, rows: Steps) -> None:
        """Note that the jobs at ``steps`` touch the tensor from ``rows`` on."""
        if tensor not in self.read:
            self.read[tensor] = np.full(len(self.jobs), _UNREAD, dtype=np.int64)
        self.read[tensor][steps] = np.minimum(rows, self.read[tensor][steps])

    def span(self, tensor: int) -> tuple[Steps, Steps]:
        """First and last (exclusive) live row at every step."""
        facts = self.planner.facts[tensor]
        steps = len(self.jobs)
        stays = facts.kept or facts.last_reader > self.group.last
        present = facts.present or facts.first_writer < self.group.first
        high = np.full(steps, facts.rows, dtype=np.int64) if present else np.maximum.accumulate(self.written[tensor])
        if stays:
            return np.zeros(steps, dtype=np.int64), high
        low = np.minimum.accumulate(self.read[tensor][::-1])[::-1]
        high = np.where(low == _UNREAD, 0, high)
        return np.minimum(low, high), high

    def spans(self) -> dict[int, tuple[Steps, Steps]]:
        """The spans of all touched tensors; a result that is stored over its operand shares one span with it."""
        spans = {tensor: self.span(tensor) for tensor in self.read}
        if not self.planner.options.in_place:
            return spans
        for index in range(self.group.first, self.group.last + 1):
            part = self.planner.graph.parts[index]
            if part.in_place in spans:
                operand, output = spans.pop(part.in_place), part.outputs[0]
                spans[output] = _union(operand, spans[output])
        return spans


def _union(a: tuple[Steps, Steps], b: tuple[Steps, Steps]) -> tuple[Steps, Steps]:
    """The span that covers both at every step; an empty span covers nothing."""
    first, second = a[1] > a[0], b[1] > b[0]
    both = first & second
    low = np.where(both, np.minimum(a[0], b[0]), np.where(first, a[0], b[0]))
    high = np.where(both, np.maximum(a[1], b[1]), np.where(first, a[1], b[1]))
    return low, high


@dataclass(frozen=True, slots=True)
class _TensorFacts:
    """When a tensor is first written and last read, in parts, whether it is there from the start or kept to the end, its rows.

    ``rows`` are those that are made, which may be fewer than the tensor has.
    """

    first_writer: int
    last_reader: int
    present: bool
    kept: bool
    rows: int


class Planner:
    """Makes the Pareto set of plans of every part group."""

    def __init__(self, scheduler: PullScheduler, cost: CostModel, options: PlanOptions) -> None:
        self.scheduler = scheduler
        self.cost = cost
        self.options = options

    @property
    def graph(self) -> RowGraph:
        """The graph that is planned."""
        return self.scheduler.graph

    @cached_property
    def facts(self) -> tuple[_TensorFacts, ...]:
        """One entry per tensor."""
        return tuple(
            _TensorFacts(
                first_writer=min(self.scheduler.producers[index], default=len(self.graph.parts)),
                last_reader=max((part for part, _ in self.scheduler.consumers[index]), default=-1),
                present=tensor.kind in (TensorKind.INPUT, TensorKind.VARIABLE),
                kept=tensor.kind in (TensorKind.OUTPUT, TensorKind.VARIABLE),
                rows=self._rows(index),
            )
            for index, tensor in enumerate(self.graph.tensors)
        )

    def _rows(self, tensor: int) -> int:
        """Rows of the tensor that are ever live."""
        facts, parts = self.graph.tensors[tensor], self.scheduler.producers[tensor]
        if facts.kind in (TensorKind.INPUT, TensorKind.VARIABLE) or any(self.graph.parts[part].atomic for part in parts):
            return facts.rows
        return min(facts.rows, max((self.scheduler.needed[part] for part in parts), default=facts.rows))

    def passing_bytes(self, group: Group, touched: Iterable[int]) -> int:
        """Bytes of tensors that live across the group without taking part."""
        inside = set(touched)
        return sum(
            facts.rows * tensor.row_bytes
            for index, (tensor, facts) in enumerate(zip(self.graph.tensors, self.facts, strict=True))
            if index not in inside
            and (facts.present or facts.first_writer < group.first)
            and (facts.kept or facts.last_reader > group.last)
        )

    def _unread_bytes(self) -> int:
        """Bytes of inputs that nobody reads: they are filled, and may be overwritten from the second job on."""
        unread = (i for i, facts in enumerate(self.facts) if facts.present and not facts.kept and facts.last_reader < 0)
        return sum(self.graph.tensors[index].size for index in unread)

    def tensor_bytes(self, group: Group, jobs: tuple[StripeJob, ...]) -> int:
        """Most bytes of tensors that are live at one step; an interior tensor has a rolling buffer of a fixed size."""
        rows = _GroupRows(self, group, jobs)
        total = np.zeros(len(jobs), dtype=np.int64)
        for tensor, (low, high) in rows.spans().items():
            held = high - low
            most = int(held.max())
            rolls = most < int(high.max())
            total += (np.where(held > 0, most, 0) if rolls else held) * self.graph.tensors[tensor].row_bytes
        if group.first == 0:
            total[0] += self._unread_bytes()
        return int(total.max()) + self.passing_bytes(group, rows.read)

    def plans(self, group: Group) -> tuple[Plan, ...]:
        """The group with each choice of staged constants that is worth something."""
        jobs = self.scheduler.jobs(group)
        tensor_bytes = self.tensor_bytes(group, jobs)
        known: dict[tuple[int, int], tuple[int, int, int]] = {}
        costs = [known.get((job.part, job.end - job.start)) or self._cost(known, job) for job in jobs]
        compute: dict[int, int] = defaultdict(int)
        direct: dict[int, int] = defaultdict(int)
        for part, staged_cycles, direct_cycles in costs:
            compute[part] += staged_cycles
            direct[part] += direct_cycles
        gain = [part for part in compute if direct[part] > compute[part] and self.cost.constant_bytes(part)]
        choices = dict.fromkeys(tuple(p for p in gain if self.cost.constant_bytes(p) <= limit) for limit in self.options.staging)
        return tuple(
            Plan(
                group=group,
                staged=staged,
                memory=tensor_bytes + sum(self.cost.constant_bytes(p) for p in staged),
                cycles=self._cycles(compute, direct, staged),
                cold_cycles=self._cold_cycles(costs, staged),
            )
            for staged in choices
        )

    def _cost(self, known: dict[tuple[int, int], tuple[int, int, int]], job: StripeJob) -> tuple[int, int, int]:
        """A job's part, cycles with constants staged and read from home; jobs of as many rows cost the same."""
        cost = (
            job.part,
            self.cost.compute_cycles(job.part, job.start, job.end),
            self.cost.direct_cycles(job.part, job.start, job.end),
        )
        known[job.part, job.end - job.start] = cost
        return cost

    def _cycles(self, compute: dict[int, int], direct: dict[int, int], staged: tuple[int, ...]) -> int:
        """Cycles if copies are hidden as well as the home memory's bandwidth allows."""
        busy = sum(cycles if part in staged else direct[part] for part, cycles in compute.items())
        return max(busy, sum(self.cost.transfer_cycles(part) for part in staged))

    def _cold_cycles(self, costs: list[tuple[int, int, int]], staged: tuple[int, ...]) -> int:
        """Cycles if the copies begin with the group, one after the other in the order of first use.

        ``costs`` are each job's part, cycles with constants staged, and cycles with constants read from home.
        """
        ready: dict[int, int] = {}
        copied = 0
        for part in dict.fromkeys(part for part, _, _ in costs if part in staged):
            copied += self.cost.transfer_cycles(part)
            ready[part] = copied
        time = 0
        for part, staged_cycles, direct_cycles in costs:
            time = max(time, ready[part]) + staged_cycles if part in ready else time + direct_cycles
        return time

    def _stripe_choices(self, first: int, last: int) -> tuple[int, ...]:
        part = self.graph.parts[last]
        if first == last:
            return (part.rows,)
        if part.atomic:
            return tuple(rows for rows in self.options.stripe_rows if rows <= 8)
        return tuple(sorted({min(rows, part.rows) for rows in (*self.options.stripe_rows, part.rows)}))

    def all_plans(self) -> tuple[tuple[Plan, ...], ...]:
        """For every part, the Pareto plans of the groups that end with it, group by group."""
        ending: list[tuple[Plan, ...]] = []
        for last in range(len(self.graph.parts)):
            length = self.options.group_length if self.options.cascade else 1
            plans: list[Plan] = []
            segment = self.graph.parts[last].segment
            for first in range(max(0, last + 1 - length), last + 1):
                if any(part.segment != segment for part in self.graph.parts[first:last]):
                    continue
                groups = (Group(first, last, rows) for rows in self._stripe_choices(first, last))
                found = [plan for group in groups for plan in self.plans(group)]
                plans += dict.fromkeys(pareto(found) + pareto(found, cycles=lambda plan: plan.cold_cycles))
            ending.append(tuple(plans))
        return tuple(ending)
