"""Storage: the buffers that a sequence of stripe jobs needs, with the bytes of each that are live at every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import lcm

import numpy as np
from msgspec import Struct

from cascader.allocate.extents import Extent, Extents, live_bytes
from cascader.graph.row_graph import RowGraph
from cascader.plan.depth_first import DepthFirstScheduler, Group, JobTable, StripeJob
from cascader.plan.liveness import LiveRows, Steps, live_rows
from npu_model.native import native
from npu_model.shapes import round_up

_FAR = 1 << 40
_NATIVE = native("cascader")


class Storage(Struct, frozen=True):
    """One buffer: its tensors (indices), the rows that it holds, and its live bytes.

    In a rolling buffer rows take the places of earlier rows; :func:`rolled` says which bytes are in use.
    """

    tensors: tuple[int, ...]
    rows: int
    extent: Extent


class Buffers(Struct, frozen=True, eq=False):
    """Buffers as arrays: the tensors and the rows of each, and their live bytes; ``live`` are most at one job.

    The tensors of all buffers stand in ``members``, those of a buffer from its place in ``begins`` on; one more says where the last end.
    """

    members: Steps
    begins: Steps
    heights: Steps
    extents: Extents
    live: int

    @staticmethod
    def of(stores: Sequence[Storage], steps: int) -> Buffers:
        """The buffers as arrays, over ``steps`` jobs."""
        extents = Extents.of([store.extent for store in stores])
        return Buffers(
            members=np.array([tensor for store in stores for tensor in store.tensors], dtype=np.int64),
            begins=np.cumsum([0, *(len(store.tensors) for store in stores)], dtype=np.int64),
            heights=np.array([store.rows for store in stores], dtype=np.int64),
            extents=extents,
            live=int(live_bytes(extents, steps).max()),
        )

    @property
    def tensors(self) -> tuple[tuple[int, ...], ...]:
        """The tensors of each buffer."""
        members = self.members.tolist()
        return tuple(tuple(members[begin:end]) for begin, end in pairwise(self.begins.tolist()))

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows of each buffer."""
        return tuple(self.heights.tolist())


def rolled(low: Steps, high: Steps, rows: int) -> tuple[Steps, Steps]:
    """First and last (exclusive) row slot in use of a rolling buffer of ``rows``, step by step, while rows ``low`` to ``high`` are live.

    Row y lies in slot y mod ``rows``. Until a row takes an earlier row's slot, all slots so far are in use. After live rows have wrapped
    around the end for the last time, the slots of the live rows are in use. In between all slots are in use while any row is live: a slot
    is then never free for long.
    """
    alive = high > low
    wraps = alive & (low // rows < (high - 1) // rows)
    settled = alive & ~np.logical_or.accumulate(wraps[::-1])[::-1] & (np.maximum.accumulate(high) > rows)
    first = np.where(settled, low % rows, 0)
    so_far = np.minimum(np.maximum.accumulate(high), rows)
    return first, np.where(settled, first + high - low, np.where(alive, so_far, 0))


def rolling_rows(graph: RowGraph, family: Sequence[int], live: int, made: int) -> int:
    """Rows of a buffer of some tensors, at most ``live`` of whose ``made`` rows are live at once: a multiple of their rolling units."""
    return min(made, round_up(live, lcm(*(graph.tensors[tensor].roll for tensor in family))))


def _families(graph: RowGraph, lives: dict[int, LiveRows], *, in_place: bool) -> list[tuple[int, ...]]:
    """The tensors that share a buffer: a result, and the operand that it overwrites."""
    head = {tensor: tensor for tensor in lives}
    for part in graph.parts if in_place else ():
        if part.in_place in head and part.outputs[0] in head:
            head[part.outputs[0]] = head[part.in_place]
    families: dict[int, list[int]] = {}
    for tensor in sorted(lives):
        families.setdefault(head[tensor], []).append(tensor)
    return [tuple(family) for family in families.values()]


def joint_rows(lives: Mapping[int, LiveRows], family: Sequence[int]) -> LiveRows:
    """The rows that are live in any of some tensors; 0 to 0 without live rows."""
    members = [lives[tensor] for tensor in family]
    start, end = min(life.start for life in members), max(life.end for life in members)
    low, high = np.full(end - start, _FAR, dtype=np.int64), np.zeros(end - start, dtype=np.int64)
    for life in members:
        span, alive = slice(life.start - start, life.end - start), life.high > life.low
        low[span] = np.minimum(low[span], np.where(alive, life.low, _FAR))
        high[span] = np.maximum(high[span], np.where(alive, life.high, 0))
    return LiveRows(start, np.minimum(low, high), high)


def _storage(graph: RowGraph, lives: dict[int, LiveRows], family: tuple[int, ...], *, rolls: bool) -> Storage:
    tensor, life = graph.tensors[family[0]], joint_rows(lives, family)
    low, high = life.low, life.high
    most = int(high.max())
    if rolls:
        most = rolling_rows(graph, family, int((high - low).max()), most)
    if most < int(high.max()):
        low, high = rolled(low, high, most)
    return Storage(family, most, Extent(tensor.name, life.start, low * tensor.row_bytes, high * tensor.row_bytes))


def storages(
    scheduler: DepthFirstScheduler, jobs: JobTable | Sequence[StripeJob], groups: Sequence[Group], *, in_place: bool = True
) -> tuple[Storage, ...]:
    """The buffers for all tensors that the jobs of ``groups`` touch, in the order of their tensors."""
    graph, crossing = scheduler.graph, scheduler.crossing(groups)
    lives = live_rows(graph, jobs)
    families = _families(graph, lives, in_place=in_place)
    return tuple(_storage(graph, lives, family, rolls=not crossing[list(family)].any()) for family in families)


def buffers(scheduler: DepthFirstScheduler, jobs: JobTable, groups: Sequence[Group], *, in_place: bool = True) -> Buffers:
    """Like :func:`storages`, by the compiled core if it is built."""
    if _NATIVE is None:
        return Buffers.of(storages(scheduler, jobs, groups, in_place=in_place), len(jobs))
    crossing, how = scheduler.crossing(groups).astype(np.int64), np.array([in_place], dtype=np.int64)
    return _parsed(np.frombuffer(_NATIVE.buffers(scheduler.flat, jobs, crossing, how), dtype=np.int64))


def _parsed(raw: Steps) -> Buffers:
    """The columns that the compiled core returns: see ``cascader/native/buffers.c``."""
    count, live = raw[:2].tolist()
    starts, ends, offsets, rows = raw[2 : 2 + 4 * count].reshape(4, count)
    begins = raw[2 + 4 * count : 3 + 5 * count]
    return Buffers(raw[3 + 5 * count :][: int(begins[-1])], begins, rows, Extents(starts, ends, offsets, raw), live)
