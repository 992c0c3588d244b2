"""Changes to networks before Vela 5.2 gets them: operators become ones that each core compiles well.

Constant outputs are hidden from both cores: the Python core drops them, the C++ core drops their values. Operators that change nothing
become reshapes, because the C++ core runs kernels for them and the Python core does not have all of them. Operators that neither core
compiles correctly become simpler operators.

The C++ core cannot compile a resize or an ARG_MAX of several images. It mixes images in grouped convolutions and in convolutions of a part
of a tensor. It takes wrong elements for a STRIDED_SLICE with steps. The Python core leaves convolutions of several images to the CPU, and
copies only the part of one image.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from npu_model.compiled.network import CUSTOM_CODE, OFFLINE_ALLOCATION, constant_outputs
from npu_model.errors import InputError
from npu_model.program import LONGEST_STRIDE, ConstantOutput
from npu_model.tflite.model import TfliteModel, TfliteOperator, TfliteTensor, model_of
from npu_model.tflite.record_reader import read_records
from npu_model.tflite.records import FieldValue, ModelRecord, OperatorRecord, SignatureRecord, TensorRecord
from npu_model.tflite.schema import tflite
from npu_model.tflite.writer import write_tflite

_CODES = tflite.BuiltinOperator
_IMAGE_RANK = 4
_CHANNELS = 3
_AXIS, _WEIGHTS = 1, 1
"""The operand numbers of ARG_MAX's axis and of a convolution's weights."""

_MASKS = ("EllipsisMask", "NewAxisMask", "ShrinkAxisMask")
"""Fields of STRIDED_SLICE that change which axes of the input its numbers mean."""

_ENDS = ("BeginMask", "EndMask")
"""Fields of STRIDED_SLICE with a bit for each axis whose begin or end is ignored."""

_SINGLE = (("Padding", tflite.Padding.VALID), ("FilterHeight", 1), ("FilterWidth", 1), ("FusedActivationFunction", 0))
"""Fields of a pool over single elements."""


def integers(tensor: TensorRecord | TfliteTensor) -> tuple[int, ...]:
    """The values of a constant of 32-bit integers."""
    return struct.unpack(f"<{len(tensor.data) // 4}i", tensor.data[: len(tensor.data) // 4 * 4])


def without_constant_outputs(model: bytes) -> tuple[bytes, tuple[ConstantOutput, ...]]:
    """The .tflite ``model`` without its constant outputs, and these outputs. The model is unchanged if it has none, or no others.

    Operators may still read the constants. A TOSA network is not read, so it counts as one without constant outputs. InputError if a
    .tflite cannot be read.
    """
    parsed = model_of(model)
    found = constant_outputs(parsed)
    if not found or len(found) == len(parsed.outputs):
        return model, ()
    try:
        records = read_records(model)
    except InputError:  # it holds what no records can
        return model, ()
    places = {one.place for one in found}
    kept = tuple(index for place, index in enumerate(records.outputs) if place not in places)

    def named(signature: SignatureRecord) -> SignatureRecord:
        own = signature.subgraph == 0
        return replace(signature, outputs=tuple(entry for entry in signature.outputs if not own or entry[1] in kept))

    return write_tflite(replace(records, outputs=kept, signatures=tuple(map(named, records.signatures)))), found


def without_own_offsets(model: bytes) -> bytes:
    """The .tflite ``model`` without arena offsets of its own.

    Some converters write such offsets (all -1); Vela 5.2 keeps them and adds none.

    The model is unchanged if it has none, is compiled already, or no records can hold it.
    """
    with suppress(InputError):
        records = read_records(model)
        kept = tuple(entry for entry in records.metadata if entry[0] != OFFLINE_ALLOCATION)
        if kept != records.metadata and all(one.custom_code != CUSTOM_CODE for one in records.operators):
            return write_tflite(replace(records, metadata=kept))
    return model


def is_of_single_elements(model: TfliteModel, operator: TfliteOperator) -> bool:
    """Whether an operator is a MEAN along axes of extent 1. Such a MEAN at most changes the scale or the zero point."""
    if operator.code != "MEAN":
        return False
    return prod(model.tensors[operator.inputs[0]].shape) == prod(model.tensors[operator.outputs[0]].shape)


def keeps_values(model: TfliteModel | ModelRecord, operator: TfliteOperator | OperatorRecord) -> bool:
    """Whether the operator's output has the type, the scale and the zero point of its first input."""
    given, made = model.tensors[operator.inputs[0]], model.tensors[operator.outputs[0]]
    return (given.dtype, given.scales, given.zero_points) == (made.dtype, made.scales, made.zero_points)


