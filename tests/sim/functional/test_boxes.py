"""Boxes of feature maps: their elements are those of the map, each once, at its own address."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from small_programs import INT8, feature_map

from npu_model.program import DataType, FeatureMap, Layout, Strides, Tiles
from npu_model.shapes import Shape3D
from sim.functional.boxes import ElementBox, boxes


@st.composite
def maps(draw: st.DrawFn) -> FeatureMap:
    """Maps of either layout, wrapped after some rows or not, whose rows and columns may step backwards."""
    shape = Shape3D(draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 40)))
    dtype = draw(st.sampled_from([INT8, DataType(16, signed=True)]))
    made = feature_map(shape, 1 << 14, draw(st.sampled_from(Layout)), dtype)
    if made.layout is Layout.NHWC:
        ways = draw(st.sampled_from([1, -1])), draw(st.sampled_from([1, -1]))
        made = replace(made, strides=Strides(ways[0] * made.strides.y, ways[1] * made.strides.x, made.strides.c))
    if draw(st.booleans()):
        rows = draw(st.integers(1, shape.height))
        made = replace(made, tiles=Tiles(rows, rows, shape.width, (made.tiles.bases[0], 0, 1 << 15, 0)))
    return made


def elements(box: ElementBox) -> dict[tuple[int, int, int], int]:
    """The address of each element of the map that a box has."""
    rows, columns, _, lanes = box.shape
    return {
        (box.y + y, box.x + x, box.c + brick * lanes + lane): box.start
        + sum(at * stride for at, stride in zip((y, x, brick, lane), box.strides, strict=True))
        for y, x, brick, lane in product(*map(range, box.shape))
        if y < rows and x < columns
    }


@given(maps())
def test_the_boxes_of_a_map_hold_each_element_once_at_its_address(made: FeatureMap) -> None:
    found = [elements(box) for box in boxes(made)]
    assert sum(map(len, found)) == made.shape.elements
    every = {place: address for one in found for place, address in one.items()}
    assert every == {place: made.address(*place) for place in product(*map(range, (made.shape.height, made.shape.width, made.shape.depth)))}


@given(maps())
def test_a_box_begins_at_its_lowest_element_and_ends_behind_its_highest(made: FeatureMap) -> None:
    for box in boxes(made):
        addresses = elements(box).values()
        assert (box.lowest, box.end) == (min(addresses), max(addresses) + made.dtype.bytes)
        assert box.channels * box.shape[0] * box.shape[1] == len(addresses)


@given(maps())
def test_the_unused_lanes_of_a_brick_are_those_behind_its_channels(made: FeatureMap) -> None:
    for box in boxes(made):
        if made.layout is Layout.NHCWB16 and box.shape[3] < 16:
            lanes = box.unused_lanes(made.dtype.bytes)
            assert lanes.shape[3] + box.shape[3] == 16
            assert lanes.lowest == box.lowest + box.shape[3] * made.dtype.bytes
