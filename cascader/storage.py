"""Storage: the buffers that a sequence of stripe jobs needs, with the bytes of each that are live at every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cascader.liveness import LiveRows, Steps, live_rows
from cascader.overlap import Extent
from cascader.pull import StripeJob
from cascader.row_graph import RowGraph

_FAR = 1 << 40


@dataclass(frozen=True, slots=True)
class Storage:
    """One buffer: its tensors (indices), the rows that it holds, and its live bytes.

    A rolling buffer, in which a row lies where an earlier one has lain, is in use from the first to the last place of a live row.
    """

    tensors: tuple[int, ...]
    rows: int
    extent: Extent


def rolled(low: Steps, high: Steps, rows: int) -> tuple[Steps, Steps]:
    """Slots of a rolling buffer of ``rows`` that lie between the first and the last one of rows ``low`` to ``high``, at every step.

    Row y lies in slot y mod ``rows``; all slots if the rows wrap, none if there are no rows.
    """
    alive = high > low
    wraps = alive & (low // rows < (high - 1) // rows)
    first = np.where(alive & ~wraps, low % rows, 0)
    return first, np.where(wraps, rows, np.where(alive, first + high - low, 0))


def _families(graph: RowGraph, lives: dict[int, LiveRows], *, in_place: bool) -> list[tuple[int, ...]]:
    """The tensors that share a buffer: a result with the operand that it is stored over."""
    head = {tensor: tensor for tensor in lives}
    for part in graph.parts if in_place else ():
        if part.in_place in head and part.outputs[0] in head:
            head[part.outputs[0]] = head[part.in_place]
    families: dict[int, list[int]] = {}
    for tensor in sorted(lives):
        families.setdefault(head[tensor], []).append(tensor)
    return [tuple(family) for family in families.values()]


def _rows(lives: dict[int, LiveRows], family: tuple[int, ...]) -> LiveRows:
    """The rows that are live of any of some tensors."""
    if len(family) == 1:
        return lives[family[0]]
    start, end = min(lives[t].start for t in family), max(lives[t].end for t in family)
    low, high = np.full(end - start, _FAR, dtype=np.int64), np.zeros(end - start, dtype=np.int64)
    for member in family:
        life = lives[member]
        span = slice(life.start - start, life.end - start)
        alive = life.high > life.low
        low[span] = np.where(alive, np.minimum(low[span], life.low), low[span])
        high[span] = np.where(alive, np.maximum(high[span], life.high), high[span])
    return LiveRows(start, low, high)


def _storage(graph: RowGraph, lives: dict[int, LiveRows], family: tuple[int, ...]) -> Storage:
    tensor, life = graph.tensors[family[0]], _rows(lives, family)
    alive = life.high > life.low
    low, high = life.low * alive, life.high * alive
    most = int((high - low).max())
    if most < int(high.max()):
        low, high = rolled(low, high, most)
    return Storage(family, most, Extent(tensor.name, life.start, low * tensor.row_bytes, high * tensor.row_bytes))


def storages(graph: RowGraph, jobs: Sequence[StripeJob], *, in_place: bool = True) -> tuple[Storage, ...]:
    """The buffers for all tensors that the jobs touch, in the order of their tensors."""
    lives = live_rows(graph, jobs)
    return tuple(_storage(graph, lives, family) for family in _families(graph, lives, in_place=in_place))
