"""Views: their rows are those in which the bytes of their elements lie, byte for byte."""

from __future__ import annotations

from itertools import pairwise, product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascader.graph.cascader_graph import CascaderGraph, Part, Tensor, TensorKind
from cascader.graph.propagator import InputAxis, Propagator
from cascader.graph.row_maps import RowMap, RowPropagator
from cascader.graph.row_projection import RowProjection
from cascader.graph.stored_axes import StoredAxes, StoredTensors, stored_axes
from cascader.graph.views import Cut, OperandView, PartViews, View


def bytes_of(view: View, element: tuple[int, ...]) -> range:
    """The bytes of one element."""
    *outer, last = element
    blocks, inside = divmod(last, view.block) if view.block else (0, last)
    start = view.base + sum(at * step for at, step in zip(outer, view.steps, strict=False)) + blocks * view.block_step
    return range(start + inside * view.steps[-1], start + (inside + 1) * view.steps[-1])


def bytes_along(view: View, axis: int, at: int) -> set[int]:
    """The bytes of all elements at one place along an axis; of several blocks the last one is whole."""
    *outer, depth = view.shape
    depth += -depth % view.block if view.block and depth > view.block else 0
    ranges = [range(size) if other != axis else [at] for other, size in enumerate((*outer, depth))]
    return {byte for element in product(*ranges) for byte in bytes_of(view, element)}


@st.composite
def views(draw: st.DrawFn) -> View:
    """Arrays of two axes and some channels, in blocks or not, with any gaps."""
    height, width, depth, size = (draw(st.integers(1, most)) for most in (4, 4, 5, 2))
    block = draw(st.sampled_from([0, 2]))
    pixel = (block or depth) * size + (0 if block else draw(st.integers(0, 2)))
    block_step = width * pixel if block else 0
    row = draw(st.integers(1, 60))
    shape = (1, height, width, depth)
    view = View(shape, draw(st.integers(0, 20)), (0, row, pixel, size), (0, 0), block, block_step)
    every = set().union(*(bytes_along(view, 1, row) for row in range(height)))
    return View(shape, view.base, view.steps, (min(every), max(every) + 1), block, block_step)


