"""Allocation of buffers whose used part moves over time: two may share bytes if never at the same step.

Buffer a may lie below buffer b if pos(b) - pos(a) is at least the largest, over the steps at which both are live, of
(top of a's live bytes) - (bottom of b's live bytes). A tensor that is eaten up from its first row can so make room for
the one that grows behind it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npu_model.shapes import round_up

Steps = npt.NDArray[np.int64]
_NEVER = -(1 << 40)
_STARTS = 2
_PEAK_SHARE, _EARLIER_SHARE = 0.6, 0.8
"""How often a move takes a buffer from the peak, and how often it moves it to an earlier turn."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes ``low[i]`` to ``high[i]`` (exclusive), from the buffer's base, are live at step ``start + i``; equal means none."""

    name: str
    start: int
    low: Steps
    high: Steps

    @property
    def end(self) -> int:
        """First step after the life."""
        return self.start + len(self.low)


def live_bytes(extents: Sequence[Extent], steps: int) -> Steps:
    """Live bytes at every step: no allocation needs less than their maximum."""
    total = np.zeros(steps, dtype=np.int64)
    for extent in extents:
        total[extent.start : extent.end] += extent.high - extent.low
    return total


def gap(below: Extent, above: Extent) -> int:
    """Bytes that ``above`` must lie higher than ``below`` if it lies above it; hugely negative if they never meet."""
    start, end = max(below.start, above.start), min(below.end, above.end)
    if start >= end:
        return _NEVER
    high, low = below.high[start - below.start : end - below.start], above.low[start - above.start : end - above.start]
    both = (high > below.low[start - below.start : end - below.start]) & (above.high[start - above.start : end - above.start] > low)
    return int((high - low)[both].max()) if both.any() else _NEVER


def _gaps(extents: Sequence[Extent], alignment: int) -> Steps:
    n = len(extents)
    gaps = np.full((n, n), _NEVER, dtype=np.int64)
    for i, below in enumerate(extents):
        for j, above in enumerate(extents):
            if i != j:
                value = gap(below, above)
                if value != _NEVER:
                    gaps[i, j] = -(-value // alignment) * alignment
    return gaps


class _FirstFit:
    """First fit over pairwise gaps, for any order of the buffers."""

    def __init__(self, extents: Sequence[Extent], alignment: int) -> None:
        self.gaps = _gaps(extents, alignment)
        self.tops = np.array([int(e.high.max()) for e in extents], dtype=np.int64)
        self.count = len(extents)

    def place(self, order: Sequence[int], limit: int) -> tuple[int, list[int]]:
        """Peak and addresses; gives up with a peak of ``limit`` or more as soon as it is reached."""
        positions = np.zeros(self.count, dtype=np.int64)
        placed: list[int] = []
        peak = 0
        for index in order:
            chosen = 0
            if placed:
                others = np.array(placed)
                at, under, over = positions[others], self.gaps[others, index], self.gaps[index, others]
                meets = (under != _NEVER) | (over != _NEVER)
                at, under, over = at[meets], under[meets], over[meets]
                if len(at):
                    candidates = np.unique(np.concatenate(([0], at + under, at - over)))
                    candidates = candidates[candidates >= 0]
                    distance = candidates[:, None] - at[None, :]
                    fits = ((distance >= under) | (-distance >= over)).all(axis=1)
                    chosen = int(candidates[fits][0])
            positions[index] = chosen
            placed.append(index)
            peak = max(peak, chosen + int(self.tops[index]))
            if peak >= limit:
                return peak, []
        return peak, positions.tolist()


def _orders(extents: Sequence[Extent]) -> list[list[int]]:
    """Greedy orders that are worth a try, without repeats."""
    indices = range(len(extents))
    most = [int((e.high - e.low).max()) for e in extents]
    span = [int(e.high.max()) for e in extents]
    volume = [int((e.high - e.low).sum()) for e in extents]
    live = live_bytes(extents, max((e.end for e in extents), default=0))
    crowd = [int(live[e.start : e.end].max(initial=0)) for e in extents]
    keys = (
        lambda i: (-most[i], i),
        lambda i: (-extents[i].end, -span[i], i),
        lambda i: (extents[i].start, -span[i], i),
        lambda i: (-volume[i], i),
        lambda i: (-span[i], -extents[i].end, i),
        lambda i: (-crowd[i], -most[i], i),
        lambda i: (-crowd[i], extents[i].start, i),
        lambda i: (-crowd[i], -extents[i].end, i),
    )
    return [sorted(indices, key=key) for key in keys]


def _move(draw: random.Random, order: list[int], top: list[int]) -> list[int]:
    """``order`` with one buffer moved, mostly one that stands at the peak, mostly to an earlier turn."""
    order = list(order)
    index = draw.choice(top) if draw.random() < _PEAK_SHARE else draw.randrange(len(order))
    at = order.index(index)
    order.pop(at)
    to = draw.randrange(at + 1) if draw.random() < _EARLIER_SHARE else draw.randrange(len(order) + 1)
    order.insert(to, index)
    return order


@dataclass(slots=True)
class _Search:
    """The best order so far from one greedy start."""

    fit: _FirstFit
    order: list[int]
    peak: int
    positions: list[int]

    def improve(self, draw: random.Random, moves: int, bound: int) -> None:
        """Try ``moves`` moves; keep those that are no worse."""
        for _ in range(moves):
            if self.peak <= bound:
                return
            top = [i for i, position in enumerate(self.positions) if position + int(self.fit.tops[i]) >= self.peak]
            order = _move(draw, self.order, top)
            peak, positions = self.fit.place(order, self.peak + 1)
            if positions and peak <= self.peak:
                self.order, self.peak, self.positions = order, peak, positions


def allocate(extents: Sequence[Extent], *, alignment: int = 16, moves: int = 300, seed: int = 1) -> tuple[int, tuple[int, ...]]:
    """Peak (a multiple of ``alignment``) and addresses: greedy orders, then seeded moves from the two best.

    Stops at the lower bound, the most live bytes at one step.
    """
    if not extents:
        return 0, ()
    fit = _FirstFit(extents, alignment)
    bound = int(live_bytes(extents, max(e.end for e in extents)).max())
    searches = []
    for order in _orders(extents):
        peak, positions = fit.place(order, 1 << 60)
        searches.append(_Search(fit, order, peak, positions))
    searches.sort(key=lambda search: search.peak)
    draw = random.Random(seed)  # noqa: S311  # a search, not a secret
    for search in searches[:_STARTS]:
        search.improve(draw, moves // _STARTS, bound)
    best = min(searches[:_STARTS], key=lambda search: search.peak)
    return round_up(best.peak, alignment), tuple(best.positions)
