"""Axis: the axis of a feature map along which a part is cut into stripes, and its meaning for maps and kernels.

A row of a tensor, as the cascader calls it, is a step along this axis. It is a row of the image, or a column if the image is a single row
high, like sequences of sound, or if its kernels are transposed in place.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from npu_model.program import BRICK, FeatureMap, Kernel, KernelOperation, Layout, OperationKind, Padding, Tiles, Upscale
from npu_model.shapes import Shape3D, ceil_div


class Window(Struct, frozen=True):
    """A kernel along one axis: stride, extent with dilation, and the padding before the first element."""

    stride: int
    taps: int
    pad: int


def upscaling(operation: KernelOperation) -> int:
    """Elements along an axis that the upscaler makes from one."""
    return 1 if operation.upscale is Upscale.NONE else 2


class Axis(Enum):
    """Rows (along the height) or columns (along the width)."""

    ROWS = "rows"
    COLUMNS = "columns"

    @property
    def number(self) -> int:
        """Number of the axis among batch, height, width and channels."""
        return 1 if self is Axis.ROWS else 2

    def extent(self, shape: Shape3D) -> int:
        """Elements along the axis."""
        return shape.height if self is Axis.ROWS else shape.width

    def step(self, feature_map: FeatureMap) -> int:
        """Bytes from one element along the axis to the next; a column of bricks steps by one pixel of a brick."""
        if self is Axis.ROWS:
            return feature_map.strides.y
        return feature_map.strides.x if feature_map.layout is Layout.NHWC else BRICK * feature_map.dtype.bytes

    def window(self, operation: KernelOperation) -> Window:
        """The operation's kernel along the axis."""
        kernel, padding = operation.kernel, operation.padding
        if self is Axis.ROWS:
            return Window(kernel.stride_y, kernel.dilated_height, padding.top)
        return Window(kernel.stride_x, kernel.dilated_width, padding.left)

    def read(self, operation: KernelOperation, operand: FeatureMap, start: int, end: int) -> tuple[int, int, int, int]:
        """First and last (exclusive) element of an operand that OFM elements ``start`` to ``end`` need, and the padding before and after.

        An elementwise operand that is repeated along the axis is needed as a whole. If the upscaler doubles elements, padding or the first
        copy of an element may come first.
        """
        size = self.extent(operand.shape)
        if operation.kind is OperationKind.ELEMENTWISE:
            return (0, size, 0, 0) if size < self.extent(operation.ofm.shape) else (start, end, 0, 0)
        window, times = self.window(operation), upscaling(operation)
        low, high = start * window.stride - window.pad, (end - 1) * window.stride - window.pad + window.taps
        return max(0, low // times), min(size, ceil_div(high, times)), max(0, -low), max(0, high - times * size)

    def without_stride(self, kernel: Kernel) -> Kernel:
        """The kernel for a single element along the axis, for which a stride has no meaning."""
        return replace(kernel, stride_y=1) if self is Axis.ROWS else replace(kernel, stride_x=1)

    def padding(self, padding: Padding, before: int, after: int) -> Padding:
        """``padding`` with other extents along the axis."""
        if self is Axis.ROWS:
            return Padding(top=before, left=padding.left, bottom=after, right=padding.right)
        return Padding(top=padding.top, left=before, bottom=padding.bottom, right=after)

    def cut(self, shape: Shape3D, extent: int) -> Shape3D:
        """``shape`` with ``extent`` elements along the axis."""
        return Shape3D(extent, shape.width, shape.depth) if self is Axis.ROWS else Shape3D(shape.height, extent, shape.depth)

    def tiles(self, shape: Shape3D, first: int, split: int, second: int) -> Tiles:
        """Tiles of ``shape`` with elements from ``split`` on along the axis at base ``second``, and earlier ones at ``first``.

        Rows wrap by the lower left tile (HEIGHT0, BASE2), columns by the upper right one (WIDTH0, BASE1).
        """
        if self is Axis.ROWS:
            return Tiles(split, split, shape.width, (first, 0, second, 0))
        return Tiles(shape.height, shape.height, split, (first, second, 0, 0))
