"""The ten elementwise kernels in TensorIR, on 8, 16 and 32 bits.

Scaling modes are the same as in :mod:`sim.functional.elementwise`, written independently.
"""

from __future__ import annotations

from typing import Any

from cascader.tensorir.kernel_body import KernelBody
from cascader.tensorir.numerics import LaneValue, OutputUnit
from cascader.tensorir.writer import Writer
from npu_model.errors import InputError
from npu_model.program import BRICK, ElementwiseKind, KernelOperation, Rounding, Scale, ScaledOperand

_OPERAND_SHIFT = {8: 20, 16: 15}
"""Left shift of both operands before one operand is rescaled, by IFM bits (Vela 5.2.0's advanced elementwise scaling)."""

_INT32 = 1 << 31
_MOST_SHIFT = 31

_ONLY_32 = (ElementwiseKind.CLZ, ElementwiseKind.SHR, ElementwiseKind.SHL)
_NOT_32 = (ElementwiseKind.LRELU, ElementwiseKind.ABS, ElementwiseKind.MIN, ElementwiseKind.MAX)


def check(operation: KernelOperation, what: str) -> None:
    """Check an operation; InputError if no public source says what the NPU does with it, or if its shapes do not match."""
    bits = operation.ifm.dtype.bits
    if operation.ifm.shape != operation.ofm.shape:
        raise InputError(f"{what} has an IFM of {operation.ifm.shape} and an OFM of {operation.ofm.shape}: only IFM2 may be broadcast.")
    if (bits == 32 and operation.elementwise in _NOT_32) or (bits != 32 and operation.elementwise in _ONLY_32):
        raise InputError(f"{what} works on {operation.ifm.dtype}: that width is not verified for it.")
    if operation.ifm2 is not None:
        for own, extent in zip(_extents(operation.ifm2), _extents(operation.ofm), strict=True):
            if own not in (1, extent):
                raise InputError(f"{what} has an IFM2 of {operation.ifm2.shape}: every axis is 1 or the OFM's, {operation.ofm.shape}.")
    if operation.is_binary and operation.ifm2 is None and operation.scalar is None:
        raise InputError(f"{what} has one operand: two are needed; the schedule is incomplete.")


def _extents(feature_map: Any) -> tuple[int, int, int]:
    shape = feature_map.shape
    return shape.height, shape.width, shape.depth


def _added(unit: OutputUnit, a: LaneValue, b: LaneValue, sign: int) -> LaneValue:
    writer, operation = unit.writer, unit.operation
    first, second, out = operation.opa_scale, operation.opb_scale, operation.ofm_scale
    bits = operation.ifm.dtype.bits
    if bits == 32 and (operation.scaled_operand is not ScaledOperand.BOTH or (first.scale, second.scale, out.scale) != (1, 1, 1)):
        raise InputError(f"{unit.what} scales 32-bit operands by {first.scale}, {second.scale} and {out.scale}: only 1 is known.")
    if operation.scaled_operand is ScaledOperand.BOTH:
        if first.shift:
            raise InputError(f"{unit.what} shifts operand A by {first.shift} with 16-bit scales for both: that mode has no shift.")
        total = a.expression * writer.constant(first.scale) + b.expression * writer.constant(sign * second.scale)
        return unit.rescaled(unit.bounded(LaneValue(total, a.bound * first.scale + b.bound * second.scale)), out)
    left = _OPERAND_SHIFT[bits]

    def shifted(value: LaneValue, by: int) -> LaneValue:
        return LaneValue(value.expression * writer.constant(1 << by), value.bound << by)

    def scaled(value: LaneValue) -> LaneValue:
        return unit.rescaled(shifted(value, left), Scale(first.scale, first.shift + left), Rounding.DOUBLE)

    # The operand without a scale is halved, which is TFLite's factor for the larger of two input scales.
    a, b = (scaled(a), shifted(b, left - 1)) if operation.scaled_operand is ScaledOperand.A else (shifted(a, left - 1), scaled(b))
    return unit.rescaled(LaneValue(a.expression + b.expression * writer.constant(sign), a.bound + b.bound), out)


