"""First fit in the best order found: the Python form of the compiled core's allocation, and its twin in tests."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice, permutations

import numpy as np
from msgspec import Struct

from cascader.allocate.extents import NEVER, Extent, Steps, live_bytes
from npu_model.shapes import round_up

_NO_LIMIT = 1 << 60
_HEATS = (0.03, 0.01)
"""Annealing runs one after the other, each from the best so far."""
_MANY, _MANY_HEATS = 32, (0.20, 0.05)
"""With more buffers than this, most buffers never meet. Then a move picks a buffer that meets a buffer at the peak, and runs are hotter.

After 600 moves the 115 buffers of MobileNetV2's smallest arena then reach 8.5 % more than their live bytes, and 11.1 % with the moves and
heats for few buffers. For the 52 buffers of visual wake words it is 2.3 % and 11.1 %. Figures are means over eight seeds.
"""
_PEAK_SHARE, _FAR_SHARE, _NEAR = 0.5, 0.3, 8
"""Shares of the moves: moves of a buffer at the peak, and moves of any buffer to any turn. The rest go at most ``_NEAR`` turns away."""
_WORD = (1 << 64) - 1


class Draw:
    """Seeded draws by SplitMix64 (Steele, Lea and Flood, 2014), equal to the compiled core's.

    >>> draw = Draw(1)
    >>> draw.below(6), draw.below(6), draw.below(6)
    (5, 1, 0)
    """

    def __init__(self, seed: int) -> None:
        self._state = seed

    def _next(self) -> int:
        self._state = value = (self._state + 0x9E3779B97F4A7C15) & _WORD
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _WORD
        return value ^ (value >> 31)

    def below(self, bound: int) -> int:
        """A number from 0 to ``bound`` (exclusive)."""
        return self._next() % bound

    def unit(self) -> float:
        """A number from 0 to 1 (exclusive)."""
        return (self._next() >> 11) * 2.0**-53


def _gaps(extents: Sequence[Extent]) -> Steps:
    """Bytes by which every extent (columns) must lie above every other one (rows), if it lies above it."""
    steps = max(extent.end for extent in extents)
    # Where nothing is live, the top lies far below and the bottom far above everything, so no gap is needed there.
    tops, bottoms = np.full((len(extents), steps), NEVER), np.full((len(extents), steps), -NEVER)
    for number, extent in enumerate(extents):
        live = extent.high > extent.low
        tops[number, extent.start : extent.end] = np.where(live, extent.high, NEVER)
        bottoms[number, extent.start : extent.end] = np.where(live, extent.low, -NEVER)
    below = np.ascontiguousarray(bottoms.T)
    gaps = np.empty((len(extents), len(extents)), dtype=np.int64)
    for number, extent in enumerate(extents):
        span = slice(extent.start, extent.end)
        (tops[number, span, None] - below[span]).max(axis=0, initial=NEVER, out=gaps[number])
    return np.where(gaps < NEVER // 2, NEVER, gaps)


class _FirstFit:
    """First fit for any order of the buffers: each goes to the lowest address that earlier buffers leave free.

    ``conflicts[i]`` are the buffers that are live together with i, with two gaps (the other below i, i below the other). A buffer placed at
    p forbids i the addresses between p - (second gap) and p + (first gap).
    """

    def __init__(self, extents: Sequence[Extent], alignment: int) -> None:
        self.alignment = alignment
        self.tops = [int(extent.high.max()) for extent in extents]
        self.conflicts: list[list[tuple[int, int, int]]] = [[] for _ in extents]
        gaps = _gaps(extents)
        rounded = (-(-gaps // alignment) * alignment).tolist()
        for i, j in np.argwhere(gaps != NEVER).tolist():
            if i != j:
                self.conflicts[j].append((i, rounded[i][j], rounded[j][i]))

    def place(self, order: Sequence[int], limit: int, before: _Packing | None = None) -> tuple[int, list[int]]:
        """Peak and addresses.

        Stops without addresses once the peak reaches ``limit``. While the order equals the packing ``before``, whose peak is below
        ``limit``, buffers keep their addresses there.
        """
        turn = 0 if before is None else _common(order, before.order)
        addresses = [-1] * len(self.tops)
        peak = 0
        if before is not None:
            for index in order[:turn]:
                addresses[index] = address = before.addresses[index]
                peak = max(peak, address + self.tops[index])
        for index in order[turn:]:
            forbidden = [
                (address - above, address + below) for other, below, above in self.conflicts[index] if (address := addresses[other]) >= 0
            ]
            forbidden.sort()
            free = 0
            for start, end in forbidden:
                if free <= start:
                    break
                free = max(free, end)
            addresses[index] = free
            if free + self.tops[index] > peak:
                peak = free + self.tops[index]
                if peak >= limit:
                    return peak, []
        return peak, addresses


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """Number of initial turns in which two orders of the same buffers agree.

    >>> _common([3, 1, 2, 0], [3, 1, 0, 2])
    2
    """
    return next((turn for turn, (one, other) in enumerate(zip(a, b, strict=True)) if one != other), len(a))


def _orders(extents: Sequence[Extent]) -> list[list[int]]:
    """Greedy orders to try, without repeats."""
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


class _Packing(Struct):
    """An order, with the peak and the addresses from first fit."""

    order: list[int]
    peak: int
    addresses: list[int]


def _neighbour(draw: Draw, packing: _Packing, fit: _FirstFit) -> list[int]:
    """The order with one buffer moved: a buffer at the peak to an earlier turn, or any buffer to a near turn.

    If there are many buffers, a buffer that meets one at the peak takes the turn of a buffer that it meets.
    """
    order, is_earlier = list(packing.order), draw.unit() < _PEAK_SHARE
    if is_earlier or len(order) > _MANY:
        at_peak = [i for i, address in enumerate(packing.addresses) if address + fit.tops[i] > packing.peak - fit.alignment]
        index = at_peak[draw.below(len(at_peak))]
        if is_earlier:
            turn = order.index(index)
            return _moved(order, turn, draw.below(turn + 1))
        index = _met(draw, fit, index)
        return _moved(order, order.index(index), order.index(_met(draw, fit, index)))
    turn = draw.below(len(order))
    near = turn + draw.below(2 * _NEAR + 1) - _NEAR
    to = draw.below(len(order)) if draw.unit() < _FAR_SHARE else min(max(near, 0), len(order) - 1)
    return _moved(order, turn, to)


def _moved(order: list[int], turn: int, to: int) -> list[int]:
    order.insert(to, order.pop(turn))
    return order


def _met(draw: Draw, fit: _FirstFit, index: int) -> int:
    """A buffer that is live together with the given one; the given one itself if there is none."""
    some = fit.conflicts[index]
    return some[draw.below(len(some))][0] if some else index


def _anneal(fit: _FirstFit, start: _Packing, draw: Draw, moves: int, bound: int, heat: float) -> _Packing:
    """Simulated annealing over orders from ``start``. ``heat`` is the share of the peak that a worse order may cost at first."""
    best = current = start
    for move in range(moves):
        if best.peak <= bound:
            break
        allowance = current.peak * heat * (1 - move / moves)
        # A threshold replaces a probability: it has the same effect, and first fit can give up early.
        limit = current.peak + int(-allowance * math.log(1 - draw.unit())) + 1
        order = _neighbour(draw, current, fit)
        peak, addresses = fit.place(order, limit, current)
        if addresses:
            current = _Packing(order, peak, addresses)
            if peak < best.peak:
                best = current
    return best


def search(extents: Sequence[Extent], alignment: int, moves: int, seed: int) -> tuple[int, tuple[int, ...]]:
    """Peak and addresses for :func:`cascader.allocate.moving.allocate`: the best of the greedy orders, annealed at every heat."""
    fit, orders = _FirstFit(extents, alignment), _orders(extents)
    least = int(live_bytes(extents, max(e.end for e in extents)).max())
    bound = round_up(least, alignment)
    best = _Packing(orders[0], *fit.place(orders[0], _NO_LIMIT))
    for order in orders[1:]:
        if best.peak <= least:
            break
        peak, addresses = fit.place(order, best.peak)
        best = _Packing(order, peak, addresses) if addresses else best
    draw = Draw(seed)
    for heat in _MANY_HEATS if len(extents) > _MANY else _HEATS:
        best = min(best, _anneal(fit, best, draw, moves, bound, heat), key=lambda packing: packing.peak)
    return round_up(best.peak, alignment), tuple(best.addresses)


def every_placement(extents: Sequence[Extent], limit: int, alignment: int, most: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Peak and addresses by first fit for each of the first ``most`` orders, with repeats, if they fit into ``limit`` bytes."""
    fit = _FirstFit(extents, alignment)
    for order in islice(permutations(range(len(extents))), most):
        peak, addresses = fit.place(order, limit + 1)
        if addresses and round_up(peak, alignment) <= limit:
            yield round_up(peak, alignment), tuple(addresses)
