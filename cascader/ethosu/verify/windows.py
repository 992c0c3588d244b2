"""Rows of feature maps that a job touches, their bytes, and the bytes of staged constants, from the definition of its operation alone.

Rows are counted along an axis: for columns they are the columns of the map. The module is independent of the lowering, so that a check of
schedules does not repeat its mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import CONSTANTS, EthosuPart
from npu_model.errors import InputError
from npu_model.program import BRICK, FeatureMap, KernelOperation, Layout, OperationKind, PoolKind, Upscale
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import ceil_div

Rows = tuple[int, int]
"""First and last (exclusive) row."""


def tensor_operands(part: EthosuPart) -> Iterator[tuple[str, FeatureMap]]:
    """IFM and, if there is one, IFM2, without constants, each with its tensor."""
    for name, operand in ((part.ifm, part.operation.ifm), (part.ifm2, part.operation.ifm2)):
        if name is not None and operand is not None and operand.region != CONSTANTS:
            yield name, operand


def rows_of(feature_map: FeatureMap, axis: Axis) -> int:
    """Number of the map's rows along ``axis``."""
    return feature_map.shape.height if axis is Axis.ROWS else feature_map.shape.width


def row_step(feature_map: FeatureMap, axis: Axis) -> int:
    """Bytes from a row to the next; for columns the step between adjacent bricks (NHCWB16) or pixels."""
    if axis is Axis.ROWS:
        return feature_map.strides.y
    return BRICK * feature_map.dtype.bytes if feature_map.layout is Layout.NHCWB16 else feature_map.strides.x


