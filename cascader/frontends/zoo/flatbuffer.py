"""Tensors and operators as plain records, and their writing as a .tflite flatbuffer (schema version 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers  # type: ignore[import-untyped]  # the package ships no type information
import numpy as np
import tflite

_CONSTANT_ALIGNMENT = 16  # The TFLite schema: Buffer.data is (force_align: 16).


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """One tensor: ``dtype`` is a tflite.TensorType, ``data`` empty unless constant; several scales mean one per channel."""

    name: str
    shape: tuple[int, ...]
    dtype: int
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    quantised_dimension: int = 0
    data: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """One operator: its tflite.BuiltinOperator and version, tensors by index, the options table and its fields."""

    code: int
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: str = ""
    fields: tuple[tuple[str, int | float | bool], ...] = ()


def _vector(builder: Any, values: Sequence[int] | Sequence[float], dtype: str) -> int:
    return int(builder.CreateNumpyVector(np.array(values, dtype=dtype)))


def _offsets(builder: Any, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _buffer(builder: Any, data: bytes) -> int:
    if not data:
        tflite.BufferStart(builder)
        return int(tflite.BufferEnd(builder))
    builder.StartVector(1, len(data), _CONSTANT_ALIGNMENT)
    # The elements at once, as the library's own CreateByteVector does (which cannot align them).
    builder.head -= len(data)
    builder.Bytes[builder.head : builder.head + len(data)] = data
    vector = builder.EndVector()
    tflite.BufferStart(builder)
    tflite.BufferAddData(builder, vector)
    return int(tflite.BufferEnd(builder))


def _quantisation(builder: Any, tensor: TensorRecord) -> int:
    scales = _vector(builder, tensor.scales, "<f4")
    zero_points = _vector(builder, tensor.zero_points, "<i8")
    tflite.QuantizationParametersStart(builder)
    tflite.QuantizationParametersAddScale(builder, scales)
    tflite.QuantizationParametersAddZeroPoint(builder, zero_points)
    tflite.QuantizationParametersAddQuantizedDimension(builder, tensor.quantised_dimension)
    return int(tflite.QuantizationParametersEnd(builder))


def _tensor(builder: Any, tensor: TensorRecord, buffer: int) -> int:
    name = builder.CreateString(tensor.name)
    shape = _vector(builder, tensor.shape, "<i4")
    quantisation = _quantisation(builder, tensor) if tensor.scales else None
    tflite.TensorStart(builder)
    tflite.TensorAddShape(builder, shape)
    tflite.TensorAddType(builder, tensor.dtype)
    tflite.TensorAddBuffer(builder, buffer)
    tflite.TensorAddName(builder, name)
    if quantisation is not None:
        tflite.TensorAddQuantization(builder, quantisation)
    return int(tflite.TensorEnd(builder))


def _options(builder: Any, operator: OperatorRecord) -> int:
    getattr(tflite, f"{operator.options}Start")(builder)
    for name, value in operator.fields:
        getattr(tflite, f"{operator.options}Add{name}")(builder, value)
    return int(getattr(tflite, f"{operator.options}End")(builder))


def _operator(builder: Any, operator: OperatorRecord, opcode: int) -> int:
    options = _options(builder, operator) if operator.options else None
    inputs, outputs = _vector(builder, operator.inputs, "<i4"), _vector(builder, operator.outputs, "<i4")
    tflite.OperatorStart(builder)
    tflite.OperatorAddOpcodeIndex(builder, opcode)
    tflite.OperatorAddInputs(builder, inputs)
    tflite.OperatorAddOutputs(builder, outputs)
    if options is not None:
        tflite.OperatorAddBuiltinOptionsType(builder, getattr(tflite.BuiltinOptions, operator.options))
        tflite.OperatorAddBuiltinOptions(builder, options)
    return int(tflite.OperatorEnd(builder))


def _operator_code(builder: Any, code: int, version: int) -> int:
    tflite.OperatorCodeStart(builder)
    # Readers take the larger of the two fields; the old one holds codes up to 127 only.
    tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(code, 127))
    tflite.OperatorCodeAddBuiltinCode(builder, code)
    tflite.OperatorCodeAddVersion(builder, version)
    return int(tflite.OperatorCodeEnd(builder))


def _subgraph(
    builder: Any, name: str, tensors: Sequence[int], operators: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]
) -> int:
    label = builder.CreateString(name)
    tensor_vector, operator_vector = _offsets(builder, tensors), _offsets(builder, operators)
    input_vector, output_vector = _vector(builder, inputs, "<i4"), _vector(builder, outputs, "<i4")
    tflite.SubGraphStart(builder)
    tflite.SubGraphAddTensors(builder, tensor_vector)
    tflite.SubGraphAddInputs(builder, input_vector)
    tflite.SubGraphAddOutputs(builder, output_vector)
    tflite.SubGraphAddOperators(builder, operator_vector)
    tflite.SubGraphAddName(builder, label)
    return int(tflite.SubGraphEnd(builder))


def write_tflite(
    name: str, tensors: Sequence[TensorRecord], operators: Sequence[OperatorRecord], inputs: Sequence[int], outputs: Sequence[int]
) -> bytes:
    """A .tflite file with one subgraph ``name``; buffer 0 is empty and stands for every tensor without data."""
    builder = flatbuffers.Builder(1024 + sum(len(tensor.data) + 64 for tensor in tensors))
    constants = [tensor.data for tensor in tensors if tensor.data]
    buffers = [_buffer(builder, data) for data in (b"", *constants)]
    numbers = iter(range(1, len(buffers)))
    tensor_offsets = [_tensor(builder, tensor, next(numbers) if tensor.data else 0) for tensor in tensors]
    codes = sorted({(operator.code, operator.version) for operator in operators})
    operator_offsets = [_operator(builder, operator, codes.index((operator.code, operator.version))) for operator in operators]
    code_offsets = [_operator_code(builder, code, version) for code, version in codes]
    subgraph = _subgraph(builder, name, tensor_offsets, operator_offsets, inputs, outputs)
    subgraphs, opcodes, all_buffers = (_offsets(builder, part) for part in ([subgraph], code_offsets, buffers))
    description = builder.CreateString(f"npu-testbed zoo: {name}")
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, 3)
    tflite.ModelAddOperatorCodes(builder, opcodes)
    tflite.ModelAddSubgraphs(builder, subgraphs)
    tflite.ModelAddDescription(builder, description)
    tflite.ModelAddBuffers(builder, all_buffers)
    builder.Finish(tflite.ModelEnd(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())
