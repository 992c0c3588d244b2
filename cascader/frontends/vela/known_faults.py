"""Known faults of Vela's cores that no check of a stream can see: what it computes is another network."""

from __future__ import annotations

import struct

from cascader.frontends.vela.compiler import CORES
from npu_model.tflite.model import TfliteModel, TfliteOperator, read_tflite

_VERSION = "5.2"
"""The version of Vela whose faults these are, seen beside LiteRT: `strided_rows_at_ends` and `uint8_transpose_hw` of the portfolio."""

_STRIDES = 3
"""The operand of STRIDED_SLICE that holds its strides."""


def _strides(model: TfliteModel, operator: TfliteOperator) -> tuple[int, ...]:
    """The strides of a STRIDED_SLICE; none where they are no constant of 32-bit integers."""
    data = model.tensors[operator.inputs[_STRIDES]].data if len(operator.inputs) > _STRIDES else b""
    return struct.unpack(f"<{len(data) // 4}i", data[: len(data) // 4 * 4])


def _strided_slice_fault(model: TfliteModel) -> str:
    """A STRIDED_SLICE with a step: behind or before a convolution the C++ core takes other elements."""
    for operator in model.operators:
        if operator.code == "STRIDED_SLICE" and any(stride != 1 for stride in _strides(model, operator)):
            name = model.tensors[operator.outputs[0]].name
            return f"STRIDED_SLICE {name!r} takes other elements than its strides say"
    return ""


def _unsigned_transpose_fault(model: TfliteModel) -> str:
    """A TRANSPOSE of uint8: the C++ core takes its bytes for signed ones, and cuts them off at 0."""
    for operator in model.operators:
        output = model.tensors[operator.outputs[0]]
        if operator.code == "TRANSPOSE" and output.dtype == "UINT8":
            return f"TRANSPOSE {output.name!r} of uint8 cuts half of the values off"
    return ""


def known_fault(model: bytes, core: str, version: str) -> str:
    """The fault that the core of Vela is known to have with a .tflite ``model``; "" if none is."""
    if core != CORES[0] or not version.startswith(_VERSION):
        return ""
    network = read_tflite(model)
    return _strided_slice_fault(network) or _unsigned_transpose_fault(network)
