"""Values that no inference changes: shapes, and what is worked out of them, where every extent but the first is known."""

from __future__ import annotations

import numpy as np
import pytest
from hand_built import Graph
from msgspec.structs import replace

from npu_model.tflite.known_values import known_values
from npu_model.tflite.record_reader import RecordReader


def of_shape(signature: tuple[int, ...]) -> dict[int, bytes]:
    """The known values of a network that asks for the shape of its input, whose extents are as a signature says (-1: not known)."""
    graph = Graph()
    x = graph.tensor("image", (1, 12, 8, 4))
    graph.tensors[x] = replace(graph.tensors[x], shape_signature=signature)
    shape = graph.tensor("shape", (4,), "int32", None)
    graph.operator("SHAPE", (x,), (shape,), "ShapeOptions", version=1, OutType=2)
    return dict(known_values(RecordReader(graph.finish([x], [shape]))))


@pytest.mark.parametrize("signature", [(), (1, 12, 8, 4), (-1, 12, 8, 4)])
def test_a_shape_is_known_though_the_number_of_images_is_not(signature: tuple[int, ...]) -> None:
    assert list(of_shape(signature).values()) == [np.array([1, 12, 8, 4], np.int32).tobytes()]


@pytest.mark.parametrize("signature", [(1, -1, 8, 4), (1, 12, -1, 4), (-1, 12, 8, -1)])
def test_a_shape_of_another_extent_that_is_not_known_is_not(signature: tuple[int, ...]) -> None:
    assert of_shape(signature) == {}


def test_a_range_has_the_numbers_up_to_its_end_in_either_direction() -> None:
    for start, stop, step in ((0, 5, 1), (0, 5, 2), (7, -2, -3)):
        graph = Graph()
        x, expected = graph.tensor("image", (1, 4, 4, 8)), np.arange(start, stop, step, np.int32)
        made = graph.tensor("range", expected.shape, "int32", None)
        graph.operator("RANGE", [graph.constant(f"c{number}", value) for number, value in enumerate((start, stop, step))], (made,))
        assert known_values(RecordReader(graph.finish([x], [made])))[made] == expected.tobytes()


@pytest.mark.parametrize(
    ("code", "operands", "options", "expected"),
    [
        ("FILL", ([2, 3], 7), "", np.full((2, 3), 7)),
        ("TILE", ([[1, 2]], [2, 3]), "TileOptions", np.tile([[1, 2]], (2, 3))),
        ("BROADCAST_TO", ([4, 5], [3, 2]), "", np.broadcast_to([4, 5], (3, 2))),
    ],
)
def test_what_grows_is_worked_out_where_it_is_small(code: str, operands: tuple[object, ...], options: str, expected: np.ndarray) -> None:
    graph = Graph()
    x, made = graph.tensor("image", (1, 4, 4, 8)), graph.tensor("made", expected.shape, "int32", None)
    graph.operator(code, [graph.constant(f"c{number}", value) for number, value in enumerate(operands)], (made,), options)
    assert known_values(RecordReader(graph.finish([x], [made])))[made] == expected.astype(np.int32).tobytes()


@pytest.mark.parametrize(
    ("code", "operands"),
    [("FILL", ([1 << 20, 1 << 10], 7)), ("TILE", ([[1, 2]], [1 << 20, 1 << 10])), ("BROADCAST_TO", ([4, 5], [1 << 30, 2]))],
)
def test_what_grows_beyond_all_bounds_is_left_to_its_operator(code: str, operands: tuple[object, ...]) -> None:
    graph = Graph()
    x, made = graph.tensor("image", (1, 4, 4, 8)), graph.tensor("made", (2, 2), "int32", None)
    graph.operator(code, [graph.constant(f"c{number}", value) for number, value in enumerate(operands)], (made,))
    assert known_values(RecordReader(graph.finish([x], [made]))) == {}
