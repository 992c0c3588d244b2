"""Models whose inputs and outputs are NHWC instead of NCHW, without the TRANSPOSE at that end of the network."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from cascader.frontends.vela.model_changes import integers, keeps_values
from npu_model.compiled.layouts import LAYOUTS, NHWC, layouts_data
from npu_model.errors import InputError
from npu_model.printable import printable
from npu_model.tflite.model import builtin_name
from npu_model.tflite.records import ModelRecord, OperatorRecord, TensorRecord
from npu_model.tflite.schema import tflite

_CODES = tflite.BuiltinOperator

_ORDERS = {3: ((0, 2, 1), (1, 2, 0)), 4: ((0, 2, 3, 1),)}
"""Orders by which the axes of an input or output, with channels first, have the channels last: with a batch or, of three, without."""

_PLAIN = (_CODES.QUANTIZE, _CODES.DEQUANTIZE, _CODES.CAST)
"""Operators between an input or output of a network and its TRANSPOSE that treat all elements equally, at any position."""

_PADS = (_CODES.PAD, _CODES.PADV2, _CODES.MIRROR_PAD)
"""Operators between an input and its TRANSPOSE whose amounts turn with the axes."""


class _End(Struct, frozen=True):
    """An input or output of a network: its operators up to the TRANSPOSE, and the order of axes that means that."""

    index: int
    way: tuple[int, ...]
    order: tuple[int, ...]


def channels_last(model: ModelRecord, wanted: Sequence[int]) -> ModelRecord:
    """The model with these inputs and outputs, by the numbers of their tensors, as NHWC, and metadata that name them.

    QUANTIZE, DEQUANTIZE, CAST and a RESHAPE that adds or drops extents of 1 may lie between the end and its TRANSPOSE; between an input and
    its TRANSPOSE also a PAD.
    InputError if the only reader or writer of a tensor is not a TRANSPOSE that puts channels last or first.
    """
    for index in wanted:
        model = _without(model, (_input_end if index in model.inputs else _output_end)(model, index))
    named = (LAYOUTS, layouts_data([model.tensors[index].name for index in wanted]))
    return replace(model, metadata=(*(entry for entry in model.metadata if entry[0] != LAYOUTS), named))


def _input_end(model: ModelRecord, index: int) -> _End:
    """The end of an input, which one TRANSPOSE makes NHWC; InputError if something else reads it."""
    at, way = index, list[int]()
    while True:
        readers = [number for number, one in enumerate(model.operators) if at in one.inputs]
        is_out = at in model.outputs
        if len(readers) != 1 or is_out:
            break
        (number,) = readers
        way.append(number)
        made = model.operators[number].outputs[0]
        if model.operators[number].code == _CODES.TRANSPOSE:
            order = _order(model, index, way)
            is_out = made in model.outputs
            if order is None or is_out:
                break
            return _End(index, tuple(way), order)
        reshaped = any(model.operators[one].code == _CODES.RESHAPE for one in way)
        if not _is_passed(model, model.operators[number]) and (reshaped or not _is_padding(model, model.operators[number])):
            break
        at = made
    what = _listed([model.operators[number] for number in readers])
    if is_out:
        what = f"{what} and is handed out again" if readers else "nothing and is handed out again"
    name = printable(model.tensors[index].name)
    where = "it" if at == index else f"{printable(model.tensors[at].name)!r}, which is made from it,"
    raise InputError(
        f"--layout cannot make input {name!r} {NHWC}: {where} is read by {what}. Only an input that one TRANSPOSE from NCHW to NHWC reads, "
        "and nothing else, can be; leave it out."
    )


def _output_end(model: ModelRecord, index: int) -> _End:
    """The end of an output, which one TRANSPOSE writes as NCHW and nothing reads; InputError if there is none."""
    at, way, end = index, list[int](), ""
    while True:
        writers = [number for number, one in enumerate(model.operators) if at in one.outputs]
        readers = [one for one in model.operators if at in one.inputs]
        # The only reader of a tensor between the TRANSPOSE and the output is the one that led here.
        if len(writers) != 1 or len(readers) != bool(way):
            break
        (number,) = writers
        way.append(number)
        source = model.operators[number].inputs[0] if model.operators[number].inputs else -1
        if model.operators[number].code == _CODES.TRANSPOSE:
            order = _order(model, index, way)
            if order is not None and _is_inner(model, source):
                return _End(index, tuple(way), order)
            if order is not None:
                end = f", whose own input {printable(model.tensors[source].name)!r} is an input, an output or a constant of the network"
            break
        if not _is_passed(model, model.operators[number]):
            break
        at = source
    what = f"is written by {_listed([model.operators[number] for number in writers])}{end}"
    if len(readers) != bool(at != index):
        what += f" and read by {_listed(readers)}"
    where = "it" if at == index else f"{printable(model.tensors[at].name)!r}, from which it is made,"
    raise InputError(
        f"--layout cannot make output {printable(model.tensors[index].name)!r} {NHWC}: {where} {what}. Only an output that one TRANSPOSE "
        "from NHWC to NCHW writes and nothing reads can be; leave it out."
    )


def _is_inner(model: ModelRecord, index: int) -> bool:
    """Whether an operator writes a tensor that is not an output of the network."""
    return index not in (*model.inputs, *model.outputs) and any(index in one.outputs for one in model.operators)


def _is_passed(model: ModelRecord, operator: OperatorRecord) -> bool:
    """Whether an operator may lie between an end and its TRANSPOSE: one of every element alone, or a RESHAPE that moves extents of 1."""
    if len(operator.outputs) != 1 or not operator.inputs or operator.inputs[0] < 0:
        return False
    given, made = model.tensors[operator.inputs[0]], model.tensors[operator.outputs[0]]
    if max(len(given.scales), len(made.scales)) > 1 or given.data:
        return False
    if operator.code in _PLAIN:
        return len(operator.inputs) == 1 and given.shape == made.shape
    return operator.code == _CODES.RESHAPE and _extents(given.shape) == _extents(made.shape) and keeps_values(model, operator)


def _is_padding(model: ModelRecord, operator: OperatorRecord) -> bool:
    """Whether an operator pads by constants and changes no extent of 1, so that extents still tell the axes apart."""
    if operator.code not in _PADS or len(operator.inputs) < 2 or min(operator.inputs) < 0 or len(operator.outputs) != 1:
        return False
    given, paddings, made = (model.tensors[index] for index in (*operator.inputs[:2], operator.outputs[0]))
    rank = len(given.shape)
    is_constant = paddings.dtype == tflite.TensorType.INT32 and len(integers(paddings)) == 2 * rank == 2 * len(made.shape)
    keeps_ones = all(before != 1 for before, after in zip(given.shape, made.shape, strict=False) if before != after)
    return is_constant and keeps_ones and len(given.scales) < 2 and not given.data


def _extents(shape: tuple[int, ...]) -> list[int]:
    return [extent for extent in shape if extent != 1]


def _order(model: ModelRecord, end: int, way: Sequence[int]) -> tuple[int, ...] | None:
    """The order of axes that the TRANSPOSE, the last operator on the way, means; None if it is none with channels last."""
    operator = model.operators[way[-1]]
    if len(operator.inputs) != 2 or min(operator.inputs) < 0 or len(operator.outputs) != 1 or not keeps_values(model, operator):
        return None
    given, constant = (model.tensors[index] for index in operator.inputs)
    order, shape = integers(constant), model.tensors[end].shape
    if constant.dtype != tflite.TensorType.INT32 or sorted(order) != list(range(len(given.shape))) or len(given.scales) > 1:
        return None
    is_input = end in model.inputs
    # The axes of the input or output where it meets the TRANSPOSE: extents of 1 do not affect the order of the elements.
    met = given.shape if is_input else model.tensors[operator.outputs[0]].shape
    own = iter(axis for axis, extent in enumerate(shape) if extent != 1)
    axes = [None if extent == 1 else next(own) for extent in met]
    moved = [axes[axis if is_input else order.index(axis)] for axis in (order if is_input else range(len(order)))]
    found = [axis for axis in moved if axis is not None]
    return next((one for one in _ORDERS.get(len(shape), ()) if [axis for axis in one if shape[axis] != 1] == found), None)


def _listed(operators: Sequence[OperatorRecord]) -> str:
    """Operators in the form of a sentence."""
    if not operators:
        return "no operator"
    more = f" and {len(operators) - 1} more" if len(operators) > 1 else ""
    first = operators[0]
    return f"{first.custom_code if first.code == _CODES.CUSTOM else builtin_name(first.code)}{more}"


def _without(records: ModelRecord, end: _End) -> ModelRecord:
    """The model without the TRANSPOSE of an end, whose tensors have the order of axes in which the NPU has them.

    A RESHAPE takes its place if extents of 1 differ; a RESHAPE on the way goes.
    """
    tensors, operators = list(records.tensors), dict(enumerate(records.operators))
    is_input, turning = end.index in records.inputs, end.way[-1]
    outer, inner = _sides(operators[turning], is_input)
    here, shape = end.index, _ordered(tensors[end.index].shape, end.order)
    signature = _ordered(tensors[end.index].shape_signature, end.order)
    tensors[here] = replace(tensors[here], shape=shape, shape_signature=signature)
    for number in end.way[:-1]:
        operator = operators[number]
        _, beyond = _sides(operator, is_input)
        if operator.code == _CODES.RESHAPE:
            del operators[number]
            continue
        given, made = (here, beyond) if is_input else (beyond, here)
        others = operator.inputs[1:]
        if others:
            # Operators of one element have no other operand; a PAD has its amounts.
            shape, signature = (_ordered(one, end.order) for one in (tensors[beyond].shape, tensors[beyond].shape_signature))
            tensors.append(_turned_paddings(tensors[others[0]], end.order))
            others = (len(tensors) - 1, *others[1:])
        tensors[beyond] = replace(tensors[beyond], shape=shape, shape_signature=signature)
        operators[number] = replace(operator, inputs=(given, *others), outputs=(made,))
        here = beyond
    if tensors[inner].shape == shape:
        del operators[turning]
        operators = {number: _renamed(one, inner, here) for number, one in operators.items()}
    else:
        tensors.append(_shape_tensor(f"{tensors[outer].name}/layout", tensors[inner].shape if is_input else shape))
        given, made = (here, inner) if is_input else (inner, here)
        operators[turning] = OperatorRecord(_CODES.RESHAPE, 1, (given, len(tensors) - 1), (made,), "ReshapeOptions")
    return replace(records, tensors=tuple(tensors), operators=tuple(operators[number] for number in sorted(operators)))


def _sides(operator: OperatorRecord, is_input: bool) -> tuple[int, int]:  # noqa: FBT001  # one of two ends
    """The tensor of an operator that is nearer to the end of the network, and the other one."""
    return (operator.inputs[0], operator.outputs[0]) if is_input else (operator.outputs[0], operator.inputs[0])


def _ordered(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in order) if shape else shape


def _renamed(operator: OperatorRecord, before: int, after: int) -> OperatorRecord:
    """The operator that reads and writes another tensor in the place of one."""

    def renamed(indices: Sequence[int]) -> tuple[int, ...]:
        return tuple(after if one == before else one for one in indices)

    return replace(operator, inputs=renamed(operator.inputs), outputs=renamed(operator.outputs))


def _turned_paddings(paddings: TensorRecord, order: tuple[int, ...]) -> TensorRecord:
    """The constant of a PAD whose axes have another order."""
    rows = list(struct.iter_unpack("<2i", paddings.data))
    data = b"".join(struct.pack("<2i", *rows[axis]) for axis in order)
    return replace(paddings, name=f"{paddings.name}/layout", data=data)


def _shape_tensor(name: str, shape: tuple[int, ...]) -> TensorRecord:
    return TensorRecord(name, (len(shape),), tflite.TensorType.INT32, data=struct.pack(f"<{len(shape)}i", *shape))
