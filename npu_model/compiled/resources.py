"""Resource variables of a .tflite file: state that a runtime keeps outside all tensors, by name, from one inference to the next.

VAR_HANDLE names one, READ_VARIABLE copies it into a tensor and ASSIGN_VARIABLE copies a tensor into it. CALL_ONCE runs a subgraph before
the first inference, which assigns their initial values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from npu_model.compiled.resource_variable import ASSIGN, COPIES_OF_STATE, READ, ResourceVariable
from npu_model.errors import InputError, LimitError
from npu_model.printable import printable
from npu_model.program import DataType
from npu_model.tflite.known_values import known_values
from npu_model.tflite.model import TfliteOperator, TfliteTensor
from npu_model.tflite.record_reader import RecordReader
from npu_model.tflite.schema import tflite

HANDLE, ONCE = "VAR_HANDLE", "CALL_ONCE"
OPERATORS = (HANDLE, ONCE, *COPIES_OF_STATE)
"""Operators of resource variables; a network runs those that copy state as steps."""


def _fields(reader: RecordReader, number: int) -> dict[str, object]:
    return dict(reader.operator(number).fields)


def handles(reader: RecordReader) -> dict[int, str]:
    """The names of resource variables by the tensors that are handles of them, of the reader's subgraph."""
    found = {}
    for number, operator in enumerate(reader.model.operators):
        if operator.code == HANDLE and operator.outputs and operator.outputs[0] >= 0:
            fields = _fields(reader, number)
            names = [str(fields.get(key) or "") for key in ("Container", "SharedName")]
            found[operator.outputs[0]] = "/".join(filter(None, names)) or f"handle {operator.outputs[0]}"
    return found


def _first_contents(reader: RecordReader) -> dict[str, bytes]:
    """The bytes that CALL_ONCE assigns to each variable.

    LimitError if they are computed by operators that this package does not evaluate.
    """
    found: dict[str, bytes] = {}
    for number, operator in enumerate(reader.model.operators):
        if operator.code != ONCE:
            continue
        index = _fields(reader, number).get("InitSubgraphIndex", 0)
        if not isinstance(index, int) or not 1 <= index <= len(reader.model.others):
            raise LimitError(f"CALL_ONCE runs subgraph {index}, which is not one of those after the first: the file is damaged.")
        init = reader.of_subgraph(index)
        names, known = handles(init), known_values(init)
        for one in init.model.operators:
            if one.code != ASSIGN:
                continue
            require_whole(one)
            if one.inputs[0] not in names:
                continue
            value = init.model.tensors[one.inputs[1]].data or known.get(one.inputs[1])
            if value is None:
                raise LimitError(
                    f"CALL_ONCE works out what the resource variable {printable(names[one.inputs[0]])!r} begins with: "
                    "a constant is known here; assign one in the subgraph that it runs."
                )
            found[names[one.inputs[0]]] = bytes(value)
    return found


def _require_in_first(reader: RecordReader) -> None:
    """LimitError if a subgraph that no CALL_ONCE runs uses resource variables: it runs as one operator, which keeps nothing."""
    once = {_fields(reader, number).get("InitSubgraphIndex") for number, one in enumerate(reader.model.operators) if one.code == ONCE}
    for number, graph in enumerate(reader.model.others, start=1):
        if number not in once and any(one.code in OPERATORS for one in graph.operators):
            raise LimitError(
                f"Subgraph {number} ({printable(graph.name)!r}) uses resource variables: only those of subgraph 0 are kept here; "
                "read and assign them outside the branch or the loop."
            )


def require_whole(operator: TfliteOperator) -> None:
    """InputError if an operator that copies state lacks its handle, or the tensor that it copies from or to."""
    wanted = {READ: (1, 1), ASSIGN: (2, 0)}.get(operator.code)
    if wanted is None:
        return
    found = len(operator.inputs), len(operator.outputs)
    if found != wanted or any(index < 0 for index in (*operator.inputs, *operator.outputs)):
        raise InputError(
            f"{operator.code} has {found[0]} inputs and {found[1]} outputs, not {wanted[0]} and {wanted[1]}: the file is damaged."
        )


def uses_resources(codes: Iterable[str]) -> bool:
    """Whether one of the operators, by their codes, uses resource variables."""
    return any(code in OPERATORS for code in codes)


def resource_variables(
    reader: RecordReader, types: Mapping[str, DataType], first_byte: Mapping[int, int] | None = None
) -> dict[int, ResourceVariable]:
    """The resource variables of the reader's first subgraph by the tensors that are handles of them.

    A variable without an initial value holds ``first_byte`` of its tensor in every byte, 0 by default. LimitError if a content is unknown,
    or if a variable is read in another size.
    """
    _require_in_first(reader)
    for operator in reader.model.operators:
        require_whole(operator)
    names, contents = handles(reader), _first_contents(reader)
    for operator in reader.model.operators:
        if operator.code not in COPIES_OF_STATE or operator.inputs[0] not in names:
            continue
        index = operator.outputs[0] if operator.code == READ else operator.inputs[1]
        name, size = names[operator.inputs[0]], _size(reader.model.tensors[index], types)
        held = contents.setdefault(name, bytes([(first_byte or {}).get(index, 0)]) * size)
        if len(held) != size:
            raise LimitError(
                f"The resource variable {printable(name)!r} has {len(held)} bytes and {printable(reader.model.tensors[index].name)!r} "
                f"{size}: one of a fixed size is known here; give it that from the beginning."
            )
    return {index: ResourceVariable(name, contents.get(name, b"")) for index, name in names.items()}


def _size(tensor: TfliteTensor, types: Mapping[str, DataType]) -> int:
    known = types.get(tensor.dtype)
    return prod(max(extent, 0) for extent in tensor.shape) * (known.bytes if known else 1)


RESOURCE = tflite.TensorType.RESOURCE
"""Type of a handle."""
