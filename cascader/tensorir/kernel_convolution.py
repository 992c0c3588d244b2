"""Convolution, fully connected and depthwise kernels in TensorIR: sums of products, bias, and the per-channel rescaling.

Weights are laid out by blocks of output channels, the block's channels last, so that the innermost loop runs over
consecutive weights and accumulators: compilers make vectors of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascader.tensorir.kernel_body import KernelBody
from cascader.tensorir.numerics import rescaled_by_table
from npu_model.program import BRICK, KernelOperation, OperationKind
from npu_model.values import dataclass

BLOCK = 32
"""Output channels that are accumulated together: eight vectors of four, measured fastest of 16, 32 and 64."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Constants of a convolution: its weights as :func:`blocked_weights` lays them out, and its channel table."""

    weights: Any
    table: Any


def block_extents(operation: KernelOperation) -> list[tuple[int, int]]:
    """(blocks, channels of each): the whole blocks of output channels, and the one that holds the rest."""
    depth = operation.ofm.shape.depth
    extent = BRICK if operation.kind is OperationKind.DEPTHWISE else BLOCK
    whole, rest = divmod(depth, extent)
    return [(number, lanes) for number, lanes in ((whole, extent), (1, rest)) if number and lanes]


def blocked_weights(operation: KernelOperation, weights: NDArray[np.int16]) -> NDArray[np.integer[Any]]:
    """OHWI weights in the order in which the kernel reads them: block, tap row, tap column, IFM channel, channel of the block.

    int8 where all fit, int16 where unsigned weights without their zero point do not.
    """
    taps = weights.transpose(1, 2, 3, 0)
    pieces, first = [], 0
    for blocks, lanes in block_extents(operation):
        piece = taps[..., first : first + blocks * lanes]
        pieces.append(piece.reshape(*piece.shape[:3], blocks, lanes).transpose(3, 0, 1, 2, 4).ravel())
        first += blocks * lanes
    flat = np.concatenate(pieces)
    return flat.astype(np.int8) if int(flat.min()) >= -128 and int(flat.max()) <= 127 else flat


def _store_block(body: KernelBody, table: Any, place: tuple[Any, Any, Any], lanes: int) -> None:
    """Rescale and store ``lanes`` accumulators as the channels from ``place``'s first one, a multiple of 16, on."""
    y, x, first = place
    with body.writer.loop("c", lanes) as c:
        value = rescaled_by_table(body.writer, body.writer.cast("int64", body.scratch[c]), table, first + c)
        body.store(y, x, ((first + c) // BRICK, (first + c) % BRICK), value)


def convolve(body: KernelBody, filters: Filter) -> None:
    """A stripe of a CONV_2D operation (fully connected is one of 1x1)."""
    writer, kernel, depth, dtype = body.writer, body.operation.kernel, body.operation.ifm.shape.depth, body.accumulator
    with body.positions() as (y, x):
        start = first = 0
        for blocks, lanes in block_extents(body.operation):
            with writer.loop("block", blocks) as block:
                body.clear(lanes)
                with body.taps(y, x) as (ky, kx, iy, ix):
                    tap = ((block * kernel.height + ky) * kernel.width + kx) * depth
                    with writer.loop("i", depth) as i:
                        value = writer.bind("value", body.ifm.load(writer, iy, ix, (i // BRICK, i % BRICK), dtype), dtype)
                        with writer.loop("c", lanes) as c:
                            body.add(c, value * writer.cast(dtype, filters.weights[start + (tap + i) * lanes + c]))
                    body.count(depth * lanes)
                _store_block(body, filters.table, (y, x, first + block * lanes), lanes)
            start += blocks * kernel.elements * depth * lanes
            first += blocks * lanes


def depthwise(body: KernelBody, filters: Filter) -> None:
    """A stripe of a DEPTHWISE operation."""
    writer, kernel, dtype = body.writer, body.operation.kernel, body.accumulator
    for y, x, channels in body.groups():
        body.clear(channels.lanes)
        with body.taps(y, x) as (ky, kx, iy, ix):
            # All blocks before this one are whole bricks.
            start = channels.brick * (BRICK * kernel.elements) + (ky * kernel.width + kx) * channels.lanes
            with writer.loop("c", channels.lanes) as c:
                value = body.ifm.load(writer, iy, ix, (channels.brick, c), dtype)
                body.add(c, value * writer.cast(dtype, filters.weights[start + c]))
            body.count(channels.lanes)
        _store_block(body, filters.table, (y, x, channels.brick * BRICK), channels.lanes)
