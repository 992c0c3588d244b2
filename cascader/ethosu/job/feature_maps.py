"""Feature maps in memory: in other tiles, reduced to some of their channels, and as contiguous bytes."""

from __future__ import annotations

from msgspec.structs import replace

from npu_model.program import BRICK, FeatureMap, Layout, Strides, Tiles
from npu_model.shapes import Shape3D


def placed(feature_map: FeatureMap, shape: Shape3D, tiles: Tiles) -> FeatureMap:
    """``feature_map`` of another shape in other tiles."""
    old = feature_map
    return FeatureMap(old.region, shape, old.dtype, old.layout, tiles, old.strides, old.zero_point)


def channels(feature_map: FeatureMap, first: int, last: int) -> FeatureMap:
    """Channels ``first`` to ``last`` (exclusive) of a map at their addresses; in bricks the first channel is the first of a brick."""
    by = first // BRICK * feature_map.strides.c if feature_map.layout is Layout.NHCWB16 else first * feature_map.dtype.bytes
    return replace(feature_map.moved(by), shape=replace(feature_map.shape, depth=last - first))


def dense_map(like: FeatureMap, shape: Shape3D, start: int = 0) -> FeatureMap:
    """A map of ``shape`` with elements like those in ``like``, stored pixel by pixel from byte ``start`` of its tensor on."""
    element = like.dtype.bytes
    strides = Strides(shape.width * shape.depth * element, shape.depth * element, element)
    return replace(like, shape=shape, layout=Layout.NHWC, strides=strides, tiles=Tiles.single(shape, start))


def row_bytes(feature_map: FeatureMap) -> int | None:
    """Bytes of a row whose elements are contiguous and in order; None for any other row."""
    shape, strides, size = feature_map.shape, feature_map.strides, feature_map.dtype.bytes
    pixel = shape.depth * size
    pixels = strides.c == size and (shape.width == 1 or strides.x == pixel)
    # The pixels of a single brick follow each other.
    together = pixels if feature_map.layout is Layout.NHWC else shape.depth == BRICK
    return shape.width * pixel if together else None
