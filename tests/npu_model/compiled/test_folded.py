"""Constants that a compiler works out beforehand: a QUANTIZE of integers, as LiteRT's reference kernel computes it."""

from __future__ import annotations

import numpy as np
import pytest
from hand_built import Graph

from npu_model.compiled.folded import constants
from npu_model.tflite.record_reader import RecordReader
from validation.litert.judge import litert_installed, reference_outputs

EVERY = np.arange(-128, 128, dtype=np.int8)


def quantise(scale: float, result: str, *, known: bool) -> bytes:
    """A QUANTIZE of all int8 values, from an input or from a constant."""
    graph = Graph()
    x = graph.tensor("x", EVERY.shape, "int8", 0.05, -7, EVERY if known else None)
    y = graph.tensor("y", EVERY.shape, result, scale, 11 if result == "int8" else 0)
    graph.operator("QUANTIZE", (x,), (y,), "QuantizeOptions", version=1)
    return graph.finish([] if known else [x], [y])


@pytest.mark.skipif(not litert_installed(), reason="LiteRT's reference kernels are not installed")
@pytest.mark.parametrize(("scale", "result"), [(0.0437, "int8"), (0.1, "int8"), (0.013, "int8"), (0.000391, "int16")])
def test_a_quantize_of_a_constant_is_worked_out_as_litert_does(scale: float, result: str) -> None:
    (outputs,) = reference_outputs(quantise(scale, result, known=False), [{"x": EVERY}])
    (record,) = constants(RecordReader(quantise(scale, result, known=True)), (1,), ())
    assert record is not None
    assert record.data == outputs["y"].tobytes()


def test_what_a_quantize_of_a_constant_makes_is_no_constant_where_the_network_reads_it() -> None:
    reader = RecordReader(quantise(0.1, "int8", known=True))
    assert constants(reader, (1,), ("y",)) == (None,)
    assert constants(reader, (-1, 0), ()) == (None, reader.tensor(0))
