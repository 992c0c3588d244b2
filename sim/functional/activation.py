"""The end of every operation: zero point, clamp, look-up table, and the check that the result fits the OFM."""

from __future__ import annotations

import numpy as np

from npu_model.errors import InputError
from npu_model.program import ActivationKind, ClipRange, DataType, ElementwiseKind, KernelOperation, TableFormat
from sim.functional.memory import RegionBytes
from sim.functional.native import FUNCTIONS
from sim.functional.rescale import Integers, magnitude, require_int32, saturate32, wrap32

LUT_SLOT_BYTES = 256
"""Size of one of the eight LUT slots (Vela 5.2.0 architecture features)."""

_CLIP_TYPES = {
    ClipRange.UINT8: DataType(8, signed=False),
    ClipRange.INT8: DataType(8, signed=True),
    ClipRange.INT16: DataType(16, signed=True),
}
_LUT16_ENTRIES = 512
_LUT16_FRACTION_BITS = 7


def interpolate(values: Integers, table: Integers) -> Integers:
    """TFLite's 16-bit table look-up: ``table`` holds 512 words, the base in the low and the slope in the high half.

    The upper nine bits of the value choose the word, the lower seven interpolate with rounding.

    >>> interpolate(np.array([-32768, 64]), np.array([5] * 256 + [(4 << 16) + 10] * 256)).tolist()
    [5, 12]
    """
    word = table[(values + (1 << 15)) >> _LUT16_FRACTION_BITS]
    base = (word & 0xFFFF ^ 0x8000) - 0x8000
    slope = (word >> 16 & 0xFFFF ^ 0x8000) - 0x8000
    fraction = values & ((1 << _LUT16_FRACTION_BITS) - 1)
    return np.asarray(base + ((slope * fraction + (1 << (_LUT16_FRACTION_BITS - 1))) >> _LUT16_FRACTION_BITS), np.int64)


TABLE_BYTES = {
    TableFormat.U8_U8: 256,
    TableFormat.S8_S8: 256,
    TableFormat.S8_S16: 512,
    TableFormat.S8_S32: 1024,
    TableFormat.S16_S16: 2048,
    TableFormat.S16_S32: 2048,
    TableFormat.TANH: 2048,
    TableFormat.SIGMOID: 2048,
}
"""Bytes of the operation's table format. The table's number counts tables of its size (Vela 5.2.0 ``GenerateActivation``)."""


def table_range(op: KernelOperation, lut_address: int) -> tuple[int, int]:
    """Address in the shared buffer and bytes of the operation's look-up table: a word per 8-bit index, or 512 words to interpolate."""
    if op.activation.table is not TableFormat.OFM:
        length = TABLE_BYTES[op.activation.table]
        return lut_address + op.activation.lut * length, length
    index = _CLIP_TYPES.get(op.activation.clip, op.ofm.dtype)
    length = 256 * op.ofm.dtype.bytes if index.bits == 8 else 4 * _LUT16_ENTRIES
    return lut_address + op.activation.lut * LUT_SLOT_BYTES, length


def _table(op: KernelOperation, memory: RegionBytes, lut_address: int, word: str, user: str) -> Integers:
    content = memory.read_shram(*table_range(op, lut_address), user)
    return np.frombuffer(content, word).astype(np.int64)


def _look_up(op: KernelOperation, values: Integers, index: DataType, memory: RegionBytes, lut_address: int, user: str) -> Integers:
    ofm = op.ofm.dtype
    if index.bits == 8 and ofm.bits in (8, 32):
        sign = "i" if ofm.signed else "u"
        table = _table(op, memory, lut_address, f"<{sign}{ofm.bytes}", user)
        return np.asarray(table[values - index.minimum], np.int64)
    if index == DataType(16, signed=True) and ofm == index:
        result = interpolate(values, _table(op, memory, lut_address, "<u4", user))
        return np.clip(result, ofm.minimum, ofm.maximum)
    raise InputError(f"{user} looks up {index} values for an {ofm} OFM: tables of 8 to 8, 8 to 32 and 16 to 16 bits are known.")


def _function(op: KernelOperation, values: Integers, user: str) -> Integers:
    """The native function, then zero point and clamp. Vela bounds the result (11 to 32757 in its Python core's LSTM)."""
    ofm = op.ofm
    if ofm.dtype != DataType(16, signed=True):
        raise InputError(
            f"{user} has the native {op.activation.kind.value} for an {ofm.dtype} OFM: its arithmetic is known for int16 alone."
        )
    result = FUNCTIONS[op.activation.kind](values) + ofm.zero_point
    return np.asarray(np.clip(result, op.activation.minimum, op.activation.maximum), np.int64)


