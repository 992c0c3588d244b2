"""The bytes of feature maps in the arena, wherever a rolling buffer parts them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA
from npu_model.program import ByteRange, FeatureMap


class WordSpan(NamedTuple):
    """First byte of a map in the arena, the one behind its last, and the longest gap between two of its rows."""

    start: int
    end: int
    gap: int


def spans_of(feature_map: FeatureMap | None, axis: Axis) -> Iterator[WordSpan]:
    """The bytes of a map; a rolling buffer may part them between two rows."""
    if feature_map is not None and feature_map.region == ARENA:
        (row,) = feature_map.at(0, axis.cut(feature_map.shape, 1)).byte_ranges()
        gap = max(0, axis.step(feature_map) - (row.end - row.start)) if axis.extent(feature_map.shape) > 1 else 0
        for span in feature_map.byte_ranges():
            yield WordSpan(span.start, span.end, gap)


def shared(span: WordSpan, other: ByteRange) -> int | None:
    """The end of the bytes that a map shares with others that have no gaps, at the least; None if these may lie in a gap of it."""
    start, end = max(span.start, other.start), min(span.end, other.end)
    return end - span.gap if end - start > span.gap else None
