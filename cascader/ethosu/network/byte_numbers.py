"""Numbers of the bytes that a feature map touches in its tensor, to find the kernels that use the same bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npu_model.program import BRICK, FeatureMap, Layout
from npu_model.shapes import ceil_div


def byte_numbers(feature_map: FeatureMap, rows: tuple[int, int] | None = None) -> NDArray[np.int64]:
    """Every byte of some rows (first and end; None: of all), as offsets from the tensor's start; of NHCWB16 whole bricks.

    >>> from npu_model.program import DataType, Strides, Tiles
    >>> from npu_model.shapes import Shape3D
    >>> shape = Shape3D(2, 2, 3)
    >>> fm = FeatureMap(1, shape, DataType(8, signed=True), Layout.NHWC, Tiles.single(shape, 100), Strides(10, 4, 1))
    >>> byte_numbers(fm, (1, 2)).tolist()
    [110, 111, 112, 114, 115, 116]
    """
    low, high = rows or (0, feature_map.shape.height)
    size, strides, depth = feature_map.dtype.bytes, feature_map.strides, feature_map.shape.depth
    bricks = feature_map.layout is Layout.NHCWB16
    column, length = (BRICK * size, BRICK * size) if bricks else (strides.x, depth * size)
    groups = np.arange(ceil_div(depth, BRICK) if bricks else 1, dtype=np.int64) * strides.c
    found = [np.empty(0, dtype=np.int64)]
    for base, first_row, _, height, width in feature_map.tile_boxes():
        inside = np.arange(max(low - first_row, 0), min(high - first_row, height), dtype=np.int64)
        pixels = np.arange(width, dtype=np.int64) * column
        grid = inside[:, None, None, None] * strides.y + groups[:, None, None] + pixels[:, None] + np.arange(length, dtype=np.int64)
        found.append(base + grid.ravel())
    return np.concatenate(found)