def finish(op: KernelOperation, values: Integers, memory: RegionBytes, lut_address: int, user: str) -> Integers:
    """Zero point, clamp and LUT of the operation, giving values of the OFM's type.

    A 32-bit OFM without a LUT takes neither zero point nor clamp: Vela leaves stale values in those registers, which are
    16 bits wide, and LiteRT agrees with the results only if they are ignored. A product saturates: the softmax of Vela's Python core
    doubles 2**30, the reciprocal of 1, wherever one channel outweighs all others, and equals LiteRT's only so.
    """
    activation, ofm = op.activation, op.ofm
    if activation.kind in FUNCTIONS:
        return _function(op, values, user)
    is_lut = activation.kind is ActivationKind.LUT
    if ofm.dtype.bits == 32 and not is_lut:
        return saturate32(values) if op.elementwise is ElementwiseKind.MUL else require_int32(values, user)
    clip = _CLIP_TYPES.get(activation.clip, ofm.dtype)
    low, high = max(activation.minimum, clip.minimum), min(activation.maximum, clip.maximum)
    if low > high:
        raise InputError(f"{user} clamps to [{low}, {high}], which is empty: the activation registers are damaged.")
    result = np.clip(values + ofm.zero_point, low, high)
    return _look_up(op, result, clip, memory, lut_address, user) if is_lut else result


_INDICES = {
    TableFormat.U8_U8: (DataType(8, signed=False), "<u1"),
    TableFormat.S8_S8: (DataType(8, signed=True), "<i1"),
    TableFormat.S8_S16: (DataType(8, signed=True), "<i2"),
    TableFormat.S8_S32: (DataType(8, signed=True), "<i4"),
    TableFormat.S16_S16: (DataType(16, signed=True), "<u4"),
}
"""For each table format, the type of its index and the type of its entries."""


_STEPS = {TableFormat.TANH: 8, TableFormat.SIGMOID: 9}
"""Bits of a value below its table entry: a table of the hyperbolic tangent serves both, the sigmoid at half of the argument."""


def tabled_curve(values: Integers, table: Integers, function: TableFormat) -> Integers:
    """The hyperbolic tangent or the sigmoid, both from a table of the tangent, in units of 2**-15; a value of 3 * 2**12 is 1.

    The magnitude is interpolated and gets its sign back before it is rounded. LiteRT's kernels give the same for every 16-bit input.
    """
    bits = _STEPS[function]
    distance, negative = np.minimum(np.abs(values), (256 << bits) - 1), values < 0
    word, fraction = table[(distance >> bits) + 256], distance & ((1 << bits) - 1)
    base, slope = ((part & 0xFFFF ^ 0x8000) - 0x8000 for part in (word, word >> 16))
    exact = (base << bits) + slope * fraction
    if function is TableFormat.TANH:
        found = (exact + (1 << (bits - 1))) >> bits
        return np.asarray(np.where(negative, -found, found), np.int64)
    raised = np.where(negative, -exact - 1, exact) + (1 << (bits + 15)) + (1 << bits)
    return np.asarray(np.clip(raised >> (bits + 1), 0, (1 << 15) - 1), np.int64)


def finish_deep(op: KernelOperation, values: Integers, memory: RegionBytes, lut_address: int, user: str) -> Integers:
    """The end of a U85's operation: zero point, clamp unless it is off, and table; 32 bits wrap.

    InputError for a result outside the OFM's type without a clamp, because no public source defines the stored value.
    """
    activation, dtype = op.activation, op.ofm.dtype
    if activation.table in _STEPS:
        curve = tabled_curve(values, _table(op, memory, lut_address, "<u4", user), activation.table)
        return np.clip(curve + op.ofm.zero_point, activation.minimum, activation.maximum)
    result = values + op.ofm.zero_point
    if activation.clip is not ClipRange.NONE:
        result = np.clip(result, activation.minimum, activation.maximum)
    if activation.table is not TableFormat.OFM:
        if activation.table not in _INDICES:
            raise InputError(f"{user} has a table of format {activation.table.name}: its arithmetic is not public.")
        index, word = _INDICES[activation.table]
        result = np.clip(result, index.minimum, index.maximum)
        table = _table(op, memory, lut_address, word, user)
        result = interpolate(result, table) if index.bits == 16 else table[result - index.minimum]
        result = np.clip(result, dtype.minimum, dtype.maximum)
    if dtype.bits == 32:
        return wrap32(result)
    if result.size and (int(result.min()) < dtype.minimum or int(result.max()) > dtype.maximum):
        raise InputError(f"{user} gives {magnitude(result)}, beyond its {dtype} output, and clamps nothing: the result is not public.")
    return np.asarray(result, np.int64)


FINISHES = {"u55": finish, "u85": finish_deep}
"""The end of an operation by the layout of the accelerator's commands."""