def _shifted_right(unit: OutputUnit, a: LaneValue, b: LaneValue) -> LaneValue:
    writer = unit.writer
    value, shift = writer.bind("value", a.expression), writer.bind("shift", b.expression)
    one, zero = writer.constant(1), writer.constant(0)
    if unit.operation.rounding is Rounding.TRUNCATE:
        term = writer.select(value < 0, (one << shift) - one, zero)
    else:
        # Double rounding differs from natural rounding only beyond a shift of 31, which no operand of SHR reaches.
        term = writer.select(shift > 0, one << writer.tvm.tirx.max(shift - one, zero), zero)
    return LaneValue((value + term) >> shift, a.bound + (1 << _MOST_SHIFT))


def leading_zeros(writer: Writer, value: Any) -> Any:
    """Leading zeros of a 32-bit number in an int64: one for every power of two from 1 to 2**31 that is larger than it, unsigned."""
    low = writer.bind("low", writer.select(value < 0, value + writer.constant(2 * _INT32), value))
    total = writer.constant(0)
    for power in range(32):
        total = total + writer.cast("int64", low < writer.constant(1 << power))
    return total


def _unary(unit: OutputUnit, value: LaneValue) -> LaneValue:
    writer, kind, scale = unit.writer, unit.operation.elementwise, unit.operation.ofm_scale
    own = writer.bind("operand", value.expression)
    if kind is ElementwiseKind.CLZ:
        return LaneValue(leading_zeros(writer, own), 32)
    if kind is ElementwiseKind.ABS:
        return unit.rescaled(LaneValue(writer.select(own < 0, own * writer.constant(-1), own), value.bound), scale)
    product = unit.rescaled(LaneValue(own, value.bound), scale)
    return LaneValue(writer.select(own < 0, product.expression, own), max(product.bound, value.bound))


def _binary(unit: OutputUnit, a: LaneValue, b: LaneValue) -> LaneValue:
    writer, tirx, operation = unit.writer, unit.writer.tvm.tirx, unit.operation
    kind, scale = operation.elementwise, operation.ofm_scale
    if kind in (ElementwiseKind.ADD, ElementwiseKind.SUB):
        return _added(unit, a, b, 1 if kind is ElementwiseKind.ADD else -1)
    if kind is ElementwiseKind.MUL:
        product = unit.bounded(LaneValue(a.expression * b.expression, a.bound * b.bound))
        # On 32-bit operands the shift alone applies: softmax has a scale of 1 << 30 there and means a shift of 31.
        return unit.rescaled(product, Scale(1, scale.shift) if operation.ifm.dtype.bits == 32 else scale)
    if kind is ElementwiseKind.SHR:
        return _shifted_right(unit, a, b)
    if kind is ElementwiseKind.SHL:
        wrapped = writer.cast("int32", a.expression << b.expression)
        return LaneValue(writer.cast("int64", wrapped), _INT32)
    function = tirx.min if kind is ElementwiseKind.MIN else tirx.max
    return LaneValue(function(a.expression, b.expression), max(a.bound, b.bound))


def combined(unit: OutputUnit, a: LaneValue, b: LaneValue | None) -> LaneValue:
    """The result of the elements of IFM and IFM2, without zero points, before the OFM's zero point and clamp.

    ``b`` is None if there is no IFM2.
    """
    operation = unit.operation
    if not operation.is_binary:
        return _unary(unit, a)
    if b is None:
        scalar = (operation.scalar or 0) - operation.scalar_zero_point
        b = LaneValue(unit.writer.constant(scalar), abs(scalar))
    return _binary(unit, *((b, a) if operation.broadcast.swap else (a, b)))


def elementwise(body: KernelBody) -> None:
    """Write a stripe of an ELEMENTWISE operation; InputError if it cannot be expressed."""
    check(body.unit.operation, body.unit.what)
    for y, x, first, lanes in body.groups(BRICK):
        with body.unit.writer.loop("c", lanes) as c:
            a = body.ifm.value(y, x, first + c)
            b = None if body.ifm2 is None else body.ifm2.value(y, x, first + c)
            body.store(y, x, first + c, combined(body.unit, a, b).expression)