def pads_nothing(model: TfliteModel, operator: TfliteOperator) -> bool:
    """Whether an operator is a PAD of nothing, as tools write it where they cut a network.

    Vela's Python core has none before a CONCATENATION.
    """
    if operator.code not in ("PAD", "PADV2", "MIRROR_PAD"):
        return False
    amounts = model.tensors[operator.inputs[1]].data
    return bool(amounts) and not any(amounts)


def without_identities(model: bytes) -> bytes:
    """The .tflite ``model`` with a RESHAPE for each operator that keeps the values: a MEAN of single elements or a PAD of nothing.

    It is unchanged if it has none. A TOSA network is not read, so it is never changed. InputError if a .tflite cannot be read.
    """
    known = model_of(model)
    kinds = (is_of_single_elements, pads_nothing)
    found = {one.outputs[0] for one in known.operators if any(kind(known, one) for kind in kinds) and keeps_values(known, one)}

    def reshaped(made: Rewriter, operator: OperatorRecord) -> bool:
        if found.isdisjoint(operator.outputs):
            return False
        made.reshape(operator.inputs[0], operator.outputs[0])
        return True

    if found:
        with suppress(InputError):  # it holds what no records can
            return rewritten(model, (reshaped,)) or model
    return model


def with_simpler_operators(model: bytes) -> bytes | None:
    """The .tflite ``model`` with operators of several images split by image, and with pools for steps; None if it has none.

    InputError if no records can hold part of it.
    """
    return rewritten(model, (_cut, _one_by_one, _numbered, _strided))


class Rewriter(Struct):
    """A model under change: its tensors, to which new ones are added, and its operators in their new order."""

    tensors: list[TensorRecord]
    operators: list[OperatorRecord] = []

    def constant(self, name: str, values: tuple[int, ...], *, is_scalar: bool = False) -> int:
        """Add a constant of 32-bit integers, along one axis or without axes, and return its number."""
        data = struct.pack(f"<{len(values)}i", *values)
        return self._added(TensorRecord(name, () if is_scalar else (len(values),), tflite.TensorType.INT32, data=data))

    def like(self, tensor: int, name: str, shape: tuple[int, ...]) -> int:
        """Add a tensor with another name and shape, quantised as ``tensor``, and return its number."""
        return self._added(replace(self.tensors[tensor], name=name, shape=shape, shape_signature=()))

    def images(self, tensor: int, what: str) -> list[int]:
        """Add a tensor for each image of ``tensor``, and return their numbers."""
        found = self.tensors[tensor]
        return [self.like(tensor, f"{found.name}/{what}_{number}", (1, *found.shape[1:])) for number in range(found.shape[0])]

    def add(self, kind: str, inputs: Sequence[int], outputs: Sequence[int], options: str, *fields: tuple[str, FieldValue]) -> None:
        """Add an operator."""
        self.operators.append(OperatorRecord(getattr(_CODES, kind), 1, tuple(inputs), tuple(outputs), options, fields))

    def join(self, images: list[int], output: int) -> None:
        """Add the CONCATENATION of ``images`` that writes ``output``."""
        self.add("CONCATENATION", images, [output], "ConcatenationOptions", ("Axis", 0), ("FusedActivationFunction", 0))

    def slice(self, source: int, begin: tuple[int, ...], size: int, output: int) -> None:
        """Add the SLICE of ``source`` that writes ``output``. It begins at ``begin``, and the constant ``size`` gives its extents."""
        at = self.constant(f"{self.tensors[output].name}/begin", begin)
        self.add("SLICE", [source, at, size], [output], "SliceOptions")

    def reshape(self, tensor: int, output: int) -> None:
        """Add the RESHAPE of a tensor that writes ``output``."""
        shape = self.constant(f"{self.tensors[output].name}/shape", self.tensors[output].shape)
        self.add("RESHAPE", [tensor, shape], [output], "ReshapeOptions")

    def is_of_images(self, operator: OperatorRecord) -> bool:
        """Whether some operand that is not a constant is several images, all with elements."""
        shapes = [self.tensors[number].shape for number in operator.inputs if number >= 0 and not self.tensors[number].data]
        return any(len(shape) == _IMAGE_RANK and shape[0] > 1 and prod(shape) > 0 for shape in shapes)

    def _added(self, tensor: TensorRecord) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1


