"""TOSA networks: what is known of them without reading them, as only Vela does."""

from __future__ import annotations

from npu_model.tflite.identifiers import is_tosa
from npu_model.tflite.model import TfliteModel, read_tflite


def model_of(data: bytes) -> TfliteModel:
    """The .tflite model, or for a TOSA network one without tensors and operators.

    >>> model_of(bytes(4) + b"TOSA").operators
    ()
    """
    return TfliteModel("TOSA", (), (), (), (), {}) if is_tosa(data) else read_tflite(data)
