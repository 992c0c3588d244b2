"""Values of tensors that are the same in every inference: shapes, and results of operators on shapes and constants.

Converters write such operators if a network was traced with a batch of any size: SHAPE, a part of it, PACK, and then a RESHAPE, FILL or
RESIZE that takes the result. Kernels that compute are LiteRT's on integers without a quantisation; other kernels move any elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.errors import InputError
from npu_model.tflite.model import TfliteOperator, TfliteTensor
from npu_model.tflite.record_reader import RecordReader
from npu_model.tflite.records import FieldValue, OperatorRecord

Array = NDArray[Any]

MOST_BYTES = 1 << 16
"""The most bytes of a computed value: a larger one takes more memory for constants than the operator is worth."""

_TYPES = {
    "INT8": "<i1", "UINT8": "<u1", "INT16": "<i2", "UINT16": "<u2", "INT32": "<i4", "UINT32": "<u4",
    "INT64": "<i8", "FLOAT32": "<f4", "BOOL": "?",
}  # fmt: skip
_INDICES = ("INT32", "INT64")
"""Types of shapes and indices, on which LiteRT computes without a quantisation."""

_Fields = Mapping[str, FieldValue]
_Kernel = Callable[[Sequence[Array], _Fields, TfliteTensor], Array]
"""A kernel: it computes the output from its operands, the options' fields, and the model's record of the output."""


def _int(fields: _Fields, name: str) -> int:
    value = fields.get(name, 0)
    return int(value) if isinstance(value, (int, float)) else 0


def _axis(value: object) -> int:
    return int(np.asarray(value).reshape(-1)[0])


def _strided_slice(operands: Sequence[Array], fields: _Fields, _made: TfliteTensor) -> Array:
    source, begin, end, steps = operands
    if _int(fields, "EllipsisMask") or _int(fields, "NewAxisMask") or _int(fields, "Offset"):
        raise ValueError("masks that are not known here")
    masks = [_int(fields, name) for name in ("BeginMask", "EndMask", "ShrinkAxisMask")]
    index: list[int | slice] = []
    for axis, (first, last, step) in enumerate(zip(begin.tolist(), end.tolist(), steps.tolist(), strict=True)):
        is_open = [bool(mask >> axis & 1) for mask in masks]
        index.append(first if is_open[2] else slice(None if is_open[0] else first, None if is_open[1] else last, step))
    return np.asarray(source[tuple(index)])


def _slice(operands: Sequence[Array], _fields: _Fields, _made: TfliteTensor) -> Array:
    source, begin, size = operands
    return np.asarray(source[tuple(slice(b, None if s < 0 else b + s) for b, s in zip(begin.tolist(), size.tolist(), strict=True))])


def _gather(operands: Sequence[Array], fields: _Fields, _made: TfliteTensor) -> Array:
    if _int(fields, "BatchDims"):
        raise ValueError("batches that are not known here")
    return np.take(operands[0], operands[1], axis=_int(fields, "Axis"))


def _reduced(kind: Callable[..., Array]) -> _Kernel:
    def kernel(operands: Sequence[Array], fields: _Fields, _made: TfliteTensor) -> Array:
        axes = tuple(operands[1].reshape(-1).tolist())
        return np.asarray(kind(operands[0], axis=axes, keepdims=bool(_int(fields, "KeepDims")), dtype=operands[0].dtype))

    return kernel


def _shaped(operands: Sequence[Array], _fields: _Fields, made: TfliteTensor) -> Array:
    return operands[0].reshape(made.shape)


def _pointwise(kind: Callable[[Array, Array], Array]) -> _Kernel:
    return lambda operands, _fields, _made: kind(operands[0], operands[1])


def _truncated(a: Array, b: Array) -> Array:
    """C's division of integers."""
    return np.asarray(np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b))


_MOVES: dict[str, _Kernel] = {
    "STRIDED_SLICE": _strided_slice,
    "SLICE": _slice,
    "GATHER": _gather,
    "PACK": lambda operands, fields, _made: np.stack(operands, axis=_int(fields, "Axis")),
    "CONCATENATION": lambda operands, fields, _made: np.concatenate(operands, axis=_int(fields, "Axis")),
    "RESHAPE": _shaped,
    "SQUEEZE": _shaped,
    "EXPAND_DIMS": _shaped,
    "FILL": lambda operands, _fields, _made: np.full(tuple(operands[0].tolist()), operands[1]),
    "TILE": lambda operands, _fields, _made: np.tile(operands[0], tuple(operands[1].tolist())),
    "BROADCAST_TO": lambda operands, _fields, _made: np.broadcast_to(operands[0], tuple(operands[1].tolist())),
    "TRANSPOSE": lambda operands, _fields, _made: np.transpose(operands[0], tuple(operands[1].tolist())),
    "ZEROS_LIKE": lambda operands, _fields, _made: np.zeros_like(operands[0]),
}
"""Kernels that move elements of any meaning."""

_OF_SHAPE = ("SHAPE", "RANK")
"""Operators that read no element of their operand."""