def rows_read(operation: KernelOperation, operand: FeatureMap, rows: Rows | None, axis: Axis = Axis.ROWS) -> Rows:
    """Rows of ``operand`` (IFM or IFM2) that ``rows`` of the OFM need, all rows for None; InputError if that is unknown.

    After the upscaler (times two) a stripe begins where it reads the first of two copies of a row, or padding.
    """
    total = rows_of(operand, axis)
    if rows is None or (total < rows_of(operation.ofm, axis) and operation.kind is OperationKind.ELEMENTWISE):
        return 0, total
    if operation.kind is OperationKind.ELEMENTWISE:
        return rows
    first, last = rows[0], rows[1] - 1
    kernel, padding = operation.kernel, operation.padding
    taps, stride, dilation, before = (
        (kernel.height, kernel.stride_y, kernel.dilation_y, padding.top)
        if axis is Axis.ROWS
        else (kernel.width, kernel.stride_x, kernel.dilation_x, padding.left)
    )
    if operation.upscale is Upscale.NONE:
        touched = [out * stride - before + tap * dilation for out in (first, last) for tap in (0, taps - 1)]
    elif stride == 1 and (first <= before or (first - before) % 2 == 0):
        # The upscaler doubles rows from the first row that it gets.
        touched = [(out - before + tap * dilation) // 2 for out in (first, last) for tap in (0, taps - 1)]
    else:
        raise InputError(f"rows {rows[0]} to {rows[1]} of an upscaled map cannot be made alone: begin at row {first + 1} or make all rows")
    return max(min(touched), 0), min(max(touched) + 1, total)


def reads_own_place(operation: KernelOperation) -> bool:
    """Whether each result depends on operands' elements of the same row, column and channel: elementwise, or a window of one element."""
    if operation.kind is OperationKind.ELEMENTWISE:
        return True
    strides = operation.kernel.elements, operation.kernel.stride_y, operation.kernel.stride_x
    pads = operation.padding.top, operation.padding.left, operation.padding.bottom, operation.padding.right
    moved = strides != (1, 1, 1) or any(pads) or operation.upscale is not Upscale.NONE
    return operation.kind is OperationKind.POOL and operation.pool in (PoolKind.MAX, PoolKind.AVERAGE) and not moved


class Span(Struct, frozen=True, dict=True):
    """Bytes from ``start`` to ``end``: ``counts`` times ``strides`` apart, ``width`` of them in one piece each time.

    ``row`` is the feature map's row that it begins with.
    """

    start: int
    counts: tuple[int, ...]
    strides: tuple[int, ...]
    width: int
    row: int

    @staticmethod
    def run(start: int, size: int) -> Span:
        """Contiguous bytes that belong to no row."""
        return Span(start, (1,), (0,), size, 0)

    @cached_property
    def end(self) -> int:
        """The first address after the last byte."""
        end = self.start + self.width
        for count, stride in zip(self.counts, self.strides, strict=True):
            end += (count - 1) * stride
        return end

    def of(self, labels: NDArray[np.int32]) -> NDArray[np.int32]:
        """The view of ``labels``, one per byte, at these bytes; all bytes from start to end if ranges overlap."""
        total = self.width
        for count in self.counts:
            total *= count
        if total >= self.end - self.start:
            return labels[self.start : self.end]
        item = labels.itemsize
        strides = (*(stride * item for stride in self.strides), item)
        view: NDArray[np.int32] = np.ndarray((*self.counts, self.width), labels.dtype, labels.data, self.start * item, strides)
        return view


def spans(feature_map: FeatureMap, rows: Rows, shift: int, axis: Axis = Axis.ROWS) -> Iterator[Span]:
    """Bytes of ``rows`` of a feature map that is moved by ``shift``, tile by tile; in NHCWB16 whole bricks, as the NPU moves them."""
    shape, size, bricks = feature_map.shape, feature_map.dtype.bytes, feature_map.layout is Layout.NHCWB16
    pixel, depth = (BRICK * size, ceil_div(shape.depth, BRICK)) if bricks else (shape.depth * size, 1)
    steps = row_step(feature_map, Axis.ROWS), row_step(feature_map, Axis.COLUMNS)
    for base, y0, x0, height, width in feature_map.tile_boxes():
        begin, count, across = (y0, height, width) if axis is Axis.ROWS else (x0, width, height)
        first, last = max(rows[0], begin), min(rows[1], begin + count)
        if first < last:
            step, other = steps if axis is Axis.ROWS else steps[::-1]
            start = base + shift + (first - begin) * step
            yield Span(start, (last - first, depth, across), (step, feature_map.strides.c, other), pixel, first)


def element_offsets(feature_map: FeatureMap) -> NDArray[np.int64]:
    """The address of each element's first byte in its tensor, as an array of rows, columns and channels."""
    size, strides, shape = feature_map.dtype.bytes, feature_map.strides, feature_map.shape
    found = np.empty((shape.height, shape.width, shape.depth), dtype=np.int64)
    channels = np.arange(shape.depth, dtype=np.int64)
    for base, y0, x0, height, width in feature_map.tile_boxes():
        rows, columns = np.arange(height, dtype=np.int64) * strides.y, np.arange(width, dtype=np.int64)
        if feature_map.layout is Layout.NHWC:
            pixels, deep = columns * strides.x, channels * size
        else:
            pixels, deep = columns * BRICK * size, channels // BRICK * strides.c + channels % BRICK * size
        found[y0 : y0 + height, x0 : x0 + width] = base + rows[:, None, None] + pixels[:, None] + deep
    return found


def _runs(operation: KernelOperation) -> list[tuple[int, int]]:
    """First and last (exclusive) of the units that hold bytes of the operation's weights or scales, run by run."""
    runs: list[tuple[int, int]] = []
    for low, high in sorted((span.start // ALIGNMENT, -(-span.end // ALIGNMENT)) for span in (*operation.weights, *operation.scales)):
        first = max(low, runs[-1][1]) if runs else low
        if first < high:
            runs.append((first, high))
    return runs


def copied_bytes(operation: KernelOperation) -> int:
    """Bytes of the arena that a copy of the operation's weights and scales takes; 0 if it has none."""
    return ALIGNMENT * sum(high - low for low, high in _runs(operation))


def copied_content(operation: KernelOperation, constants: bytes) -> bytes:
    """The bytes of the copy; bytes after the end of ``constants`` are left out."""
    return b"".join(constants[ALIGNMENT * low : ALIGNMENT * high] for low, high in _runs(operation))
