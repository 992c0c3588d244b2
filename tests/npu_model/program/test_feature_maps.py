"""Bytes of feature maps, against the addresses of their elements."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from npu_model.program import BRICK, ByteRange, DataType, FeatureMap, Layout, Strides, Tiles
from npu_model.shapes import Shape3D


@st.composite
def feature_maps(draw: st.DrawFn) -> FeatureMap:
    height, width, depth = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 40))
    layout, size = draw(st.sampled_from(Layout)), draw(st.sampled_from([1, 2, 4]))
    column = BRICK * size if layout is Layout.NHCWB16 else depth * size + draw(st.integers(0, 5))
    bricks = draw(st.sampled_from([1, -1])) * (width * column + draw(st.integers(0, 32)))
    row = draw(st.sampled_from([1, -1])) * (-(-depth // BRICK) * abs(bricks) + width * column + draw(st.integers(0, 9)))
    tiles = Tiles(draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.integers(1, 5)), (4000, 14000, 24000, 34000))
    strides = Strides(row, column, bricks if layout is Layout.NHCWB16 else size)
    return FeatureMap(1, Shape3D(height, width, depth), DataType(8 * size, signed=True), layout, tiles, strides)


def element_bytes(feature_map: FeatureMap, y: int, x: int) -> list[int]:
    """First and last (exclusive) bytes of a pixel's elements, of NHCWB16 those that fill its last brick, too."""
    depth, size = feature_map.shape.depth, feature_map.dtype.bytes
    channels = -(-depth // BRICK) * BRICK if feature_map.layout is Layout.NHCWB16 else depth
    return [end for c in range(channels) for end in (feature_map.address(y, x, c), feature_map.address(y, x, c) + size)]


@given(feature_maps())
def test_byte_ranges_reach_from_the_lowest_to_the_highest_element_of_every_tile(feature_map: FeatureMap) -> None:
    tiles: dict[int, list[int]] = {}
    for y, x in product(range(feature_map.shape.height), range(feature_map.shape.width)):
        tiles.setdefault(feature_map.tiles.locate(y, x)[0], []).extend(element_bytes(feature_map, y, x))
    expected = [ByteRange(1, min(ends), max(ends)) for ends in tiles.values()]
    assert list(feature_map.byte_ranges()) == sorted(expected, key=lambda one: one.start)
