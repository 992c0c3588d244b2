"""The depth-first order: a group of parts is executed depth-first, and each part makes only the requested rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cascader.graph.cascader_graph import TensorKind
from cascader.graph.flat_graph import flat_graph
from cascader.graph.row_graph import RowGraph
from cascader.graph.row_maps import RowMap, RowPropagator
from npu_model.native import native

JobTable = npt.NDArray[np.int64]
"""Stripe jobs in order, one a line: part, first row and end (exclusive) of the rows that it makes."""

_FAR = 1 << 40
_NATIVE = native("cascader")


class Group(NamedTuple):
    """Consecutive parts ``first`` to ``last`` (inclusive); the last one is asked for ``stripe_rows`` rows at a time.

    Earlier parts make at most ``inner_rows`` rows at a time; 0 means the number that their readers ask for. A search looks groups up a
    hundred thousand times, and a tuple takes a fraction of a Struct's time.
    """

    first: int
    last: int
    stripe_rows: int
    inner_rows: int = 0


class StripeJob(NamedTuple):
    """Rows ``start`` to ``end`` (exclusive) of a part."""

    part: int
    start: int
    end: int


class DepthFirstScheduler:
    """Makes the stripe jobs of groups, each group's once; the connections of the graph are looked up once.

    ``needed[i]`` is the rows that part i makes in any groups: those that its readers need for their rows. It is all rows if a user of the
    network reads the result, or if it has no reader.
    """

    def __init__(self, graph: RowGraph) -> None:
        self.graph = graph
        self.writers, self.consumers = graph.writers(), graph.readers()
        self.producers = [[part for part, _ in writers] for writers in self.writers]
        for tensor, writers in enumerate(self.writers):
            writers.sort(key=lambda writer, tensor=tensor: graph.is_asked_last(writer[0], tensor))  # type: ignore[misc]
        self.needed = self._needed_rows()
        self.flat = flat_graph(graph, self.needed)
        self.table = cache(self._table)
        """The stripe jobs of one group as a table; earlier groups are complete."""
        users = [sorted({*self.producers[t], *(part for part, _ in self.consumers[t])}) or [0] for t in range(len(graph.tensors))]
        begins = np.cumsum([0, *(len(parts) for parts in users)], dtype=np.int64)[:-1]
        self._users = np.array([part for parts in users for part in parts], dtype=np.int64), begins
        self._bound = np.array([tensor.kind is not TensorKind.INTERMEDIATE for tensor in graph.tensors], dtype=np.bool_)

    def _needed_rows(self) -> tuple[int, ...]:
        """Rows that each part makes, at least one stripe of them, from the last part to the first."""
        needed = [part.rows for part in self.graph.parts]
        for index in range(len(needed) - 1, -1, -1):
            part = self.graph.parts[index]
            kept = any(self.graph.tensors[tensor].kind.stays_to_the_end for tensor in part.outputs)
            readers = [(o, c, p) for o, tensor in enumerate(part.outputs) for c, p in self.consumers[tensor] if c > index]
            if readers and not kept and not part.atomic:
                rows = max(part.rows_until(output, propagator.demand(0, needed[consumer])[1]) for output, consumer, propagator in readers)
                needed[index] = min(part.rows, part.border_from(max(rows, 1)))
        return tuple(needed)

    def crossing(self, groups: Sequence[Group]) -> npt.NDArray[np.bool_]:
        """The tensors that parts of several groups use, or the user: they are whole in between and have no rolling buffer."""
        number = np.full(len(self.graph.parts), -1, dtype=np.int64)
        for at, group in enumerate(groups):
            number[group.first : group.last + 1] = at
        users, begins = self._users
        groups_of = number[users]
        apart: npt.NDArray[np.bool_] = np.maximum.reduceat(groups_of, begins) != np.minimum.reduceat(groups_of, begins)
        return apart | self._bound

    def rows_behind(self, tensor: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts that write the tensor, each with the rows that it must make until the tensor's rows before ``end`` exist."""
        for producer, output in self.writers[tensor]:
            yield producer, self.graph.parts[producer].rows_until(output, end)

    def _chunks(self, group: Group) -> dict[int, int]:
        """Rows that each part makes at a time: the rows that its consumers in the group request for theirs."""
        chunks: dict[int, int] = {}
        for index in range(group.last, group.first - 1, -1):
            part = self.graph.parts[index]
            wanted = [
                rows
                for output, tensor in enumerate(part.outputs)
                for consumer, propagator in self.consumers[tensor]
                if group.first <= consumer <= group.last and consumer > index and propagator.taps < propagator.rows
                if (rows := _asked(chunks[consumer], propagator, part.map(output))) is not None
            ]
            rows = max(1, min(wanted)) if wanted else group.stripe_rows
            rows = min(rows, group.inner_rows or rows) if index < group.last else rows
            chunks[index] = part.chunk(rows)
        return chunks

    def _table(self, group: Group) -> JobTable:
        if _NATIVE is None:
            return self.table_in_python(group)
        asked = np.array([group.first, group.last, group.stripe_rows, group.inner_rows], dtype=np.int64)
        return np.frombuffer(_NATIVE.depth_first(self.flat, asked), dtype=np.int64).reshape(-1, 3)

    def table_in_python(self, group: Group) -> JobTable:
        """Like :meth:`table`, without the compiled core."""
        run = _Run(self, group, self._chunks(group))
        run.produce(group.last, self.needed[group.last])
        for index in range(group.first, group.last):
            run.produce(index, self.needed[index])
        return np.array(run.out, dtype=np.int64).reshape(-1, 3)

    def distances(self, jobs: JobTable) -> list[int | None]:
        """For every job its distance to the previous job.

        The distance is by how many rows the previous job begins after the first row from which on this job reads all operands. It is None
        if the job reads nothing of the previous job, or is the first. Two pairs of jobs with equal heights and distances are equivalent.
        """
        if _NATIVE is not None:
            raw = np.frombuffer(_NATIVE.distances(self.flat, jobs), dtype=np.int64).tolist()
            return [None if distance == _FAR else distance for distance in raw]
        pairs = pairwise(stripe_jobs(jobs))
        return [None, *(self.distance(before, after) for before, after in pairs)][: len(jobs)]

    def distance(self, before: StripeJob, after: StripeJob) -> int | None:
        """Like :meth:`distances`, for one pair of jobs."""
        first = first_read(self.graph, before.part, after)
        return None if first is None else before.start - first


