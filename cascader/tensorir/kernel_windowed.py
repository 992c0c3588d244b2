"""Kernels with a window in TensorIR: convolutions, depthwise operations and poolings.

This module holds the taps inside the IFM, the accumulation over them, and the loops over positions, blocks of output channels and taps. The
loops, and the Tensor Expressions of tests, use the same accumulation. Weights are laid out by blocks of output channels, with the block's
channels last. So the innermost loop runs over consecutive weights and accumulators, and compilers vectorise it. Poolings follow the NPU's
rules that :mod:`sim.functional.pooling` found, written independently.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from cascader.tensorir.kernel_body import KernelBody, channel_blocks
from cascader.tensorir.kernel_constants import take
from cascader.tensorir.numerics import LaneValue, OutputUnit, channel_table, magnitude, table_bound
from cascader.tensorir.writer import Writer
from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import (
    BRICK,
    AccumulatorFormat,
    Kernel,
    KernelOperation,
    OperationKind,
    Padding,
    PoolKind,
    Rounding,
    Scale,
    Upscale,
)
from npu_model.weight_stream.kernels import kernel_weights
from npu_model.weight_stream.streams import has_streams, records_of
from npu_model.weight_stream.weights import decode_scales

BLOCK = 32
"""Output channels that are accumulated together, over all IFM channels. Eight vectors of four were the fastest of 16, 32 and 64."""


class WindowAxis(Struct, frozen=True):
    """One axis of a window: OFM extent, taps, stride, dilation, elements of padding before it, and the end of the IFM.

    Positions count from the first element of the IFM, or of the upscaled IFM.
    """

    outputs: int
    taps: int
    stride: int
    dilation: int
    before: int
    limit: int
    upscale: Upscale

    def conditions(self, position: Any) -> list[Any]:
        """The conditions under which ``position`` is an IFM element, without conditions that always hold."""
        last = (self.outputs - 1) * self.stride + (self.taps - 1) * self.dilation - self.before
        found = []
        if self.before > 0:
            found.append(position >= 0)
        if last >= self.limit:
            found.append(position < self.limit)
        return found

    def source(self, position: Any) -> Any:
        """The IFM index of a position."""
        return position if self.upscale is Upscale.NONE else position // 2


def axes(operation: KernelOperation) -> tuple[WindowAxis, WindowAxis]:
    """The rows and the columns of an operation's window.

    An upscaled map of an odd extent has one element more than the windows need. The limit leaves it out.
    """
    kernel, padding, ifm, ofm = operation.kernel, operation.padding, operation.ifm.shape, operation.ofm.shape
    factor = 1 if operation.upscale is Upscale.NONE else 2
    made = []
    for outputs, taps, stride, dilation, before, after, extent in (
        (ofm.height, kernel.height, kernel.stride_y, kernel.dilation_y, padding.top, padding.bottom, ifm.height),
        (ofm.width, kernel.width, kernel.stride_x, kernel.dilation_x, padding.left, padding.right, ifm.width),
    ):
        covered = (outputs - 1) * stride + (taps - 1) * dilation + 1
        limit = min(extent * factor, covered - before - after)
        made.append(WindowAxis(outputs, taps, stride, dilation, before, limit, operation.upscale))
    return made[0], made[1]


@contextmanager
def inside(writer: Writer, name: str, axis: WindowAxis, output: Any) -> Iterator[tuple[Any, Any]]:
    """A loop over the taps of ``axis`` inside the IFM for one ``output`` index; it yields (tap, IFM index).

    Taps on the inserted elements of a map that is upscaled with zeros add nothing and are skipped.
    """
    with writer.loop(name, axis.taps) as tap:
        position = writer.bind("position", output * axis.stride + tap * axis.dilation - axis.before, "int32")
        conditions = axis.conditions(position)
        if axis.upscale is Upscale.ZEROS:
            conditions.append(writer.tvm.tirx.truncmod(position, writer.constant(2, "int32")) == 0)
        with writer.when(conditions):
            yield tap, axis.source(position)


def inside_count(writer: Writer, axis: WindowAxis, output: Any) -> Any:
    """The number of taps of an undilated ``axis`` inside the IFM for one ``output`` index, as an int32 expression."""
    tirx = writer.tvm.tirx
    first = writer.bind("first_tap", output * axis.stride - axis.before, "int32")
    low = tirx.max(first, writer.constant(0, "int32"))
    return tirx.min(first + axis.taps, writer.constant(axis.limit, "int32")) - low


class WindowSum(Struct, frozen=True, eq=False):
    """The accumulation of a kernel with a window, in a type that holds every total.

    A convolution or depthwise operation has ``weights`` (OHWI, zero point off) and the flat ``table`` that :func:`channel_table` describes.
    A pooling has neither.
    """

    unit: OutputUnit
    accumulator: str = "int64"
    weights: NDArray[np.int16] | None = None
    table: NDArray[np.int64] | None = None

    @property
    def deep(self) -> bool:
        """Whether all channels of the IFM are summed up, not only the element's own channel."""
        return self.unit.operation.kind is OperationKind.CONV_2D or self.unit.operation.pool is PoolKind.REDUCE_SUM

    @property
    def is_maximum(self) -> bool:
        """Whether the total is the largest element of the window."""
        return self.unit.operation.pool is PoolKind.MAX

    @property
    def start(self) -> int:
        """The accumulator before the first tap.

        For a maximum it is smaller than every element, so padding never wins, as in the executor.
        """
        dtype = self.unit.operation.ifm.dtype
        return dtype.minimum - (1 << dtype.bits) if self.is_maximum else 0

    def term(self, value: Any, weight: Any) -> Any:
        """The term that one element of the IFM, in the accumulator's type, adds; ``weight`` is None for a pooling."""
        return value if weight is None else value * self.unit.writer.cast(self.accumulator, weight)

    def result(self, total: Any, at: tuple[Any, Any], table: Any, channel: Any) -> Any:
        """The result of a ``total`` at row and column ``at``, before zero point and clamp; ``table`` has a convolution's channels."""
        operation = self.unit.operation
        if self.table is not None:
            return self.unit.rescaled_by_table(total, table, channel)
        if self.is_maximum:
            return total
        if operation.pool is PoolKind.AVERAGE and operation.padding != Padding():
            return _mean(self.unit.writer, operation, total, at)
        if operation.pool is PoolKind.REDUCE_SUM and not operation.global_scale:
            return total
        terms = operation.kernel.elements * (operation.ifm.shape.depth if self.deep else 1)
        return self.unit.rescaled(LaneValue(total, magnitude(operation.ifm) * terms), operation.ofm_scale).expression


