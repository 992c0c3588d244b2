"""A STRIDED_SLICE with steps, of which Vela 5.2's C++ core takes other elements, as a part and a pool of single elements."""

from __future__ import annotations

import tflite

from cascader.frontends.vela.model_rewriter import ModelRewriter, integers
from npu_model.program import LONGEST_STRIDE
from npu_model.tflite.records import OperatorRecord

_IMAGE_RANK = 4
_CODES = tflite.BuiltinOperator
_MASKS = ("EllipsisMask", "NewAxisMask", "ShrinkAxisMask")
"""Fields of STRIDED_SLICE by which its numbers are no longer those of the input's axes."""

_SINGLE = (("Padding", tflite.Padding.VALID), ("FilterHeight", 1), ("FilterWidth", 1), ("FusedActivationFunction", 0))
"""Fields of a pool of single elements."""

_ENDS = ("BeginMask", "EndMask")
"""Fields of STRIDED_SLICE with a bit for each axis whose begin or end does not count."""


def _kept(extent: int, begin: int, end: int, step: int, *, from_start: bool, to_end: bool) -> range:
    """The places along an axis that a slice takes; a begin or an end does not count ``from_start`` or ``to_end``."""
    return range(*slice(None if from_start else begin, None if to_end else end, step).indices(extent))


def by_strided_pool(made: ModelRewriter, operator: OperatorRecord) -> bool:
    """Every so many rows and columns of whole images: the part of each image that has them, and a pool of single elements."""
    if operator.code != _CODES.STRIDED_SLICE or any(dict(operator.fields).get(mask) for mask in _MASKS):
        return False
    source, output = operator.inputs[0], operator.outputs[0]
    count, name = made.tensors[source].shape[0], made.tensors[output].name
    begin, end, steps = (integers(made.tensors[constant]) for constant in operator.inputs[1:4])
    if len(made.tensors[source].shape) != _IMAGE_RANK or made.tensors[output].shape[0] != count:
        return False
    if not 1 <= min(steps) <= max(steps) <= LONGEST_STRIDE or (steps[0], steps[3]) != (1, 1) or max(count, *steps) == 1:
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
