"""Traffic: the runs of data beats that moving a box of a feature map takes.

A beat is one data word of the port. The rules were found from the FVP's beat counters, which they reproduce exactly: The NPU moves one row
at a time, and NHCWB16 in whole bricks of 16 channels. An NHWC row is one run if its pixels are dense, else one run per pixel. Writes are
also cut at every 16 channels. A run touches every beat that it overlaps.
"""

from __future__ import annotations

from npu_model.cost.traversal import Box
from npu_model.program import BRICK, FeatureMap, Layout
from npu_model.shapes import ceil_div

BEAT_BYTES = 8
"""Bytes of one data beat on the U55 (PMU data beats, verified by traffic replay): its ``port_bytes_per_cycle``."""

Runs = tuple[int, ...]
"""Data beats of runs of consecutive addresses, in order; a run is moved in one or more transactions."""


def _beats(address: int, length: int, word: int) -> int:
    """Beats of ``word`` bytes that ``length`` bytes at ``address`` overlap."""
    return ceil_div(address + length, word) - address // word


def _brick_runs(feature_map: FeatureMap, box: Box, word: int) -> Runs:
    bricks = ceil_div(box.c1, BRICK) - box.c0 // BRICK
    run = ceil_div((box.x1 - box.x0) * BRICK * feature_map.dtype.bytes, word)
    return (run,) * ((box.y1 - box.y0) * bricks)


def _row_runs(feature_map: FeatureMap, box: Box, word: int) -> Runs:
    length = (box.x1 - box.x0) * feature_map.strides.x
    return tuple(_beats(feature_map.address(y, box.x0, 0), length, word) for y in range(box.y0, box.y1))


def _pixel_addresses(feature_map: FeatureMap, box: Box) -> list[int]:
    """Addresses of channel 0 of the pixels of an NHWC box, row by row; inside a tile they are evenly spaced."""
    split = min(max(feature_map.tiles.width0, box.x0), box.x1)
    sides, step = [(first, end) for first, end in ((box.x0, split), (split, box.x1)) if first < end], feature_map.strides.x
    starts = ((feature_map.address(y, first, 0), end - first) for y in range(box.y0, box.y1) for first, end in sides)
    return [start + number * step for start, count in starts for number in range(count)]


def pixel_runs(feature_map: FeatureMap, box: Box, channels: int, word: int) -> Runs:
    """One run per pixel and ``channels`` channels."""
    size = feature_map.dtype.bytes
    pieces = [(c * size, min(channels, box.c1 - c) * size) for c in range(box.c0, box.c1, channels)]
    return tuple([_beats(pixel + start, length, word) for pixel in _pixel_addresses(feature_map, box) for start, length in pieces])


def _is_dense(feature_map: FeatureMap, box: Box) -> bool:
    """Whether the pixels of a row follow each other without a gap."""
    return box.c0 == 0 and (box.c1 - box.c0) * feature_map.dtype.bytes == feature_map.strides.x


def _is_in_one_tile(feature_map: FeatureMap, box: Box) -> bool:
    tiles = feature_map.tiles
    right = box.x0 >= tiles.width0
    height = tiles.height1 if right else tiles.height0
    return (right or box.x1 <= tiles.width0) and (box.y1 <= height or box.y0 >= height)


def placement(feature_map: FeatureMap, box: Box, word: int = BEAT_BYTES) -> tuple[int, ...]:
    """Facts of the position of ``box`` that decide its runs: boxes with equal facts, shapes and channels have equal runs.

    Bricks have none. If rows start on words, or the box is in one tile, the fact is the position of the first pixel in its word. Otherwise
    it is the box's corner.
    """
    if feature_map.layout is Layout.NHCWB16:
        return ()
    tiles, strides = feature_map.tiles, feature_map.strides
    if not (strides.y % word or tiles.width0 < feature_map.shape.width or any(base % word for base in tiles.bases)):
        return (box.x0 * strides.x % word,)
    return (feature_map.address(box.y0, box.x0, 0) % word,) if _is_in_one_tile(feature_map, box) else (box.y0, box.x0)


def read_runs(feature_map: FeatureMap, box: Box, word: int = BEAT_BYTES) -> Runs:
    """Runs that read ``box`` over a port of ``word`` bytes; none for an empty box."""
    if box.is_empty:
        return ()
    if feature_map.layout is Layout.NHCWB16:
        return _brick_runs(feature_map, box, word)
    if _is_dense(feature_map, box):
        return _row_runs(feature_map, box, word)
    return pixel_runs(feature_map, box, box.c1 - box.c0, word)


def read_starts(feature_map: FeatureMap, box: Box) -> tuple[int, ...]:
    """Addresses, in bytes, at which the runs of :func:`read_runs` begin, in their order."""
    if box.is_empty:
        return ()
    rows = range(box.y0, box.y1)
    if feature_map.layout is Layout.NHCWB16:
        first = box.c0 - box.c0 % BRICK
        return tuple(feature_map.address(y, box.x0, c) for y in rows for c in range(first, box.c1, BRICK))
    if _is_dense(feature_map, box):
        return tuple(feature_map.address(y, box.x0, 0) for y in rows)
    return tuple(pixel + box.c0 * feature_map.dtype.bytes for pixel in _pixel_addresses(feature_map, box))


def write_runs(feature_map: FeatureMap, box: Box, word: int = BEAT_BYTES, cores: int = 1) -> Runs:
    """Runs that write ``box`` over a port of ``word`` bytes; none for an empty box.

    Each of the ``cores`` has 16 adjacent channels of a pixel at a time: two cores write 32 in one run (an Ethos-U65 with 512 MACs).
    """
    if box.is_empty:
        return ()
    if feature_map.layout is Layout.NHCWB16:
        return _brick_runs(feature_map, box, word)
    piece = BRICK * cores
    if _is_dense(feature_map, box) and box.c1 - box.c0 <= piece:
        return _row_runs(feature_map, box, word)
    return pixel_runs(feature_map, box, piece, word)
