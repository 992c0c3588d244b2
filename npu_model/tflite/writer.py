"""Writing of model records as a .tflite flatbuffer (schema version 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flatbuffers  # type: ignore[import-untyped]  # the package ships no type information
import numpy as np

from npu_model.tflite.identifiers import TFLITE_IDENTIFIER
from npu_model.tflite.records import FieldValue, ModelRecord, OperatorRecord, SignatureRecord, SubgraphRecord, TensorRecord
from npu_model.tflite.schema import tflite

_CONSTANT_ALIGNMENT = 16  # The TFLite schema: Buffer.data is (force_align: 16).
_SCHEMA_VERSION = 3


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
    # All elements at once, as the library's own CreateByteVector does (which cannot align them).
    builder.head -= len(data)
    builder.Bytes[builder.head : builder.head + len(data)] = data
    vector = builder.EndVector()
    tflite.BufferStart(builder)
    tflite.BufferAddData(builder, vector)
    return int(tflite.BufferEnd(builder))


def _optional(builder: Any, values: Sequence[int] | Sequence[float], dtype: str) -> int | None:
    return _vector(builder, values, dtype) if values else None


def _quantisation(builder: Any, tensor: TensorRecord) -> int:
    minimums, maximums = (_optional(builder, values, "<f4") for values in (tensor.minimums, tensor.maximums))
    scales = _vector(builder, tensor.scales, "<f4")
    zero_points = _vector(builder, tensor.zero_points, "<i8")
    tflite.QuantizationParametersStart(builder)
    if minimums is not None:
        tflite.QuantizationParametersAddMin(builder, minimums)
    if maximums is not None:
        tflite.QuantizationParametersAddMax(builder, maximums)
    tflite.QuantizationParametersAddScale(builder, scales)
    tflite.QuantizationParametersAddZeroPoint(builder, zero_points)
    tflite.QuantizationParametersAddQuantizedDimension(builder, tensor.quantised_dimension)
    return int(tflite.QuantizationParametersEnd(builder))


def _tensor(builder: Any, tensor: TensorRecord, buffer: int) -> int:
    name = builder.CreateString(tensor.name)
    shape = _vector(builder, tensor.shape, "<i4")
    signature = _optional(builder, tensor.shape_signature, "<i4")
    quantisation = _quantisation(builder, tensor) if tensor.scales or tensor.minimums else None
    tflite.TensorStart(builder)
    tflite.TensorAddShape(builder, shape)
    tflite.TensorAddType(builder, tensor.dtype)
    tflite.TensorAddBuffer(builder, buffer)
    tflite.TensorAddName(builder, name)
    if quantisation is not None:
        tflite.TensorAddQuantization(builder, quantisation)
    if signature is not None:
        tflite.TensorAddShapeSignature(builder, signature)
    tflite.TensorAddIsVariable(builder, tensor.is_variable)
    return int(tflite.TensorEnd(builder))


def _field(builder: Any, value: FieldValue) -> int | float | bool:
    """The value in the table: a number itself, or the offset of a string or vector."""
    if isinstance(value, str):
        return int(builder.CreateString(value))
    if isinstance(value, tuple):
        return _vector(builder, value, "<f4" if any(isinstance(item, float) for item in value) else "<i4")
    return value


def _options(builder: Any, operator: OperatorRecord) -> int:
    fields = [(name, _field(builder, value)) for name, value in operator.fields]
    getattr(tflite, f"{operator.options}Start")(builder)
    for name, value in fields:
        getattr(tflite, f"{operator.options}Add{name}")(builder, value)
    return int(getattr(tflite, f"{operator.options}End")(builder))


def _operator(builder: Any, operator: OperatorRecord, opcode: int) -> int:
    options = _options(builder, operator) if operator.options else None
    custom = builder.CreateByteVector(operator.custom_options) if operator.custom_options else None
    inputs, outputs = _vector(builder, operator.inputs, "<i4"), _vector(builder, operator.outputs, "<i4")
    intermediates = _optional(builder, operator.intermediates, "<i4")
    tflite.OperatorStart(builder)
    tflite.OperatorAddOpcodeIndex(builder, opcode)
    tflite.OperatorAddInputs(builder, inputs)
    tflite.OperatorAddOutputs(builder, outputs)
    if options is not None:
        tflite.OperatorAddBuiltinOptionsType(builder, getattr(tflite.BuiltinOptions, operator.options))
        tflite.OperatorAddBuiltinOptions(builder, options)
    if custom is not None:
        tflite.OperatorAddCustomOptions(builder, custom)
    if intermediates is not None:
        tflite.OperatorAddIntermediates(builder, intermediates)
    return int(tflite.OperatorEnd(builder))


def _operator_code(builder: Any, code: int, version: int, custom_code: str) -> int:
    custom = builder.CreateString(custom_code) if custom_code else None
    tflite.OperatorCodeStart(builder)
    # Readers take the larger of the two fields; the old one holds codes up to 127 only.
    tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(code, 127))
    tflite.OperatorCodeAddBuiltinCode(builder, code)
    tflite.OperatorCodeAddVersion(builder, version)
    if custom is not None:
        tflite.OperatorCodeAddCustomCode(builder, custom)
    return int(tflite.OperatorCodeEnd(builder))


def _subgraph(builder: Any, graph: SubgraphRecord, tensors: Sequence[int], operators: Sequence[int]) -> int:
    label = builder.CreateString(graph.name)
    tensor_vector, operator_vector = _offsets(builder, tensors), _offsets(builder, operators)
    input_vector, output_vector = _vector(builder, graph.inputs, "<i4"), _vector(builder, graph.outputs, "<i4")
    tflite.SubGraphStart(builder)
    tflite.SubGraphAddTensors(builder, tensor_vector)
    tflite.SubGraphAddInputs(builder, input_vector)
    tflite.SubGraphAddOutputs(builder, output_vector)
    tflite.SubGraphAddOperators(builder, operator_vector)
    tflite.SubGraphAddName(builder, label)
    return int(tflite.SubGraphEnd(builder))


def _metadata(builder: Any, name: str, buffer: int) -> int:
    label = builder.CreateString(name)
    tflite.MetadataStart(builder)
    tflite.MetadataAddName(builder, label)
    tflite.MetadataAddBuffer(builder, buffer)
    return int(tflite.MetadataEnd(builder))


def _tensor_map(builder: Any, entries: Sequence[tuple[str, int]]) -> int:
    offsets = []
    for name, index in entries:
        label = builder.CreateString(name)
        tflite.TensorMapStart(builder)
        tflite.TensorMapAddName(builder, label)
        tflite.TensorMapAddTensorIndex(builder, index)
        offsets.append(int(tflite.TensorMapEnd(builder)))
    return _offsets(builder, offsets)


def _signature(builder: Any, signature: SignatureRecord) -> int:
    inputs, outputs = _tensor_map(builder, signature.inputs), _tensor_map(builder, signature.outputs)
    key = builder.CreateString(signature.key)
    tflite.SignatureDefStart(builder)
    tflite.SignatureDefAddInputs(builder, inputs)
    tflite.SignatureDefAddOutputs(builder, outputs)
    tflite.SignatureDefAddSignatureKey(builder, key)
    tflite.SignatureDefAddSubgraphIndex(builder, signature.subgraph)
    return int(tflite.SignatureDefEnd(builder))


def _contents(model: ModelRecord) -> tuple[list[bytes], list[list[int]]]:
    """The buffers, those of the metadata last, and for every subgraph the buffer of each tensor.

    Subgraphs after the first share buffers of equal content, because signatures share weights.
    """
    contents: list[bytes] = [b""]
    known: dict[bytes, int] = {}
    places: list[list[int]] = []
    for graph in model.subgraphs:
        numbers = []
        for tensor in graph.tensors:
            number = known.get(tensor.data) if places else None
            if tensor.data and number is None:
                contents.append(tensor.data)
                number = known[tensor.data] = len(contents) - 1
            numbers.append(number or 0)
        places.append(numbers)
    return [*contents, *(data for _, data in model.metadata)], places


def write_tflite(model: ModelRecord) -> bytes:
    """The .tflite file of ``model``; buffer 0 is empty and stands for every tensor without data.

    The same records give the same bytes.
    """
    contents, places = _contents(model)
    builder = flatbuffers.Builder(1024 + sum(len(data) for data in contents) + 64 * sum(len(graph) for graph in places))
    buffers = [_buffer(builder, data) for data in contents]
    pairs = [zip(graph.tensors, numbers, strict=True) for graph, numbers in zip(model.subgraphs, places, strict=True)]
    tensors = [[_tensor(builder, tensor, number) for tensor, number in graph] for graph in pairs]
    kinds = sorted({operator.kind for graph in model.subgraphs for operator in graph.operators})
    operators = [[_operator(builder, operator, kinds.index(operator.kind)) for operator in graph.operators] for graph in model.subgraphs]
    codes = [_operator_code(builder, *kind) for kind in kinds]
    last = len(buffers) - len(model.metadata)
    metadata = [_metadata(builder, name, last + number) for number, (name, _) in enumerate(model.metadata)]
    signatures = [_signature(builder, signature) for signature in model.signatures]
    graphs = [_subgraph(builder, *parts) for parts in zip(model.subgraphs, tensors, operators, strict=True)]
    subgraphs, opcodes, all_buffers = (_offsets(builder, part) for part in (graphs, codes, buffers))
    optional = [_offsets(builder, part) if part else None for part in (metadata, signatures)]
    description = builder.CreateString(model.description)
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, _SCHEMA_VERSION)
    tflite.ModelAddOperatorCodes(builder, opcodes)
    tflite.ModelAddSubgraphs(builder, subgraphs)
    tflite.ModelAddDescription(builder, description)
    tflite.ModelAddBuffers(builder, all_buffers)
    if optional[0] is not None:
        tflite.ModelAddMetadata(builder, optional[0])
    if optional[1] is not None:
        tflite.ModelAddSignatureDefs(builder, optional[1])
    builder.Finish(tflite.ModelEnd(builder), file_identifier=TFLITE_IDENTIFIER)
    return bytes(builder.Output())
