"""Models with new input shapes: inputs found by name, bounds checked, and the other shapes from LiteRT."""

from __future__ import annotations

from collections.abc import Sequence

from npu_model.compiled.network import is_compiled
from npu_model.errors import InputError
from npu_model.printable import printable, shown
from npu_model.tflite.identifiers import is_tosa
from npu_model.tflite.model import read_tflite
from npu_model.tflite.record_reader import RecordReader
from npu_testbed.models.input_shapes import InputShape
from validation.litert.resized import with_input_shapes


def _tensor(reader: RecordReader, wanted: InputShape) -> int:
    """Number of the input's tensor; InputError unless exactly one input has that name."""
    model = reader.model
    names = {model.tensors[index].name: index for index in model.inputs}
    for signature in reader.signatures():
        if not signature.subgraph:
            names = {name: index for name, index in signature.inputs if index in model.inputs} | names
    if not wanted.name and len(model.inputs) == 1:
        return model.inputs[0]
    if wanted.name not in names:
        listed = ", ".join(repr(printable(model.tensors[index].name)) for index in model.inputs[:8])
        raise InputError(f"--input-shape names {shown(wanted.name)}: the network's inputs are {listed}; name one of them.")
    return names[wanted.name]


def shaped(model: bytes, shapes: Sequence[InputShape]) -> bytes:
    """The .tflite ``model`` with these input shapes and the tensor shapes that follow from them; InputError if they are impossible."""
    if is_tosa(model):
        raise InputError("--input-shape was given for a TOSA network, whose shapes are fixed: leave it out.")
    if is_compiled(read_tflite(model)):
        raise InputError("--input-shape was given for a network that is compiled already: give the network that it was compiled from.")
    reader = RecordReader(model)
    found: dict[int, tuple[int, ...]] = {}
    for wanted in shapes:
        index = _tensor(reader, wanted)
        known = reader.model.tensors[index]
        if len(known.shape) != len(wanted.shape) and known.shape:
            raise InputError(
                f"--input-shape gives {printable(known.name)!r} {len(wanted.shape)} extents: the network has it with {len(known.shape)}."
            )
        if index in found:
            raise InputError(f"--input-shape gives {printable(known.name)!r} two shapes: give it one.")
        found[index] = wanted.shape
    return with_input_shapes(model, found)
