"""Writing of model records as a .tflite flatbuffer (schema version 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def _table(builder: Any, kind: str, fields: Mapping[str, Any]) -> int:
    """The offset of a new table of some kind of the schema. Its fields lie in the order in which they are given, without those of None."""
    getattr(tflite, f"{kind}Start")(builder)
    for name, value in fields.items():
        if value is not None:
            getattr(tflite, f"{kind}Add{name}")(builder, value)
    return int(getattr(tflite, f"{kind}End")(builder))


def _buffer(builder: Any, data: bytes) -> int:
    if not data:
        return _table(builder, "Buffer", {})
    builder.StartVector(1, len(data), _CONSTANT_ALIGNMENT)
    # All elements at once, as the library's own CreateByteVector does (which cannot align them).
    builder.head -= len(data)
    builder.Bytes[builder.head : builder.head + len(data)] = data
    return _table(builder, "Buffer", {"Data": builder.EndVector()})


def _optional(builder: Any, values: Sequence[int] | Sequence[float], dtype: str) -> int | None:
    return _vector(builder, values, dtype) if values else None


def _quantisation(builder: Any, tensor: TensorRecord) -> int:
    fields = {
        "Min": _optional(builder, tensor.minimums, "<f4"),
        "Max": _optional(builder, tensor.maximums, "<f4"),
        "Scale": _vector(builder, tensor.scales, "<f4"),
        "ZeroPoint": _vector(builder, tensor.zero_points, "<i8"),
        "QuantizedDimension": tensor.quantised_dimension,
    }
    return _table(builder, "QuantizationParameters", fields)


def _tensor(builder: Any, tensor: TensorRecord, buffer: int) -> int:
    name = builder.CreateString(tensor.name)
    shape = _vector(builder, tensor.shape, "<i4")
    signature = _optional(builder, tensor.shape_signature, "<i4")
    fields = {
        "Shape": shape,
        "Type": tensor.dtype,
        "Buffer": buffer,
        "Name": name,
        "Quantization": _quantisation(builder, tensor) if tensor.scales or tensor.minimums else None,
        "ShapeSignature": signature,
        "IsVariable": tensor.is_variable,
    }
    return _table(builder, "Tensor", fields)


def _field(builder: Any, value: FieldValue) -> int | float | bool:
    """The value in the table: a number itself, or the offset of a string or vector."""
    if isinstance(value, str):
        return int(builder.CreateString(value))
    if isinstance(value, tuple):
        return _vector(builder, value, "<f4" if any(isinstance(item, float) for item in value) else "<i4")
    return value


def _options(builder: Any, operator: OperatorRecord) -> int:
    return _table(builder, operator.options, {name: _field(builder, value) for name, value in operator.fields})


def _operator(builder: Any, operator: OperatorRecord, opcode: int) -> int:
    options = _options(builder, operator) if operator.options else None
    custom = builder.CreateByteVector(operator.custom_options) if operator.custom_options else None
    fields = {
        "OpcodeIndex": opcode,
        "Inputs": _vector(builder, operator.inputs, "<i4"),
        "Outputs": _vector(builder, operator.outputs, "<i4"),
        "BuiltinOptionsType": None if options is None else getattr(tflite.BuiltinOptions, operator.options),
        "BuiltinOptions": options,
        "CustomOptions": custom,
        "Intermediates": _optional(builder, operator.intermediates, "<i4"),
    }
    return _table(builder, "Operator", fields)


def _operator_code(builder: Any, code: int, version: int, custom_code: str) -> int:
    custom = builder.CreateString(custom_code) if custom_code else None
    # Readers take the larger of the two fields; the old one holds codes up to 127 only.
    codes = {"DeprecatedBuiltinCode": min(code, 127), "BuiltinCode": code}
    return _table(builder, "OperatorCode", {**codes, "Version": version, "CustomCode": custom})


def _subgraph(builder: Any, graph: SubgraphRecord, tensors: Sequence[int], operators: Sequence[int]) -> int:
    label = builder.CreateString(graph.name)
    tensor_vector, operator_vector = _offsets(builder, tensors), _offsets(builder, operators)
    ends = {"Inputs": _vector(builder, graph.inputs, "<i4"), "Outputs": _vector(builder, graph.outputs, "<i4")}
    return _table(builder, "SubGraph", {"Tensors": tensor_vector, **ends, "Operators": operator_vector, "Name": label})


def _metadata(builder: Any, name: str, buffer: int) -> int:
    return _table(builder, "Metadata", {"Name": builder.CreateString(name), "Buffer": buffer})


def _tensor_map(builder: Any, entries: Sequence[tuple[str, int]]) -> int:
    maps = [_table(builder, "TensorMap", {"Name": builder.CreateString(name), "TensorIndex": index}) for name, index in entries]
    return _offsets(builder, maps)


def _signature(builder: Any, signature: SignatureRecord) -> int:
    fields = {
        "Inputs": _tensor_map(builder, signature.inputs),
        "Outputs": _tensor_map(builder, signature.outputs),
        "SignatureKey": builder.CreateString(signature.key),
        "SubgraphIndex": signature.subgraph,
    }
    return _table(builder, "SignatureDef", fields)


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
    fields = {
        "Version": _SCHEMA_VERSION,
        "OperatorCodes": opcodes,
        "Subgraphs": subgraphs,
        "Description": description,
        "Buffers": all_buffers,
        "Metadata": optional[0],
        "SignatureDefs": optional[1],
    }
    builder.Finish(_table(builder, "Model", fields), file_identifier=TFLITE_IDENTIFIER)
    return bytes(builder.Output())
