"""Sets of bytes as sorted runs of addresses, exact to the byte."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from npu_model.program import BRICK, ByteRange, FeatureMap, Layout

Addresses = NDArray[np.int64]

MOST_RUNS = 1 << 22
"""Largest number of separate runs of a part of a map, more than the arena of any device can hold.

Beyond it, the bytes between runs count, too.
"""


class SpanPart(Struct, frozen=True):
    """Rows ``y``, columns ``x`` and channels ``c`` of a feature map, each from its first to its last (exclusive)."""

    y: tuple[int, int]
    x: tuple[int, int]
    c: tuple[int, int]


def whole(fm: FeatureMap) -> SpanPart:
    """All elements of a map."""
    return SpanPart((0, fm.shape.height), (0, fm.shape.width), (0, fm.shape.depth))


class Spans(Struct, frozen=True, eq=False):
    """Disjoint runs of bytes, ascending: ``starts`` are inclusive, ``ends`` exclusive."""

    starts: Addresses
    ends: Addresses

    @classmethod
    def of(cls, *ranges: ByteRange) -> Spans:
        """The bytes of some ranges, in any regions."""
        return joined(np.array([one.start for one in ranges], np.int64), np.array([one.end for one in ranges], np.int64))

    def shared(self, other: Spans) -> tuple[int, ByteRange | None]:
        """The number of shared bytes, and their first run (in region 0); None if nothing is shared."""
        first = np.searchsorted(other.ends, self.starts, side="right")
        last = np.searchsorted(other.starts, self.ends, side="left")
        hits = np.flatnonzero(last > first)
        if not hits.size:
            return 0, None
        counts = last[hits] - first[hits]
        mine = np.repeat(hits, counts)
        theirs = np.repeat(first[hits], counts) + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = np.maximum(self.starts[mine], other.starts[theirs])
        ends = np.minimum(self.ends[mine], other.ends[theirs])
        return int((ends - starts).sum()), ByteRange(0, int(starts[0]), int(ends[0]))


def joined(starts: Addresses, ends: Addresses) -> Spans:
    """Runs in any order; some may touch or overlap."""
    kept = ends > starts
    starts, ends = starts[kept], ends[kept]
    if starts.size < 2:
        return Spans(starts, ends)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    new = np.concatenate(([True], starts[1:] > ends[:-1]))
    return Spans(starts[new], ends[np.concatenate((new[1:], [True]))])


def _runs(base: int, length: int, axes: list[tuple[int, int]]) -> Spans:
    """The bytes of a run of ``length``, repeated along axes with a number of steps and of bytes a step."""
    apart: list[tuple[int, int]] = []
    for count, stride in sorted(axes, key=lambda axis: abs(axis[1])):
        base += min(stride, 0) * (count - 1)
        step = abs(stride)
        if not apart and step <= length:
            length += (count - 1) * step
        elif count > 1:
            apart.append((count, step))
    while np.prod([float(count) for count, _ in apart]) > MOST_RUNS:
        count, step = apart.pop(0)
        length += (count - 1) * step
    starts = np.array([base], np.int64)
    for count, step in apart:
        starts = (starts[None, :] + (np.arange(count, dtype=np.int64) * step)[:, None]).ravel()
    return joined(starts, starts + length)


def _tile(fm: FeatureMap, base: int, rows: int, columns: int, channels: tuple[int, int]) -> list[Spans]:
    """The bytes of some channels of the rows and columns from ``base`` on."""
    size, (first, last) = fm.dtype.bytes, channels
    down = (rows, fm.strides.y)
    if fm.layout is Layout.NHWC:
        return [_runs(base + first * size, (last - first) * size, [down, (columns, fm.strides.x)])]
    across, found = (columns, BRICK * size), []
    while first < last:
        brick, lane = divmod(first, BRICK)
        if lane == 0 and last - first >= BRICK:
            bricks = (last - first) // BRICK
            found.append(_runs(base + brick * fm.strides.c, BRICK * size, [down, across, (bricks, fm.strides.c)]))
            first += bricks * BRICK
            continue
        end = min(last, (brick + 1) * BRICK)
        found.append(_runs(base + brick * fm.strides.c + lane * size, (end - first) * size, [down, across]))
        first = end
    return found


def map_spans(fm: FeatureMap, part: SpanPart, *, written: bool) -> Spans:
    """The bytes of a part of a map.

    A part that is ``written`` ends at whole bricks of 16 channels: the NPU may write the unused channels of the last one.
    """
    found = []
    channels = part.c
    if written and fm.layout is Layout.NHCWB16 and part.c[1] == fm.shape.depth:
        channels = part.c[0], -(-part.c[1] // BRICK) * BRICK
    column = BRICK * fm.dtype.bytes if fm.layout is Layout.NHCWB16 else fm.strides.x
    for base, top, left, rows, columns in fm.tile_boxes():
        y0, y1 = max(part.y[0], top), min(part.y[1], top + rows)
        x0, x1 = max(part.x[0], left), min(part.x[1], left + columns)
        if y0 < y1 and x0 < x1 and channels[0] < channels[1]:
            found += _tile(fm, base + (y0 - top) * fm.strides.y + (x0 - left) * column, y1 - y0, x1 - x0, channels)
    if len(found) == 1:
        return found[0]
    return joined(*(np.concatenate([np.empty(0, np.int64), *(getattr(one, side) for one in found)]) for side in ("starts", "ends")))
