"""What a job touches, from the definition of its operation alone: rows of feature maps, and the bytes behind them.

Written apart from the lowering, so that a check of schedules does not repeat its mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npu_model.errors import InputError
from npu_model.program import BRICK, FeatureMap, KernelOperation, Layout, OperationKind, Upscale
from npu_model.shapes import ceil_div

Rows = tuple[int, int]
"""First and last (exclusive) row."""


def rows_read(operation: KernelOperation, operand: FeatureMap, rows: Rows | None) -> Rows:
    """Rows of ``operand`` (IFM or IFM2) behind ``rows`` of the OFM, all of them for None; InputError if they cannot be told.

    Behind the upscaler (times two) only kernels of one row, at even rows, can be cut.
    """
    if rows is None or (operand.shape.height < operation.ofm.shape.height and operation.kind is OperationKind.ELEMENTWISE):
        return 0, operand.shape.height
    if operation.kind is OperationKind.ELEMENTWISE:
        return rows
    first, last = rows[0], rows[1] - 1
    kernel, top = operation.kernel, operation.padding.top
    if operation.upscale is Upscale.NONE:
        touched = [y * kernel.stride_y - top + tap * kernel.dilation_y for y in (first, last) for tap in (0, kernel.height - 1)]
    elif operation.upscale is Upscale.NEAREST and kernel.stride_y == kernel.height == 1 and top == 0 and first % 2 == 0:
        touched = [first // 2, last // 2]
    else:
        raise InputError(f"rows {rows[0]} to {rows[1]} of an upscaled map cannot be made alone: begin at an even row or make all rows")
    return max(min(touched), 0), min(max(touched) + 1, operand.shape.height)


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes from ``start`` to ``end``: ``counts`` times ``strides`` apart, ``width`` of them in one piece each time.

    ``row`` is the feature map's row that it begins with.
    """

    start: int
    counts: tuple[int, ...]
    strides: tuple[int, ...]
    width: int
    row: int

    @property
    def end(self) -> int:
        """First address behind the last byte."""
        return self.start + sum((count - 1) * stride for count, stride in zip(self.counts, self.strides, strict=True)) + self.width

    def of(self, labels: NDArray[np.int32]) -> NDArray[np.int32]:
        """The view of ``labels``, one per byte, at these bytes; all bytes from start to end where pieces lie over each other."""
        total = self.width
        for count in self.counts:
            total *= count
        if total >= self.end - self.start:
            return labels[self.start : self.end]
        item = labels.itemsize
        strides = (*(stride * item for stride in self.strides), item)
        view: NDArray[np.int32] = np.ndarray((*self.counts, self.width), labels.dtype, labels.data, self.start * item, strides)
        return view


def spans(feature_map: FeatureMap, rows: Rows, shift: int) -> Iterator[Span]:
    """Bytes of ``rows`` of a feature map that is moved by ``shift``, tile by tile; of NHCWB16 whole bricks, as the NPU moves them."""
    size, strides = feature_map.dtype.bytes, feature_map.strides
    for base, y0, _, height, columns in feature_map.tile_boxes():
        first, last = max(rows[0], y0), min(rows[1], y0 + height)
        if first >= last:
            continue
        start = base + shift + (first - y0) * strides.y
        if feature_map.layout is Layout.NHWC:
            yield Span(start, (last - first, columns), (strides.y, strides.x), feature_map.shape.depth * size, first)
        else:
            bricks = ceil_div(feature_map.shape.depth, BRICK)
            yield Span(start, (last - first, bricks), (strides.y, strides.c), columns * BRICK * size, first)
