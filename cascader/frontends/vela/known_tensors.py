"""Changes to networks before Vela gets them: shapes as LiteRT reads them, and constants for values that no inference changes.

If a tensor's signature has an unknown extent, Vela 5.2 takes the shape from the signature. LiteRT takes the plain shape, which differs in a
file that some tool has cut. Vela leaves operators on the CPU if they compute values only from shapes and constants.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from contextlib import suppress
from math import prod
from typing import Any

from msgspec.structs import replace

from cascader.frontends.vela.model_changes import without_constant_outputs
from cascader.frontends.vela.state_order import with_states_read_first
from npu_model.errors import InputError
from npu_model.program import ConstantOutput
from npu_model.tflite.known_values import known_values
from npu_model.tflite.model import TfliteTensor, model_of
from npu_model.tflite.record_reader import RecordReader, read_records
from npu_model.tflite.writer import write_tflite


def _is_other(tensor: TfliteTensor) -> bool:
    """Whether the signature and the shape differ in an extent that the signature knows."""
    signature = tensor.shape_signature
    if not signature or -1 not in signature:
        return False
    return len(signature) != len(tensor.shape) or any(
        told not in (-1, extent) for told, extent in zip(signature, tensor.shape, strict=True)
    )


def _with_tensors(model: bytes, changed: Mapping[int, Mapping[str, Any]], without: Collection[int] = ()) -> bytes:
    """The .tflite ``model`` with some tensors changed, and without the operators that write the tensors ``without``.

    It is unchanged if no records can hold it, or if no operator is left.
    """
    with suppress(InputError):
        records = read_records(model)
        operators = tuple(one for one in records.operators if len(one.outputs) != 1 or one.outputs[0] not in without)
        tensors = tuple(replace(one, **changed.get(number, {})) for number, one in enumerate(records.tensors))
        if operators or not without:
            return write_tflite(replace(records, tensors=tensors, operators=operators))
    return model


def with_own_shapes(model: bytes) -> bytes:
    """The .tflite ``model`` without signatures that contradict its shapes. It is unchanged if it has none, or if no records can hold it."""
    other = {number: {"shape_signature": ()} for number, tensor in enumerate(model_of(model).tensors) if _is_other(tensor)}
    return _with_tensors(model, other) if other else model


def without_known_operators(model: bytes) -> bytes:
    """The .tflite ``model`` with constants for operators whose results are known.

    It is unchanged if it has none, or if it has no other operators.
    """
    parsed = model_of(model)
    if not parsed.operators:
        return model
    with suppress(InputError):
        known = known_values(RecordReader(model))
        return _with_tensors(model, {number: {"data": value} for number, value in known.items()}, known) if known else model
    return model


def _reshaped(made: TfliteTensor, shape: bytes, elements: int) -> tuple[int, ...] | None:
    """The shape that a RESHAPE's operand of 32-bit integers gives to ``elements`` elements; None if they do not fit.

    >>> blank = TfliteTensor("y", (1, 1), "INT8", (), (), 0, False, b"", (-1, -1))
    >>> _reshaped(blank, struct.pack("<2i", 1, -1), 128), _reshaped(blank, struct.pack("<2i", 3, 5), 128)
    ((1, 128), None)
    """
    if -1 not in made.shape_signature or not shape or len(shape) % 4:
        return None
    wanted = list(struct.unpack(f"<{len(shape) // 4}i", shape))
    if wanted.count(-1) == 1 and (known := -prod(wanted)) > 0:
        wanted[wanted.index(-1)] = elements // known
    return tuple(wanted) if min(wanted) > 0 and prod(wanted) == elements else None


def with_known_reshapes(model: bytes) -> bytes:
    """The .tflite ``model`` with the shapes of its RESHAPE operands, where the model holds a stand-in for an unknown shape.

    A converter writes extents of 1 where it traced a network for any batch size. The model is unchanged if it has no such shape, or if no
    records can hold it.
    """
    parsed = model_of(model)
    shapes = {number: one.shape for number, one in enumerate(parsed.tensors)}
    found: dict[int, Mapping[str, Any]] = {}
    for one in parsed.operators:
        if one.code == "RESHAPE" and len(one.inputs) == 2 and min(*one.inputs, *one.outputs) >= 0:
            made, operand = one.outputs[0], parsed.tensors[one.inputs[1]]
            shape = _reshaped(parsed.tensors[made], operand.data, prod(shapes[one.inputs[0]])) if operand.dtype == "INT32" else None
            if shape is not None and shape != shapes[made]:
                shapes[made] = shape
                found[made] = {"shape": shape, "shape_signature": ()}
    return _with_tensors(model, found) if found else model


def prepared(model: bytes) -> tuple[bytes, tuple[ConstantOutput, ...]]:
    """The .tflite ``model`` in the form that suits Vela best, and the outputs that it lost because they are constants."""
    return without_constant_outputs(with_known_reshapes(without_known_operators(with_states_read_first(with_own_shapes(model)))))
