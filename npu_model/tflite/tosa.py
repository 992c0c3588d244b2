"""TOSA networks, what ExecuTorch's Arm backend hands to Vela: told from .tflite files, and what is known of them without reading them."""

from __future__ import annotations

from npu_model.tflite.model import TfliteModel, read_tflite

TOSA_IDENTIFIER = b"TOSA"
"""Bytes 4 to 8 of a TOSA flatbuffer."""


def is_tosa(data: bytes) -> bool:
    """Whether the bytes are a TOSA network, by the identifier."""
    return data[4:8] == TOSA_IDENTIFIER


def model_of(data: bytes) -> TfliteModel:
    """The .tflite model, or for a TOSA network one without tensors and operators: only Vela reads those.

    >>> model_of(bytes(4) + TOSA_IDENTIFIER).operators
    ()
    """
    return TfliteModel("TOSA", (), (), (), (), {}) if is_tosa(data) else read_tflite(data)
