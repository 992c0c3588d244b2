"""The IFM as a kernel window sees it: zero point removed, upscaled, padded to the extent that the windows cover."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from npu_model.program import KernelOperation, Padding, Upscale

_T = TypeVar("_T", bound=np.generic)


def upscaled(values: NDArray[_T], upscale: Upscale) -> NDArray[_T]:
    """Height and width doubled: each element repeated, or followed by zeros (the zero point is off already).

    >>> upscaled(np.array([[[1], [2]]]), Upscale.ZEROS)[:, :, 0].tolist()
    [[1, 0, 2, 0], [0, 0, 0, 0]]
    """
    if upscale is Upscale.NONE:
        return values
    if upscale is Upscale.NEAREST:
        return values.repeat(2, axis=0).repeat(2, axis=1)
    height, width, depth = values.shape
    result = np.zeros((2 * height, 2 * width, depth), values.dtype)
    result[::2, ::2] = values
    return result


def covered(op: KernelOperation, values: NDArray[_T], fill: int) -> NDArray[_T]:
    """The array of (rows, columns, depth) that the operation's windows cover, with ``fill`` in the padding.

    Rows are ``(ofm height - 1) * stride + dilated kernel height``; window ``i`` starts at row ``i * stride``.
    """
    kernel, padding = op.kernel, op.padding
    rows = (op.ofm.shape.height - 1) * kernel.stride_y + kernel.dilated_height
    columns = (op.ofm.shape.width - 1) * kernel.stride_x + kernel.dilated_width
    image = upscaled(values, op.upscale)
    if image.shape[:2] == (rows, columns) and padding == Padding():
        return image
    result = np.full((rows, columns, values.shape[2]), fill, values.dtype)
    # An upscaled map of an odd extent has one row (column) more than the windows need.
    image = image[: rows - padding.top - padding.bottom, : columns - padding.left - padding.right]
    result[padding.top : padding.top + image.shape[0], padding.left : padding.left + image.shape[1]] = image
    return result
