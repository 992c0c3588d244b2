"""Kernels with a window in TensorIR: loops over positions, blocks of output channels and taps.

Weights are laid out by blocks of output channels, the block's channels last, so that the innermost loop runs over
consecutive weights and accumulators: compilers make vectors of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascader.tensorir.kernel_body import KernelBody, channel_blocks
from cascader.tensorir.kernel_sums import WindowSum
from npu_model.program import BRICK

BLOCK = 32
"""Output channels that are summed up together, of all IFM channels: eight vectors of four, measured fastest of 16, 32 and 64."""


def _block(sums: WindowSum) -> int:
    return BLOCK if sums.deep else BRICK


def blocked_weights(sums: WindowSum, weights: NDArray[np.int16]) -> NDArray[np.integer[Any]]:
    """OHWI weights in the order in which the kernel reads them: block, tap row, tap column, IFM channel, channel of the block.

    int8 where all fit, int16 where unsigned weights without their zero point do not.
    """
    taps = weights.transpose(1, 2, 3, 0)
    pieces = []
    for first, blocks, lanes in channel_blocks(sums.operation, _block(sums)):
        piece = taps[..., first : first + blocks * lanes]
        pieces.append(piece.reshape(*piece.shape[:3], blocks, lanes).transpose(3, 0, 1, 2, 4).ravel())
    flat = np.concatenate(pieces)
    return flat.astype(np.int8) if int(flat.min()) >= -128 and int(flat.max()) <= 127 else flat


def windowed(body: KernelBody, sums: WindowSum, weights: Any, table: Any) -> None:
    """A stripe of a convolution (fully connected is one of 1x1), a depthwise operation or a pooling.

    ``weights`` lie as :func:`blocked_weights` says; they and the channels' ``table`` are None for a pooling.
    """
    writer, kernel = body.writer, body.operation.kernel
    depth = body.operation.ifm.shape.depth if sums.deep else 1
    for y, x, first, lanes in body.groups(_block(sums)):
        body.clear(lanes, sums.start)
        with body.taps(y, x) as (ky, kx, iy, ix):
            start = (first * kernel.elements + (ky * kernel.width + kx) * lanes) * depth
            if sums.deep:
                with writer.loop("i", depth) as i:
                    value = writer.bind("value", body.ifm.load(writer, iy, ix, i, body.accumulator), body.accumulator)
                    with writer.loop("c", lanes) as c:
                        _add(body, sums, c, value, None if weights is None else weights[start + i * lanes + c])
            else:
                with writer.loop("c", lanes) as c:
                    value = body.ifm.load(writer, iy, ix, first + c, body.accumulator)
                    _add(body, sums, c, value, None if weights is None else weights[start + c])
            body.count(depth * lanes)
        with writer.loop("c", lanes) as c:
            body.store(y, x, first + c, sums.result(writer, body.scratch[c], (y, x), table, first + c))


def _add(body: KernelBody, sums: WindowSum, lane: Any, value: Any, weight: Any) -> None:
    """Add an element of the IFM to an accumulator."""
    so_far, term = body.scratch[lane], sums.term(body.writer, value, weight)
    body.writer.store(body.scratch, lane, body.writer.tvm.tirx.max(so_far, term) if sums.is_maximum else so_far + term)
