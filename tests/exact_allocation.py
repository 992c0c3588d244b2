"""The least peak of a few buffers, by branch and bound: the oracle of the allocator.

In a placement of least addresses every buffer lies at 0 or directly on another one, at the least distance that keeps the two apart. So
it is enough to place the buffers in every order, each at 0 or directly on one of those before it. No two buffers pass each other: of two
that meet, one lies clear above the other at all steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from cascader.allocate.extents import NEVER, Extent, live_bytes
from npu_model.shapes import round_up

_Placed = tuple[int | None, ...]
"""The address of every buffer, None for one that is not placed yet."""


def gap(below: Extent, above: Extent) -> int:
    """Bytes that ``above`` must lie higher than ``below`` if it lies above it; hugely negative if they never meet."""
    start, end = max(below.start, above.start), min(below.end, above.end)
    if start >= end:
        return NEVER
    high, low = below.high[start - below.start : end - below.start], above.low[start - above.start : end - above.start]
    both = (high > below.low[start - below.start : end - below.start]) & (above.high[start - above.start : end - above.start] > low)
    return int((high - low)[both].max()) if both.any() else NEVER


class _Search:
    """The depth-first search for the least peak; ``best`` has the addresses that reach it."""

    def __init__(self, extents: Sequence[Extent], alignment: int) -> None:
        self._extents = extents
        self._alignment = alignment
        self._tops = [int(extent.high.max()) for extent in extents]
        self._gaps = [[gap(below, above) for above in extents] for below in extents]
        self._seen: set[_Placed] = set()
        self._bound = int(live_bytes(extents, max(extent.end for extent in extents)).max())
        self.peak = sum(round_up(top, alignment) for top in self._tops) + 1
        self.best: _Placed = ()

    def _apart(self, index: int, address: int, placed: _Placed) -> bool:
        """Whether a buffer at an address is clear of all that are placed."""
        for other, at in enumerate(placed):
            if at is not None and (below := self._gaps[other][index]) != NEVER:
                above = self._gaps[index][other]
                if address - at < below and at - address < above:
                    return False
        return True

    def descend(self, placed: _Placed) -> None:
        """Place one more buffer in every way that can still come to less than the best peak."""
        if self.peak <= self._bound or placed in self._seen:
            return
        self._seen.add(placed)
        if None not in placed:
            self.best = placed
            self.peak = max(at + top for at, top in zip(placed, self._tops, strict=True) if at is not None)
            return
        for index, own in enumerate(placed):
            if own is None:
                floors = [at + self._gaps[other][index] for other, at in enumerate(placed) if at is not None]
                for address in sorted({0, *(round_up(floor, self._alignment) for floor in floors if floor > 0)}):
                    if address + self._tops[index] < self.peak and self._apart(index, address, placed):
                        self.descend((*placed[:index], address, *placed[index + 1 :]))


def exact_allocation(extents: Sequence[Extent], *, alignment: int = 1) -> tuple[int, tuple[int, ...]]:
    """The least peak, the end of the highest byte that is ever live, and addresses that reach it, for a handful of buffers."""
    if not extents:
        return 0, ()
    search = _Search(extents, alignment)
    search.descend((None,) * len(extents))
    return search.peak, tuple(address or 0 for address in search.best)
