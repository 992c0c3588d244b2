"""Models whose inputs and outputs are NHWC instead of NCHW, without the TRANSPOSE at that end of the network."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cascader.frontends.vela.model_changes import integers, keeps_values
from npu_model.compiled.layouts import LAYOUTS, NHWC, layouts_data
from npu_model.compiled.network import is_compiled
from npu_model.errors import InputError
from npu_model.printable import printable, shown
from npu_model.tflite.identifiers import is_tosa
from npu_model.tflite.model import TfliteModel, TfliteOperator, read_tflite
from npu_model.tflite.record_reader import RecordReader, read_records
from npu_model.tflite.writer import write_tflite
from npu_testbed.models.layouts import ChannelsLast

_TO_LAST, _TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""Orders of the axes by which a TRANSPOSE makes NHWC of NCHW, and NCHW of NHWC."""

_INPUT, _OUTPUT = "input", "output"
"""Names that stand for all inputs and for all outputs."""


def channels_last(model: bytes, layouts: Sequence[ChannelsLast]) -> bytes:
    """The .tflite ``model`` with these inputs and outputs as NHWC, and metadata that name them.

    InputError if a tensor is not an input or output, or if its only reader or writer is not a TRANSPOSE between NCHW and NHWC.
    """
    if is_tosa(model):
        raise InputError("--layout was given for a TOSA network, whose inputs and outputs are fixed: leave it out.")
    if is_compiled(read_tflite(model)):
        raise InputError("--layout was given for a network that is compiled already: give the network that it was compiled from.")
    wanted = dict.fromkeys(index for one in layouts for index in _tensors(RecordReader(model), one))
    for index in wanted:
        parsed = read_tflite(model)
        find = _input_transpose if index in parsed.inputs else _output_transpose
        model = _without(model, find(parsed, index), index)
    records = read_records(model)
    named = (LAYOUTS, layouts_data([records.tensors[index].name for index in wanted]))
    return write_tflite(replace(records, metadata=(*(entry for entry in records.metadata if entry[0] != LAYOUTS), named)))


def _tensors(reader: RecordReader, wanted: ChannelsLast) -> tuple[int, ...]:
    """The numbers of the tensors that a name stands for; InputError if there are none."""
    model = reader.model
    ends = {_INPUT: model.inputs, _OUTPUT: model.outputs}
    own = tuple(index for index in (*model.inputs, *model.outputs) if index >= 0)
    if wanted.name in ends:
        return tuple(index for index in ends[wanted.name] if index in own)
    names = {name: index for one in reader.signatures() if not one.subgraph for name, index in (*one.inputs, *one.outputs) if index in own}
    names |= {model.tensors[index].name: index for index in own}
    if wanted.name not in names:
        listed = ", ".join(repr(printable(model.tensors[index].name)) for index in own[:8])
        raise InputError(f"--layout names {shown(wanted.name)}: the network's inputs and outputs are {listed}; name one of them.")
    return (names[wanted.name],)


def _input_transpose(model: TfliteModel, index: int) -> int:
    """The number of the TRANSPOSE to NHWC that is an input's only reader; InputError if there is another reader or none."""
    readers = [number for number, one in enumerate(model.operators) if index in one.inputs]
    made = [model.operators[number].outputs[0] for number in readers if _orders(model, model.operators[number], _TO_LAST)]
    if len(readers) == 1 and len(made) == 1 and not {index, made[0]} & set(model.outputs):
        return readers[0]
    what = _listed([model.operators[number] for number in readers])
    if index in model.outputs or set(made) & set(model.outputs):
        what = f"{what} and is handed out again" if readers else "nothing and is handed out again"
    raise InputError(
        f"--layout cannot make input {printable(model.tensors[index].name)!r} {NHWC}, which is read by {what}: only an input that "
        "nothing but one TRANSPOSE from NCHW to NHWC reads can be; leave it out."
    )


def _output_transpose(model: TfliteModel, index: int) -> int:
    """The number of the TRANSPOSE to NCHW that writes an output without readers; InputError if there is none."""
    name = printable(model.tensors[index].name)
    writers = [number for number, one in enumerate(model.operators) if index in one.outputs]
    readers = [one for one in model.operators if index in one.inputs]
    sources = [model.operators[number].inputs[0] for number in writers if _orders(model, model.operators[number], _TO_FIRST)]
    if len(writers) == 1 and len(sources) == 1 and not readers and _is_inner(model, sources[0]):
        return writers[0]
    what = f"is written by {_listed([model.operators[number] for number in writers])}"
    if readers:
        what += f" and read by {_listed(readers)}"
    elif sources:
        what += f", whose own input {printable(model.tensors[sources[0]].name)!r} is an input, an output or a constant of the network"
    raise InputError(
        f"--layout cannot make output {name!r} {NHWC}: it {what}. Only an output that one TRANSPOSE from NHWC to NCHW writes and nothing "
        "reads can be; leave it out."
    )


def _is_inner(model: TfliteModel, index: int) -> bool:
    """Whether an operator writes a tensor that is not an output of the network."""
    return index not in (*model.inputs, *model.outputs) and any(index in one.outputs for one in model.operators)


def _orders(model: TfliteModel, operator: TfliteOperator, axes: tuple[int, ...]) -> bool:
    """Whether an operator is a TRANSPOSE of this order that keeps the values."""
    if operator.code != "TRANSPOSE" or len(operator.inputs) != 2 or min(operator.inputs) < 0 or len(operator.outputs) != 1:
        return False
    given, order = (model.tensors[index] for index in operator.inputs)
    return order.dtype == "INT32" and integers(order) == axes and len(given.shape) == len(axes) and keeps_values(model, operator)


def _listed(operators: Sequence[TfliteOperator]) -> str:
    """Operators in the form of a sentence."""
    if not operators:
        return "no operator"
    more = f" and {len(operators) - 1} more" if len(operators) > 1 else ""
    return f"{operators[0].name}{more}"


def _without(model: bytes, number: int, index: int) -> bytes:
    """The .tflite ``model`` without the TRANSPOSE ``number``; the input or output ``index`` replaces the tensor on its other side."""
    records = read_records(model)
    operator = records.operators[number]
    other = operator.outputs[0] if operator.inputs[0] == index else operator.inputs[0]

    def renamed(indices: Sequence[int]) -> tuple[int, ...]:
        return tuple(index if one == other else one for one in indices)

    left = (*records.operators[:number], *records.operators[number + 1 :])
    operators = tuple(replace(one, inputs=renamed(one.inputs), outputs=renamed(one.outputs)) for one in left)
    tensors = list(records.tensors)
    shapes = ((shape and tuple(shape[axis] for axis in _TO_LAST)) for shape in (tensors[index].shape, tensors[index].shape_signature))
    tensors[index] = replace(tensors[index], **dict(zip(("shape", "shape_signature"), shapes, strict=True)))
    return write_tflite(replace(records, tensors=tuple(tensors), operators=operators))
