"""Multiply-accumulates that a schedule's jobs perform: taps inside the feature map, counted from the kernel's definition alone."""

from __future__ import annotations

import numpy as np

from cascader.ethosu.network.axis import Axis
from npu_model.program import KernelOperation, OperationKind, PoolKind, Upscale


def _taps(outputs: range, taps: int, stride: int, dilation: int, before: int, limit: int, upscale: Upscale) -> int:  # noqa: PLR0913  # a window along one axis
    positions = np.arange(outputs.start, outputs.stop)[:, None] * stride + np.arange(taps)[None, :] * dilation - before
    valid = (positions >= 0) & (positions < limit)
    if upscale is Upscale.ZEROS:
        valid &= positions % 2 == 0
    return int(np.count_nonzero(valid))


def planned_macs(operation: KernelOperation, rows: tuple[int, int] | None, axis: Axis) -> int:
    """Multiply-accumulates of OFM ``rows`` along ``axis`` (None: all of them), without the taps that padding clips away; 0 for elementwise.

    A pooling kernel counts one for each element of its windows. (:attr:`KernelOperation.macs` counts clipped taps too.)
    """
    if operation.kind is OperationKind.ELEMENTWISE:
        return 0
    kernel, padding, ifm, ofm = operation.kernel, operation.padding, operation.ifm.shape, operation.ofm.shape
    down_rows, across_columns = range(ofm.height), range(ofm.width)
    if rows is not None:
        down_rows, across_columns = (range(*rows), across_columns) if axis is Axis.ROWS else (down_rows, range(*rows))
    factor = 1 if operation.upscale is Upscale.NONE else 2
    height = min(ifm.height * factor, (ofm.height - 1) * kernel.stride_y + kernel.dilated_height - padding.top - padding.bottom)
    width = min(ifm.width * factor, (ofm.width - 1) * kernel.stride_x + kernel.dilated_width - padding.left - padding.right)
    down = _taps(down_rows, kernel.height, kernel.stride_y, kernel.dilation_y, padding.top, height, operation.upscale)
    across = _taps(across_columns, kernel.width, kernel.stride_x, kernel.dilation_x, padding.left, width, operation.upscale)
    summed = operation.kind is OperationKind.CONV_2D or operation.pool is PoolKind.REDUCE_SUM
    return down * across * ofm.depth * (ifm.depth if summed else 1)
