"""Kinds of flatbuffers told by their identifiers; nothing is read, and nothing is imported for it."""

from __future__ import annotations

TFLITE_IDENTIFIER = b"TFL3"
"""Bytes 4 to 8 of a .tflite file."""

TOSA_IDENTIFIER = b"TOSA"
"""Bytes 4 to 8 of a TOSA network, what ExecuTorch's Arm backend hands to Vela."""


def is_tflite(data: bytes) -> bool:
    """Whether the bytes are a .tflite file."""
    return data[4:8] == TFLITE_IDENTIFIER


def is_tosa(data: bytes) -> bool:
    """Whether the bytes are a TOSA network."""
    return data[4:8] == TOSA_IDENTIFIER
