"""Operands that are constant although operators make them: a compiler computes them from constants and shapes.

Vela 5.2 does so with a QUANTIZE of integers (one of floats stays on the CPU), its Python core with SHAPE.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, frexp

import numpy as np
from msgspec.structs import replace

from npu_model.tflite.known_values import known_values
from npu_model.tflite.model import TfliteTensor
from npu_model.tflite.record_reader import RecordReader
from npu_model.tflite.records import TensorRecord

_INTEGERS = {"INT8": np.int8, "UINT8": np.uint8, "INT16": np.int16}


def constants(reader: RecordReader, inputs: Sequence[int], given: Sequence[str]) -> tuple[TensorRecord | None, ...]:
    """An operator's constant inputs, with None for the others. A compiled network has the inputs ``given`` by name.

    A result that operators make from constants and shapes counts only if the network has fewer operands than the model.
    """
    tensors = reader.model.tensors
    wanted = [index for index in inputs if index >= 0 and not (tensors[index].data or tensors[index].is_variable)]
    folded = _folded(reader, wanted, given) if len(given) < len(wanted) else {}

    def record(index: int) -> TensorRecord | None:
        if index < 0:
            return None
        if tensors[index].data:
            return reader.tensor(index)
        return replace(reader.tensor(index), data=folded[index]) if index in folded else None

    return tuple(record(index) for index in inputs)


def _folded(reader: RecordReader, wanted: Sequence[int], given: Sequence[str]) -> dict[int, bytes]:
    """The values of the operands that a compiler has computed: of all candidates, those that the network does not name."""
    values = known_values(reader)
    found = {index: value for index in wanted if (value := values.get(index) or _of_constant(reader, index)) is not None}
    if len(wanted) - len(given) >= len(found):
        return found
    return {index: value for index, value in found.items() if reader.model.tensors[index].name not in given}


def _of_constant(reader: RecordReader, index: int) -> bytes | None:
    """Result of a QUANTIZE of a constant, if tensor ``index`` is one."""
    model = reader.model
    made = next((one for one in model.operators if index in one.outputs), None)
    if made is None or made.name != "QUANTIZE" or made.inputs[0] < 0 or not model.tensors[made.inputs[0]].data:
        return None
    return _quantised(model.tensors[made.inputs[0]], model.tensors[index])


def _quantised(source: TfliteTensor, result: TfliteTensor) -> bytes | None:
    """The bytes of a constant in another quantisation, as in LiteRT's reference kernel; None for types that compilers leave alone."""
    kinds = _INTEGERS.get(source.dtype), _INTEGERS.get(result.dtype)
    if None in kinds or any(len(numbers) != 1 for tensor in (source, result) for numbers in (tensor.scales, tensor.zero_points)):
        return None
    given, made = (np.dtype(kind).newbyteorder("<") for kind in kinds)
    factor, bounds = source.scales[0] / result.scales[0], np.iinfo(made)
    values = [_rescaled(value - source.zero_points[0], factor) for value in np.frombuffer(source.data, given).tolist()]
    shifted = np.array(values, np.int64) + result.zero_points[0]
    return np.clip(shifted, bounds.min, bounds.max).astype(made).tobytes()


def _rescaled(value: int, factor: float) -> int:
    """``value`` times ``factor`` by a multiplier of 31 bits and a shift (LiteRT's MultiplyByQuantizedMultiplier).

    The first step rounds halves upwards, the second away from zero.

    >>> _rescaled(5, 0.5), _rescaled(-5, 0.5), _rescaled(10, 2.0)
    (3, -2, 20)
    """
    mantissa, exponent = frexp(factor)
    multiplier = floor(mantissa * (1 << 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier, exponent = multiplier // 2, exponent + 1
    product = (value << max(0, exponent)) * multiplier
    high = (abs(product) + (1 << 30) - (product < 0)) >> 31
    right = max(0, -exponent)
    size = (high + (1 << right >> 1)) >> right
    return -size if product < 0 else size
