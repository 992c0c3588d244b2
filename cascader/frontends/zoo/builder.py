"""NetworkBuilder: networks of chosen shapes, strides, padding and number format, written as .tflite files.

Each method adds one operator and returns the handle of its output. Weights are seeded, scales are calibrated, so every
network runs with lively values; the same calls give the same bytes everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tflite

from cascader.frontends.zoo import kernels, layers
from cascader.frontends.zoo.kernels import Array, Pair
from cascader.frontends.zoo.layers import Weighted
from cascader.frontends.zoo.precision import precision_of
from cascader.frontends.zoo.recorder import Recorder, TensorHandle, Value
from cascader.frontends.zoo.weights import choose, laplace
from npu_model.errors import InputError

_INT32 = tflite.TensorType.INT32

WEIGHT_DECAYS = (220, 228, 234)
"""Laplace decays (in 1/256) a layer's weights are drawn with: spreads of 6.6 to 11.1 steps, as trained layers differ."""

DEPTHWISE_DECAYS = (246, 249)
"""The same for depthwise layers, whose few weights per channel fill the int8 range better: spreads of 25 to 36 steps."""


class NetworkBuilder:
    """Builds one network called ``name``; ``precision`` is int8, int16 (16x8), uint8 or float32.

    int8 and int16 networks have per-channel weight scales (per tensor in fully connected layers), uint8 ones per tensor.
    A float32 network has the same operators and no quantisation: an NPU compiler leaves all of it on the CPU.
    All methods raise InputError for arguments that make no network.
    """

    def __init__(self, name: str, precision: str = "int8", seed: int = 0) -> None:
        self._recorder = Recorder(name, precision_of(precision), seed)

    def input(self, shape: tuple[int, ...], name: str | None = None) -> TensorHandle:
        """A network input of ``shape`` (1, ...), NHWC for an image: about -1 to 1 over its integers."""
        if not shape or min(shape) < 1:
            raise InputError(f"Input shape {shape} is empty: give at least one dimension, each at least 1.")
        symmetric = self._recorder.precision.is_symmetric
        scale, zero_point = (2.0**-15, 0) if symmetric else (2.0**-7, -1)
        return self._recorder.add_input(self._recorder.layer_name(name, "input"), shape, scale, zero_point)

    def conv2d(
        self,
        x: TensorHandle,
        filters: int,
        kernel: Pair = (3, 3),
        *,
        strides: Pair = (1, 1),
        dilation: Pair = (1, 1),
        padding: str = "SAME",
        activation: str = "NONE",
        name: str | None = None,
    ) -> TensorHandle:
        """CONV_2D of NHWC ``x`` with ``filters`` kernels (height, width), weights OHWI."""
        value, layer = self._image(x), self._recorder.layer_name(name, "conv2d")
        if filters < 1:
            raise InputError(f"{layer} has {filters} filters: give at least 1.")
        pads = layers.window(layer, x, kernel, strides, dilation, padding)
        weights = self._draw(layer, (filters, *kernel, x.shape[3]), WEIGHT_DECAYS)
        sums = kernels.convolve(value.centred, weights, strides, dilation, pads)
        fields = self._geometry(padding, strides, dilation)
        op = Weighted("CONV_2D", layer, weights, sums, 0, per_channel=True, options="Conv2DOptions", fields=fields)
        return layers.add_weighted(self._recorder, value, op, activation)

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
        pads = layers.window(layer, x, kernel, strides, dilation, padding)
        weights = self._draw(layer, (1, *kernel, x.shape[3] * multiplier), DEPTHWISE_DECAYS)
        sums = kernels.convolve_depthwise(value.centred, weights, strides, dilation, pads)
        fields = {**self._geometry(padding, strides, dilation), "DepthMultiplier": multiplier}
        op = Weighted("DEPTHWISE_CONV_2D", layer, weights, sums, 3, per_channel=True, options="DepthwiseConv2DOptions", fields=fields)
        return layers.add_weighted(self._recorder, value, op, activation)

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
        return layers.add_weighted(self._recorder, value, op, activation, spread)

    def add(self, a: TensorHandle, b: TensorHandle, *, activation: str = "NONE", name: str | None = None) -> TensorHandle:
        """ADD of two tensors of one shape."""
        return self._binary("ADD", a, b, activation, name)

    def multiply(self, a: TensorHandle, b: TensorHandle, *, activation: str = "NONE", name: str | None = None) -> TensorHandle:
        """MUL of two tensors of one shape."""
        return self._binary("MUL", a, b, activation, name)

    def concat(self, parts: Sequence[TensorHandle], *, name: str | None = None) -> TensorHandle:
        """CONCATENATION along the last axis; the parts share one scale, as TFLite demands (outputs of RELU6 layers do)."""
        layer, values = self._recorder.layer_name(name, "concat"), [self._recorder.value(part) for part in parts]
        if len({(v.handle.shape[:-1], v.scale, v.zero_point) for v in values}) != 1:
            raise InputError(f"{layer} joins {len(values)} tensors that differ in size or scale: give outputs of RELU6 layers of one size.")
        sample = np.concatenate([v.sample for v in values], axis=-1)
        output = self._recorder.activation(layer, sample, values[0].scale, values[0].zero_point)
        options = {"Axis": len(output.shape) - 1, "FusedActivationFunction": 0}
        return self._recorder.operator("CONCATENATION", [p.index for p in parts], output, "ConcatenationOptions", **options)

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

    def resize_nearest(self, x: TensorHandle, factor: int = 2, *, name: str | None = None) -> TensorHandle:
        """RESIZE_NEAREST_NEIGHBOR of NHWC ``x`` by an integer ``factor``."""
        value, layer = self._image(x), self._recorder.layer_name(name, "resize")
        if factor < 1:
            raise InputError(f"{layer} has factor {factor}: give at least 1.")
        size = np.array([x.shape[1] * factor, x.shape[2] * factor], dtype="<i4")
        constant = self._recorder.constant(f"{layer}/size", size, _INT32)
        output = self._same_scale(layer, value, value.sample.repeat(factor, axis=1).repeat(factor, axis=2))
        options = {"AlignCorners": False, "HalfPixelCenters": False}
        return self._recorder.operator("RESIZE_NEAREST_NEIGHBOR", (x.index, constant), output, "ResizeNearestNeighborOptions", **options)

    def depth_to_space(self, x: TensorHandle, block: int = 2, *, name: str | None = None) -> TensorHandle:
        """DEPTH_TO_SPACE of NHWC ``x``: Vela 5.2 leaves it on the CPU, so it splits a network into two NPU subgraphs."""
        value, layer = self._image(x), self._recorder.layer_name(name, "depth_to_space")
        _, height, width, depth = x.shape
        if block < 1 or depth % block**2:
            raise InputError(f"{layer} has {depth} channels and block {block}: give a multiple of {max(block, 1) ** 2} channels.")
        cells = value.sample.reshape(-1, height, width, block, block, depth // block**2).transpose(0, 1, 3, 2, 4, 5)
        output = self._same_scale(layer, value, cells.reshape(-1, height * block, width * block, depth // block**2))
        return self._recorder.operator("DEPTH_TO_SPACE", (x.index,), output, "DepthToSpaceOptions", BlockSize=block)

    def pad(self, x: TensorHandle, top: int, bottom: int, left: int, right: int, *, name: str | None = None) -> TensorHandle:
        """PAD of NHWC ``x`` with real zeros in height and width."""
        value, layer = self._image(x), self._recorder.layer_name(name, "pad")
        if min(top, bottom, left, right) < 0:
            raise InputError(f"{layer} pads by {(top, bottom, left, right)}: give amounts of at least 0.")
        amounts = ((0, 0), (top, bottom), (left, right), (0, 0))
        constant = self._recorder.constant(f"{layer}/paddings", np.array(amounts, dtype="<i4"), _INT32)
        output = self._same_scale(layer, value, np.pad(value.sample, amounts, constant_values=value.zero_point))
        return self._recorder.operator("PAD", (x.index, constant), output, "PadOptions")

    def reshape(self, x: TensorHandle, shape: tuple[int, ...], *, name: str | None = None) -> TensorHandle:
        """RESHAPE of ``x``."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "reshape")
        if not shape or min(shape) < 1 or math.prod(shape) != math.prod(x.shape):
            raise InputError(f"{layer} turns {x.shape} into {shape}: give a shape of {math.prod(x.shape)} elements.")
        constant = self._recorder.constant(f"{layer}/shape", np.array(shape, dtype="<i4"), _INT32)
        output = self._same_scale(layer, value, value.sample.reshape((-1, *shape[1:])))
        return self._recorder.operator("RESHAPE", (x.index, constant), output, "ReshapeOptions")

    def softmax(self, x: TensorHandle, *, name: str | None = None) -> TensorHandle:
        """SOFTMAX over the last axis.

        Its sample is each value's share of its row, not the exponential: only what later layers calibrate with, and free of
        the differences between mathematical libraries.
        """
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "softmax")
        above = value.sample - value.sample.min(axis=-1, keepdims=True) + 1
        output = layers.add_probability(self._recorder, layer, above / above.sum(axis=-1, keepdims=True))
        return self._recorder.operator("SOFTMAX", (x.index,), output, "SoftmaxOptions", Beta=1.0)

    def logistic(self, x: TensorHandle, *, name: str | None = None) -> TensorHandle:
        """LOGISTIC of every element (a lookup table on the NPU); its sample is the piecewise linear hard sigmoid."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "logistic")
        output = layers.add_probability(self._recorder, layer, np.clip(value.real / 6 + 0.5, 0.0, 1.0))
        return self._recorder.operator("LOGISTIC", (x.index,), output)

    def finish(self, outputs: Sequence[TensorHandle]) -> bytes:
        """The .tflite file of the network with these ``outputs``."""
        if not outputs:
            raise InputError(f"Network {self._recorder.name!r} has no output: name at least one tensor.")
        return self._recorder.write(outputs)

    def _image(self, x: TensorHandle) -> Value:
        if len(x.shape) != 4:
            raise InputError(f"The operator needs an NHWC input but got shape {x.shape}: reshape it to four dimensions.")
        return self._recorder.value(x)

    def _draw(self, layer: str, shape: tuple[int, ...], decays: tuple[int, ...]) -> Array:
        key = self._recorder.key(f"{layer}/weights")
        return laplace(key, math.prod(shape), choose(f"{key}/decay", decays)).reshape(shape).astype(np.float64)

    @staticmethod
    def _geometry(padding: str, strides: Pair, dilation: Pair) -> dict[str, int]:
        dilations = {"DilationHFactor": dilation[0], "DilationWFactor": dilation[1]}
        return {"Padding": layers.PADDINGS.index(padding), "StrideH": strides[0], "StrideW": strides[1], **dilations}

    def _same_scale(self, layer: str, x: Value, sample: Array) -> TensorHandle:
        return self._recorder.activation(layer, sample, x.scale, x.zero_point)

    def _binary(self, kind: str, a: TensorHandle, b: TensorHandle, activation: str, name: str | None) -> TensorHandle:
        layer = self._recorder.layer_name(name, kind.lower())
        layers.check_activation(layer, activation)
        if a.shape != b.shape:
            raise InputError(f"{layer} has inputs of shapes {a.shape} and {b.shape}: give two of one shape.")
        first, second = self._recorder.value(a).real, self._recorder.value(b).real
        output = layers.add_activated(self._recorder, layer, first + second if kind == "ADD" else first * second, activation)
        function = getattr(tflite.ActivationFunctionType, activation)
        options = f"{kind.capitalize()}Options"
        return self._recorder.operator(kind, (a.index, b.index), output, options, FusedActivationFunction=function)

    def _pooled(self, kind: str, layer: str, x: Value, sample: Array, kernel: Pair, strides: Pair, padding: str) -> TensorHandle:
        filters = {"FilterHeight": kernel[0], "FilterWidth": kernel[1], "StrideH": strides[0], "StrideW": strides[1]}
        fields = {"Padding": layers.PADDINGS.index(padding), "FusedActivationFunction": 0, **filters}
        return self._recorder.operator(kind, (x.handle.index,), self._same_scale(layer, x, sample), "Pool2DOptions", **fields)