def window_sum(unit: OutputUnit, constants: bytes, accelerator: Accelerator) -> WindowSum:
    """The accumulation of an operation that is not elementwise; InputError if it cannot be expressed or does not fit 64 bits."""
    operation, what = unit.operation, unit.what
    if operation.kind is OperationKind.POOL:
        _check_pooling(operation, what)
        return WindowSum(unit)
    _check_filter(operation, what)
    depth = operation.ofm.shape.depth
    weights = kernel_weights(operation, [take(constants, span, what) for span in operation.weights], accelerator)
    records = decode_scales(records_of([take(constants, span, what) for span in operation.scales], depth), depth)
    rows = channel_table([(record.bias, record.scale, record.shift) for record in records], operation.rounding)
    bound = int(np.abs(weights.astype(np.int64)).sum(axis=(1, 2, 3)).max(initial=0)) * magnitude(operation.ifm)
    if table_bound(rows, bound) >= 1 << 63:
        raise InputError(f"{what} may reach {table_bound(rows, bound)} before its shift: TensorIR computes in 64 bits; use smaller scales.")
    return WindowSum(unit, "int32" if bound < 1 << 31 else "int64", weights, np.array(rows, np.int64).ravel())


def _check_filter(operation: KernelOperation, what: str) -> None:
    if operation.ifm.dtype.bits == 32 or operation.global_scale or not has_streams(operation):
        raise InputError(
            f"{what} reads {operation.ifm.dtype} with {len(operation.weights)} weight streams: 8 or 16 bits and one a core are expressed."
        )
    if operation.accumulator is AccumulatorFormat.FP16:
        raise InputError(f"{what} accumulates in FP16: integer accumulators are expressed in TensorIR; compile with 8 or 16 bits.")
    if operation.kind is OperationKind.DEPTHWISE and operation.ifm.shape.depth != operation.ofm.shape.depth:
        raise InputError(f"{what} has {operation.ifm.shape.depth} IFM and {operation.ofm.shape.depth} OFM channels: they must be as many.")


