"""Feature maps as strided boxes of memory: what one numpy view can address."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from npu_model.program import BRICK, FeatureMap, Layout


class ElementBox(Struct, frozen=True):
    """A part of a feature map with one constant stride per axis: rows, columns, bricks and channels of a brick.

    ``start`` is the address of its first element; a negative stride puts other elements before it.
    """

    start: int
    shape: tuple[int, int, int, int]
    strides: tuple[int, int, int, int]
    y: int
    x: int
    c: int

    @property
    def lowest(self) -> int:
        """Lowest address of an element."""
        return self.start + sum(min((n - 1) * stride, 0) for n, stride in zip(self.shape, self.strides, strict=True))

    @property
    def end(self) -> int:
        """Address after the highest element."""
        return self.start + sum(max((n - 1) * stride, 0) for n, stride in zip(self.shape, self.strides, strict=True)) + self.strides[3]

    def unused_lanes(self, size: int) -> ElementBox:
        """The channels after this box's, up to the end of the NHCWB16 brick, with elements of ``size`` bytes."""
        rows, columns, bricks, lanes = self.shape
        return ElementBox(self.start + lanes * size, (rows, columns, bricks, BRICK - lanes), self.strides, self.y, self.x, self.c + lanes)

    @property
    def channels(self) -> int:
        """Channels that the box holds."""
        return self.shape[2] * self.shape[3]


def boxes(fm: FeatureMap) -> Iterator[ElementBox]:
    """The boxes that make up a feature map: one per tile, two where a partial NHCWB16 brick ends its channels."""
    size, depth = fm.dtype.bytes, fm.shape.depth
    for base, y, x, rows, columns in fm.tile_boxes():
        if fm.layout is Layout.NHWC:
            yield ElementBox(base, (rows, columns, 1, depth), (fm.strides.y, fm.strides.x, 0, size), y, x, 0)
            continue
        strides = (fm.strides.y, BRICK * size, fm.strides.c, size)
        bricks, rest = divmod(depth, BRICK)
        if bricks:
            yield ElementBox(base, (rows, columns, bricks, BRICK), strides, y, x, 0)
        if rest:
            yield ElementBox(base + bricks * fm.strides.c, (rows, columns, 1, rest), strides, y, x, bricks * BRICK)