@given(views(), st.integers(1, 2), st.integers(1, 24), st.data())
def test_rows_of_a_view_are_those_that_its_bytes_touch(view: View, axis: int, unit: int, data: st.DataObject) -> None:
    everything = [bytes_along(view, axis, at) for at in range(view.shape[axis])]
    assert all(max(found) + 1 - min(found) == view.reach(axis) for found in everything)
    at = view.rows(axis, unit) or RowMap(0, unit, unit, unit)
    apart = len(everything) > 1 and all(max(one) < min(other) for one, other in pairwise(everything))
    assert (view.step(axis) is not None) == apart
    first = data.draw(st.integers(0, len(everything) - 1))
    last = data.draw(st.integers(first + 1, len(everything)))
    touched = set().union(*everything[first:last] if apart else everything)
    assert at.span(first, last) == (min(touched) // unit, max(touched) // unit + 1)


@st.composite
def boxes_of_arrays(draw: st.DrawFn) -> tuple[int, View, View]:
    """Bytes of a tensor, all of it as a view, and some of its rows, columns and channels as another one."""
    block, size = draw(st.sampled_from([0, 4])), draw(st.integers(1, 2))
    height, width, blocks = draw(st.integers(1, 6)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
    depth = blocks * (block or 2)
    pixel = (block or depth) * size
    row = width * depth * size
    steps = (0, row, pixel, size)
    everything = View((1, height, width, depth), 0, steps, (0, height * row), block, width * pixel if block else 0)
    down, across = draw(st.integers(1, 2)), 1 if block else draw(st.integers(1, 2))
    y, x = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    first = draw(st.integers(0, blocks - 1))
    rows, columns = -(-(height - y) // down), -(-(width - x) // across)
    base = y * row + x * pixel + (first * width * pixel if block else first * 2 * size)
    shape = (1, rows, columns, depth - first * (block or 2))
    some = View(shape, base, (0, row * down, pixel * across, size), (0, 0), block, everything.block_step)
    return height * row, everything, some


@given(boxes_of_arrays())
def test_a_view_reads_the_bytes_of_its_elements_from_the_stored_axes(drawn: tuple[int, View, View]) -> None:
    size, everything, some = drawn
    axes = stored_axes(size, [everything, some])
    assert axes is not None
    assert prod(axes.shape) * axes.steps[-1] == size
    for view in (everything, some):
        stored = axes.stored(view)
        assert stored is not None
        for element in product(*map(range, view.shape)):
            box = axes.reading(stored).reach(tuple((at, at + 1) for at in element))
            low = sum(start * step for (start, _), step in zip(box, axes.steps, strict=True))
            high = sum((end - 1) * step for (_, end), step in zip(box, axes.steps, strict=True)) + axes.steps[-1]
            # Of blocks a whole one is read.
            assert low <= bytes_of(view, element).start < bytes_of(view, element).stop <= high
            assert high - low == (view.block or 1) * axes.steps[-1]


@given(st.tuples(*(st.integers(1, 5) for _ in range(4))), st.integers(1, 4), st.integers(1, 4))
def test_a_box_of_bricks_is_the_box_of_their_channels(sizes: tuple[int, ...], block: int, elements: int) -> None:
    """A stripe of some bricks of an array of batch, height, width and channels in blocks has so many times a block's channels."""
    batch, height, bricks, width = sizes
    axes = StoredAxes((batch, height, bricks, width, block), (1,) * 5, block)
    lengths = (batch, height, bricks, width, block)
    made = axes.making().reach(tuple((0, length) for length in lengths))
    assert made == ((0, batch), (0, height), (0, width), (0, bricks * block))
    behind = axes.making().reach(((0, 1), (0, 1), (1, 2), (0, 1), (0, block)))
    assert behind[-1] == (block, 2 * block)
    assert StoredAxes((2,) * elements, (1,) * elements, 0).making() == Propagator.identity(elements)


@pytest.mark.parametrize(
    ("cuts", "align"),
    [
        ((None, Cut(), Cut(), None), (1, 1, 1, 4)),
        ((None, Cut(2), Cut(3), None), (1, 2, 3, 4)),
        ((None, Cut(2, phase=1), Cut(), None), (1, 6, 1, 4)),
        ((None, None, Cut(), None), (1, 6, 1, 4)),
    ],
)
def test_a_part_is_cut_where_its_stripes_begin_at_multiples_and_nowhere_else(cuts: tuple[Cut | None, ...], align: tuple[int, ...]) -> None:
    shape = (1, 6, 6, 4)
    tensors = tuple(Tensor(name, kind, 144, (144,), 1) for name, kind in (("in", TensorKind.INPUT), ("out", TensorKind.OUTPUT)))
    part = Part("p", ("in",), ("out",))
    view = View(shape, 0, (144, 24, 4, 1), (0, 144))
    seen = PartViews("out", view, (OperandView("in", view, Propagator.identity(4)),), cuts)
    striped = StoredTensors(CascaderGraph((part,), tensors), [seen]).part(part, seen, (), work=144)
    assert (striped.shape, striped.align, striped.work) == (shape, align, 1)


def test_a_matrix_that_is_read_as_an_image_keeps_the_finer_rows() -> None:
    """A part writes 8 rows of 6 bytes, another one reads them as 4 rows of 12: rows of the tensor are those that are written."""
    tensors = tuple(
        Tensor(name, kind, 48, (48,), 1)
        for name, kind in (("in", TensorKind.INPUT), ("matrix", TensorKind.INTERMEDIATE), ("out", TensorKind.OUTPUT))
    )
    parts = (Part("write", ("in",), ("matrix",)), Part("read", ("matrix",), ("out",)))
    fine, coarse = View((8, 6), 0, (6, 1), (0, 48)), View((4, 12), 0, (12, 1), (0, 48))
    same = Propagator.of_axes((InputAxis(0), InputAxis(1)), 2)
    cuts = (Cut(), Cut())
    striped = {
        "write": (PartViews("matrix", fine, (OperandView("in", fine, same),), cuts), 0),
        "read": (PartViews("out", coarse, (OperandView("matrix", coarse, same),), cuts), 0),
    }
    projection = RowProjection(CascaderGraph(parts, tensors), striped, [], set())
    assert [(tensor.rows, tensor.row_bytes, tensor.roll) for tensor in projection.tensors] == [(8, 6, 1), (8, 6, 2), (4, 12, 1)]
    write, read = (projection.part(part, whole=False) for part in parts)
    assert (write.rows, write.inputs, write.maps) == (8, ((0, RowPropagator(8)),), ())
    assert (read.rows, read.inputs) == (4, ((1, RowPropagator(4, at=RowMap(0, 12, 12, 6))),))
    assert read.inputs[0][1].demand(1, 3) == (2, 6)
    whole = projection.part(parts[1], whole=True)
    assert (whole.rows, whole.atomic, whole.written(0, 0, 1, 4)) == (1, True, (0, 4))
