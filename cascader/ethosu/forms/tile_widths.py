"""Tile widths: how many columns each tile of a segment has, so that the tile with the most bytes has few.

A tile in the middle recomputes columns on both sides; the first and the last one do so on one side, so they may be wider. The first tile
may be widest: at its peak, some or all of the results are not there yet.
"""

from __future__ import annotations

from fractions import Fraction

from cascader.ethosu.forms.column_spans import ColumnSpan, Tiling
from cascader.ethosu.network.network import Network


def _steps(inside: int) -> list[tuple[int, int]]:
    """Columns by which the first and the last tile may change at once: up to one from each of the tiles ``inside``, or from each other."""
    return [*((first, more - first) for more in range(1, inside + 1) for first in range(more + 1)), (1, -1), (-1, 1)]


class TileWidths:
    """Estimates the bytes of tiles of one segment: some rows of each tensor inside, and the results.

    ``front`` is the bytes of plans for two equal tiles. The bytes of ``result`` and ``kept`` (inputs in the arena) do not depend on widths.
    """

    def __init__(self, network: Network, cut: ColumnSpan, front: int, result: int, kept: int) -> None:
        self._network, self._cut, self._result = network, cut, result
        self._rows = {
            kernel.ofm: Fraction(network.graph.tensor(kernel.ofm).size, cut.grids[kernel.ofm].width * kernel.operation.ofm.shape.height)
            for _, kernel in cut.kernels(network)
            if kernel.ofm in cut.inside
        }
        self._widths = [cut.grids[name].width for name in cut.results]
        self._known: dict[tuple[tuple[int, int], ...], Fraction | None] = {}
        second = self._tiles(Tiling(2))[1]
        # Of each tensor some rows are there. Their number hardly depends on the width.
        self._count = Fraction(max(1, front - result - kept)) / second if second else Fraction(1)

    def _tiles(self, tiling: Tiling) -> list[Fraction | None]:
        """Bytes of one row of each tensor inside each tile; None if a tile is impossible."""
        borders = [[tiling.border(width, at) for at in range(tiling.count + 1)] for width in self._widths]
        return [self._row(tuple((ends[at], ends[at + 1]) for ends in borders), tiling, at) for at in range(tiling.count)]

    def _row(self, key: tuple[tuple[int, int], ...], tiling: Tiling, number: int) -> Fraction | None:
        if key not in self._known:
            spans = self._cut.needs(self._network, tiling, number)
            inside = {} if spans is None else {name: span for name, span in spans.tensors.items() if name in self._rows}
            row = sum((self._rows[name] * (high - low) for name, (low, high) in inside.items()), Fraction(0))
            self._known[key] = None if spans is None else row
        return self._known[key]

    def size(self, tiling: Tiling, *, there: Fraction) -> int | None:
        """Bytes of the tile that has the most, about; None if the segment cannot be cut like this.

        ``there`` is the part of the results that is there at the peak of the first tile.
        """
        most = 0
        for number, row in enumerate(self._tiles(tiling)):
            if row is None:
                return None
            most = max(most, int(self._count * row + self._result * (1 if number else there)))
        return most

    def best(self, count: int, *, there: Fraction) -> Tiling:
        """The tiles of which the largest one is smallest, by steps of a few columns from equal tiles on."""
        width = self._cut.grids[self._cut.results[0]].width
        best, first, last = Tiling(count), width // count, width - width * (count - 1) // count
        least = self.size(best, there=there)
        while least is not None:
            tried = list[tuple[int, int, Tiling, int, int]]()
            for more, other in _steps(count - 2):
                one, end = first + more, last + other
                if min(one, end) > 0 and (width == one + end if count == 2 else width - one - end >= count - 2):
                    tiling = Tiling(count, Fraction(one, width), Fraction(end, width))
                    size = self.size(tiling, there=there)
                    tried += [] if size is None else [(size, len(tried), tiling, one, end)]
            size, _, tiling, one, end = min(tried, key=lambda found: found[:2], default=(least, 0, best, first, last))
            if size >= least:
                break
            best, least, first, last = tiling, size, one, end
        return best
