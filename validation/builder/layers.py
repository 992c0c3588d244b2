"""Layers: convolutions, pools, sums and the other operators of nearly every network."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from npu_model.errors import InputError
from npu_model.tflite.schema import tflite
from validation.builder import kernels
from validation.builder.base import PADDINGS, LayerBuilder, Weighted, check_activation, per_image, window
from validation.builder.calibration import CALIBRATION_IMAGES
from validation.builder.kernels import Array, Pair
from validation.builder.recorder import RecordedValue, TensorHandle

WEIGHT_DECAYS = (220, 228, 234)
"""Laplace decays (in 1/256) of a layer's weights: spreads of 6.6 to 11.1 steps, as trained layers have."""

DEPTHWISE_DECAYS = (246, 249)
"""Laplace decays of depthwise layers, whose few weights per channel fill the int8 range better: spreads of 25 to 36 steps."""


class ImageGrid(Struct, frozen=True):
    """Positions of the elements of a resized image in its input."""

    align_corners: bool
    half_pixel: bool

    def size(self, layer: str, x: TensorHandle, factor: int) -> Pair:
        """Height and width of the output."""
        if factor < 1:
            raise InputError(f"{layer} has factor {factor}: give at least 1.")
        corner = int(self.align_corners)
        return (x.shape[1] - corner) * factor + corner, (x.shape[2] - corner) * factor + corner

    def positions(self, extent: int, size: int) -> Array:
        """The position of each of ``size`` elements on an axis of ``extent``."""
        steps = np.arange(size, dtype=np.float64)
        if self.align_corners and size > 1:
            return steps * (extent - 1) / (size - 1)
        return (steps + 0.5) * extent / size - 0.5 if self.half_pixel else steps * extent / size


