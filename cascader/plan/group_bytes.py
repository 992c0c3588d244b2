"""Group bytes: the memory that part groups need, worked out for all groups that end alike, one after the other.

Of groups with the same last part and stripe rows, a shorter one makes those jobs of the longest one that fall to its parts. So one
sequence of steps serves them all, and a group that begins one part earlier only adds what that part changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import numpy as np
import numpy.typing as npt

from cascader.plan.buffers import rolled, rolling_rows
from cascader.plan.depth_first import DepthFirstScheduler, Group, JobTable
from npu_model.native import native
from npu_model.values import dataclass

Steps = npt.NDArray[np.int64]
Span = tuple[Steps, Steps]
"""First and last (exclusive) live row of a tensor at every step."""
_UNREAD = 1 << 40
_NATIVE = native("cascader")


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """When a tensor is first written and last read, in parts, whether it is there from the start or kept to the end, its rows.

    ``ends`` are the parts that write it, in order, each with the end of the rows that it makes. ``firsts`` are the parts that use it,
    each with the first row that it touches.
    """

    first_writer: int
    last_reader: int
    present: bool
    kept: bool
    rows: int
    ends: tuple[tuple[int, int], ...]
    firsts: tuple[tuple[int, int], ...]

    def made_before(self, part: int) -> int:
        """End of the rows that are there before a part."""
        return self.rows if self.present else max((end for writer, end in self.ends if writer < part), default=0)

    def wanted_after(self, part: int) -> int:
        """The first row that is still to be used after a part."""
        return 0 if self.kept else min((row for user, row in self.firsts if user > part), default=_UNREAD)


def tensor_facts(scheduler: DepthFirstScheduler) -> tuple[TensorFacts, ...]:
    """The facts of every tensor of the scheduler's graph."""
    return tuple(
        TensorFacts(
            first_writer=min(scheduler.producers[index], default=len(scheduler.graph.parts)),
            last_reader=max((part for part, _ in scheduler.consumers[index]), default=-1),
            present=tensor.kind.is_there_at_first,
            kept=tensor.kind.stays_to_the_end,
            rows=tensor.rows,
            ends=tuple(_ends(scheduler, index)),
            firsts=tuple(_firsts(scheduler, index)),
        )
        for index, tensor in enumerate(scheduler.graph.tensors)
    )


def _ends(scheduler: DepthFirstScheduler, tensor: int) -> Iterator[tuple[int, int]]:
    rows = scheduler.graph.tensors[tensor].rows
    for index in scheduler.producers[tensor]:
        part = scheduler.graph.parts[index]
        yield index, min(rows, part.written(part.outputs.index(tensor), 0, scheduler.needed[index], rows)[1])


def _firsts(scheduler: DepthFirstScheduler, tensor: int) -> Iterator[tuple[int, int]]:
    for index in scheduler.producers[tensor]:
        part = scheduler.graph.parts[index]
        yield index, part.written(part.outputs.index(tensor), 0, 1, scheduler.graph.tensors[tensor].rows)[0]
    for index, propagator in scheduler.consumers[tensor]:
        yield index, propagator.demand(0, 1)[0]


def _union(a: Span, b: Span) -> Span:
    """The span that covers both at every step; an empty span covers nothing."""
    first, second = a[1] > a[0], b[1] > b[0]
    both = first & second
    low = np.where(both, np.minimum(a[0], b[0]), np.where(first, a[0], b[0]))
    high = np.where(both, np.maximum(a[1], b[1]), np.where(first, a[1], b[1]))
    return low, high


def group_bytes(scheduler: DepthFirstScheduler, longest: Group, jobs: JobTable, *, in_place: bool) -> list[int]:
    """Most bytes that are live at one step of every group that ends like ``longest``, from that one to the last part alone."""
    if _NATIVE is not None:
        how = np.array([longest.first, longest.last, in_place], dtype=np.int64)
        return [int(size) for size in np.frombuffer(_NATIVE.group_bytes(scheduler.flat, jobs, how), dtype=np.int64)[::-1]]
    grown = GroupBytes(scheduler, tensor_facts(scheduler), longest, jobs, in_place=in_place)
    return [grown.grow() for _ in range(longest.first, longest.last + 1)][::-1]


