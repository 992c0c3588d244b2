"""The number formats a zoo network can have: int8, int16 (16x8), uint8 and float32."""

from __future__ import annotations

import numpy as np
import tflite

from npu_model.errors import InputError
from npu_model.values import dataclass


@dataclass(frozen=True, slots=True)
class Precision:
    """One format: TFLite's tensor types for activations, weights and biases, and the integers an activation can be.

    ``offset`` is what the file adds to both values and zero points: uint8 is int8 shifted by 128.
    """

    name: str
    activation: int
    weight: int
    bias: int
    lowest: int
    highest: int
    offset: int
    per_channel: bool

    @property
    def is_float(self) -> bool:
        """Whether the file holds real numbers, with no quantisation."""
        return bool(self.activation == tflite.TensorType.FLOAT32)

    @property
    def is_symmetric(self) -> bool:
        """Whether activations have zero point 0 (16x8, by the LiteRT quantisation specification)."""
        return bool(self.activation == tflite.TensorType.INT16)

    @property
    def activation_dtype(self) -> np.dtype[np.generic]:
        """Little-endian numpy type of an activation."""
        types = {_TYPE.INT8: "<i1", _TYPE.UINT8: "<u1", _TYPE.INT16: "<i2", _TYPE.FLOAT32: "<f4"}
        return np.dtype(types[self.activation])

    @property
    def bias_dtype(self) -> np.dtype[np.generic]:
        """Little-endian numpy type of a bias."""
        return np.dtype({tflite.TensorType.INT32: "<i4", tflite.TensorType.INT64: "<i8", tflite.TensorType.FLOAT32: "<f4"}[self.bias])


_TYPE = tflite.TensorType
_PRECISIONS = {
    "int8": Precision("int8", _TYPE.INT8, _TYPE.INT8, _TYPE.INT32, -128, 127, 0, per_channel=True),
    "int16": Precision("int16", _TYPE.INT16, _TYPE.INT8, _TYPE.INT64, -32768, 32767, 0, per_channel=True),
    "uint8": Precision("uint8", _TYPE.UINT8, _TYPE.UINT8, _TYPE.INT32, -128, 127, 128, per_channel=False),
    "float32": Precision("float32", _TYPE.FLOAT32, _TYPE.FLOAT32, _TYPE.FLOAT32, -128, 127, 0, per_channel=True),
}


def precision_of(name: str) -> Precision:
    """The format called ``name``; InputError lists the known ones."""
    if name not in _PRECISIONS:
        raise InputError(f"Precision {name!r} is unknown: use one of {', '.join(_PRECISIONS)}.")
    return _PRECISIONS[name]
