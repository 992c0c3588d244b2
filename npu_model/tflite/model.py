"""A .tflite flatbuffer as plain values: the facts that the front ends, the decoder and the exporter need."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import flatbuffers  # type: ignore[import-untyped]  # the package ships no type information
from msgspec import Struct

from npu_model.brief import Brief
from npu_model.errors import InputError
from npu_model.tflite.identifiers import is_tflite, is_tosa
from npu_model.tflite.schema import tflite

_TYPE_NAMES = {value: name for name, value in vars(tflite.TensorType).items() if not name.startswith("_")}
_BUILTIN_NAMES: dict[int, str] = {value: name for name, value in vars(tflite.BuiltinOperator).items() if not name.startswith("_")}

BUILTIN_NAMES = frozenset(_BUILTIN_NAMES.values())
"""Names of all builtin operators."""

MAX_TENSOR_NAME = 1 << 16
"""Limit of the characters of a tensor's name: converters join those of fused layers, and a schedule file repeats them."""


class TfliteTensor(Brief, frozen=True):
    """One tensor: ``dtype`` is the schema's name (INT8, FLOAT32, ...); ``data`` is empty unless it is constant.

    ``shape_signature`` has -1 for an unknown extent; it is () if all extents are as in ``shape``.
    """

    unshown = ("data",)

    name: str
    shape: tuple[int, ...]
    dtype: str
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    quantised_dimension: int
    is_variable: bool
    data: bytes
    shape_signature: tuple[int, ...] = ()


class TfliteOperator(Struct, frozen=True):
    """One operator: builtin name (CONV_2D, ...) or, for CUSTOM, its custom code; tensors by index, -1 for a missing one."""

    code: str
    custom_code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of the operator: the custom code, or else the builtin name."""
        return self.custom_code if self.code == "CUSTOM" else self.code


class TfliteSubgraph(Struct, frozen=True):
    """A subgraph: tensors, operators in order, inputs and outputs by tensor index."""

    name: str
    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class TfliteModel(Struct, frozen=True):
    """The first subgraph of a model with the metadata (name to bytes), and the ``others``.

    The others are run by operators of control flow (IF, WHILE, CALL_ONCE), or begin other signatures.
    """

    description: str
    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    metadata: dict[str, bytes]
    others: tuple[TfliteSubgraph, ...] = ()


_KEPT = 4
"""The number of models that are kept: several steps of one import read a network and Vela's result for it."""


_NEWER_CODE = 10
"""Position of ``builtin_code`` in the vtable of the schema's table OperatorCode (its fourth field)."""


def builtin_code(code: Any) -> int:
    """Builtin operator of an entry in the table of operator codes: the larger one of its two fields, as LiteRT reads it.

    Only the newer field has codes above 127. Older files have only the deprecated field, and some tools write only the newer one. The
    package's own accessor does not read the newer field for codes below 127.
    """
    place = code._tab.Offset(_NEWER_CODE)  # noqa: SLF001  # the generated tables' only way to a field
    newer = code._tab.Get(flatbuffers.number_types.Int32Flags, code._tab.Pos + place) if place else 0  # noqa: SLF001  # the same
    return max(int(code.DeprecatedBuiltinCode()), int(newer))


def builtin_name(code: int) -> str:
    """Name of a builtin operator.

    >>> builtin_name(3), builtin_name(999)
    ('CONV_2D', 'BUILTIN_999')
    """
    return _BUILTIN_NAMES.get(code, f"BUILTIN_{code}")


