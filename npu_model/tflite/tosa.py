"""TOSA networks. They are not read, because only Vela reads them; this module holds what is known without it."""

from __future__ import annotations

from npu_model.tflite.identifiers import is_tosa
from npu_model.tflite.model import TfliteModel, read_tflite


def model_of(data: bytes) -> TfliteModel:
    """The .tflite model. For a TOSA network, it is a model without tensors and operators.

    >>> model_of(bytes(4) + b"TOSA").operators
    ()
    """
    return TfliteModel("TOSA", (), (), (), (), {}) if is_tosa(data) else read_tflite(data)