def stripe_jobs(table: JobTable) -> tuple[StripeJob, ...]:
    """The jobs of a table as values."""
    return tuple(StripeJob(*job) for job in table.tolist())


def first_read(graph: RowGraph, maker: int, job: StripeJob) -> int | None:
    """The first row of part ``maker`` from which on a job reads all of its operands from that part; None if it reads none."""
    part = graph.parts[maker]
    numbers = {tensor: output for output, tensor in enumerate(part.outputs)}
    read = (
        max(0, part.rows_until(numbers[tensor], propagator.demand(job.start, job.end)[0] + 1) - 1)
        for tensor, propagator in graph.parts[job.part].inputs
        if tensor in numbers
    )
    return max(read, default=None)


def _asked(rows: int, propagator: RowPropagator, made: RowMap | None) -> int | None:
    """Rows that a reader's stripe of ``rows`` needs from a part whose rows lie as ``made``; None if it needs all, or any."""
    if propagator.whole:
        return None
    read = 1 if propagator.at is None else propagator.at.step
    unit = 1 if made is None else made.step
    if propagator.at is None and made is not None:
        read = made.unit
    elif propagator.at is not None and made is None:
        unit = propagator.at.unit
    return rows * propagator.stride * read // (propagator.upscale * unit) if read and unit else None


class _Run:
    """One group in progress: finished rows by part, and the jobs so far."""

    def __init__(self, scheduler: DepthFirstScheduler, group: Group, chunks: dict[int, int]) -> None:
        self.scheduler = scheduler
        self.group = group
        self.chunks = chunks
        self.done = dict.fromkeys(range(group.first, group.last + 1), 0)
        self.out: list[tuple[int, int, int]] = []

    def produce(self, index: int, until: int) -> None:
        """Make rows of part ``index`` up to ``until``, chunk by chunk, pulling what they need first."""
        part, needed_rows = self.scheduler.graph.parts[index], self.scheduler.needed
        if until <= 0:
            return
        until = part.rows if part.atomic else min(needed_rows[index], part.border_from(until))
        if self.done[index] < until:
            for earlier in part.after:
                if earlier >= self.group.first:
                    self.produce(earlier, needed_rows[earlier])
        while self.done[index] < until:
            start = self.done[index]
            end = start + self.chunks[index]
            end = min(until, max(part.border_until(end), part.border_from(start + 1))) if end < until else until
            for tensor, propagator in part.inputs:
                for producer, rows in self.scheduler.rows_behind(tensor, propagator.demand(start, end)[1]):
                    if self.group.first <= producer < index:
                        self.produce(producer, rows)
            self.out.append((index, start, end))
            self.done[index] = end


def group_table(scheduler: DepthFirstScheduler, groups: Sequence[Group]) -> JobTable:
    """The jobs of all groups, one group after the other, as a table."""
    return np.concatenate([scheduler.table(group) for group in groups]) if groups else np.empty((0, 3), dtype=np.int64)
