"""The elementwise operations, on 8, 16 and 32 bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from npu_model.errors import InputError
from npu_model.program import ElementwiseKind, FeatureMap, KernelOperation, MapStorage, Rounding, Scale, ScaledOperand
from sim.functional.memory import RegionBytes
from sim.functional.rescale import Integers, rescale, scaled_ofm, shift_right, wrap32

_OPERAND_SHIFT = {8: 20, 16: 15}
"""Left shift of both operands before they are rescaled, by IFM bits (Vela 5.2.0 advanced elementwise scaling).

The operand without a scale is halved, which is TFLite's factor for the larger of two input scales.
"""

_MAX_SHIFT = 31
_WIDTHS = 8, 16, 32

_COMPARISONS: dict[ElementwiseKind, Callable[[Integers, Integers], NDArray[np.bool_]]] = {
    ElementwiseKind.EQUAL: np.equal,
    ElementwiseKind.NOT_EQUAL: np.not_equal,
    ElementwiseKind.GREATER_EQUAL: np.greater_equal,
    ElementwiseKind.GREATER: np.greater,
}

_ONLY_32 = (ElementwiseKind.CLZ, ElementwiseKind.SHR, ElementwiseKind.SHL)
_NOT_32 = (ElementwiseKind.LRELU, ElementwiseKind.ABS, ElementwiseKind.MIN, ElementwiseKind.MAX)
"""Operations that compilers use on 32 bits only, and on 8 and 16 bits only."""


def _operand(op: KernelOperation, fm: FeatureMap, memory: RegionBytes, user: str) -> Integers:
    """An operand with its zero point subtracted; an operand without an address is the scalar."""
    if fm.storage is MapStorage.NONE:
        return np.full((1, 1, 1), (op.scalar or 0) - fm.zero_point, np.int64)
    return memory.gather(fm, user).astype(np.int64) - fm.zero_point


def _operands(op: KernelOperation, memory: RegionBytes, user: str) -> tuple[Integers, Integers]:
    """Operands A and B, zero points subtracted; IFM2 broadcasts as numpy does, its repeated axes being 1 long."""
    first = _operand(op, op.ifm, memory, user)
    if op.ifm2 is not None:
        second = _operand(op, op.ifm2, memory, user)
    elif op.scalar is not None:
        second = np.full((1, 1, 1), op.scalar - op.scalar_zero_point, np.int64)
    else:
        raise InputError(f"{user} has one operand: two are needed; the program is incomplete.")
    return (second, first) if op.broadcast.swap else (first, second)


def _multiply(op: KernelOperation, a: Integers, b: Integers) -> Integers:
    """The product.

    On 32-bit operands only the shift of the OFM scale applies: softmax multiplies with a scale of 1 << 30 and means a shift of 31.
    """
    if op.ifm.dtype.bits == 32:
        return rescale(a * b, 1, op.ofm_scale.shift, op.rounding)
    return scaled_ofm(op, a * b)


def _scaled(values: Integers, scale: Scale) -> Integers:
    """An operand with its own full scale applied."""
    rounding = Rounding.NATURAL if scale.is_natural else Rounding.DOUBLE
    return rescale(values, scale.scale, scale.shift, rounding, scale.double_round)


def _add(op: KernelOperation, a: Integers, b: Integers, sign: int, user: str) -> Integers:
    if op.scaled_operand is ScaledOperand.EACH:
        return scaled_ofm(op, _scaled(a, op.opa_scale) + sign * _scaled(b, op.opb_scale))
    factors = (op.opa_scale.scale, op.opb_scale.scale, op.ofm_scale.scale)
    if op.ifm.dtype.bits == 32 and (op.scaled_operand is not ScaledOperand.BOTH or factors != (1, 1, 1)):
        raise InputError(f"{user} scales 32-bit operands by {factors}: only 1 is known; remove the quantisation of int32 tensors.")
    if op.scaled_operand is ScaledOperand.BOTH:
        if op.opa_scale.shift:
            raise InputError(f"{user} shifts operand A by {op.opa_scale.shift} with 16-bit scales for both: that mode has no shift.")
        return scaled_ofm(op, a * op.opa_scale.scale + sign * b * op.opb_scale.scale)
    shift = _OPERAND_SHIFT[op.ifm.dtype.bits]
    scale = Scale(op.opa_scale.scale, op.opa_scale.shift + shift)
    if op.scaled_operand is ScaledOperand.A:
        a, b = rescale(a << shift, scale.scale, scale.shift, Rounding.DOUBLE), b << shift - 1
    else:
        a, b = a << shift - 1, rescale(b << shift, scale.scale, scale.shift, Rounding.DOUBLE)
    return scaled_ofm(op, a + sign * b)


def _checked_shift(shift: Integers, user: str) -> Integers:
    if shift.size and (int(shift.min()) < 0 or int(shift.max()) > _MAX_SHIFT):
        raise InputError(f"{user} shifts by {int(shift.min())} to {int(shift.max())}: 0 to {_MAX_SHIFT} are known; check the operand.")
    return shift


def leading_zeros(values: Integers) -> Integers:
    """Leading zeros of 32-bit two's complement values.

    >>> leading_zeros(np.array([0, 1, 255, -1])).tolist()
    [32, 31, 24, 0]
    """
    # frexp gives the exponent e of a positive integer v with 2**(e-1) <= v < 2**e, and 0 for 0.
    return 32 - np.frexp((values & 0xFFFFFFFF).astype(np.float64))[1].astype(np.int64)


def _unary(op: KernelOperation, memory: RegionBytes, user: str) -> Integers:
    values = _operand(op, op.ifm, memory, user)
    if op.elementwise is ElementwiseKind.NOT:
        return ~values
    if op.elementwise is ElementwiseKind.LRELU and op.scaled_operand is ScaledOperand.EACH:
        return scaled_ofm(op, np.where(values < 0, _scaled(values, op.opb_scale), _scaled(values, op.opa_scale)))
    if op.elementwise is ElementwiseKind.LRELU:
        return np.where(values < 0, scaled_ofm(op, values), values)
    if op.elementwise is ElementwiseKind.ABS:
        return scaled_ofm(op, np.abs(values))
    return leading_zeros(values)


_BINARY: dict[ElementwiseKind, Callable[[KernelOperation, Integers, Integers, str], Integers]] = {
    ElementwiseKind.MUL: lambda op, a, b, _: _multiply(op, a, b),
    ElementwiseKind.ADD: lambda op, a, b, user: _add(op, a, b, 1, user),
    ElementwiseKind.SUB: lambda op, a, b, user: _add(op, a, b, -1, user),
    ElementwiseKind.MIN: lambda _, a, b, __: np.minimum(a, b),
    ElementwiseKind.MAX: lambda _, a, b, __: np.maximum(a, b),
    ElementwiseKind.SHR: lambda op, a, b, user: shift_right(a, _checked_shift(b, user), op.rounding),
    ElementwiseKind.LSR: lambda _, a, b, user: (a & 0xFFFFFFFF) >> _checked_shift(b, user),
    ElementwiseKind.AND: lambda _, a, b, __: a & b,
    ElementwiseKind.OR: lambda _, a, b, __: a | b,
    ElementwiseKind.XOR: lambda _, a, b, __: a ^ b,
    ElementwiseKind.AND_NOT: lambda _, a, b, __: a & ~b,
    ElementwiseKind.SHL: lambda _, a, b, user: wrap32(a << _checked_shift(b, user)),
}


def _check(op: KernelOperation, user: str) -> None:
    """Refuse operations that no compiler emits, because no public source defines their results."""
    bits, zero = op.ifm.dtype.bits, op.ifm.zero_point
    if op.elementwise is ElementwiseKind.DIV or bits not in _WIDTHS:
        raise InputError(f"{user} works on {op.ifm.dtype}: the NPU's arithmetic of that is not public; compile without it.")
    if op.scaled_operand is ScaledOperand.EACH:
        return
    if (bits == 32 and op.elementwise in _NOT_32) or (bits != 32 and op.elementwise in _ONLY_32):
        raise InputError(f"{user} works on {op.ifm.dtype}: that width is not verified for it; use {16 if bits == 32 else 32} bits.")
    if bits == 32 and (zero or (op.ifm2 and op.ifm2.zero_point) or op.scalar_zero_point):
        raise InputError(f"{user} has 32-bit operands with a zero point: whether the NPU subtracts it is not public; use 0.")
    if op.ifm2 is not None and op.ifm2.dtype.bits != bits:
        raise InputError(f"{user} has operands of {op.ifm.dtype} and {op.ifm2.dtype}: both need the same width.")


def _extents(op: KernelOperation) -> tuple[int, int, int]:
    return op.ofm.shape.height, op.ofm.shape.width, op.ofm.shape.depth


def elementwise(op: KernelOperation, memory: RegionBytes, user: str) -> Integers:
    """The result of an ELEMENTWISE operation, height x width x depth of the OFM, before zero point and clamp."""
    _check(op, user)
    if op.ifm.shape != op.ofm.shape and op.scaled_operand is not ScaledOperand.EACH:
        raise InputError(f"{user} has an IFM of {op.ifm.shape} and an OFM of {op.ofm.shape}: only IFM2 may be broadcast.")
    if op.elementwise is None or op.elementwise.is_unary:
        return _unary(op, memory, user)
    a, b = _operands(op, memory, user)
    if op.elementwise in _COMPARISONS:
        return np.broadcast_to(_COMPARISONS[op.elementwise](a, b), _extents(op)).astype(np.int64)
    return _BINARY[op.elementwise](op, a, b, user)
