"""Operators that change nothing, as reshapes: Vela's C++ core runs kernels for them, its Python core none."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from cascader.frontends.vela.model_rewriter import ModelRewriter
from npu_model.errors import InputError
from npu_model.tflite.model import TfliteModel, TfliteOperator
from npu_model.tflite.record_reader import read_records
from npu_model.tflite.tosa import model_of
from npu_model.tflite.writer import write_tflite


def is_of_single_elements(model: TfliteModel, operator: TfliteOperator) -> bool:
    """Whether it is a MEAN along axes of one element, which at most gives the elements another scale or zero point."""
    if operator.code != "MEAN":
        return False
    return prod(model.tensors[operator.inputs[0]].shape) == prod(model.tensors[operator.outputs[0]].shape)


def keeps_values(model: TfliteModel, operator: TfliteOperator) -> bool:
    """Whether the operator's output has the type, the scale and the zero point of its first input."""
    given, made = model.tensors[operator.inputs[0]], model.tensors[operator.outputs[0]]
    return (given.dtype, given.scales, given.zero_points) == (made.dtype, made.scales, made.zero_points)


def without_identities(model: bytes) -> bytes:
    """The .tflite ``model`` with a RESHAPE for each MEAN of single elements that keeps their values; itself if it has none.

    A TOSA network has none, as it is not read. InputError if a .tflite cannot be read.
    """
    known = model_of(model)
    found = {number for number, one in enumerate(known.operators) if is_of_single_elements(known, one) and keeps_values(known, one)}
    try:
        records = read_records(model) if found else None
    except InputError:  # it holds what no records can
        records = None
    if records is None:
        return model
    made = ModelRewriter(list(records.tensors))
    for number, operator in enumerate(records.operators):
        if number in found:
            made.reshaped(operator.inputs[0], operator.outputs[0])
        else:
            made.operators.append(operator)
    return write_tflite(replace(records, tensors=tuple(made.tensors), operators=tuple(made.operators)))