_Rule = Callable[[Rewriter, OperatorRecord], bool]
"""A rule that replaces an operator; it returns False if it does not apply."""


def rewritten(model: bytes, rules: Sequence[_Rule]) -> bytes | None:
    """The .tflite ``model`` after the first rule that changes it, operator by operator; None if no rule does.

    InputError if no records can hold part of it.
    """
    records = read_records(model)
    made = Rewriter(list(records.tensors))
    changed = False
    for operator in records.operators:
        if any(_applied(rule, made, operator) for rule in rules):
            changed = True
        else:
            made.operators.append(operator)
    return write_tflite(replace(records, tensors=tuple(made.tensors), operators=tuple(made.operators))) if changed else None


def _applied(rule: _Rule, made: Rewriter, operator: OperatorRecord) -> bool:
    """Whether a rule changed an operator. In a damaged file an operator may have the wrong tensors; it is left for Vela to refuse."""
    tensors, operators = len(made.tensors), len(made.operators)
    try:
        return rule(made, operator)
    except (LookupError, TypeError, ValueError, ZeroDivisionError):
        del made.tensors[tensors:], made.operators[operators:]
        return False


def _begins(made: Rewriter, operator: OperatorRecord) -> tuple[int, list[tuple[int, ...]]] | None:
    """The tensor that an operator cuts, and where each output begins; None unless it is a SLICE or a SPLIT."""
    if operator.code == _CODES.SLICE:
        return operator.inputs[0], [integers(made.tensors[operator.inputs[1]])]
    if operator.code in (_CODES.SPLIT, _CODES.SPLIT_V):
        source, axis = (operator.inputs[1], 0) if operator.code == _CODES.SPLIT else (operator.inputs[0], 2)
        rank = len(made.tensors[source].shape)
        along = integers(made.tensors[operator.inputs[axis]])[0] % rank
        starts = accumulate((made.tensors[output].shape[along] for output in operator.outputs[:-1]), initial=0)
        return source, [tuple(start if number == along else 0 for number in range(rank)) for start in starts]
    return None


def _cut(made: Rewriter, operator: OperatorRecord) -> bool:
    """A part of several images: it is cut out of each image."""
    found = _begins(made, operator) if made.is_of_images(operator) else None
    if found is None:
        return False
    source, begins = found
    count = made.tensors[source].shape[0]
    if any(len(begin) != len(made.tensors[source].shape) for begin in begins):
        return False
    if any(made.tensors[output].shape[0] != count for output in operator.outputs):
        return False
    for output, begin in zip(operator.outputs, begins, strict=True):
        images = made.images(output, "image")
        size = made.constant(f"{made.tensors[output].name}/size", (1, *made.tensors[output].shape[1:]))
        for number, image in enumerate(images):
            made.slice(source, (number, *begin[1:]), size, image)
        made.join(images, output)
    return True


