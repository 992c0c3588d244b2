"""Graphs with propagators: where parts write, what they make of a box, and graphs that are none."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascader.graph.cascader_graph import CascaderGraph, Operand, Part, Tensor, TensorKind
from cascader.graph.intervals import Box, clip, elements, hull, is_empty, whole
from cascader.graph.propagator import Propagator
from npu_model.errors import InputError

pytestmark = pytest.mark.law

SAME = Propagator.identity(2)
IN = Tensor.dense("in", TensorKind.INPUT, (8, 6))
OUT = Tensor.dense("out", TensorKind.OUTPUT, (8, 6))


def read(tensor: str = "in", propagator: Propagator = SAME, bounds: Box = ()) -> tuple[Operand, ...]:
    return (Operand(tensor, propagator, bounds),)


@st.composite
def boxes(draw: st.DrawFn, size: int = 7) -> Box:
    found = []
    for _ in range(2):
        low = draw(st.integers(0, size))
        found.append((low, draw(st.integers(low, size))))
    return tuple(found)


def elements_of(box: Box) -> set[tuple[int, ...]]:
    return set(product(*(range(low, high) for low, high in box)))


@settings(max_examples=200)
@given(boxes(), boxes())
def test_boxes_are_sets_of_elements(a: Box, b: Box) -> None:
    assert elements_of(clip(a, b)) == elements_of(a) & elements_of(b)
    assert elements_of(a) | elements_of(b) <= elements_of(hull(a, b))
    assert elements(a) == len(elements_of(a))
    assert is_empty(a) == (not elements_of(a))


@settings(max_examples=200)
@given(boxes(9), st.tuples(st.integers(0, 2), st.integers(0, 2)), st.tuples(st.integers(1, 3), st.integers(1, 3)))
def test_a_part_that_writes_in_turns_makes_what_of_a_box_is_its_own(box: Box, offset: tuple[int, int], step: tuple[int, int]) -> None:
    part = Part.striped("p", (), "t", (3, 2), offset=offset, step=step)
    places = {own: tuple(o + i * s for o, i, s in zip(offset, own, step, strict=True)) for own in elements_of(part.whole)}
    wanted = {own for own, place in places.items() if place in elements_of(box)}
    made = part.making(box)
    assert elements_of(made) == wanted
    if wanted:
        written = [places[own] for own in wanted]
        assert part.written(made) == tuple((min(axis), max(axis) + 1) for axis in zip(*written, strict=True))
    else:
        assert is_empty(part.written(made))


def test_a_part_makes_whole_steps_of_its_alignment_and_no_more_than_it_has() -> None:
    part = Part.striped("p", read(), "out", (7, 6), align=(2, 6))
    assert part.making(((3, 4), (2, 3))) == ((2, 4), (0, 6))
    assert part.making(((5, 7), (0, 1))) == ((4, 7), (0, 6))
    assert part.making(((3, 3), (2, 3))) == ((0, 0), (0, 0))


def test_what_a_part_sees_of_a_tensor_bounds_its_demand() -> None:
    graph = CascaderGraph((Part.striped("p", read(bounds=((0, 3), (0, 6))), "out", (8, 6)),), (IN, OUT))
    (operand,) = graph.parts[0].operands
    assert graph.demand(operand, ((2, 5), (0, 6))) == ((2, 3), (0, 6))
    assert is_empty(graph.demand(operand, ((2, 2), (0, 6))))
    assert graph.writers("out") == (0,)
    assert graph.readers("in") == (0,)
    assert whole(graph.tensor("out").shape) == graph.parts[0].whole


def graph_of(*parts: Part, tensors: tuple[Tensor, ...] = (IN, OUT)) -> Callable[[], CascaderGraph]:
    return lambda: CascaderGraph(parts, tensors)


GOOD = Part.striped("p", read(), "out", (8, 6))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (graph_of(GOOD, GOOD), "Part 'p' appears twice"),
        (graph_of(tensors=(IN, IN)), "Tensor 'in' appears twice"),
        (graph_of(Part.striped("p", read("lost"), "out", (8, 6))), "uses tensor 'lost', which is not in the graph: add it"),
        (graph_of(Part.striped("p", read("out"), "out", (8, 6))), "reads tensor 'out' before any part has written it: reorder"),
        (
            graph_of(Part.striped("p", read(), "out", (8, 6), offset=(1, 0))),
            r"makes \(8, 6\) at \(1, 0\) of a tensor of \(8, 6\): put it inside",
        ),
        (
            graph_of(Part.striped("p", read(propagator=Propagator.identity(3)), "out", (8, 6))),
            r"of \(3, 3\) input and output axes for \(2, 2\)",
        ),
        (
            graph_of(GOOD, tensors=(IN, Tensor.dense("out", TensorKind.CONSTANT, (8, 6)))),
            "writes tensor 'out', which is constant: give it another output",
        ),
    ],
)
def test_what_is_no_graph_is_named(make: Callable[[], CascaderGraph], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
