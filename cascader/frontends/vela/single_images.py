"""Operators of several images as operators of one image each: for those of which neither of Vela 5.2's cores makes a right stream.

Its C++ core cannot compile a resize or an ARG_MAX of several images. It mixes images in grouped convolutions and in convolutions of a
part of a tensor. Its Python core leaves convolutions of several images to the CPU, and copies the part of one image alone.

A STRIDED_SLICE with steps, of which the C++ core takes other elements, is a pool of single elements here, of one image, too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import prod

import tflite

from npu_model.tflite.record_reader import read_records
from npu_model.tflite.records import ModelRecord, OperatorRecord, TensorRecord
from npu_model.tflite.writer import write_tflite

_IMAGE_RANK = 4
_CHANNELS = 3
_AXIS, _WEIGHTS = 1, 1
"""The operands of ARG_MAX and of a convolution that hold the axis and the weights."""

_CODES = tflite.BuiltinOperator
_RESIZES = (_CODES.RESIZE_NEAREST_NEIGHBOR, _CODES.RESIZE_BILINEAR)
_MASKS = ("EllipsisMask", "NewAxisMask", "ShrinkAxisMask")
"""Fields of STRIDED_SLICE by which its numbers are no longer those of the input's axes."""

_LONGEST_STEP = 3
"""What the NPU's strides end with."""

_SINGLE = (("Padding", tflite.Padding.VALID), ("FilterHeight", 1), ("FilterWidth", 1), ("FusedActivationFunction", 0))
"""Fields of a pool of single elements."""

_ENDS = ("BeginMask", "EndMask")
"""Fields of STRIDED_SLICE with a bit for each axis whose begin or end does not count."""


