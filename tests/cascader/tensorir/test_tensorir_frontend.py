"""Tensor Expression graphs as CascaderGraphs: which stages are one Part, what matchers of one's own do, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorir_only  # noqa: F401  # skips where TVM is missing
from te_graphs import Quantised

from cascader.graph.cascader_graph import Operand, TensorKind
from cascader.graph.propagator import Propagator
from cascader.tensorir.compat import load
from cascader.tensorir.te_frontend import Match, StageSequence, TeGraph, WantedTensor, accumulation, read_graph
from npu_model.errors import InputError


def quantised() -> Quantised:
    return Quantised(np.random.default_rng(0))


def graph_of(graph: Quantised, output: Any) -> TeGraph:
    return read_graph(list(graph.inputs), [output], graph.constants)


def stages_of(graph: TeGraph) -> dict[str, tuple[str, ...]]:
    return {part.name: tuple(stage.name for stage in graph.match(part).stages) for part in graph.affine.parts}


def test_read_pad_accumulate_requantise_and_clamp_are_one_part() -> None:
    graph = quantised()
    x = graph.input(8, 8, 4)
    found = graph_of(graph, graph.conv(graph.upsample(x, "up"), "c", 6))
    assert stages_of(found) == {"c": ("up", "c_pad", "c_acc", "c_scaled", "c")}
    (part,) = found.affine.parts
    assert part.work == 3 * 3 * 4
    assert [operand.tensor for operand in part.operands] == ["input0", "c_w", "c_b"]
    assert {tensor.name: tensor.kind for tensor in found.affine.tensors} == {
        "input0": TensorKind.INPUT,
        "c_w": TensorKind.CONSTANT,
        "c_b": TensorKind.CONSTANT,
        "c": TensorKind.OUTPUT,
    }


def test_a_tensor_that_two_parts_read_ends_a_part() -> None:
    graph = quantised()
    a = graph.conv(graph.input(8, 8, 4), "a", 4)
    found = graph_of(graph, graph.add(graph.conv(a, "b", 4), a, "sum"))
    assert list(stages_of(found)) == ["a", "b", "sum"]
    assert [part.work for part in found.affine.parts] == [36, 36, 1]


def test_data_movement_is_a_part_of_no_work() -> None:
    graph = quantised()
    x = graph.input(8, 8, 4)
    joined = graph.concat(graph.conv(x, "a", 3), graph.pool(x, "b", 3, 1, pad=(1, 1, 1, 1)), "joined")
    te = load().te
    flat = te.compute((64, 7), lambda i, c: joined[i // 8, i % 8, c], name="flat")
    cut = te.compute((32, 2), lambda i, c: flat[2 * i, c + 3], name="cut")
    found = graph_of(graph, cut)
    assert stages_of(found) == {
        "a": ("a_pad", "a_acc", "a_scaled", "a"),
        "b": ("b_pad", "b"),
        "joined": ("joined",),
        "cut": ("flat", "cut"),
    }
    assert [part.work for part in found.affine.parts] == [36, 9, 0, 0]
    # The reshape folds into the slice behind it: row 2 * i of the flat tensor is row i // 4 of the joined one, at even columns.
    assert found.affine.parts[3].operands[0].propagator.demand(((4, 9), (0, 2)), (8, 8, 7)) == ((1, 3), (0, 7), (3, 5))


def test_names_that_are_used_twice_are_told_apart() -> None:
    te = load().te
    x = te.placeholder((4,), "int8", name="x")
    first = te.compute((4,), lambda i: x[i] + load().tirx.const(1, "int8"), name="t")
    second = te.compute((4,), lambda i: first[3 - i], name="t")
    assert [stage.name for stage in read_graph([x], [second]).stages.stages] == ["t", "t_1"]


def test_a_sequence_matches_stages_by_their_op_attribute_and_may_miss_some() -> None:
    te, tirx = load().te, load().tirx
    x = te.placeholder((8,), "int32", name="x")

    def stage(value: Any, op: str) -> Any:
        return te.compute((8,), lambda i: value[i] + tirx.const(1, "int32"), name=op, attrs={"op": op})

    matcher = StageSequence("three", ("read", "scale?", "write"), work=5, payload="device")
    matchers = [matcher]
    for ops in (("read", "scale", "write"), ("read", "write")):
        value = x
        for op in ops:
            value = stage(value, op)
        (part,) = read_graph([x], [value], matchers=matchers).affine.parts
        match = part.payload
        assert isinstance(match, Match)
        assert (match.kind, match.payload, part.work, len(match.stages)) == ("three", "device", 5, len(ops))
    (part,) = read_graph([x], [stage(stage(x, "scale"), "write")], matchers=matchers).affine.parts
    assert isinstance(part.payload, Match)
    assert part.payload.kind == "element-wise"


def test_a_propagator_that_a_matcher_gives_takes_the_place_of_the_derived_one() -> None:
    def careful(wanted: WantedTensor) -> Match | None:
        match = accumulation(wanted)
        return match and Match(match.kind, match.stages, match.work, {"input0": Propagator.opaque((8, 8, 4), 3)})

    graph = quantised()
    output = graph.conv(graph.input(8, 8, 4), "c", 6)
    found = read_graph(list(graph.inputs), [output], graph.constants, [careful])
    assert found.affine.parts[0].operands[0] == Operand("input0", Propagator.opaque((8, 8, 4), 3))


def leaving_out_the_end(wanted: WantedTensor) -> Match | None:
    match = accumulation(wanted)
    return match and Match(match.kind, match.stages[:-1], match.work)


def taking_what_others_read(wanted: WantedTensor) -> Match | None:
    producers = wanted.graph.producers()
    return Match("greedy", (producers["a"], wanted.stage), 1) if wanted.stage.name == "sum" else None


def taking_what_it_does_not_read(wanted: WantedTensor) -> Match | None:
    return Match("vain", (wanted.graph.producers()["a_acc"], wanted.stage), 1) if wanted.stage.name == "sum" else None


@pytest.mark.parametrize(
    ("matcher", "message"),
    [
        (leaving_out_the_end, "ends with stage 'b_scaled' where 'b' is wanted|ends with stage 'a_scaled' where 'a' is wanted"),
        (taking_what_others_read, "'a' is inside Part 'greedy' and needed outside"),
        (taking_what_it_does_not_read, "'a_acc' is inside Part 'vain' and needed outside"),
    ],
)
def test_a_matcher_that_does_not_fit_the_graph_is_refused(matcher: Any, message: str) -> None:
    graph = quantised()
    a = graph.conv(graph.input(8, 8, 4), "a", 4)
    output = graph.add(graph.conv(a, "b", 4), a, "sum")
    with pytest.raises(InputError, match=message):
        read_graph(list(graph.inputs), [output], graph.constants, [matcher])


def test_graphs_that_cannot_be_read_are_refused_in_one_sentence() -> None:
    te = load().te
    x, y = te.placeholder((4,), "int8", name="x"), te.placeholder((4,), "int8", name="y")
    out = te.compute((4,), lambda i: x[i] + y[i], name="out")
    pair = te.compute((4,), lambda i: (x[i], y[i]), name="pair")
    with pytest.raises(InputError, match="placeholder 'y' is read but not given"):
        read_graph([x], [out])
    with pytest.raises(InputError, match="output 'x' is a placeholder"):
        read_graph([x], [x])
    with pytest.raises(InputError, match=r"'pair' is not a te\.compute with 1 output"):
        read_graph([x, y], [pair[0]])
    with pytest.raises(InputError, match=r"Tensor 'y' is int8 of \(3,\) where the graph has int8 of \(4,\)"):
        read_graph([x], [out], {y: np.zeros(3, np.int8)})
    with pytest.raises(InputError, match="Tensor 'y' is int32"):
        read_graph([x], [out], {y: np.zeros(4, np.int32)})