class Layers(LayerBuilder):
    """Convolutions, fully connected layers, pools, resizes, reshapes, concatenations, softmax and sums."""

    def conv2d(
        self,
        x: TensorHandle,
        filters: int,
        kernel: Pair = (3, 3),
        *,
        strides: Pair = (1, 1),
        dilation: Pair = (1, 1),
        groups: int = 1,
        padding: str = "SAME",
        activation: str = "NONE",
        name: str | None = None,
    ) -> TensorHandle:
        """CONV_2D of NHWC ``x`` with ``filters`` kernels (height, width), weights OHWI; each of the ``groups`` reads its own channels."""
        value, layer = self._image(x), self._recorder.layer_name(name, "conv2d")
        if filters < 1:
            raise InputError(f"{layer} has {filters} filters: give at least 1.")
        if groups < 1 or filters % groups or x.shape[3] % groups:
            raise InputError(f"{layer} has {groups} groups: give a divisor of its {x.shape[3]} channels and {filters} filters.")
        pads = window(layer, x, kernel, strides, dilation, padding)
        weights = self._draw(layer, (filters, *kernel, x.shape[3] // groups), WEIGHT_DECAYS)
        pairs = zip(np.split(value.centred, groups, 3), np.split(weights, groups), strict=True)
        sums = np.concatenate([kernels.convolve(some, own, strides, dilation, pads) for some, own in pairs], 3)
        fields = self._geometry(padding, strides, dilation)
        op = Weighted("CONV_2D", layer, weights, sums, 0, per_channel=True, options="Conv2DOptions", fields=fields)
        return self._weighted(value, op, activation)

    def depthwise(
        self,
        x: TensorHandle,
        kernel: Pair = (3, 3),
        *,
        multiplier: int = 1,
        strides: Pair = (1, 1),
        dilation: Pair = (1, 1),
        padding: str = "SAME",
        activation: str = "NONE",
        name: str | None = None,
    ) -> TensorHandle:
        """DEPTHWISE_CONV_2D of NHWC ``x``, weights 1HWC with C = channels * ``multiplier``."""
        value, layer = self._image(x), self._recorder.layer_name(name, "depthwise")
        if multiplier < 1:
            raise InputError(f"{layer} has depth multiplier {multiplier}: give at least 1.")
        pads = window(layer, x, kernel, strides, dilation, padding)
        weights = self._draw(layer, (1, *kernel, x.shape[3] * multiplier), DEPTHWISE_DECAYS)
        sums = kernels.convolve_depthwise(value.centred, weights, strides, dilation, pads)
        fields = {**self._geometry(padding, strides, dilation), "DepthMultiplier": multiplier}
        op = Weighted("DEPTHWISE_CONV_2D", layer, weights, sums, 3, per_channel=True, options="DepthwiseConv2DOptions", fields=fields)
        return self._weighted(value, op, activation)

    def fully_connected(
        self, x: TensorHandle, units: int, *, activation: str = "NONE", spread: str | None = None, name: str | None = None
    ) -> TensorHandle:
        """FULLY_CONNECTED of (batch, features) ``x``; ``spread="LOGITS"`` for a layer before a softmax."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "fully_connected")
        if len(x.shape) != 2 or units < 1:
            raise InputError(f"{layer} has an input of shape {x.shape} and {units} units: give (batch, features) and at least 1 unit.")
        weights = self._draw(layer, (units, x.shape[1]), WEIGHT_DECAYS)
        sums = value.centred @ weights.T
        op = Weighted("FULLY_CONNECTED", layer, weights, sums, 0, per_channel=False, options="FullyConnectedOptions", fields={})
        return self._weighted(value, op, activation, spread)

    @staticmethod
    def _geometry(padding: str, strides: Pair, dilation: Pair) -> dict[str, int]:
        dilations = {"DilationHFactor": dilation[0], "DilationWFactor": dilation[1]}
        return {"Padding": PADDINGS.index(padding), "StrideH": strides[0], "StrideW": strides[1], **dilations}

    def max_pool(
        self, x: TensorHandle, kernel: Pair = (2, 2), *, strides: Pair | None = None, padding: str = "VALID", name: str | None = None
    ) -> TensorHandle:
        """MAX_POOL_2D of NHWC ``x``; ``strides`` is the kernel unless given."""
        value, layer, steps = self._image(x), self._recorder.layer_name(name, "max_pool"), strides or kernel
        pads = window(layer, x, kernel, steps, (1, 1), padding)
        return self._pooled("MAX_POOL_2D", layer, value, kernels.max_pool(value.sample, kernel, steps, pads), kernel, steps, padding)

    def average_pool(
        self, x: TensorHandle, kernel: Pair | None = None, *, strides: Pair | None = None, padding: str = "VALID", name: str | None = None
    ) -> TensorHandle:
        """AVERAGE_POOL_2D of NHWC ``x``, over the whole image unless a ``kernel`` is given."""
        value, layer, size = self._image(x), self._recorder.layer_name(name, "average_pool"), kernel or (x.shape[1], x.shape[2])
        steps = strides or size
        pads = window(layer, x, size, steps, (1, 1), padding)
        return self._pooled("AVERAGE_POOL_2D", layer, value, kernels.average_pool(value.sample, size, steps, pads), size, steps, padding)

    def resize_nearest(
        self, x: TensorHandle, factor: int = 2, *, align_corners: bool = False, half_pixel: bool = False, name: str | None = None
    ) -> TensorHandle:
        """RESIZE_NEAREST_NEIGHBOR of NHWC ``x`` by an integer ``factor``, or with ``align_corners`` of all but one row and column."""
        value, layer = self._image(x), self._recorder.layer_name(name, "resize")
        grid = ImageGrid(align_corners, half_pixel)
        size, sample = grid.size(layer, x, factor), value.sample
        for axis in (1, 2):
            # A half is rounded up with aligned corners, any other position down.
            at = np.floor(grid.positions(x.shape[axis], size[axis - 1]) + 0.5 * (align_corners or half_pixel))
            sample = sample.take(np.clip(at, 0, x.shape[axis] - 1).astype(int), axis)
        return self._resized("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions", layer, value, sample, grid)

    def _pooled(self, kind: str, layer: str, x: RecordedValue, sample: Array, kernel: Pair, strides: Pair, padding: str) -> TensorHandle:
        filters = {"FilterHeight": kernel[0], "FilterWidth": kernel[1], "StrideH": strides[0], "StrideW": strides[1]}
        fields = {"Padding": PADDINGS.index(padding), "FusedActivationFunction": 0, **filters}
        return self._recorder.operator(kind, (x.handle.index,), self._same_scale(layer, x, sample), "Pool2DOptions", **fields)

    def _resized(self, kind: str, options: str, layer: str, x: RecordedValue, sample: Array, grid: ImageGrid) -> TensorHandle:
        constant = self._integers(f"{layer}/size", sample.shape[1:3])
        fields = {"AlignCorners": grid.align_corners, "HalfPixelCenters": grid.half_pixel}
        return self._recorder.operator(kind, (x.handle.index, constant), self._same_scale(layer, x, sample), options, **fields)

    def reshape(self, x: TensorHandle, shape: tuple[int, ...], *, name: str | None = None) -> TensorHandle:
        """RESHAPE of ``x``."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "reshape")
        if not shape or min(shape) < 1 or math.prod(shape) != math.prod(x.shape):
            raise InputError(f"{layer} turns {x.shape} into {shape}: give a shape of {math.prod(x.shape)} elements.")
        constant = self._integers(f"{layer}/shape", shape)
        output = self._same_scale(layer, value, value.sample.reshape((-1, *shape[1:])))
        return self._recorder.operator("RESHAPE", (x.index, constant), output, "ReshapeOptions")

    def concat(self, parts: Sequence[TensorHandle], axis: int = -1, *, name: str | None = None) -> TensorHandle:
        """CONCATENATION along ``axis``; the parts share one scale, as TFLite demands (outputs of RELU6 layers do)."""
        layer, values = self._recorder.layer_name(name, "concat"), [self._recorder.value(part) for part in parts]
        at = self._axis(layer, parts[0], axis) if parts else 0
        if len({(v.handle.shape[:at], v.handle.shape[at + 1 :], v.scale, v.zero_point) for v in values}) != 1:
            raise InputError(f"{layer} joins {len(values)} tensors that differ in size or scale: give outputs of RELU6 layers of one size.")
        output = self._moved(layer, values[0], np.concatenate([per_image(v) for v in values], axis=at + 1))
        options = {"Axis": at, "FusedActivationFunction": 0}
        return self._recorder.operator("CONCATENATION", [p.index for p in parts], output, "ConcatenationOptions", **options)

    def softmax(self, x: TensorHandle, *, name: str | None = None) -> TensorHandle:
        """SOFTMAX over the last axis.

        Its sample is each value's share of its row, not the exponential. It only calibrates later layers, and does not depend on
        mathematical libraries.
        """
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "softmax")
        above = value.sample - value.sample.min(axis=-1, keepdims=True) + 1
        output = self._probability(layer, above / above.sum(axis=-1, keepdims=True))
        return self._recorder.operator("SOFTMAX", (x.index,), output, "SoftmaxOptions", Beta=1.0)

    def add(self, a: TensorHandle, b: TensorHandle, *, activation: str = "NONE", name: str | None = None) -> TensorHandle:
        """ADD of two tensors; extents of 1 are broadcast, as in all operators of two inputs."""
        return self._binary("ADD", "AddOptions", np.add, a, b, activation=activation, name=name)

    def _binary(
        self,
        kind: str,
        options: str,
        function: Callable[[Array, Array], Array],
        a: TensorHandle,
        b: TensorHandle,
        *,
        activation: str | None,
        name: str | None,
    ) -> TensorHandle:
        """The operator ``kind`` of two inputs with the result ``function``; ``activation`` is None if TFLite fuses none."""
        layer = self._recorder.layer_name(name, kind.lower())
        fields = {}
        if activation is not None:
            check_activation(layer, activation)
            fields["FusedActivationFunction"] = getattr(tflite.ActivationFunctionType, activation)
        first, second, left, right = self._paired(layer, a, b)
        real = function((left - first.zero_point) * first.scale, (right - second.zero_point) * second.scale)
        output = self._activated(layer, real.reshape(-1, *real.shape[2:]), activation or "NONE")
        return self._recorder.operator(kind, (a.index, b.index), output, options, **fields)

    def _paired(self, layer: str, a: TensorHandle, b: TensorHandle) -> tuple[RecordedValue, RecordedValue, Array, Array]:
        """Both values, and their samples with an axis of images, of one rank."""
        first, second = self._recorder.value(a), self._recorder.value(b)
        rank = max(len(a.shape), len(b.shape))
        samples = [per_image(v).reshape(CALIBRATION_IMAGES, *(1,) * (rank - len(v.handle.shape)), *v.handle.shape) for v in (first, second)]
        extents = zip(*(sample.shape[1:] for sample in samples), strict=True)
        if any(one != other and 1 not in {one, other} for one, other in extents):
            raise InputError(f"{layer} has inputs of shapes {a.shape} and {b.shape}: give two of one shape, or extents of 1 to broadcast.")
        return first, second, samples[0], samples[1]