def _integers(tensor: TensorRecord) -> tuple[int, ...]:
    return struct.unpack(f"<{len(tensor.data) // 4}i", tensor.data[: len(tensor.data) // 4 * 4])


@dataclass(slots=True)
class _Rewriter:
    """A model under change: its tensors, to which others are added, and its operators in their new order."""

    model: ModelRecord
    tensors: list[TensorRecord] = field(default_factory=list)
    operators: list[OperatorRecord] = field(default_factory=list)

    def constant(self, name: str, values: tuple[int, ...]) -> int:
        data = struct.pack(f"<{len(values)}i", *values)
        return self._added(TensorRecord(name, (len(values),), tflite.TensorType.INT32, data=data))

    def scalar(self, name: str, value: int) -> int:
        return self._added(TensorRecord(name, (), tflite.TensorType.INT32, data=struct.pack("<i", value)))

    def like(self, tensor: int, name: str, shape: tuple[int, ...]) -> int:
        """A tensor of another name and shape, quantised as ``tensor``."""
        return self._added(replace(self.tensors[tensor], name=name, shape=shape, shape_signature=()))

    def image(self, tensor: int, number: int, what: str) -> int:
        """A tensor as ``tensor``, of one of its images."""
        found = self.tensors[tensor]
        return self.like(tensor, f"{found.name}/{what}_{number}", (1, *found.shape[1:]))

    def joined(self, images: list[int], output: int) -> None:
        """The CONCATENATION of ``images`` that writes ``output``."""
        fields = (("Axis", 0), ("FusedActivationFunction", 0))
        self.operators.append(OperatorRecord(_CODES.CONCATENATION, 1, tuple(images), (output,), "ConcatenationOptions", fields))

    def reshaped(self, tensor: int, output: int) -> None:
        """The RESHAPE of a tensor that writes ``output``."""
        shape = self.constant(f"{self.tensors[output].name}/shape", self.tensors[output].shape)
        self.operators.append(OperatorRecord(_CODES.RESHAPE, 1, (tensor, shape), (output,), "ReshapeOptions"))

    def _added(self, tensor: TensorRecord) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1


def _parts(images: tuple[int, ...], parts: list[tuple[int, ...]], axis: int) -> Iterator[tuple[int, ...]]:
    """The places at which ``parts`` that lie one behind the other along an axis begin."""
    at = 0
    for shape in parts:
        yield tuple(at if number == axis else 0 for number in range(len(images)))
        at += shape[axis]


def _begins(made: _Rewriter, operator: OperatorRecord) -> tuple[int, list[tuple[int, ...]]] | None:
    """What an operator cuts, and where each of its outputs begins; None if it is no SLICE and no SPLIT."""
    shapes = [made.tensors[output].shape for output in operator.outputs]
    if operator.code == _CODES.SLICE:
        return operator.inputs[0], [_integers(made.tensors[operator.inputs[1]])]
    if operator.code in (_CODES.SPLIT, _CODES.SPLIT_V):
        source, axis = (operator.inputs[1], 0) if operator.code == _CODES.SPLIT else (operator.inputs[0], 2)
        shape = made.tensors[source].shape
        along = _integers(made.tensors[operator.inputs[axis]])[0] % len(shape)
        return source, list(_parts(shape, shapes, along))
    return None


def _cut(made: _Rewriter, operator: OperatorRecord) -> bool:
    """A part of several images, cut out of each of them."""
    found = _begins(made, operator)
    if found is None:
        return False
    source, begins = found
    count = made.tensors[source].shape[0]
    if any(len(begin) != len(made.tensors[source].shape) for begin in begins):
        return False
    if any(made.tensors[output].shape[0] != count for output in operator.outputs):
        return False
    for output, begin in zip(operator.outputs, begins, strict=True):
        images = [made.image(output, number, "image") for number in range(count)]
        size = made.constant(f"{made.tensors[output].name}/size", (1, *made.tensors[output].shape[1:]))
        for number, image in enumerate(images):
            at = made.constant(f"{made.tensors[image].name}/begin", (number, *begin[1:]))
            made.operators.append(OperatorRecord(_CODES.SLICE, 1, (source, at, size), (image,), "SliceOptions"))
        made.joined(images, output)
    return True


def _one_by_one(made: _Rewriter, operator: OperatorRecord) -> bool:
    """An operator of images that knows of no other image: run for one after the other."""
    source, output = operator.inputs[0], operator.outputs[0]
    count, name = made.tensors[source].shape[0], made.tensors[output].name
    given = [made.image(source, number, f"{name}/image") for number in range(count)]
    split = (made.scalar(f"{name}/axis", 0), source)
    made.operators.append(OperatorRecord(_CODES.SPLIT, 1, split, tuple(given), "SplitOptions", (("NumSplits", count),)))
    results = [made.image(output, number, "image") for number in range(count)]
    for image, result in zip(given, results, strict=True):
        made.operators.append(replace(operator, inputs=(image, *operator.inputs[1:]), outputs=(result,)))
    made.joined(results, output)
    return True


def _resized(made: _Rewriter, operator: OperatorRecord) -> bool:
    return operator.code in _RESIZES and _one_by_one(made, operator)


def _grouped(made: _Rewriter, operator: OperatorRecord) -> bool:
    if operator.code != _CODES.CONV_2D:
        return False
    images, weights = (made.tensors[operator.inputs[operand]].shape for operand in (0, _WEIGHTS))
    return len(weights) == _IMAGE_RANK and weights[3] < images[3] and _one_by_one(made, operator)


def _numbered(made: _Rewriter, operator: OperatorRecord) -> bool:
    """The largest channel of each position of several images: of one image with the rows of all."""
    if operator.code != _CODES.ARG_MAX or _integers(made.tensors[operator.inputs[_AXIS]])[:1] not in ((_CHANNELS,), (-1,)):
        return False
    source, output = operator.inputs[0], operator.outputs[0]
    name, (count, rows, *rest) = made.tensors[output].name, made.tensors[source].shape
    stacked = made.like(source, f"{name}/rows", (1, count * rows, *rest))
    numbers = made.like(output, f"{name}/numbers", (1, count * rows, *made.tensors[output].shape[2:]))
    made.reshaped(source, stacked)
    made.operators.append(replace(operator, inputs=(stacked, *operator.inputs[1:]), outputs=(numbers,)))
    made.reshaped(numbers, output)
    return True


def _kept(extent: int, begin: int, end: int, step: int, *, from_start: bool, to_end: bool) -> range:
    """The places along an axis that a slice takes; a begin or an end does not count ``from_start`` or ``to_end``."""
    return range(*slice(None if from_start else begin, None if to_end else end, step).indices(extent))


def _strided(made: _Rewriter, operator: OperatorRecord) -> bool:
    """Every so many rows and columns of whole images: the part of each image that has them, and a pool of single elements."""
    if operator.code != _CODES.STRIDED_SLICE or any(dict(operator.fields).get(mask) for mask in _MASKS):
        return False
    source, output = operator.inputs[0], operator.outputs[0]
    count, name = made.tensors[source].shape[0], made.tensors[output].name
    begin, end, steps = (_integers(made.tensors[constant]) for constant in operator.inputs[1:4])
    if len(made.tensors[source].shape) != _IMAGE_RANK or made.tensors[output].shape[0] != count:
        return False
    if not 1 <= min(steps) <= max(steps) <= _LONGEST_STEP or (steps[0], steps[3]) != (1, 1) or max(count, *steps) == 1:
        return False
    masks = [dict(operator.fields).get(mask, 0) for mask in _ENDS]
    bits = [[bool(int(mask) >> axis & 1) for mask in masks if isinstance(mask, int)] for axis in range(_IMAGE_RANK)]
    axes = zip(made.tensors[source].shape, begin, end, steps, bits, strict=True)
    kept = [_kept(*numbers, from_start=own[0], to_end=own[1]) for *numbers, own in axes]
    size = made.constant(f"{name}/size", (1, *(places[-1] + 1 - places[0] for places in kept[1:])))
    images = [output] if count == 1 else [made.image(output, number, "image") for number in range(count)]
    for number, image in enumerate(images):
        at = made.constant(f"{made.tensors[image].name}/begin", (number, *(places[0] for places in kept[1:])))
        part = made.like(source, f"{made.tensors[image].name}/part", (1, *(places[-1] + 1 - places[0] for places in kept[1:])))
        made.operators.append(OperatorRecord(_CODES.SLICE, 1, (source, at, size), (part,), "SliceOptions"))
        fields = (*_SINGLE, ("StrideH", steps[1]), ("StrideW", steps[2]))
        made.operators.append(OperatorRecord(_CODES.MAX_POOL_2D, 1, (part,), (image,), "Pool2DOptions", fields))
    if count > 1:
        made.joined(images, output)
    return True


_RULES: tuple[Callable[[_Rewriter, OperatorRecord], bool], ...] = (_cut, _strided, _resized, _grouped, _numbered)


def _has_images(made: _Rewriter, operator: OperatorRecord) -> bool:
    """Whether some operand that is no constant is several images, which all have elements."""
    shapes = [made.tensors[number].shape for number in operator.inputs if number >= 0 and not made.tensors[number].data]
    return any(len(shape) == _IMAGE_RANK and shape[0] > 1 and prod(shape) > 0 for shape in shapes)


def with_single_images(model: bytes) -> bytes | None:
    """The .tflite ``model`` with such operators of several images run for one image each, and with pools for steps; None if it has none.

    InputError if it holds what no records can.
    """
    records = read_records(model)
    made = _Rewriter(records, list(records.tensors))
    changed = False
    for operator in records.operators:
        rules = _RULES if _has_images(made, operator) else (_strided,)
        if any(rule(made, operator) for rule in rules):
            changed = True
        else:
            made.operators.append(operator)
    if not changed:
        return None
    return write_tflite(replace(records, tensors=tuple(made.tensors), operators=tuple(made.operators)))
