"""Where elements and rows of a feature map lie: element by element, as the map's own addresses say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from small_programs import INT8, feature_map

from cascader.ethosu.network.axis import Axis
from cascader.ethosu.verify.windows import Span, element_offsets, spans
from npu_model.program import DataType, FeatureMap, Layout, Tiles
from npu_model.shapes import Shape3D, round_up


@st.composite
def maps(draw: st.DrawFn) -> FeatureMap:
    """Maps of either layout, dense or some columns of a wider tensor, wrapped after some rows or not."""
    shape = Shape3D(draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.integers(1, 40)))
    dtype = draw(st.sampled_from([INT8, DataType(16, signed=True)]))
    made = feature_map(shape, 16 * draw(st.integers(0, 9)), draw(st.sampled_from(Layout)), dtype)
    gap = draw(st.integers(0, 3)) * made.strides.x
    if made.layout is Layout.NHWC:
        made = replace(made, strides=replace(made.strides, y=made.strides.y + gap))
    if draw(st.booleans()):
        rows = draw(st.integers(1, shape.height))
        made = replace(made, tiles=Tiles(rows, rows, shape.width, (made.tiles.bases[0], 0, 1 << 13, 0)))
    return made


def addresses(span: Span) -> set[int]:
    """Every byte of a span."""
    places = product(*map(range, span.counts))
    starts = [span.start + sum(at * stride for at, stride in zip(place, span.strides, strict=True)) for place in places]
    return {start + byte for start in starts for byte in range(span.width)}


@given(maps())
def test_each_element_lies_where_the_map_says(made: FeatureMap) -> None:
    offsets = element_offsets(made)
    shape = (made.shape.height, made.shape.width, made.shape.depth)
    assert offsets.shape == shape
    for place in product(*map(range, shape)):
        assert offsets[place] == made.address(*place)


@given(maps(), st.sampled_from(Axis), st.integers(0, 64), st.data())
def test_rows_and_columns_hold_the_bytes_of_their_elements_whole_bricks_of_nhcwb16(
    made: FeatureMap, axis: Axis, shift: int, data: st.DataObject
) -> None:
    size = made.shape.height if axis is Axis.ROWS else made.shape.width
    first = data.draw(st.integers(0, size - 1))
    last = data.draw(st.integers(first + 1, size))
    depth = made.shape.depth if made.layout is Layout.NHWC else round_up(made.shape.depth, 16)
    inside = [range(made.shape.height), range(made.shape.width)]
    inside[0 if axis is Axis.ROWS else 1] = range(first, last)
    expected = {made.address(y, x, c) + shift + byte for y, x, c in product(*inside, range(depth)) for byte in range(made.dtype.bytes)}
    found = [addresses(span) for span in spans(made, (first, last), shift, axis)]
    assert set().union(*found) == expected
    assert sum(map(len, found)) == len(expected)


@pytest.mark.parametrize(
    ("counts", "strides", "found"), [((3, 2), (6, 1), range(30, 47)), ((2, 2), (12, 1), [*range(30, 35), *range(42, 47)])]
)
def test_pieces_over_each_other_are_taken_with_their_gaps_only_where_their_bytes_would_fill_these(
    counts: tuple[int, ...], strides: tuple[int, ...], found: Sequence[int]
) -> None:
    """Pieces of four bytes a byte apart, six of which have 24 bytes and reach over 17, four 16 over 17."""
    view = Span(30, counts, strides, 4, 0).of(np.arange(64, dtype=np.int32))
    assert sorted(set(view.ravel().tolist())) == list(found)
