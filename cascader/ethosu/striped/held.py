"""Held boxes: tensors that hold one box of another tensor, and feature maps moved into them."""

from __future__ import annotations

from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.job.feature_maps import placed
from cascader.graph.cascader_graph import Tensor, TensorKind
from cascader.graph.intervals import Box, lengths
from cascader.graph.stored_axes import StoredAxes
from npu_model.program import FeatureMap, Layout, Strides, Tiles


class Held(Struct, frozen=True):
    """Tensor ``name``, which holds a ``box`` of a tensor of some ``axes``, dense; axis ``outer`` is the outermost one in memory."""

    name: str
    box: Box
    axes: StoredAxes
    outer: int = 1

    def tensor(self, element_size: int) -> Tensor:
        """The tensor; what its axes are is known of images alone, so that it is a row of bytes."""
        return Tensor.dense(self.name, TensorKind.INTERMEDIATE, (self._size // element_size,), element_size)

    @property
    def _steps(self) -> tuple[int, ...]:
        """Bytes from one element of each axis to the next."""
        shape = lengths(self.box)
        order = [self.outer, *(axis for axis in range(len(shape)) if axis != self.outer)]
        inner = accumulate((shape[axis] for axis in reversed(order[1:])), lambda step, size: step * size, initial=self.axes.steps[-1])
        found = dict(zip(reversed(order), inner, strict=True))
        return tuple(found[axis] for axis in range(len(shape)))

    @property
    def _size(self) -> int:
        return self._steps[self.outer] * lengths(self.box)[self.outer]

    def moved(self, feature_map: FeatureMap) -> FeatureMap:
        """A map of one tile that lies inside the box, where its elements lie here."""
        base, rest = 0, feature_map.base
        for old, new, (low, _) in zip(self.axes.steps, self._steps, self.box, strict=True):
            at, rest = divmod(rest, old)
            base += (at - low) * new
        made = placed(feature_map, feature_map.shape, Tiles.single(feature_map.shape, base))
        return replace(made, strides=self._strides(feature_map))

    def _strides(self, feature_map: FeatureMap) -> Strides:
        """The strides of a map: as many elements of each axis of the tensor as before."""
        old, new, given = self.axes.steps, self._steps, feature_map.strides
        if feature_map.layout is Layout.NHCWB16:
            return Strides(given.y // old[1] * new[1] or new[1], given.x, new[2])
        return Strides(given.y // old[1] * new[1] or new[1], given.x // old[2] * new[2] or new[2], given.c)
