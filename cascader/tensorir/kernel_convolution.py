"""Convolution, fully connected and depthwise kernels in TensorIR: sums of products, bias, and the per-channel rescaling.

Weights are laid out by blocks of output channels, the block's channels last, so that the innermost loop runs over
consecutive weights and accumulators: compilers make vectors of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascader.tensorir.elements import Channels, Elements, channel_groups
from cascader.tensorir.kernel_window import Stripe, axes, inside
from cascader.tensorir.numerics import finished, rescaled_by_table
from cascader.tensorir.writer import Writer
from npu_model.program import BRICK, KernelOperation, OperationKind

BLOCK = 32
"""Output channels that are accumulated together: eight vectors of four, measured fastest of 16, 32 and 64."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Parameters of a convolution beside its feature maps: weights, the channel table, accumulators and their type, counter or None."""

    weights: Any
    table: Any
    scratch: Any
    accumulator: str
    macs: Any


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


def count(writer: Writer, macs: Any, number: int) -> None:
    """Add to the counter of multiply-accumulates, if there is one."""
    if macs is not None:
        writer.store(macs, 0, macs[0] + writer.constant(number))


def _store_block(  # noqa: PLR0913  # a kernel has its operands, its tables and its rows
    writer: Writer, operation: KernelOperation, made: Filter, ofm: Elements, place: tuple[Any, Any, Any], lanes: int, lut: Any, what: str
) -> None:
    """Rescale and store ``lanes`` accumulators as the channels from ``place``'s first one, a multiple of 16, on."""
    y, x, first = place
    with writer.loop("c", lanes) as c:
        accumulator = writer.cast("int64", made.scratch[c])
        value = rescaled_by_table(writer, accumulator, made.table, first + c)
        channel = ((first + c) // BRICK, (first + c) % BRICK)
        writer.store(ofm.buffer, ofm.index(writer, y, x, channel), finished(writer, operation, value, lut, what))


def _clear(writer: Writer, made: Filter, lanes: int) -> None:
    with writer.loop("c", lanes) as c:
        writer.store(made.scratch, c, writer.constant(0, made.accumulator))


def convolve(  # noqa: PLR0913  # a kernel has its operands, its tables and its rows
    writer: Writer, operation: KernelOperation, ifm: Elements, ofm: Elements, made: Filter, lut: Any, stripe: Stripe, what: str
) -> None:
    """A stripe of a CONV_2D operation (fully connected is one of 1x1)."""
    row_axis, column_axis = axes(operation)
    kernel, depth = operation.kernel, operation.ifm.shape.depth
    with stripe.positions(writer, operation) as (y, x):
        start = first = 0
        for blocks, lanes in block_extents(operation):
            with writer.loop("block", blocks) as block:
                _clear(writer, made, lanes)
                with inside(writer, "ky", row_axis, y) as (ky, iy), inside(writer, "kx", column_axis, x) as (kx, ix):
                    tap = ((block * kernel.height + ky) * kernel.width + kx) * depth
                    with writer.loop("i", depth) as i:
                        value = writer.bind("value", ifm.load(writer, iy, ix, (i // BRICK, i % BRICK), made.accumulator), made.accumulator)
                        with writer.loop("c", lanes) as c:
                            weight = writer.cast(made.accumulator, made.weights[start + (tap + i) * lanes + c])
                            writer.store(made.scratch, c, made.scratch[c] + value * weight)
                    count(writer, made.macs, depth * lanes)
                _store_block(writer, operation, made, ofm, (y, x, first + block * lanes), lanes, lut, what)
            start += blocks * kernel.elements * depth * lanes
            first += blocks * lanes


def each_group(
    writer: Writer,
    operation: KernelOperation,
    stripe: Stripe,
    body: Callable[[Any, Any, Channels], None],
) -> None:
    """``body(y, x, channels)`` for every OFM position of the stripe and every 16 channels."""
    with stripe.positions(writer, operation) as (y, x):
        for channels in channel_groups(writer, operation.ofm.shape.depth):
            body(y, x, channels)


def depthwise(  # noqa: PLR0913  # a kernel has its operands, its tables and its rows
    writer: Writer, operation: KernelOperation, ifm: Elements, ofm: Elements, made: Filter, lut: Any, stripe: Stripe, what: str
) -> None:
    """A stripe of a DEPTHWISE operation."""
    row_axis, column_axis = axes(operation)
    kernel = operation.kernel

    def group(y: Any, x: Any, channels: Channels) -> None:
        _clear(writer, made, channels.lanes)
        with inside(writer, "ky", row_axis, y) as (ky, iy), inside(writer, "kx", column_axis, x) as (kx, ix):
            # All blocks before this one are whole bricks.
            start = channels.brick * (BRICK * kernel.elements) + (ky * kernel.width + kx) * channels.lanes
            with writer.loop("c", channels.lanes) as c:
                value = ifm.load(writer, iy, ix, (channels.brick, c), made.accumulator)
                weight = writer.cast(made.accumulator, made.weights[start + c])
                writer.store(made.scratch, c, made.scratch[c] + value * weight)
            count(writer, made.macs, channels.lanes)
        _store_block(writer, operation, made, ofm, (y, x, channels.brick * BRICK), channels.lanes, lut, what)

    each_group(writer, operation, stripe, group)
