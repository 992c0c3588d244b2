"""Convolution and pooling on integer-valued float64 arrays, for calibration.

Every product and sum is an integer below 2**53, which float64 holds exactly. So the order in which a BLAS adds makes no
difference: all machines give the same result, at the speed of a matrix product. Arrays are NHWC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Pair = tuple[int, int]


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> Pair:
    """Padding (before, after) of one axis for TFLite's SAME: the odd one goes after.

    >>> same_padding(224, 3, 2, 1)
    (0, 1)
    """
    output = -(-size // stride)
    total = max((output - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def paddings(shape: tuple[int, ...], kernel: Pair, strides: Pair, dilation: Pair, padding: str) -> tuple[Pair, Pair]:
    """Padding of the height and width of an NHWC ``shape``; ``padding`` is SAME or VALID."""
    if padding == "VALID":
        return (0, 0), (0, 0)
    height, width = (same_padding(shape[axis + 1], kernel[axis], strides[axis], dilation[axis]) for axis in (0, 1))
    return height, width


def _taps(x: Array, kernel: Pair, strides: Pair, dilation: Pair, pads: tuple[Pair, Pair], fill: float) -> Iterator[tuple[int, int, Array]]:
    """Each kernel element (y, x) with its part of the padded input, of the output's height and width."""
    padded = np.pad(x, ((0, 0), *pads, (0, 0)), constant_values=fill) if any(map(any, pads)) else x
    extent = tuple((kernel[axis] - 1) * dilation[axis] + 1 for axis in (0, 1))
    rows, columns = ((padded.shape[axis + 1] - extent[axis]) // strides[axis] + 1 for axis in (0, 1))
    for ky in range(kernel[0]):
        for kx in range(kernel[1]):
            top, left = ky * dilation[0], kx * dilation[1]
            yield (
                ky,
                kx,
                padded[:, top : top + (rows - 1) * strides[0] + 1 : strides[0], left : left + (columns - 1) * strides[1] + 1 : strides[1]],
            )


def _summed(terms: Iterable[Array]) -> Array:
    """The sum of arrays that are not used elsewhere, stored in the first one."""
    return reduce(lambda total, term: np.add(total, term, out=total), terms)


def convolve(x: Array, weights: Array, strides: Pair, dilation: Pair, pads: tuple[Pair, Pair]) -> Array:
    """Convolution of ``x`` (zero point removed) with ``weights`` OHWI: one matrix product per kernel element."""
    taps = _taps(x, (weights.shape[1], weights.shape[2]), strides, dilation, pads, 0.0)
    return _summed(part @ weights[:, ky, kx, :].T for ky, kx, part in taps)


def convolve_depthwise(x: Array, weights: Array, strides: Pair, dilation: Pair, pads: tuple[Pair, Pair]) -> Array:
    """Depthwise convolution with ``weights`` 1HWC; channel c of the output reads channel c // multiplier of ``x``."""
    multiplier = weights.shape[3] // x.shape[3]
    source = x if multiplier == 1 else np.repeat(x, multiplier, axis=3)
    taps = _taps(source, (weights.shape[1], weights.shape[2]), strides, dilation, pads, 0.0)
    return _summed(part * weights[0, ky, kx] for ky, kx, part in taps)


def max_pool(x: Array, kernel: Pair, strides: Pair, pads: tuple[Pair, Pair]) -> Array:
    """Largest element of each window; padding never wins."""
    return reduce(np.maximum, (part for _, _, part in _taps(x, kernel, strides, (1, 1), pads, -np.inf)))


def average_pool(x: Array, kernel: Pair, strides: Pair, pads: tuple[Pair, Pair]) -> Array:
    """Mean of each window, rounded; padding does not count, as in TFLite."""
    ones = np.ones((1, x.shape[1], x.shape[2], 1))
    total = sum(part for _, _, part in _taps(x, kernel, strides, (1, 1), pads, 0.0))
    count = sum(part for _, _, part in _taps(ones, kernel, strides, (1, 1), pads, 0.0))
    return np.asarray(np.rint(total / count), dtype=np.float64)