class GroupBytes:
    """Live bytes, step by step, of a group that grows: empty at first, :meth:`grow` adds the part before its first one.

    ``jobs`` are those of ``longest``, the longest group. The steps of parts that are not in the group yet need not be left out: it
    reads and writes nothing then, so that no tensor of it holds more than at its step before, or at its first step.
    """

    def __init__(
        self, scheduler: DepthFirstScheduler, facts: tuple[TensorFacts, ...], longest: Group, jobs: JobTable, *, in_place: bool
    ) -> None:
        self._graph = scheduler.graph
        self._facts = facts
        self._in_place = in_place
        self._first, self._last = longest.last + 1, longest.last
        self._parts, self._starts, self._ends = jobs.T
        self._read: dict[int, Steps] = {}
        self._written: dict[int, Steps] = {}
        self._sharing: dict[int, list[int]] = {}
        self._held: list[Steps | int] = [self._passing_bytes(tensor) for tensor in range(len(facts))]
        self.total = np.full(len(jobs), sum(self._held), dtype=np.int64)

    def grow(self) -> int:
        """Most bytes of tensors that are live at one step of the group with one part more; tensors that pass by it count.

        An interior tensor has a rolling buffer of a fixed size. Until it rolls the rows so far are live in it; once it no longer does,
        those that are left. A result that is stored over its operand shares one with it.
        """
        self._first -= 1
        part = self._graph.parts[self._first]
        self._touch(self._first)
        if self._in_place and part.in_place is not None:
            self._share(part.in_place, part.outputs[0])
        stores = {self._sharing[tensor][-1]: self._sharing[tensor] for tensor in (*(t for t, _ in part.inputs), *part.outputs)}
        for head, tensors in stores.items():
            self._set_held(head, self._bytes(tensors))
        most = int(self.total.max())
        return max(most, int(self.total[0]) + self._unread_bytes()) if self._first == 0 else most

    def _set_held(self, tensor: int, held: Steps | int) -> None:
        self.total += held - self._held[tensor]
        self._held[tensor] = held

    def _share(self, operand: int, output: int) -> None:
        """Put the operand into the buffer of the output, whose tensors are in the order in which they are stored over each other."""
        self._set_held(operand, 0)
        self._sharing[output].insert(0, operand)
        self._sharing[operand] = self._sharing[output]

    def _touch(self, index: int) -> None:
        """Note the rows that a part's jobs read and write."""
        part, steps = self._graph.parts[index], np.flatnonzero(self._parts == index)
        starts = self._starts[steps]
        for tensor, propagator in part.inputs:
            self._need(tensor, steps, propagator.first_rows(starts))
        for output, tensor in enumerate(part.outputs):
            rows, at = self._graph.tensors[tensor].rows, part.map(output)
            if at is not None:
                low, high = at.lows(starts), at.highs(self._ends[steps])
            else:
                low, high = (np.zeros_like(steps), np.full_like(steps, rows)) if part.atomic else (starts, self._ends[steps])
            self._need(tensor, steps, low)
            written = self._written.setdefault(tensor, np.zeros(len(self._parts), dtype=np.int64))
            written[steps] = np.minimum(rows, high)

    def _need(self, tensor: int, steps: Steps, rows: Steps) -> None:
        """Note that the jobs at ``steps`` touch the tensor from ``rows`` on."""
        if tensor not in self._read:
            self._read[tensor] = np.full(len(self._parts), _UNREAD, dtype=np.int64)
            self._sharing[tensor] = [tensor]
        self._read[tensor][steps] = np.minimum(rows, self._read[tensor][steps])

    def _is_present(self, tensor: int) -> bool:
        """Whether the tensor is there when the group begins."""
        return self._facts[tensor].present or self._facts[tensor].first_writer < self._first

    def _stays(self, tensor: int) -> bool:
        """Whether the tensor is needed when the group has ended."""
        return self._facts[tensor].kept or self._facts[tensor].last_reader > self._last

    def _passing_bytes(self, tensor: int) -> int:
        """Bytes of a tensor that takes no part in the group."""
        passes = self._is_present(tensor) and self._stays(tensor)
        rows = self._facts[tensor].made_before(self._first) - self._facts[tensor].wanted_after(self._last) if passes else 0
        return max(0, rows) * self._graph.tensors[tensor].row_bytes

    def _unread_bytes(self) -> int:
        """Bytes of inputs that nobody reads: they are filled, and may be overwritten from the second job on."""
        unread = (i for i, facts in enumerate(self._facts) if facts.present and not facts.kept and facts.last_reader < 0)
        return sum(self._graph.tensors[index].size for index in unread)

    def _span(self, tensor: int) -> Span:
        steps = len(self._parts)
        high = np.full(steps, self._facts[tensor].made_before(self._first), dtype=np.int64)
        if tensor in self._written:
            high = np.maximum(high, np.maximum.accumulate(self._written[tensor]))
        if self._facts[tensor].kept:
            return np.zeros(steps, dtype=np.int64), high
        low = np.minimum(np.minimum.accumulate(self._read[tensor][::-1])[::-1], self._facts[tensor].wanted_after(self._last))
        if self._facts[tensor].present and self._first == 0:
            # An input is filled with all of its rows, whichever of them are read.
            low[0] = 0
        high = np.where(low == _UNREAD, 0, high)
        return np.minimum(low, high), high

    def _bytes(self, tensors: list[int]) -> Steps:
        """Live bytes of the tensors of one buffer."""
        low, high = reduce(_union, [self._span(tensor) for tensor in tensors])
        held = high - low
        most = rolling_rows(self._graph, tensors, int(held.max()), int(high.max()))
        if most < high.max() and not any(self._is_present(tensor) or self._stays(tensor) for tensor in tensors):
            first, last = rolled(low, high, most)
            held = last - first
        return held * self._graph.tensors[tensors[-1]].row_bytes
