"""Operators that are held to their definition, in numpy: LiteRT's reference kernel of them is wrong.

SUM of quantised values: LiteRT's reference kernel differs from its built-in one and from the sum of the real values. Here the sum is
made of 64-bit integers and rounded once, halves away from zero. NEG of quantised values: LiteRT negates the stored integers, as if both
zero points were 0 and both scales equal. Here the real values are negated, and rounded in the same way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.tflite.model import TfliteModel, TfliteOperator, TfliteTensor

Array = NDArray[Any]

_TYPES = ("INT8", "UINT8", "INT16")


def is_defined(model: TfliteModel, operator: TfliteOperator) -> bool:
    """Whether the operator is held to its definition: a NEG of quantised values, or their SUM along axes that are constants."""
    if operator.code not in ("NEG", "SUM") or min(*operator.inputs, *operator.outputs) < 0:
        return False
    given, made = (model.tensors[index] for index in (operator.inputs[0], operator.outputs[0]))
    quantised = all(one.dtype in _TYPES and len(one.scales) == len(one.zero_points) == 1 for one in (given, made))
    if operator.code == "NEG":
        return quantised
    axes = model.tensors[operator.inputs[1]]
    return quantised and axes.dtype == "INT32" and bool(axes.data)


def defined(model: TfliteModel, operator: TfliteOperator, values: Array) -> Array:
    """The output of such an operator for the ``values`` of its input.

    >>> tensor = TfliteTensor("x", (1, 4), "INT8", (0.5,), (1,), 0, False, b"")
    >>> axes = TfliteTensor("axes", (1,), "INT32", (), (), 0, False, np.array([1], "<i4").tobytes())
    >>> one = TfliteOperator("SUM", "", (0, 1), (2,))
    >>> parts = (tensor, axes, TfliteTensor("y", (1,), "INT8", (1.0,), (-3,), 0, False, b""))
    >>> defined(TfliteModel("", parts, (one,), (0,), (2,), {}), one, np.array([[2, 3, 4, 6]], np.int8)).tolist()
    [3]
    """
    given, made = (model.tensors[index] for index in (operator.inputs[0], operator.outputs[0]))
    centred = values.astype(np.int64) - given.zero_points[0]
    if operator.code == "NEG":
        sums = -centred
    else:
        axes = np.frombuffer(model.tensors[operator.inputs[1]].data, "<i4").tolist()
        sums = centred.sum(axis=tuple(sorted({axis % values.ndim for axis in axes})), dtype=np.int64)
    real = sums * (float(np.float32(given.scales[0])) / float(np.float32(made.scales[0])))
    rounded = np.floor(np.abs(real) + 0.5).astype(np.int64) * np.sign(sums) + made.zero_points[0]
    return _clipped(rounded, made)


def _clipped(values: Array, made: TfliteTensor) -> Array:
    kind = np.dtype(made.dtype.lower())
    bounds = np.iinfo(kind)
    return np.clip(values, bounds.min, bounds.max).astype(kind).reshape(made.shape)