class _Reader:
    """The model's tables as plain values, with a limit on the bytes that are read.

    Offsets of a damaged file may point thousands of vectors at the same bytes. An intact file holds each vector once or shares a few, so it
    stays below ``SHARING`` times its length.
    """

    SHARING = 4

    def __init__(self, data: bytes) -> None:
        self.model: Any = tflite.Model.GetRootAsModel(data, 0)
        self.left = self.SHARING * len(data)
        self._buffers: dict[int, bytes] = {}
        self._in_others = False

    def spend(self, size: int) -> None:
        """Count ``size`` bytes of vectors as read."""
        self.left -= size
        if self.left < 0:
            raise InputError(
                f"The .tflite file's vectors overlap to over {self.SHARING} times its length: it is damaged; get a fresh copy."
            )

    def text(self, value: bytes | None) -> str:
        """A string of the file; "" if it is absent."""
        self.spend(len(value or b""))
        return "" if value is None else value.decode("utf-8")

    def indices(self, vector: Callable[[], Any], length: int) -> tuple[int, ...]:
        """A vector of integers; () if it is absent."""
        self.spend(4 * length)
        return tuple(vector().tolist()) if length else ()

    def buffer(self, index: int) -> bytes:
        """The content of a buffer. Several subgraphs share its weights, so they count once."""
        if self._in_others and index in self._buffers:
            return self._buffers[index]
        count = self.model.BuffersLength()
        if not 0 <= index < count:
            raise InputError(f"Buffer {index} is named but the file has {count}: the file is damaged.")
        buffer = self.model.Buffers(index)
        self.spend(buffer.DataLength())
        self._buffers[index] = bytes(buffer.DataAsNumpy()) if buffer.DataLength() else b""
        return self._buffers[index]

    def tensor(self, tensor: Any) -> TfliteTensor:
        """One tensor with its constant data."""
        quantisation = tensor.Quantization()
        scales: tuple[float, ...] = ()
        zero_points: tuple[int, ...] = ()
        dimension = 0
        if quantisation is not None:
            self.spend(4 * quantisation.ScaleLength())
            scales = tuple(quantisation.ScaleAsNumpy().tolist()) if quantisation.ScaleLength() else ()
            zero_points = self.indices(quantisation.ZeroPointAsNumpy, quantisation.ZeroPointLength())
            dimension = quantisation.QuantizedDimension()
        return TfliteTensor(
            name=self.text(tensor.Name()),
            shape=self.indices(tensor.ShapeAsNumpy, tensor.ShapeLength()),
            dtype=_TYPE_NAMES.get(tensor.Type(), f"type {tensor.Type()}"),
            scales=scales,
            zero_points=zero_points,
            quantised_dimension=dimension,
            is_variable=bool(tensor.IsVariable()),
            data=self.buffer(tensor.Buffer()),
            shape_signature=self.indices(tensor.ShapeSignatureAsNumpy, tensor.ShapeSignatureLength()),
        )

    def operator(self, operator: Any, tensors: int) -> TfliteOperator:
        """One operator; InputError if its tensors are not within ``tensors``."""
        count = self.model.OperatorCodesLength()
        if not 0 <= operator.OpcodeIndex() < count:
            raise InputError(f"Operator code {operator.OpcodeIndex()} is named but the file has {count}: the file is damaged.")
        code = self.model.OperatorCodes(operator.OpcodeIndex())
        builtin = builtin_code(code)
        inputs = self.indices(operator.InputsAsNumpy, operator.InputsLength())
        outputs = self.indices(operator.OutputsAsNumpy, operator.OutputsLength())
        if any(not -1 <= index < tensors for index in inputs + outputs):
            raise InputError(f"An operator names a tensor outside 0 to {tensors - 1}: the file is damaged.")
        return TfliteOperator(builtin_name(builtin), self.text(code.CustomCode()), inputs, outputs)

    def table(self, entry: Callable[[int], Any], length: int) -> Iterator[Any]:
        """The entries of a vector of tables, one after the other."""
        for index in range(length):
            self.spend(4)
            yield entry(index)

    def subgraph(self, graph: Any) -> TfliteSubgraph:
        """One subgraph; InputError if it names a tensor that it does not have."""
        tensors = tuple(self.tensor(tensor) for tensor in self.table(graph.Tensors, graph.TensorsLength()))
        operators = tuple(self.operator(op, len(tensors)) for op in self.table(graph.Operators, graph.OperatorsLength()))
        inputs = self.indices(graph.InputsAsNumpy, graph.InputsLength())
        outputs = self.indices(graph.OutputsAsNumpy, graph.OutputsLength())
        if any(not 0 <= index < len(tensors) for index in inputs + outputs):
            raise InputError(f"The network's inputs or outputs name a tensor outside 0 to {len(tensors) - 1}: the file is damaged.")
        return TfliteSubgraph(self.text(graph.Name()), tensors, operators, inputs, outputs)

    def read(self) -> TfliteModel:
        """All subgraphs and the metadata."""
        model = self.model
        if model.SubgraphsLength() < 1:
            raise InputError("The .tflite file has no subgraph: it is damaged or empty.")
        first, *others = self.table(model.Subgraphs, model.SubgraphsLength())
        first = self.subgraph(first)
        self._in_others = True
        others = [self.subgraph(graph) for graph in others]
        metadata = {}
        for entry in self.table(model.Metadata, model.MetadataLength()):
            metadata[self.text(entry.Name())] = self.buffer(entry.Buffer())
        description = self.text(model.Description())
        return TfliteModel(description, first.tensors, first.operators, first.inputs, first.outputs, metadata, tuple(others))


def read_tflite(data: bytes) -> TfliteModel:
    """Read a .tflite flatbuffer; InputError if ``data`` is not one or is cut off."""
    return _read(bytes(data))


@lru_cache(maxsize=_KEPT)
def _read(data: bytes) -> TfliteModel:
    if len(data) < 16 or not is_tflite(data):
        raise InputError(f"The file is not a .tflite model ({len(data)} bytes, no TFL3 identifier): give a TensorFlow Lite flatbuffer.")
    try:
        return _Reader(data).read()
    except InputError:
        raise
    except (struct.error, IndexError, ValueError, TypeError, AttributeError, OverflowError, MemoryError):
        # The generated flatbuffer accessors raise any of these when an offset points outside the file.
        raise InputError(f"The .tflite file of {len(data)} bytes is damaged or cut off: get a fresh copy.") from None


def model_of(data: bytes) -> TfliteModel:
    """The .tflite model. For a TOSA network, which only Vela reads, it is a model without tensors and operators.

    >>> model_of(bytes(4) + b"TOSA").operators
    ()
    """
    return TfliteModel("TOSA", (), (), (), (), {}) if is_tosa(data) else read_tflite(data)
