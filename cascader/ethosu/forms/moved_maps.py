"""Moved maps: the feature maps of a tensor's elements after a kernel has copied them to another tensor."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from npu_model.program import BRICK, FeatureMap, Layout, Strides

_Bytes = NDArray[np.int64]
_NOWHERE = -1


def _bytes(feature_map: FeatureMap) -> _Bytes:
    """The bytes of a map of one tile: by row, column, channel, and byte of the element."""
    shape, strides, size = feature_map.shape, feature_map.strides, feature_map.dtype.bytes
    rows, columns, channels = (np.arange(extent, dtype=np.int64) for extent in (shape.height, shape.width, shape.depth))
    if feature_map.layout is Layout.NHWC:
        across, deep = columns * strides.x, channels * size
    else:
        across, deep = columns * BRICK * size, channels // BRICK * strides.c + channels % BRICK * size
    elements = feature_map.base + rows[:, None, None] * strides.y + across[:, None] + deep
    return elements[..., None] + np.arange(size, dtype=np.int64)


def _step(places: _Bytes, unless: int) -> int:
    """Bytes from the first of some addresses to the next one, or ``unless`` if there is only one."""
    return int(places[1] - places[0]) if len(places) > 1 else unless


class Move(Struct, frozen=True, dict=True):
    """The move of the elements of a tensor of ``size`` bytes, from the map ``before`` to the map ``after`` of another tensor."""

    before: FeatureMap
    after: FeatureMap
    size: int

    @cached_property
    def _goal(self) -> _Bytes:
        """The target of each byte of the tensor."""
        goal = np.full(self.size, _NOWHERE, dtype=np.int64)
        goal[_bytes(self.before)] = _bytes(self.after)
        return goal

    @property
    def shifts(self) -> bool:
        """Whether all elements move by the same distance."""
        ways = _bytes(self.after) - _bytes(self.before)
        return bool((ways == ways.flat[0]).all())

    def _start(self, first: int, end: int) -> int | None:
        """The target of byte ``first`` if all bytes from there to ``end`` (exclusive) move together, else None."""
        goal = self._goal[first:end]
        together = goal[0] != _NOWHERE and np.array_equal(goal - goal[0], np.arange(len(goal)))
        return int(goal[0]) if together else None

    def feature_map(self, feature_map: FeatureMap) -> FeatureMap | None:
        """The map of the same elements at their targets; None if there is none."""
        spans = feature_map.byte_ranges()
        first = min(span.start for span in spans)
        start = self._start(first, max(span.end for span in spans))
        if start is not None:
            return feature_map.moved(start - first)
        if not feature_map.is_single_tile:
            return None
        goal = self._goal[_bytes(feature_map)]
        made = self._through(feature_map, goal[..., 0])
        aligned = made.layout is Layout.NHWC or made.base % BRICK == 0
        return made if aligned and np.array_equal(_bytes(made), goal) else None

    def _through(self, feature_map: FeatureMap, goal: _Bytes) -> FeatureMap:
        """The map with the layout of the target and the steps between its first elements there."""
        layout, old = self.after.layout, self.after.strides
        down, across = _step(goal[:, 0, 0], old.y), _step(goal[0, :, 0], old.x)
        if layout is Layout.NHWC:
            strides = Strides(down, across, feature_map.dtype.bytes)
        else:
            strides = Strides(down, old.x, _step(goal[0, 0, ::BRICK], old.c))
        return replace(feature_map.at(int(goal[0, 0, 0])), layout=layout, strides=strides)
