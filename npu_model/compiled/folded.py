"""Operands that are constant although an operator makes them: a QUANTIZE of a constant, which a compiler works out beforehand.

Vela 5.2 does so with integers; a QUANTIZE of floats stays an operator on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import floor, frexp

import numpy as np

from npu_model.tflite.model import TfliteTensor
from npu_model.tflite.record_reader import RecordReader
from npu_model.tflite.records import TensorRecord

_INTEGERS = {"INT8": np.int8, "UINT8": np.uint8, "INT16": np.int16}


def constants(reader: RecordReader, inputs: Sequence[int], count: int) -> tuple[TensorRecord | None, ...]:
    """Each of an operator's inputs that is constant, None in place of the others, of which a compiled network has ``count``.

    What a QUANTIZE makes of a constant is one of them only where the network has fewer operands than the model.
    """
    tensors = reader.model.tensors
    wanted = sum(not (tensors[index].data or tensors[index].is_variable) for index in inputs if index >= 0)
    known = (index >= 0 and (bool(tensors[index].data) or count < wanted) for index in inputs)
    return tuple(_constant(reader, index) if is_known else None for index, is_known in zip(inputs, known, strict=True))


def _constant(reader: RecordReader, index: int) -> TensorRecord | None:
    """Tensor ``index`` with its content, if that is constant: its own, or what a QUANTIZE of a constant makes; None if it is neither."""
    model = reader.model
    if model.tensors[index].data:
        return reader.tensor(index)
    made = next((one for one in model.operators if index in one.outputs), None)
    if made is None or made.name != "QUANTIZE" or made.inputs[0] < 0 or not model.tensors[made.inputs[0]].data:
        return None
    data = _quantised(model.tensors[made.inputs[0]], model.tensors[index])
    return None if data is None else replace(reader.tensor(index), data=data)


def _quantised(source: TfliteTensor, result: TfliteTensor) -> bytes | None:
    """The bytes of a constant in another quantisation, as LiteRT's reference kernel has it; None for types that compilers leave alone."""
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
