"""Operators that change the resolution of an image: pools and resizes."""

from __future__ import annotations

import numpy as np

from cascader.frontends.zoo import kernels, layers
from cascader.frontends.zoo.base import LayerBuilder
from cascader.frontends.zoo.kernels import Array, Pair
from cascader.frontends.zoo.recorder import TensorHandle, Value
from npu_model.errors import InputError
from npu_model.values import dataclass


@dataclass(frozen=True, slots=True)
class Grid:
    """Places of the elements of a resized image among those of its input."""

    align_corners: bool
    half_pixel: bool

    def size(self, layer: str, x: TensorHandle, factor: int) -> Pair:
        """Height and width of the output."""
        if factor < 1:
            raise InputError(f"{layer} has factor {factor}: give at least 1.")
        corner = int(self.align_corners)
        return (x.shape[1] - corner) * factor + corner, (x.shape[2] - corner) * factor + corner

    def positions(self, extent: int, size: int) -> Array:
        """Where each of ``size`` elements lies on an axis of ``extent``."""
        steps = np.arange(size, dtype=np.float64)
        if self.align_corners and size > 1:
            return steps * (extent - 1) / (size - 1)
        return (steps + 0.5) * extent / size - 0.5 if self.half_pixel else steps * extent / size


class Resampling(LayerBuilder):
    """Pools, and the resize by repetition."""

    def max_pool(
        self, x: TensorHandle, kernel: Pair = (2, 2), *, strides: Pair | None = None, padding: str = "VALID", name: str | None = None
    ) -> TensorHandle:
        """MAX_POOL_2D of NHWC ``x``; ``strides`` is the kernel unless given."""
        value, layer, steps = self._image(x), self._recorder.layer_name(name, "max_pool"), strides or kernel
        pads = layers.window(layer, x, kernel, steps, (1, 1), padding)
        return self._pooled("MAX_POOL_2D", layer, value, kernels.max_pool(value.sample, kernel, steps, pads), kernel, steps, padding)

    def average_pool(
        self, x: TensorHandle, kernel: Pair | None = None, *, strides: Pair | None = None, padding: str = "VALID", name: str | None = None
    ) -> TensorHandle:
        """AVERAGE_POOL_2D of NHWC ``x``, over the whole image unless a ``kernel`` is given."""
        value, layer, size = self._image(x), self._recorder.layer_name(name, "average_pool"), kernel or (x.shape[1], x.shape[2])
        steps = strides or size
        pads = layers.window(layer, x, size, steps, (1, 1), padding)
        return self._pooled("AVERAGE_POOL_2D", layer, value, kernels.average_pool(value.sample, size, steps, pads), size, steps, padding)

    def resize_nearest(
        self, x: TensorHandle, factor: int = 2, *, align_corners: bool = False, half_pixel: bool = False, name: str | None = None
    ) -> TensorHandle:
        """RESIZE_NEAREST_NEIGHBOR of NHWC ``x`` by an integer ``factor``, or with ``align_corners`` of all but one row and column."""
        value, layer = self._image(x), self._recorder.layer_name(name, "resize")
        grid = Grid(align_corners, half_pixel)
        size, sample = grid.size(layer, x, factor), value.sample
        for axis in (1, 2):
            # A half is rounded up with aligned corners, any other position down.
            at = np.floor(grid.positions(x.shape[axis], size[axis - 1]) + 0.5 * (align_corners or half_pixel))
            sample = sample.take(np.clip(at, 0, x.shape[axis] - 1).astype(int), axis)
        return self._resized("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions", layer, value, sample, grid)

    def _pooled(self, kind: str, layer: str, x: Value, sample: Array, kernel: Pair, strides: Pair, padding: str) -> TensorHandle:
        filters = {"FilterHeight": kernel[0], "FilterWidth": kernel[1], "StrideH": strides[0], "StrideW": strides[1]}
        fields = {"Padding": layers.PADDINGS.index(padding), "FusedActivationFunction": 0, **filters}
        return self._recorder.operator(kind, (x.handle.index,), self._same_scale(layer, x, sample), "Pool2DOptions", **fields)

    def _resized(self, kind: str, options: str, layer: str, x: Value, sample: Array, grid: Grid) -> TensorHandle:
        constant = self._integers(f"{layer}/size", sample.shape[1:3])
        fields = {"AlignCorners": grid.align_corners, "HalfPixelCenters": grid.half_pixel}
        return self._recorder.operator(kind, (x.handle.index, constant), self._same_scale(layer, x, sample), options, **fields)
