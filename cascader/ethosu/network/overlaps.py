"""Overlaps: whether two accesses of a tensor share a byte, by rows, columns and channels if these lie in a common grid."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from npu_model.program import BRICK, FeatureMap, Layout
from npu_model.shapes import ceil_div


def byte_numbers(feature_map: FeatureMap, rows: tuple[int, int] | None = None) -> NDArray[np.int64]:
    """Every byte of some rows (first and end; None: all rows), as offsets from the tensor's start; in NHCWB16 whole bricks.

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


class _Box(NamedTuple):
    """Bytes of a grid: its ``pitches`` in bytes, the last one 1, and along each the first index and the end (exclusive)."""

    pitches: tuple[int, ...]
    places: tuple[tuple[int, int], ...]

    def meets(self, other: _Box) -> bool:
        """Whether a box of the same grid shares a byte with this one."""
        return all(first < end and begin < last for (first, last), (begin, end) in zip(self.places, other.places, strict=True))


Run = tuple[int, int]
"""First byte of an access that has no rows, and its end (exclusive)."""

Access = FeatureMap | Run


def _boxes(feature_map: FeatureMap) -> list[_Box] | None:
    """The tiles of a feature map as boxes; None if one of them has no grid because its rows overlap."""
    shape, strides, size = feature_map.shape, feature_map.strides, feature_map.dtype.bytes
    found = []
    for base, _, _, rows, columns in feature_map.tile_boxes():
        axes: tuple[tuple[int, int], ...]
        if feature_map.layout is Layout.NHWC:
            axes = ((strides.y, rows), (strides.x, columns), (1, shape.depth * size))
        else:
            brick = BRICK * size
            axes = ((strides.y, rows), (strides.c, ceil_div(shape.depth, BRICK)), (brick, columns), (1, brick))
        places, rest, above = [], base, 0
        for pitch, count in axes:
            if pitch < 1:
                return None
            place, rest = divmod(rest, pitch)
            if above and (place + count) * pitch > above:
                return None
            places.append((place, place + count))
            above = pitch
        found.append(_Box(tuple(pitch for pitch, _ in axes), tuple(places)))
    return found


def hull(access: Access) -> Run:
    """From the first byte of an access to the end of its last one."""
    if isinstance(access, tuple):
        return access
    ranges = access.byte_ranges()
    return min(where.start for where in ranges), max(where.end for where in ranges)


class Hulls:
    """The hulls of many accesses of one tensor. There may be tens of thousands: Vela makes a kernel for each position of an ARG_MAX."""

    def __init__(self, runs: Iterable[Run]) -> None:
        pairs = np.array([*runs], dtype=np.int64).reshape(-1, 2)
        self._starts, self._ends = pairs[:, 0], pairs[:, 1]

    def near(self, run: Run) -> list[int]:
        """The numbers, ascending, of the accesses that may share a byte with a run of bytes.

        >>> Hulls([(0, 4), (4, 8), (2, 6)]).near((5, 7))
        [1, 2]
        """
        found: list[int] = np.flatnonzero((self._starts < run[1]) & (self._ends > run[0])).tolist()
        return found


def _bytes(access: Access) -> NDArray[np.int64]:
    return np.arange(*access, dtype=np.int64) if isinstance(access, tuple) else byte_numbers(access)


@lru_cache(maxsize=4)
def _marks(access: Access) -> tuple[int, NDArray[np.bool_]]:
    """The first byte of an access, and for each byte from there on whether the access touches it.

    Tens of thousands of kernels may each be compared with the producer of their input.
    """
    start, end = hull(access)
    marks = np.zeros(end - start, np.bool_)
    marks[_bytes(access) - start] = True
    return start, marks


@lru_cache(1 << 12)  # Forms of a network share most accesses.
def overlap(one: Access, two: Access) -> bool:
    """Whether two accesses of one tensor share a byte; accesses by feature maps are in the form of :func:`byte_numbers`."""
    (first, last), (begin, end) = hull(one), hull(two)
    if first >= end or begin >= last:
        return False
    if isinstance(one, FeatureMap) and isinstance(two, FeatureMap):
        boxes, others = _boxes(one), _boxes(two)
        if boxes and others and len({box.pitches for box in (*boxes, *others)}) == 1:
            return any(box.meets(other) for box in boxes for other in others)
    large, small = (one, two) if last - first >= end - begin else (two, one)
    start, marks = _marks(large)
    places = _bytes(small) - start
    return bool(marks[places[(places >= 0) & (places < len(marks))]].any())
