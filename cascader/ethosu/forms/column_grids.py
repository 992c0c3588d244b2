"""Column grids: a tensor as rows of columns of bytes. Every kernel's map has its own columns, with any first column and any step.

A column of a map may be several columns of the grid (a reshaped view: four pixels of 4 channels as one of 16). It may be every other column
(a phase of an upscaled image), or begin further on (a border of a padded image).
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
    """Bytes from one column of a map to the next: the bytes of a pixel, or of one of its bricks."""
    return BRICK * feature_map.dtype.bytes if feature_map.layout is Layout.NHCWB16 else feature_map.strides.x


def _reach(feature_map: FeatureMap) -> int:
    """Bytes of a map's column that lie next to each other."""
    size = feature_map.dtype.bytes
    return (BRICK if feature_map.layout is Layout.NHCWB16 else feature_map.shape.depth) * size


class Grid(Struct, frozen=True):
    """A tensor of rows (in NHCWB16: rows of bricks) of ``line`` bytes, in ``width`` columns of ``unit`` bytes each."""

    width: int
    unit: int

    @property
    def line(self) -> int:
        """Bytes of the columns that lie next to each other."""
        return self.width * self.unit

    def size(self, tensor: int, columns: int) -> int:
        """Bytes of a tensor of ``size`` bytes once it has fewer columns."""
        return tensor // self.line * columns * self.unit

    def _place(self, feature_map: FeatureMap) -> tuple[int, int, int]:
        """The grid columns of a map: its first column, the step between columns, and the number of grid columns that each one touches."""
        first, within = divmod(feature_map.base % self.line, self.unit)
        return first, max(1, _step(feature_map) // self.unit), ceil_div(within + _reach(feature_map), self.unit)

    def span(self, feature_map: FeatureMap, columns: Span) -> Span:
        """The columns of the tensor that some columns of a map touch."""
        first, step, reach = self._place(feature_map)
        return first + columns[0] * step, first + (columns[1] - 1) * step + reach

    def columns(self, feature_map: FeatureMap, span: Span) -> Span:
        """The columns of a map that touch some columns of the tensor. If none do, the last one comes before the first."""
        first, step, reach = self._place(feature_map)
        low, high = ceil_div(span[0] - first - reach + 1, step), (span[1] - 1 - first) // step + 1
        low = min(max(0, low), feature_map.shape.width)
        return low, max(low, min(feature_map.shape.width, high))

    def moved(self, feature_map: FeatureMap, columns: Span, held: Span) -> FeatureMap:
        """Some columns of a map in a tensor that holds only the columns ``held`` of the grid."""
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
