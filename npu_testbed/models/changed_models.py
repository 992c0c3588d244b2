"""Models with new input shapes and layouts: read once, changed as records, and written once."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from npu_model.compiled.network import is_compiled
from npu_model.errors import InputError
from npu_model.printable import printable, shown
from npu_model.tflite.identifiers import is_tosa
from npu_model.tflite.record_reader import read_records
from npu_model.tflite.records import ModelRecord
from npu_model.tflite.writer import write_tflite
from npu_testbed.models.channels_last import channels_last
from npu_testbed.models.input_shapes import InputShape
from npu_testbed.models.layouts import ChannelsLast
from validation.litert.resized import shapes_with_inputs

_INPUT, _OUTPUT = "input", "output"
"""Names that mean all inputs and all outputs."""


def changed(model: bytes, shapes: Sequence[InputShape], layouts: Sequence[ChannelsLast]) -> bytes:
    """The .tflite ``model`` with these input shapes and the tensor shapes that follow, then with these inputs and outputs as NHWC.

    InputError for a name that it does not have, and for a shape or layout that it cannot have.
    """
    option = "--input-shape" if shapes else "--layout"
    if is_tosa(model):
        raise InputError(f"{option} was given for a TOSA network, whose inputs and outputs are fixed: leave it out.")
    records = read_records(model)
    if is_compiled(records):
        raise InputError(f"{option} was given for a network that is compiled already: give the network that it was compiled from.")
    wanted = _wanted_shapes(records, shapes)
    turned = dict.fromkeys(index for one in layouts for index in _turned(records, one))
    if wanted:
        records = _shaped(records, shapes_with_inputs(model, wanted))
    return write_tflite(channels_last(records, tuple(turned)) if layouts else records)


def _numbers(records: ModelRecord, ends: tuple[int, ...]) -> dict[str, int]:
    """The numbers of inputs or outputs by the names of their tensors, and by those that signatures give them."""
    signatures = (one for one in records.signatures if not one.subgraph)
    names = {name: index for one in signatures for name, index in (*one.inputs, *one.outputs) if index in ends}
    return names | {records.tensors[index].name: index for index in ends}


def _unknown(option: str, name: str, what: str, records: ModelRecord, ends: tuple[int, ...]) -> InputError:
    listed = ", ".join(repr(printable(records.tensors[index].name)) for index in ends[:8])
    return InputError(f"{option} names {shown(name)}: the network's {what} are {listed}; name one of them.")


def _wanted_shapes(records: ModelRecord, shapes: Sequence[InputShape]) -> dict[int, tuple[int, ...]]:
    """The new shapes by the numbers of their inputs; InputError unless each means one input, once, with as many extents."""
    names, found = _numbers(records, records.inputs), dict[int, tuple[int, ...]]()
    for wanted in shapes:
        index = records.inputs[0] if not wanted.name and len(records.inputs) == 1 else names.get(wanted.name)
        if index is None:
            raise _unknown("--input-shape", wanted.name, "inputs", records, records.inputs)
        known = records.tensors[index]
        if len(known.shape) != len(wanted.shape) and known.shape:
            raise InputError(
                f"--input-shape gives {printable(known.name)!r} {len(wanted.shape)} extents: the network has it with {len(known.shape)}."
            )
        if index in found:
            raise InputError(f"--input-shape gives {printable(known.name)!r} two shapes: give it one.")
        found[index] = wanted.shape
    return found


def _turned(records: ModelRecord, wanted: ChannelsLast) -> tuple[int, ...]:
    """The numbers of the tensors that a layout means; InputError if there are none."""
    ends = {_INPUT: records.inputs, _OUTPUT: records.outputs}
    if wanted.name in ends:
        return ends[wanted.name]
    own = records.inputs + records.outputs
    names = _numbers(records, own)
    if wanted.name not in names:
        raise _unknown("--layout", wanted.name, "inputs and outputs", records, own)
    return (names[wanted.name],)


def _shaped(records: ModelRecord, shapes: dict[int, tuple[int, ...]]) -> ModelRecord:
    """The model with these shapes of tensors, none of which is unknown any more. Constants keep theirs."""
    tensors = (
        replace(tensor, shape=tensor.shape if tensor.data else shapes.get(number, tensor.shape), shape_signature=())
        for number, tensor in enumerate(records.tensors)
    )
    return replace(records, tensors=tuple(tensors))