def _check_pooling(operation: KernelOperation, what: str) -> None:
    """Refuse an operation whose meaning no source gives, as the functional executor does."""
    padded = operation.padding != Padding()
    if operation.pool is PoolKind.REDUCE_SUM:
        if operation.ifm.dtype.bits == 8 or operation.kernel != Kernel() or padded or operation.ofm.shape.depth != 1:
            raise InputError(
                f"{what} sums {operation.ifm.dtype} channels in a window of {operation.kernel.elements}: 16 or 32 bits and 1 are known."
            )
        return
    if operation.pool is PoolKind.MAX:
        if operation.upscale is Upscale.ZEROS:
            raise InputError(f"{what} takes the maximum behind the upscaler with zeros: nearest neighbours are expressed in TensorIR.")
        return
    if not padded and not operation.global_scale:
        raise InputError(f"{what} averages without padding and without a global scale: what divides the sum is not public.")
    if padded and ((operation.global_scale and operation.ofm_scale != Scale(1, 0)) or operation.rounding is Rounding.TRUNCATE):
        raise InputError(f"{what} averages with padding and {operation.ofm_scale}: only Scale(1, 0) is known.")
    if padded and (operation.upscale is Upscale.ZEROS or (operation.kernel.dilation_y, operation.kernel.dilation_x) != (1, 1)):
        raise InputError(f"{what} averages with padding dilated or between zeros: plain windows are expressed in TensorIR.")


def _mean(writer: Writer, operation: KernelOperation, total: Any, at: tuple[Any, Any]) -> Any:
    """The mean of the elements inside the IFM, with halves rounded away from zero: TFLite's rule, which the NPU follows."""
    taps = [inside_count(writer, axis, output) for axis, output in zip(axes(operation), at, strict=True)]
    number = writer.bind("number", writer.cast("int64", taps[0] * taps[1]))
    value = writer.bind("total", total)
    negative = value < 0
    size = writer.bind("size", writer.select(negative, value * writer.constant(-1), value))
    quotient = writer.bind("quotient", writer.tvm.tirx.truncdiv(size * writer.constant(2) + number, number * writer.constant(2)))
    return writer.select(negative, quotient * writer.constant(-1), quotient)


def _block(sums: WindowSum) -> int:
    return BLOCK if sums.deep else BRICK


def blocked_weights(sums: WindowSum, weights: NDArray[np.int16]) -> NDArray[np.integer[Any]]:
    """OHWI weights in the kernel's order of reading: block, tap row, tap column, IFM channel, channel of the block.

    The type is int8 if all weights fit, and int16 if unsigned weights without their zero point do not.
    """
    taps = weights.transpose(1, 2, 3, 0)
    pieces = []
    for first, blocks, lanes in channel_blocks(sums.unit.operation, _block(sums)):
        piece = taps[..., first : first + blocks * lanes]
        pieces.append(piece.reshape(*piece.shape[:3], blocks, lanes).transpose(3, 0, 1, 2, 4).ravel())
    flat = np.concatenate(pieces)
    return flat.astype(np.int8) if int(flat.min()) >= -128 and int(flat.max()) <= 127 else flat


class SumWindow(Struct, frozen=True):
    """Parameters of a kernel with a window, in addition to its operands.

    ``weights`` are laid out by :func:`blocked_weights`. They and the channels' ``table`` are None for a pooling. ``scratch`` holds the
    accumulators. ``macs`` counts multiply-accumulates; None if they are not counted.
    """

    sums: WindowSum
    weights: Any
    table: Any
    scratch: Any
    macs: Any


def windowed(body: KernelBody, window: SumWindow) -> None:
    """Write a stripe of a convolution (fully connected is a 1x1 convolution), a depthwise operation or a pooling."""
    writer, operation, sums, weights = body.unit.writer, body.unit.operation, window.sums, window.weights
    kernel, depth = operation.kernel, operation.ifm.shape.depth if sums.deep else 1
    row, column = axes(operation)

    def add(lane: Any, value: Any, place: Any) -> None:
        """Add an element of the IFM to an accumulator."""
        so_far, term = window.scratch[lane], sums.term(value, None if weights is None else weights[place])
        writer.store(window.scratch, lane, writer.tvm.tirx.max(so_far, term) if sums.is_maximum else so_far + term)

    for y, x, first, lanes in body.groups(_block(sums)):
        with writer.loop("c", lanes) as c:
            writer.store(window.scratch, c, writer.constant(sums.start, sums.accumulator))
        with inside(writer, "ky", row, y) as (ky, iy), inside(writer, "kx", column, x) as (kx, ix):
            start = (first * kernel.elements + (ky * kernel.width + kx) * lanes) * depth
            if sums.deep:
                with writer.loop("i", depth) as i:
                    value = writer.bind("value", body.ifm.load(iy, ix, i, sums.accumulator), sums.accumulator)
                    with writer.loop("c", lanes) as c:
                        add(c, value, start + i * lanes + c)
            else:
                with writer.loop("c", lanes) as c:
                    add(c, body.ifm.load(iy, ix, first + c, sums.accumulator), start + c)
            if window.macs is not None:
                writer.store(window.macs, 0, window.macs[0] + writer.constant(depth * lanes))
        with writer.loop("c", lanes) as c:
            body.store(y, x, first + c, sums.result(window.scratch[c], (y, x), window.table, first + c))
