"""A .tflite flatbuffer as plain values: what the front ends, the decoder and the exporter need of it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import tflite

from npu_model.errors import InputError

_TYPE_NAMES = {value: name for name, value in vars(tflite.TensorType).items() if not name.startswith("_")}
_BUILTIN_NAMES = {value: name for name, value in vars(tflite.BuiltinOperator).items() if not name.startswith("_")}


@dataclass(frozen=True, slots=True)
class TfliteTensor:
    """One tensor: ``dtype`` is the schema's name (INT8, FLOAT32, ...), ``data`` empty unless it is constant."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    quantised_dimension: int
    is_variable: bool
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class TfliteOperator:
    """One operator: builtin name (CONV_2D, ...) or, for CUSTOM, its custom code; tensors by index, -1 for none."""

    code: str
    custom_code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TfliteModel:
    """The first subgraph of a model with its metadata (name to bytes)."""

    description: str
    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    metadata: dict[str, bytes]


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8")


def _indices(vector: Any, length: int) -> tuple[int, ...]:
    return tuple(int(value) for value in vector) if length else ()


def _buffer(model: Any, index: int) -> bytes:
    if not 0 <= index < model.BuffersLength():
        raise InputError(f"Buffer {index} is named but the file has {model.BuffersLength()}: the file is damaged.")
    buffer = model.Buffers(index)
    return bytes(buffer.DataAsNumpy()) if buffer.DataLength() else b""


def _tensor(model: Any, tensor: Any) -> TfliteTensor:
    quantisation = tensor.Quantization()
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    dimension = 0
    if quantisation is not None:
        scales = tuple(float(s) for s in quantisation.ScaleAsNumpy()) if quantisation.ScaleLength() else ()
        zero_points = _indices(quantisation.ZeroPointAsNumpy(), quantisation.ZeroPointLength())
        dimension = quantisation.QuantizedDimension()
    return TfliteTensor(
        name=_text(tensor.Name()),
        shape=_indices(tensor.ShapeAsNumpy(), tensor.ShapeLength()),
        dtype=_TYPE_NAMES.get(tensor.Type(), f"type {tensor.Type()}"),
        scales=scales,
        zero_points=zero_points,
        quantised_dimension=dimension,
        is_variable=bool(tensor.IsVariable()),
        data=_buffer(model, tensor.Buffer()),
    )


def _operator(model: Any, operator: Any, tensors: int) -> TfliteOperator:
    if not 0 <= operator.OpcodeIndex() < model.OperatorCodesLength():
        raise InputError(
            f"Operator code {operator.OpcodeIndex()} is named but the file has {model.OperatorCodesLength()}: the file is damaged."
        )
    code = model.OperatorCodes(operator.OpcodeIndex())
    # Codes above 127 are only in the newer field, older files only have the deprecated one.
    builtin = max(code.DeprecatedBuiltinCode(), code.BuiltinCode())
    inputs = _indices(operator.InputsAsNumpy(), operator.InputsLength())
    outputs = _indices(operator.OutputsAsNumpy(), operator.OutputsLength())
    if any(not -1 <= index < tensors for index in inputs + outputs):
        raise InputError(f"An operator names a tensor outside 0 to {tensors - 1}: the file is damaged.")
    return TfliteOperator(_BUILTIN_NAMES.get(builtin, f"BUILTIN_{builtin}"), _text(code.CustomCode()), inputs, outputs)


def _parse(data: bytes) -> TfliteModel:
    model = tflite.Model.GetRootAsModel(data, 0)
    if model.SubgraphsLength() < 1:
        raise InputError("The .tflite file has no subgraph: it is damaged or empty.")
    graph = model.Subgraphs(0)
    tensors = tuple(_tensor(model, graph.Tensors(i)) for i in range(graph.TensorsLength()))
    operators = tuple(_operator(model, graph.Operators(i), len(tensors)) for i in range(graph.OperatorsLength()))
    inputs = _indices(graph.InputsAsNumpy(), graph.InputsLength())
    outputs = _indices(graph.OutputsAsNumpy(), graph.OutputsLength())
    if any(not 0 <= index < len(tensors) for index in inputs + outputs):
        raise InputError(f"The network's inputs or outputs name a tensor outside 0 to {len(tensors) - 1}: the file is damaged.")
    metadata = {}
    for i in range(model.MetadataLength()):
        entry = model.Metadata(i)
        metadata[_text(entry.Name())] = _buffer(model, entry.Buffer())
    return TfliteModel(_text(model.Description()), tensors, operators, inputs, outputs, metadata)


def read_tflite(data: bytes) -> TfliteModel:
    """Read a .tflite flatbuffer; InputError if ``data`` is not one or is cut off."""
    if len(data) < 16 or data[4:8] != b"TFL3":
        raise InputError(f"The file is not a .tflite model ({len(data)} bytes, no TFL3 identifier): give a TensorFlow Lite flatbuffer.")
    try:
        return _parse(data)
    except InputError:
        raise
    except (struct.error, IndexError, ValueError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        # The generated flatbuffer accessors raise any of these when an offset points outside the file.
        raise InputError(
            f"The .tflite file of {len(data)} bytes is damaged or cut off ({type(error).__name__}): get a fresh copy."
        ) from None
