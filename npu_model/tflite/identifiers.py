"""Kinds of flatbuffers, recognised by their identifiers. Nothing else is read, and nothing is imported."""

from __future__ import annotations

TFLITE_IDENTIFIER = b"TFL3"
"""Bytes 4 to 8 of a .tflite file."""

TOSA_IDENTIFIER = b"TOSA"
"""Bytes 4 to 8 of a TOSA network, which ExecuTorch's Arm backend passes to Vela."""


def is_tflite(data: bytes) -> bool:
    """Whether the bytes are a .tflite file."""
    return data[4:8] == TFLITE_IDENTIFIER


def is_tosa(data: bytes) -> bool:
    """Whether the bytes are a TOSA network."""
    return data[4:8] == TOSA_IDENTIFIER
