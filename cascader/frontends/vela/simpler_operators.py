"""A network in simpler operators: what neither of Vela 5.2's cores compiles rightly, in operators that one of them does."""

from __future__ import annotations

from dataclasses import replace

from cascader.frontends.vela.model_rewriter import ModelRewriter
from cascader.frontends.vela.single_images import by_images
from cascader.frontends.vela.strided_pool import by_strided_pool
from npu_model.tflite.record_reader import read_records
from npu_model.tflite.writer import write_tflite


def with_simpler_operators(model: bytes) -> bytes | None:
    """The .tflite ``model`` with operators of several images run for one image each, and with pools for steps; None if it has none.

    InputError if it holds what no records can.
    """
    records = read_records(model)
    made = ModelRewriter(list(records.tensors))
    changed = False
    for operator in records.operators:
        if by_images(made, operator) or by_strided_pool(made, operator):
            changed = True
        else:
            made.operators.append(operator)
    if not changed:
        return None
    return write_tflite(replace(records, tensors=tuple(made.tensors), operators=tuple(made.operators)))
