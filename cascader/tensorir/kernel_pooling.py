"""Pooling kernels in TensorIR: maximum, average and the sum of channels.

The rules of scaling are those that :mod:`sim.functional.pooling` has found to be the NPU's, written anew.
"""

from __future__ import annotations

from typing import Any

from cascader.tensorir.kernel_body import KernelBody
from cascader.tensorir.kernel_window import Axis, axes, inside_count
from cascader.tensorir.numerics import Value, rescaled
from cascader.tensorir.writer import Writer
from npu_model.errors import InputError
from npu_model.program import BRICK, Kernel, KernelOperation, Padding, PoolKind, Rounding, Scale, Upscale


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


def _reduce_sum(body: KernelBody) -> None:
    writer, operation, depth = body.writer, body.operation, body.operation.ifm.shape.depth
    with body.positions() as (y, x):
        writer.store(body.scratch, 0, writer.constant(0))
        with writer.loop("i", depth) as i:
            body.add(0, body.ifm.load(writer, y, x, (i // BRICK, i % BRICK)))
        body.count(depth)
        total = Value(body.scratch[0], body.ifm.bound * depth)
        if operation.global_scale:
            total = rescaled(writer, total, operation.ofm_scale.scale, operation.ofm_scale.shift, operation.rounding, body.what)
        zero = writer.constant(0, "int32")
        body.store(y, x, (zero, zero), total.expression)


def pooling(body: KernelBody) -> None:
    """A stripe of a POOL operation; InputError if it cannot be expressed."""
    writer, operation = body.writer, body.operation
    check(operation, body.what)
    if operation.pool is PoolKind.REDUCE_SUM:
        _reduce_sum(body)
        return
    maximum = operation.pool is PoolKind.MAX
    # Below every element, so that padding never wins: the executor's choice too.
    start = operation.ifm.dtype.minimum - (1 << operation.ifm.dtype.bits) if maximum else 0
    row, column = axes(operation)
    for y, x, channels in body.groups():
        body.clear(channels.lanes, start)
        with body.taps(y, x) as (_, _, iy, ix):
            with writer.loop("c", channels.lanes) as c:
                value, so_far = body.ifm.load(writer, iy, ix, (channels.brick, c)), body.scratch[c]
                writer.store(body.scratch, c, writer.tvm.tirx.max(so_far, value) if maximum else so_far + value)
            body.count(channels.lanes)
        with writer.loop("c", channels.lanes) as c:
            result = body.scratch[c]
            if not maximum:
                bound = body.ifm.bound * operation.kernel.elements
                result = averaged(writer, operation, result, ((row, y), (column, x)), bound, body.what)
            body.store(y, x, (channels.brick, c), result)