_SUMS: dict[str, _Kernel] = {
    "ADD": _pointwise(np.add),
    "SUB": _pointwise(np.subtract),
    "MUL": _pointwise(np.multiply),
    "DIV": _pointwise(_truncated),
    "FLOOR_DIV": _pointwise(np.floor_divide),
    "FLOOR_MOD": _pointwise(np.mod),
    "MINIMUM": _pointwise(np.minimum),
    "MAXIMUM": _pointwise(np.maximum),
    "NEG": lambda operands, _fields, _made: -operands[0],
    "ABS": lambda operands, _fields, _made: np.abs(operands[0]),
    "CAST": lambda operands, _fields, made: operands[0].astype(_TYPES[made.dtype]),
    "RANGE": lambda operands, _fields, _made: np.arange(*(_axis(one) for one in operands)),
    "REDUCE_PROD": _reduced(np.prod),
    "SUM": _reduced(np.sum),
}
"""Kernels for integers without a quantisation."""


_GROWING = ("FILL", "TILE", "BROADCAST_TO", "RANGE")
"""Operators whose number of results depends on the values of their operands, even if the model states another number."""


def _elements(code: str, operands: Sequence[Array]) -> int:
    """Elements of the result of an operator that grows its operand."""
    if code == "RANGE":
        start, stop, step = (_axis(one) for one in operands)
        return max(0, -(-(stop - start) // step))
    times = operands[0 if code == "FILL" else 1].reshape(-1).tolist()
    return prod(times) * (operands[0].size if code == "TILE" else 1) if all(extent >= 0 for extent in times) else -1


def _array(tensor: TfliteTensor, data: bytes) -> Array:
    return np.frombuffer(data, _TYPES[tensor.dtype]).reshape(tensor.shape)


def _is_open(reader: RecordReader, index: int) -> bool:
    """Whether an extent of the tensor after the first one is unknown."""
    return any(extent < 0 for extent in reader.model.tensors[index].shape_signature[1:])


def _size(tensor: TfliteTensor) -> int:
    return prod(max(extent, 0) for extent in tensor.shape) * np.dtype(_TYPES[tensor.dtype]).itemsize


def _made(reader: RecordReader, operator: OperatorRecord, code: str, known: Mapping[int, bytes]) -> bytes | None:
    """The value of the operator's output; None if it is unknown."""
    tensors = reader.model.tensors
    made = tensors[operator.outputs[0]]
    if code == "SHAPE":
        given = operator.inputs[0]
        return None if _is_open(reader, given) else np.array(tensors[given].shape, _TYPES[made.dtype]).tobytes()
    if code == "RANK":
        return np.array(len(tensors[operator.inputs[0]].shape), _TYPES[made.dtype]).tobytes()
    kernel = _MOVES.get(code) or _SUMS[code]
    values = [tensors[index].data or known[index] for index in operator.inputs]
    if sum(map(len, values)) > MOST_BYTES:
        return None
    if code in _SUMS and any(tensors[index].dtype not in _INDICES or tensors[index].scales for index in operator.inputs):
        return None
    operands = [_array(tensors[index], value) for index, value in zip(operator.inputs, values, strict=True)]
    if code in _GROWING and _elements(code, operands) != prod(made.shape):
        return None
    found = np.asarray(kernel(operands, dict(operator.fields), made))
    same = found.size == prod(made.shape) and (code in _SUMS or found.dtype == operands[-1 if code == "FILL" else 0].dtype)
    return np.ascontiguousarray(found).astype(_TYPES[made.dtype]).tobytes() if same else None


def _is_askable(reader: RecordReader, operator: TfliteOperator, known: Mapping[int, bytes]) -> bool:
    """Whether the operator has one output of a kind and size that is computed here, and its operands are known or not needed."""
    tensors = reader.model.tensors
    if len(operator.outputs) != 1 or not operator.inputs or min(*operator.inputs, *operator.outputs) < 0:
        return False
    made = tensors[operator.outputs[0]]
    if made.is_variable or made.dtype not in _TYPES or _size(made) > MOST_BYTES:
        return False
    if operator.code in _OF_SHAPE:
        return True
    operands_known = all((tensors[index].data or index in known) and tensors[index].dtype in _TYPES for index in operator.inputs)
    return operands_known and (operator.code in _MOVES or operator.code in _SUMS)


def known_values(reader: RecordReader) -> dict[int, bytes]:
    """The values of those tensors of the reader's subgraph that operators compute from shapes and constants alone, by tensor number.

    Results of large constants are left out. So are values whose size differs from the model's, because such a model is damaged.
    """
    known: dict[int, bytes] = {}
    for number, parsed in enumerate(reader.model.operators):
        if not _is_askable(reader, parsed, known):
            continue
        try:
            value = _made(reader, reader.operator(number), parsed.code, known)
        except (InputError, ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError, MemoryError):
            continue  # No kernel takes these options or operands; the code that needs the value reports it.
        if value:
            known[parsed.outputs[0]] = value
    return known
