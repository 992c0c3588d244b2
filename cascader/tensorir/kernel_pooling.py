"""Pooling kernels in TensorIR: maximum, average and the sum of channels.

The rules of scaling are those that :mod:`sim.functional.pooling` has found to be the NPU's, written anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cascader.tensorir.elements import Channels, Elements
from cascader.tensorir.kernel_convolution import count, each_group
from cascader.tensorir.kernel_window import Axis, Stripe, axes, inside, inside_count
from cascader.tensorir.numerics import Value, finished, rescaled
from cascader.tensorir.writer import Writer
from npu_model.errors import InputError
from npu_model.program import BRICK, Kernel, KernelOperation, Padding, PoolKind, Rounding, Scale, Upscale


@dataclass(frozen=True, slots=True)
class Pool:
    """Parameters of a pooling kernel beside its feature maps: int64 accumulators, the counter or None, and the look-up table or None."""

    scratch: Any
    macs: Any
    lut: Any


def check(operation: KernelOperation, what: str) -> None:
    """Refuse what no source says the meaning of, as the functional executor does."""
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


def averaged(
    writer: Writer, operation: KernelOperation, total: Any, places: tuple[tuple[Axis, Any], tuple[Axis, Any]], bound: int, what: str
) -> Any:
    """The average of a window whose elements sum up to ``total``, ``bound`` at most; ``places`` are its axes with the OFM indices."""
    if operation.padding == Padding():
        scale = operation.ofm_scale
        return rescaled(writer, Value(total, bound), scale.scale, scale.shift, operation.rounding, what).expression
    # Halves away from zero, over the elements inside the IFM: TFLite's rule, which the NPU follows.
    taps = [inside_count(writer, axis, output) for axis, output in places]
    number = writer.bind("number", writer.cast("int64", taps[0] * taps[1]))
    value = writer.bind("total", total)
    negative = value < 0
    size = writer.bind("size", writer.select(negative, value * writer.constant(-1), value))
    quotient = writer.bind("quotient", writer.tvm.tirx.truncdiv(size * writer.constant(2) + number, number * writer.constant(2)))
    return writer.select(negative, quotient * writer.constant(-1), quotient)


def _reduce_sum(writer: Writer, operation: KernelOperation, ifm: Elements, ofm: Elements, pool: Pool, stripe: Stripe, what: str) -> None:  # noqa: PLR0913  # a kernel has its operands, its tables and its rows
    depth = operation.ifm.shape.depth
    with stripe.positions(writer, operation) as (y, x):
        writer.store(pool.scratch, 0, writer.constant(0))
        with writer.loop("i", depth) as i:
            writer.store(pool.scratch, 0, pool.scratch[0] + ifm.load(writer, y, x, (i // BRICK, i % BRICK)))
        count(writer, pool.macs, depth)
        total = Value(pool.scratch[0], ifm.bound * depth)
        if operation.global_scale:
            total = rescaled(writer, total, operation.ofm_scale.scale, operation.ofm_scale.shift, operation.rounding, what)
        zero = writer.constant(0, "int32")
        writer.store(ofm.buffer, ofm.index(writer, y, x, (zero, zero)), finished(writer, operation, total.expression, pool.lut, what))


def pooling(writer: Writer, operation: KernelOperation, ifm: Elements, ofm: Elements, pool: Pool, stripe: Stripe, what: str) -> None:  # noqa: PLR0913  # a kernel has its operands, its tables and its rows
    """A stripe of a POOL operation; InputError if it cannot be expressed."""
    check(operation, what)
    if operation.pool is PoolKind.REDUCE_SUM:
        _reduce_sum(writer, operation, ifm, ofm, pool, stripe, what)
        return
    maximum = operation.pool is PoolKind.MAX
    # Below every element, so that padding never wins: the executor's choice too.
    start = operation.ifm.dtype.minimum - (1 << operation.ifm.dtype.bits) if maximum else 0
    row_axis, column_axis = axes(operation)

    def group(y: Any, x: Any, channels: Channels) -> None:
        with writer.loop("c", channels.lanes) as c:
            writer.store(pool.scratch, c, writer.constant(start))
        with inside(writer, "ky", row_axis, y) as (_, iy), inside(writer, "kx", column_axis, x) as (_, ix):
            with writer.loop("c", channels.lanes) as c:
                value, so_far = ifm.load(writer, iy, ix, (channels.brick, c)), pool.scratch[c]
                writer.store(pool.scratch, c, writer.tvm.tirx.max(so_far, value) if maximum else so_far + value)
            count(writer, pool.macs, channels.lanes)
        with writer.loop("c", channels.lanes) as c:
            result = pool.scratch[c]
            if not maximum:
                bound = ifm.bound * operation.kernel.elements
                result = averaged(writer, operation, result, ((row_axis, y), (column_axis, x)), bound, what)
            writer.store(ofm.buffer, ofm.index(writer, y, x, (channels.brick, c)), finished(writer, operation, result, pool.lut, what))

    each_group(writer, operation, stripe, group)
