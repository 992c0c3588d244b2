"""Column grids: a tensor as rows of columns of bytes, in which every kernel's map has columns of its own that begin and step anywhere.

A column of a map may be several of the grid (a reshaped view: four pixels of 4 channels as one of 16). It may be every other one of
them (a phase of an upscaled image), or begin further on (a border of a padded one).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from msgspec import Struct
from msgspec.structs import replace

from cascader.graph.cascader_graph import Tensor
from npu_model.program import BRICK, FeatureMap, Layout, Strides, Tiles
from npu_model.shapes import Shape3D, ceil_div

Span = tuple[int, int]
"""First column and last one (exclusive)."""


def _step(feature_map: FeatureMap) -> int:
    """Bytes from a column of a map to the next: of a pixel, or of one brick of it."""
    return BRICK * feature_map.dtype.bytes if feature_map.layout is Layout.NHCWB16 else feature_map.strides.x


def _reach(feature_map: FeatureMap) -> int:
    """Bytes that a column of a map takes side by side."""
    size = feature_map.dtype.bytes
    return (BRICK if feature_map.layout is Layout.NHCWB16 else feature_map.shape.depth) * size


class Grid(Struct, frozen=True):
    """A tensor of rows (in NHCWB16: rows of bricks) of ``line`` bytes, in ``width`` columns of ``unit`` bytes each."""

    width: int
    unit: int

    @property
    def line(self) -> int:
        """Bytes of the columns that lie side by side."""
        return self.width * self.unit

    def size(self, tensor: int, columns: int) -> int:
        """Bytes of a tensor of so many bytes with fewer columns."""
        return tensor // self.line * columns * self.unit

    def _place(self, feature_map: FeatureMap) -> tuple[int, int, int]:
        """The first column of a map, the distance between its columns, and the columns that each one takes a part of."""
        first, within = divmod(feature_map.base % self.line, self.unit)
        return first, max(1, _step(feature_map) // self.unit), ceil_div(within + _reach(feature_map), self.unit)

    def span(self, feature_map: FeatureMap, columns: Span) -> Span:
        """The columns of the tensor that some columns of a map take a part of."""
        first, step, reach = self._place(feature_map)
        return first + columns[0] * step, first + (columns[1] - 1) * step + reach

    def columns(self, feature_map: FeatureMap, span: Span) -> Span:
        """The columns of a map that take a part of some columns of the tensor; the last one does not come before the first if none do."""
        first, step, reach = self._place(feature_map)
        low, high = ceil_div(span[0] - first - reach + 1, step), (span[1] - 1 - first) // step + 1
        low = min(max(0, low), feature_map.shape.width)
        return low, max(low, min(feature_map.shape.width, high))

    def moved(self, feature_map: FeatureMap, columns: Span, held: Span) -> FeatureMap:
        """Some columns of a map in a tensor that holds the columns ``held`` of the grid alone."""
        line = (held[1] - held[0]) * self.unit
        at, within = divmod(feature_map.base, self.line)
        shape = Shape3D(feature_map.shape.height, columns[1] - columns[0], feature_map.shape.depth)
        strides = feature_map.strides
        c = line if feature_map.layout is Layout.NHCWB16 else strides.c
        base = at * line + within + columns[0] * _step(feature_map) - held[0] * self.unit
        return replace(
            feature_map, shape=shape, strides=Strides(strides.y // self.line * line, strides.x, c), tiles=Tiles.single(shape, base)
        )


def grid_of(tensor: Tensor, maps: Sequence[FeatureMap]) -> Grid | None:
    """The grid of the columns of all maps of a tensor; None if a row holds more than columns."""
    if not maps or not all(one.is_single_tile for one in maps):
        return None
    lines = {one.strides.c if one.layout is Layout.NHCWB16 else one.strides.y for one in maps}
    line = min(lines)
    steps = [_step(one) for one in maps if one.shape.width > 1 or one.layout is Layout.NHCWB16]
    unit = gcd(*steps) if steps else line
    strides = (*lines, *(one.strides.y for one in maps), tensor.size)
    if min(line, unit) < 1 or line % unit or any(stride < 1 or stride % line for stride in strides):
        return None
    inside = all(one.base % line + (one.shape.width - 1) * _step(one) + _reach(one) <= line for one in maps)
    return Grid(line // unit, unit) if inside else None
