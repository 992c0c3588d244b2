"""Fixed-point scales of operators from the scales of their tensors, as TensorFlow Lite and Vela 5.2.0 (``scaling.py``) compute them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_model.errors import InputError
from npu_model.program import Scale, ScaledOperand
from npu_model.weight_stream.weights import RECORD_BYTES, ChannelScale, encode_scales

_SHIFT_LIMIT = 64
_ADVANCED_SHIFT = {8: 20, 16: 15}
"""Bits by which ADD and SUB shift their operands left before one operand is rescaled, by IFM bits."""
_SIMPLE_SHIFT = 16
_EXACT_BITS = 0xFFF
"""If this many low bits of an OFM scale are 0, one rounding is as good as two (Vela's register command stream generator)."""


def quantised(scale: float) -> Scale:
    """The 31-bit factor and the right shift nearest to ``scale``.

    >>> [(one.scale, one.shift) for one in (quantised(0.5), quantised(0.0078125))]
    [(1073741824, 31), (1073741824, 37)]
    """
    significand, exponent = math.frexp(scale)
    shift = 31 - exponent
    if scale <= 0 or not 0 <= shift < _SHIFT_LIMIT:
        raise InputError(f"A rescale by {scale} is out of range: 2**-32 to 2**31 is possible; check the scales of the tensors.")
    return Scale(math.floor(significand * (1 << 31) + 0.5), shift)


def pooling_scale(elements: int, rescale: float = 1.0) -> Scale:
    """The factor of a mean of ``elements`` elements, times ``rescale``.

    >>> pooling_scale(4).scale, pooling_scale(4).shift
    (2147483649, 33)
    """
    spare = 0
    if rescale > 1:
        spare = math.ceil(rescale).bit_length() + 1
    elif rescale < 1:
        spare = 1 - math.ceil(1 / rescale).bit_length()
    _, bits = math.frexp(elements - 1)
    shift = 31 - spare + bits
    scale = math.floor((((1 << shift) + (1 << bits)) // elements) * rescale + 0.5) if 0 <= shift < _SHIFT_LIMIT else 0
    if not 0 < scale < 1 << 32:
        raise InputError(f"A mean of {elements} elements rescaled by {rescale} is out of range: rescale in an operator of its own.")
    return Scale(scale, shift)


class SumScales(Struct, frozen=True):
    """Registers of ADD and SUB: the scales of both operands and of the result, and which operand is rescaled."""

    first: Scale
    second: Scale
    out: Scale
    operand: ScaledOperand


def sum_scales(first: float, second: float, out: float, bits: int, *, swapped: bool) -> SumScales:
    """The scales of a sum with operands of ``bits``: the scales of both operands if they are equal and nothing is rounded twice."""
    largest = max(first, second)

    def rescaled(shift: int) -> Scale:
        return quantised(2 * largest / (out * (1 << shift)))

    if first == second:
        factor = 1 << _SIMPLE_SHIFT - 1
        simple = rescaled(_SIMPLE_SHIFT)
        if bits == 16:
            return SumScales(Scale(factor // 2, 0), Scale(factor // 2, 0), Scale(simple.scale, simple.shift - 1), ScaledOperand.BOTH)
        if not simple.scale & _EXACT_BITS:
            return SumScales(Scale(factor, 0), Scale(factor, 0), simple, ScaledOperand.BOTH)
    shift = _ADVANCED_SHIFT[bits]
    smaller = quantised(min(first, second) * (1 << shift) / (2 * largest))
    own = ScaledOperand.A if (first <= second) != swapped else ScaledOperand.B
    return SumScales(smaller, Scale(0, 0), rescaled(shift), own)


def product_scale(first: float, second: float, out: float) -> Scale:
    """The scale of a product, in single precision as in TensorFlow Lite."""
    return quantised(float(np.float32(first) * np.float32(second) / np.float32(out)))


def _reduced(scale: Scale) -> Scale:
    """The 15-bit factor that TensorFlow Lite uses with a bias of 64 bits."""
    most = 32767
    return Scale((scale.scale + (1 << 15)) >> 16 if scale.scale < most << 16 else most, scale.shift - 16)


def scale_records(
    bias: npt.ArrayLike,
    ifm_scale: float,
    weight_scales: float | Sequence[float] | npt.NDArray[np.floating],
    ofm_scale: float,
    ifm_dtype: str = "int8",
) -> npt.NDArray[np.uint8]:
    """The constant ``scale_bias`` of a convolution: 10 bytes for each channel, shape (channels, 10).

    ``bias`` holds an integer for each channel, ``weight_scales`` one scale for all channels or one for each. As in TensorFlow Lite, the
    scales for a uint8 IFM are multiplied in single precision, and scales for an int16 IFM are rounded to 15 bits. InputError if a number
    does not fit.

    >>> scale_records([3, -1], 0.5, [0.25, 0.5], 1.0).tolist()
    [[3, 0, 0, 0, 0, 0, 0, 0, 64, 33], [255, 255, 255, 255, 255, 0, 0, 0, 64, 32]]
    """
    biases = [int(one) for one in np.asarray(bias).ravel()]
    scales = np.broadcast_to(np.asarray(weight_scales, np.float64), (len(biases),))
    single = ifm_dtype == "uint8"
    products = [float(np.float32(ifm_scale) * np.float32(own)) if single else float(ifm_scale) * float(own) for own in scales]
    factors = [quantised(product / float(ofm_scale)) for product in products]
    factors = [_reduced(factor) for factor in factors] if ifm_dtype == "int16" else factors
    return channel_records([ChannelScale(own, factor.scale, factor.shift) for own, factor in zip(biases, factors, strict=True)])


def channel_records(records: Sequence[ChannelScale]) -> npt.NDArray[np.uint8]:
    """Records as an array of (channels, 10) bytes."""
    table = encode_scales(records)[: len(records) * RECORD_BYTES]
    found: npt.NDArray[np.uint8] = np.frombuffer(table, np.uint8).reshape(len(records), RECORD_BYTES).copy()
    return found
