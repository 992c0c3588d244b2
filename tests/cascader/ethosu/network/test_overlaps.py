"""Accesses overlap where they share a byte, in one grid or in any two, of one tile or of several."""

from __future__ import annotations

import pytest
from few_examples import few
from hypothesis import given, settings
from hypothesis import strategies as st

from cascader.ethosu.network import overlaps
from cascader.ethosu.network.overlaps import Access, byte_numbers, overlap
from npu_model.program import BRICK, DataType, FeatureMap, Layout, Strides, Tiles
from npu_model.shapes import Shape3D

INT8, INT16 = DataType(8, signed=True), DataType(16, signed=True)


@st.composite
def feature_maps(draw: st.DrawFn) -> FeatureMap:
    """Maps in grids of a few pitches, some of which run into each other, at any place."""
    shape = Shape3D(draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.sampled_from([1, 3, 16, 20])))
    dtype, layout = draw(st.sampled_from([INT8, INT16])), draw(st.sampled_from(list(Layout)))
    base = draw(st.integers(0, 12)) * draw(st.sampled_from([1, 16, 96]))
    if layout is Layout.NHCWB16:
        strides = Strides(draw(st.sampled_from([96, 192, 384])), BRICK * dtype.bytes, draw(st.sampled_from([32, 96, 128])))
    else:
        strides = Strides(draw(st.sampled_from([24, 96, 192])), draw(st.sampled_from([3, 24, 32])), draw(st.sampled_from([1, 16])))
    tiles = Tiles.single(shape, base)
    if draw(st.booleans()) and shape.height > 1:
        tiles = Tiles(1, shape.height, shape.width, (base, 0, draw(st.integers(0, 6)) * strides.y, 0))
    return FeatureMap(1, shape, dtype, layout, tiles, strides)


ACCESSES = st.one_of(feature_maps(), st.tuples(st.integers(0, 900), st.integers(1, 64)).map(lambda run: (run[0], run[0] + run[1])))


def touched(access: Access) -> set[int]:
    return set(range(*access)) if isinstance(access, tuple) else set(byte_numbers(access).tolist())


@pytest.mark.law
@settings(max_examples=few(600))
@given(ACCESSES, ACCESSES)
def test_accesses_overlap_where_they_share_a_byte(one: Access, two: Access) -> None:
    assert overlap(one, two) == overlap(two, one) == bool(touched(one) & touched(two))


@pytest.mark.parametrize("layout", list(Layout))
def test_of_the_pieces_of_a_tensor_no_byte_is_looked_at(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels behind each other, and rows, lie in the tensor's grid."""
    strides = Strides(4 * 64, 64, 1) if layout is Layout.NHWC else Strides(4 * 64, 16, 64)
    half, step = Shape3D(8, 4, 32), 32 if layout is Layout.NHWC else 128
    first, second = (FeatureMap(1, half, INT8, layout, Tiles.single(half, base), strides) for base in (0, step))
    rows = first.part((2, 5), (0, 4))
    monkeypatch.setattr(overlaps, "byte_numbers", None)
    assert not overlap(first, second)
    assert overlap(first, rows)
    assert not overlap(rows, second)
