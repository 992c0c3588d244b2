"""CPU operators of a compiled network, found in the model that it was compiled from."""

from __future__ import annotations

import pytest
from hand_built import Graph

from npu_model.compiled.cpu_operators import OperatorFinder
from npu_model.compiled.network import CpuOperator
from npu_model.errors import InputError
from npu_model.program import Binding, DataType
from npu_model.tflite.model import TfliteModel, read_tflite

INT8 = DataType(8, signed=True)


def averaged() -> TfliteModel:
    """Two means of the same image, the second one reshaped twice."""
    graph = Graph()
    x = graph.tensor("x", (1, 4, 4, 8))
    first, mean = graph.tensor("first", (1, 1, 1, 8)), graph.tensor("mean", (1, 1, 1, 8))
    row, flat = graph.tensor("row", (1, 8)), graph.tensor("flat", (8,))
    axes = graph.constant("axes", (1, 2))
    for result in (first, mean):
        graph.operator("MEAN", (x, axes), (result,), "ReducerOptions", KeepDims=True)
    graph.operator("RESHAPE", (mean,), (row,))
    graph.operator("SQUEEZE", (row,), (flat,), "SqueezeOptions")
    return read_tflite(graph.finish([x], [first, flat]))


def mean_to(name: str) -> CpuOperator:
    return CpuOperator("MEAN", (Binding("x", 1, 0, (1, 4, 4, 8), INT8),), (Binding(name, 1, 128, (8,), INT8),))


def test_an_operator_is_found_by_its_output_and_only_once() -> None:
    finder = OperatorFinder(averaged())
    assert [finder.find(mean_to(name)) for name in ("mean", "first")] == [1, 0]
    with pytest.raises(InputError, match="has no MEAN with output 'mean'"):
        finder.find(mean_to("mean"))


def test_an_operator_may_write_what_reshapes_behind_it_would_copy() -> None:
    """Vela 2.1.1 leaves out the RESHAPE behind squeezenet's MEAN and gives the MEAN its output."""
    assert OperatorFinder(averaged()).find(mean_to("flat")) == 1
    with pytest.raises(InputError, match="has no MEAN with output 'x'"):
        OperatorFinder(averaged()).find(mean_to("x"))
