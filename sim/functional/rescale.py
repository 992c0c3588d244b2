"""Fixed-point rescaling of the NPU's output unit: multiply, add a rounding term, shift right.

``(value * scale + r) >> shift`` with an arithmetic shift (Vela 5.2.0 scaling, checked against LiteRT): natural rounding has r = half of 1
<< shift. Truncation rounds towards zero. Double rounding is natural rounding plus (shift above 31) 1 << 30 with the sign of the value. It
equals gemmlowp's rounding doubling multiply followed by its rounding shift. For an operand that was shifted left by d before (the U85's
double-round field), the shift must be above 31 - d, and the term is 1 << (30 - d). Symmetric rounding takes ties away from zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.errors import InputError
from npu_model.program import KernelOperation, Rounding

Integers = NDArray[np.int64]
"""Exact values of the accumulators and of later steps."""

_INT64 = 1 << 63
_NUDGE = 1 << 30
_NUDGE_FROM = 31
_MAX_SHIFT = 63
_INT32 = 1 << 31


def magnitude(values: Integers) -> int:
    """Largest absolute value; 0 if there is none.

    >>> magnitude(np.array([3, -7]))
    7
    """
    return max(int(values.max()), -int(values.min())) if values.size else 0


def _rounding_term(values: Integers, shift: Integers, rounding: Rounding, double: int) -> Integers:
    """The addend before the shift; ``values`` gives the sign and the number format (int64 or Python integers).

    ``double`` is a left shift of the operand, which the second rounding of double rounding counts from.
    """
    one = np.ones((), values.dtype)
    if rounding is Rounding.TRUNCATE:
        return np.where(values < 0, (one << shift) - 1, 0)
    if rounding is Rounding.TRUNCATE_LOWER:
        return np.zeros_like(values)
    half = np.where(shift > 0, one << np.maximum(shift - 1, 0), 0)
    if rounding is Rounding.SYMMETRIC:
        return np.where((values < 0) & (shift > 0), half - 1, half)
    if rounding is Rounding.NATURAL or not (shift > _NUDGE_FROM - double).any():
        return half
    nudge = np.where(shift > _NUDGE_FROM - double, _NUDGE >> double, 0)
    return half + np.where(values < 0, -nudge, nudge)


def rescale(values: Integers, scale: int | Integers, shift: int | Integers, rounding: Rounding, double: int = 0) -> Integers:
    """``values * scale / 2**shift``, rounded; ``scale`` and ``shift`` may hold one value per channel (last axis).

    Exact for every input: where 64 bits could overflow, Python integers take over.

    >>> rescale(np.array([5, -5, -6]), 1, 1, Rounding.NATURAL).tolist()
    [3, -2, -3]
    >>> rescale(np.array([5, -5, -6]), 1, 1, Rounding.TRUNCATE).tolist()
    [2, -2, -3]
    >>> rescale(np.array([3, -3]), 1 << 30, 31, Rounding.DOUBLE).tolist()
    [2, -1]
    >>> rescale(np.array([3, -3]), 1 << 31, 32, Rounding.DOUBLE).tolist()
    [2, -2]
    >>> rescale(np.array([5, -5, -6]), 1, 1, Rounding.SYMMETRIC).tolist()
    [3, -3, -3]
    """
    if rounding is Rounding.DOUBLE_ASYMMETRIC:
        raise InputError("Double asymmetric rounding is not public: no compiler that was seen asks for it.")
    scales = np.asarray(scale, np.int64)
    shifts = np.asarray(shift, np.int64)
    if shifts.size and (int(shifts.min()) < 0 or int(shifts.max()) > _MAX_SHIFT):
        raise InputError(f"A scale shift of {int(shifts.max())} is outside 0 to {_MAX_SHIFT}: the scale table is damaged.")
    largest = magnitude(values) * (magnitude(scales) if scales.size else 0)
    if largest + (1 << int(shifts.max(initial=0))) + _NUDGE < _INT64:
        product = values * scales
        product += _rounding_term(values, shifts, rounding, double)
        product >>= shifts
        return product
    wide = values.astype(object)
    wide_shifts = shifts.astype(object)
    exact: NDArray[Any] = (wide * scales.astype(object) + _rounding_term(wide, wide_shifts, rounding, double)) >> wide_shifts
    return np.asarray(np.clip(exact, -_INT64, _INT64 - 1), np.int64)


def shift_right(values: Integers, shift: int | Integers, rounding: Rounding) -> Integers:
    """``values / 2**shift``, rounded; ``shift`` may hold one value per element.

    >>> shift_right(np.array([6, -6]), 2, Rounding.NATURAL).tolist()
    [2, -1]
    """
    return rescale(values, 1, shift, rounding)


def wrap32(values: Integers) -> Integers:
    """The low 32 bits, two's complement.

    >>> wrap32(np.array([1 << 31, 5])).tolist()
    [-2147483648, 5]
    """
    return (values + _INT32) % (2 * _INT32) - _INT32


def saturate32(values: Integers) -> Integers:
    """The values, clamped to 32 bits.

    >>> saturate32(np.array([1 << 31, -5])).tolist()
    [2147483647, -5]
    """
    return np.clip(values, -_INT32, _INT32 - 1)


def require_int32(values: Integers, user: str) -> Integers:
    """The values, if all fit into 32 bits; InputError otherwise, because no source defines the hardware's result."""
    if values.size and (int(values.max()) >= _INT32 or int(values.min()) < -_INT32):
        raise InputError(f"{user} gives {magnitude(values)}, beyond 32 bits: what the NPU does then is not public; rescale the operands.")
    return values


def scaled_ofm(op: KernelOperation, values: Integers) -> Integers:
    """Values of the accumulators, scaled as the operation's OFM asks."""
    return rescale(values, op.ofm_scale.scale, op.ofm_scale.shift, op.rounding, op.ofm_scale.double_round)
