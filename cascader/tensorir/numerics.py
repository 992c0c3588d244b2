"""Fixed-point arithmetic of the NPU's output unit as TensorIR expressions in 64 bits. A bound shows that no expression can overflow.

The formulas are the same as in :mod:`sim.functional.rescale` and :mod:`sim.functional.activation`, written independently: a multiply, a
rounding term, a shift right; then zero point, clamp and look-up table.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from cascader.tensorir.writer import Writer
from npu_model.errors import InputError
from npu_model.program import ActivationKind, ClipRange, DataType, ElementwiseKind, FeatureMap, KernelOperation, Rounding, Scale

_NUDGE = 1 << 30
_NUDGE_FROM = 31
"""If the shift is greater than this, double rounding adds 1 << 30 with the value's sign (gemmlowp's doubling multiply)."""

_LIMIT = 1 << 63

_CLIP_TYPES = {
    ClipRange.UINT8: DataType(8, signed=False),
    ClipRange.INT8: DataType(8, signed=True),
    ClipRange.INT16: DataType(16, signed=True),
}

INTERPOLATED_WORDS = 512
"""Words of a 16-bit look-up table. The upper nine bits of a value choose a word, the lower seven interpolate (TFLite)."""


class LaneValue(Struct, frozen=True):
    """An int64 expression and its largest magnitude."""

    expression: Any
    bound: int


def magnitude(feature_map: FeatureMap) -> int:
    """Largest magnitude of an element minus its zero point."""
    dtype, zero = feature_map.dtype, feature_map.zero_point
    return max(abs(dtype.minimum - zero), abs(dtype.maximum - zero))


def _terms(shift: int, rounding: Rounding) -> tuple[int, int]:
    """The two terms to add before a right shift by ``shift``: for values from 0 on, and for negative values."""
    if rounding is Rounding.TRUNCATE:
        return 0, (1 << shift) - 1
    half = 1 << (shift - 1) if shift else 0
    return (half + _NUDGE, half - _NUDGE) if rounding is Rounding.DOUBLE and shift > _NUDGE_FROM else (half, half)


def channel_table(records: list[tuple[int, int, int]], rounding: Rounding) -> list[tuple[int, int, int, int, int]]:
    """The table of channels: (bias, scale, shift, term for values from 0 on, term for negative values) for every (bias, scale, shift)."""
    return [(bias, scale, shift, *_terms(shift, rounding)) for bias, scale, shift in records]


def table_bound(rows: list[tuple[int, int, int, int, int]], bound: int) -> int:
    """Largest magnitude before the shift, for accumulators of at most ``bound``."""
    return max((bound + abs(bias)) * scale + max(abs(up), abs(down)) for bias, scale, _, up, down in rows)


def clip_type(operation: KernelOperation) -> DataType:
    """The number format to which the result is clipped before a look-up table."""
    return _CLIP_TYPES.get(operation.activation.clip, operation.ofm.dtype)


class OutputUnit(Struct, frozen=True):
    """Expressions of the output unit for one operation; ``what`` is the kernel's name in a sentence."""

    writer: Writer
    operation: KernelOperation
    what: str

    def bounded(self, value: LaneValue) -> LaneValue:
        """``value``; InputError if it may leave 64 bits."""
        if value.bound >= _LIMIT:
            raise InputError(f"{self.what} may reach {value.bound}: TensorIR computes in 64 bits, below {_LIMIT}; use smaller scales.")
        return value

    def rescaled(self, value: LaneValue, scale: Scale, rounding: Rounding | None = None) -> LaneValue:
        """``value`` times the scale, with the operation's rounding unless another one is given.

        InputError if 64 bits do not hold the product.
        """
        writer, shift = self.writer, scale.shift
        if not 0 <= shift <= 63:
            raise InputError(f"{self.what} shifts by {shift}: 0 to 63 are possible; the scale is damaged.")
        if scale == Scale(1, 0):
            return value
        base = writer.bind("value", value.expression)
        up, down = _terms(shift, rounding or self.operation.rounding)
        term = writer.constant(up) if up == down else writer.select(base < 0, writer.constant(down), writer.constant(up))
        product = LaneValue(base * writer.constant(scale.scale) + term, value.bound * abs(scale.scale) + max(up, down))
        total = self.bounded(product)
        return LaneValue(writer.bind("scaled", total.expression >> writer.constant(shift)), (total.bound >> shift) + 1)

    def rescaled_by_table(self, accumulator: Any, table: Any, channel: Any) -> Any:
        """The ``accumulator`` of ``channel`` with its bias, scale and shift from the table of :func:`channel_table`."""
        writer = self.writer
        row = writer.bind("row", channel * 5, "int32")
        value = writer.bind("biased", writer.cast("int64", accumulator) + table[row])
        term = writer.select(value < 0, table[row + 4], table[row + 3])
        return writer.bind("scaled", (value * table[row + 1] + term) >> table[row + 2])

    def finished(self, value: Any, lut: Any) -> Any:
        """The element to store, in the OFM's type, after zero point, clamp and look-up table.

        ``lut`` is a buffer of int64 or None. A 32-bit OFM without a table takes neither zero point nor clamp, but a product saturates, as
        in the functional executor.
        """
        writer, activation, ofm = self.writer, self.operation.activation, self.operation.ofm
        dtype = str(ofm.dtype)
        if activation.kind in (ActivationKind.TANH, ActivationKind.SIGMOID):
            raise InputError(
                f"{self.what} uses the native {activation.kind.value}: its rounding is not public; compile for a table instead."
            )
        if ofm.dtype.bits == 32 and lut is None:
            product = self.operation.elementwise is ElementwiseKind.MUL
            return writer.cast(dtype, self._clamped(value, ofm.dtype.minimum, ofm.dtype.maximum) if product else value)
        clip = clip_type(self.operation)
        low, high = max(activation.minimum, clip.minimum), min(activation.maximum, clip.maximum)
        if low > high:
            raise InputError(f"{self.what} clamps to [{low}, {high}], which is empty: the activation is damaged.")
        clamped = self._clamped(value + ofm.zero_point, low, high)
        if lut is None:
            return writer.cast(dtype, clamped)
        index = writer.bind("index", clamped)
        if clip.bits == 8:
            return writer.cast(dtype, lut[writer.cast("int32", index - clip.minimum)])
        word = writer.bind("word", writer.cast("int32", (index - clip.minimum) >> writer.constant(7)), "int32")
        base, slope = lut[word], lut[word + INTERPOLATED_WORDS]
        step = (slope * writer.tvm.tirx.bitwise_and(index, writer.constant(127)) + writer.constant(64)) >> writer.constant(7)
        return writer.cast(dtype, self._clamped(base + step, ofm.dtype.minimum, ofm.dtype.maximum))

    def _clamped(self, value: Any, low: int, high: int) -> Any:
        tirx = self.writer.tvm.tirx
        return tirx.max(tirx.min(value, self.writer.constant(high)), self.writer.constant(low))
