"""Operators of several images as operators of one image each: for those of which neither of Vela 5.2's cores makes a right stream.

Its C++ core cannot compile a resize or an ARG_MAX of several images. It mixes images in grouped convolutions and in convolutions of a
part of a tensor. Its Python core leaves convolutions of several images to the CPU, and copies the part of one image alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import tflite

from cascader.frontends.vela.model_rewriter import ModelRewriter, integers
from npu_model.tflite.records import OperatorRecord

_IMAGE_RANK = 4
_CHANNELS = 3
_AXIS, _WEIGHTS = 1, 1
"""The operands of ARG_MAX and of a convolution that hold the axis and the weights."""

_CODES = tflite.BuiltinOperator
_RESIZES = (_CODES.RESIZE_NEAREST_NEIGHBOR, _CODES.RESIZE_BILINEAR)


def _parts(images: tuple[int, ...], parts: list[tuple[int, ...]], axis: int) -> Iterator[tuple[int, ...]]:
    """The places at which ``parts`` that lie one behind the other along an axis begin."""
    at = 0
    for shape in parts:
        yield tuple(at if number == axis else 0 for number in range(len(images)))
        at += shape[axis]


def _begins(made: ModelRewriter, operator: OperatorRecord) -> tuple[int, list[tuple[int, ...]]] | None:
    """The tensor that an operator cuts, and where each of its outputs begins; None if it is no SLICE and no SPLIT."""
    shapes = [made.tensors[output].shape for output in operator.outputs]
    if operator.code == _CODES.SLICE:
        return operator.inputs[0], [integers(made.tensors[operator.inputs[1]])]
    if operator.code in (_CODES.SPLIT, _CODES.SPLIT_V):
        source, axis = (operator.inputs[1], 0) if operator.code == _CODES.SPLIT else (operator.inputs[0], 2)
        shape = made.tensors[source].shape
        along = integers(made.tensors[operator.inputs[axis]])[0] % len(shape)
        return source, list(_parts(shape, shapes, along))
    return None


def _cut(made: ModelRewriter, operator: OperatorRecord) -> bool:
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
            made.sliced(source, (number, *begin[1:]), size, image)
        made.joined(images, output)
    return True


def _one_by_one(made: ModelRewriter, operator: OperatorRecord) -> bool:
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


def _resized(made: ModelRewriter, operator: OperatorRecord) -> bool:
    return operator.code in _RESIZES and _one_by_one(made, operator)


def _grouped(made: ModelRewriter, operator: OperatorRecord) -> bool:
    if operator.code != _CODES.CONV_2D:
        return False
    images, weights = (made.tensors[operator.inputs[operand]].shape for operand in (0, _WEIGHTS))
    return len(weights) == _IMAGE_RANK and weights[3] < images[3] and _one_by_one(made, operator)


def _numbered(made: ModelRewriter, operator: OperatorRecord) -> bool:
    """The largest channel of each position of several images: of one image with the rows of all."""
    if operator.code != _CODES.ARG_MAX or integers(made.tensors[operator.inputs[_AXIS]])[:1] not in ((_CHANNELS,), (-1,)):
        return False
    source, output = operator.inputs[0], operator.outputs[0]
    name, (count, rows, *rest) = made.tensors[output].name, made.tensors[source].shape
    stacked = made.like(source, f"{name}/rows", (1, count * rows, *rest))
    numbers = made.like(output, f"{name}/numbers", (1, count * rows, *made.tensors[output].shape[2:]))
    made.reshaped(source, stacked)
    made.operators.append(replace(operator, inputs=(stacked, *operator.inputs[1:]), outputs=(numbers,)))
    made.reshaped(numbers, output)
    return True


def _has_images(made: ModelRewriter, operator: OperatorRecord) -> bool:
    """Whether some operand that is no constant is several images, which all have elements."""
    shapes = [made.tensors[number].shape for number in operator.inputs if number >= 0 and not made.tensors[number].data]
    return any(len(shape) == _IMAGE_RANK and shape[0] > 1 and prod(shape) > 0 for shape in shapes)


def by_images(made: ModelRewriter, operator: OperatorRecord) -> bool:
    """Put operators of one image each in the place of one of several images; False if it stays as it is."""
    return _has_images(made, operator) and any(rule(made, operator) for rule in (_cut, _resized, _grouped, _numbered))
