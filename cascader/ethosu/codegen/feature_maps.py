"""Moving a feature map in memory."""

from __future__ import annotations

from dataclasses import replace

from npu_model.program import FeatureMap


def rebase(feature_map: FeatureMap, delta: int) -> FeatureMap:
    """``feature_map`` moved by ``delta`` bytes; bases of tiles that it does not use stay as they are."""
    tiles = feature_map.tiles
    height, width = feature_map.shape.height, feature_map.shape.width
    right = width > tiles.width0
    used = (True, right, height > tiles.height0, right and height > tiles.height1)
    first, second, third, fourth = (base + delta if moves else base for base, moves in zip(tiles.bases, used, strict=True))
    return replace(feature_map, tiles=replace(tiles, bases=(first, second, third, fourth)))
