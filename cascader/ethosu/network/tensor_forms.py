"""TensorForms: the N-dimensional array behind an arena tensor, and where each feature map lies in it.

A tensor is bytes; what its axes are is seen from the strides of the feature maps that address it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from cascader.ethosu.network.operators import NHWC_AXES
from cascader.graph.intervals import Box
from cascader.graph.propagator import InputAxis, Propagator, window
from npu_model.program import BRICK, FeatureMap, Layout
from npu_model.shapes import Shape3D, ceil_div
from npu_model.values import dataclass

TO_BRICKS = Propagator.of_axes(
    (InputAxis(0), InputAxis(1), InputAxis(3, Fraction(1, BRICK)), InputAxis(2), InputAxis(None, 0, BRICK)), NHWC_AXES
)
"""From NHWC stripes to the NHCWB16 ones (batch, height, brick, width, 16 channels) that hold them."""

FROM_BRICKS = Propagator(
    ((1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (0, 0, 0, 1, 0, 0), (0, 0, BRICK, 0, 1, -BRICK), (0, 0, 0, 0, 0, 1)), (0, 0, 0, 0)
)
"""From NHCWB16 stripes to the NHWC ones with their channels: from the first of the first brick to the last of the last one."""


@dataclass(frozen=True, slots=True)
class View:
    """Where a feature map lies in its tensor: its element (y, x, c) at ``offset + (y, x, c) * step`` of height, width, channels."""

    offset: tuple[int, int, int]
    step: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class TensorForm:
    """A tensor as height, width and channels in one layout; ``strides`` are its rows', columns' and bricks' in bytes."""

    layout: Layout
    height: int
    width: int
    depth: int
    element_size: int
    row: int
    column: int
    brick: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's axes, as of a :meth:`piece`."""
        return self.piece(Shape3D(self.height, self.width, self.depth))

    @property
    def to_nhwc(self) -> Propagator:
        """From stripes in the tensor's axes to NHWC."""
        return Propagator.identity(NHWC_AXES) if self.layout is Layout.NHWC else FROM_BRICKS

    @property
    def align(self) -> tuple[int, ...]:
        """Bricks are not cut."""
        return (1, 1, 1, 1) if self.layout is Layout.NHWC else (1, 1, 1, 1, BRICK)

    @property
    def columns_axis(self) -> int:
        """The width; the height is axis 1."""
        return 2 if self.layout is Layout.NHWC else 3

    def piece(self, shape: Shape3D) -> tuple[int, ...]:
        """NHWC, or NHCWB16 with the last brick whole, of a view of this shape."""
        if self.layout is Layout.NHWC:
            return (1, shape.height, shape.width, shape.depth)
        return (1, shape.height, ceil_div(shape.depth, BRICK), shape.width, BRICK)

    def offset(self, view: View) -> tuple[int, ...]:
        """Where a view begins, in the tensor's axes."""
        y, x, c = view.offset
        return (0, y, x, c) if self.layout is Layout.NHWC else (0, y, c // BRICK, x, 0)

    def step(self, view: View) -> tuple[int, ...]:
        """Steps of a view, in the tensor's axes."""
        y, x, c = view.step
        return (1, y, x, c) if self.layout is Layout.NHWC else (1, y, c, x, 1)

    def view(self, feature_map: FeatureMap) -> View | None:
        """Where the feature map lies; None if its elements are no box (of every n-th row or column) of the tensor."""
        shape, strides, tiles = feature_map.shape, feature_map.strides, feature_map.tiles
        if feature_map.layout is not self.layout or feature_map.dtype.bytes != self.element_size:
            return None
        if tiles.height0 < shape.height or tiles.width0 < shape.width:
            return None
        y, rest = divmod(tiles.bases[0], self.row)
        step_y, odd_rows = divmod(strides.y, self.row) if shape.height > 1 else (1, 0)
        found = self._columns(feature_map, rest)
        if odd_rows or not step_y or found is None:
            return None
        x, step_x, c = found
        inside = y + (shape.height - 1) * step_y < self.height and x + (shape.width - 1) * step_x < self.width
        return View((y, x, c), (step_y, step_x, 1)) if inside and c + shape.depth <= self.depth else None

    def _columns(self, feature_map: FeatureMap, rest: int) -> tuple[int, int, int] | None:
        """First column, step and first channel of a map that begins ``rest`` bytes behind the start of a row."""
        strides = feature_map.strides
        if self.layout is Layout.NHWC:
            x, rest = divmod(rest, self.column)
            step, odd = divmod(strides.x, self.column) if feature_map.shape.width > 1 else (1, 0)
            return (x, step, rest // self.element_size) if step and not odd and rest % self.element_size == 0 else None
        brick, rest = divmod(rest, self.brick)
        x, odd = divmod(rest, self.column)
        several = feature_map.shape.depth > BRICK
        return (x, 1, brick * BRICK) if not odd and (strides.c == self.brick or not several) else None

    def reading(self, view: View) -> Propagator:
        """From NHWC stripes of a feature map to stripes of the tensor."""
        axes = (window(1 + axis, stride=step, pad=-start) for axis, (start, step) in enumerate(zip(view.offset, view.step, strict=True)))
        placed = Propagator.of_axes((InputAxis(0), *axes), NHWC_AXES)
        return placed if self.layout is Layout.NHWC else TO_BRICKS @ placed

    def bounds(self, view: View, feature_map: FeatureMap) -> Box:
        """Box of the tensor that the feature map sees."""
        shape = feature_map.shape
        return self.reading(view).reach(((0, 1), (0, shape.height), (0, shape.width), (0, shape.depth)))


def _dense(feature_map: FeatureMap, size: int) -> TensorForm | None:
    """The form of a tensor of ``size`` bytes of which the feature map steps through every row and column."""
    strides, element = feature_map.strides, feature_map.dtype.bytes
    column = strides.x if feature_map.layout is Layout.NHWC else BRICK * element
    brick = column if feature_map.layout is Layout.NHWC else min(strides.c, strides.y)
    row = strides.y
    if min(column, brick, row) < 1 or row % brick or brick % column or size % row or column % element:
        return None
    if feature_map.layout is Layout.NHWC:
        return TensorForm(Layout.NHWC, size // row, row // column, column // element, element, row, column, column)
    return TensorForm(Layout.NHCWB16, size // row, brick // column, row // brick * BRICK, element, row, column, brick)


def tensor_form(size: int, feature_maps: Sequence[FeatureMap]) -> TensorForm | None:
    """The form of a tensor of ``size`` bytes in which most of its feature maps are views, of several the first; None if none is."""
    forms = dict.fromkeys(form for feature_map in feature_maps if (form := _dense(feature_map, size)) is not None)
    best, most = None, 0
    for form in forms:
        fitting = sum(form.view(feature_map) is not None for feature_map in feature_maps)
        if fitting > most:
            best, most = form, fitting
    return best