def _one_by_one(made: Rewriter, operator: OperatorRecord) -> bool:
    """A resize or a grouped convolution of several images: it runs image by image, because the images are independent."""
    if not made.is_of_images(operator):
        return False
    if operator.code == _CODES.CONV_2D:
        shape, weights = (made.tensors[operator.inputs[operand]].shape for operand in (0, _WEIGHTS))
        parts = len(weights) == _IMAGE_RANK and weights[3] < shape[3]
    else:
        parts = operator.code in (_CODES.RESIZE_NEAREST_NEIGHBOR, _CODES.RESIZE_BILINEAR)
    if not parts:
        return False
    source, output = operator.inputs[0], operator.outputs[0]
    name = made.tensors[output].name
    if made.tensors[output].shape[:1] != made.tensors[source].shape[:1]:
        return False
    given = made.images(source, f"{name}/image")
    axis = made.constant(f"{name}/axis", (0,), is_scalar=True)
    made.add("SPLIT", [axis, source], given, "SplitOptions", ("NumSplits", len(given)))
    results = made.images(output, "image")
    for image, result in zip(given, results, strict=True):
        made.operators.append(replace(operator, inputs=(image, *operator.inputs[1:]), outputs=(result,)))
    made.join(results, output)
    return True


def _numbered(made: Rewriter, operator: OperatorRecord) -> bool:
    """ARG_MAX over channels for several images: it runs on one image that has the rows of all of them."""
    if operator.code != _CODES.ARG_MAX or not made.is_of_images(operator):
        return False
    if integers(made.tensors[operator.inputs[_AXIS]])[:1] not in ((_CHANNELS,), (-1,)):
        return False
    source, output = operator.inputs[0], operator.outputs[0]
    name, (count, rows, *rest) = made.tensors[output].name, made.tensors[source].shape
    stacked = made.like(source, f"{name}/rows", (1, count * rows, *rest))
    numbers = made.like(output, f"{name}/numbers", (1, count * rows, *made.tensors[output].shape[2:]))
    made.reshape(source, stacked)
    made.operators.append(replace(operator, inputs=(stacked, *operator.inputs[1:]), outputs=(numbers,)))
    made.reshape(numbers, output)
    return True


def _strided(made: Rewriter, operator: OperatorRecord) -> bool:
    """A STRIDED_SLICE of every n-th row and column of whole images: a part of each image, then a pool over single elements."""
    if operator.code != _CODES.STRIDED_SLICE or any(dict(operator.fields).get(mask) for mask in _MASKS):
        return False
    source, output = operator.inputs[0], operator.outputs[0]
    shape, count = made.tensors[source].shape, made.tensors[source].shape[0]
    begin, end, steps = (integers(made.tensors[constant]) for constant in operator.inputs[1:4])
    if len(shape) != _IMAGE_RANK or made.tensors[output].shape[0] != count:
        return False
    if not 1 <= min(steps) <= max(steps) <= LONGEST_STRIDE or (steps[0], steps[3]) != (1, 1) or max(count, *steps) == 1:
        return False
    masks = [int(mask) if isinstance(mask := dict(operator.fields).get(name, 0), int) else 0 for name in _ENDS]
    kept = []
    for axis, extent in enumerate(shape):
        first, last = (None if mask >> axis & 1 else ends[axis] for mask, ends in zip(masks, (begin, end), strict=True))
        kept.append(range(*slice(first, last, steps[axis]).indices(extent)))
    part = (1, *(places[-1] + 1 - places[0] for places in kept[1:]))
    size = made.constant(f"{made.tensors[output].name}/size", part)
    images = [output] if count == 1 else made.images(output, "image")
    for number, image in enumerate(images):
        source_part = made.like(source, f"{made.tensors[image].name}/part", part)
        made.slice(source, (number, *(places[0] for places in kept[1:])), size, source_part)
        made.add("MAX_POOL_2D", [source_part], [image], "Pool2DOptions", *_SINGLE, ("StrideH", steps[1]), ("StrideW", steps[2]))
    if count > 1:
        made.join(images, output)
    return True
