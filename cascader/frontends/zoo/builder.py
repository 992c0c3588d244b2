"""NetworkBuilder: networks of chosen shapes, strides, padding and number format, written as .tflite files.

Each method adds one operator and returns the handle of its output. Weights are seeded, scales are calibrated, so every
network runs with lively values; the same calls give the same bytes everywhere.
"""

from __future__ import annotations

import numpy as np

from cascader.frontends.zoo import kernels, layers
from cascader.frontends.zoo.kernels import Pair
from cascader.frontends.zoo.layers import Weighted
from cascader.frontends.zoo.recorder import TensorHandle
from cascader.frontends.zoo.resampling import Resampling
from cascader.frontends.zoo.unweighted import Unweighted
from npu_model.errors import InputError

WEIGHT_DECAYS = (220, 228, 234)
"""Laplace decays (in 1/256) a layer's weights are drawn with: spreads of 6.6 to 11.1 steps, as trained layers differ."""

DEPTHWISE_DECAYS = (246, 249)
"""The same for depthwise layers, whose few weights per channel fill the int8 range better: spreads of 25 to 36 steps."""


class NetworkBuilder(Resampling, Unweighted):
    """Builds one network: its constructor, inputs, constants and ``finish`` are those of LayerBuilder.

    Here are the operators with weights; the others are in the classes that it is made of.
    """

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
        pads = layers.window(layer, x, kernel, strides, dilation, padding)
        weights = self._draw(layer, (filters, *kernel, x.shape[3] // groups), WEIGHT_DECAYS)
        pairs = zip(np.split(value.centred, groups, 3), np.split(weights, groups), strict=True)
        sums = np.concatenate([kernels.convolve(some, own, strides, dilation, pads) for some, own in pairs], 3)
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

    @staticmethod
    def _geometry(padding: str, strides: Pair, dilation: Pair) -> dict[str, int]:
        dilations = {"DilationHFactor": dilation[0], "DilationWFactor": dilation[1]}
        return {"Padding": layers.PADDINGS.index(padding), "StrideH": strides[0], "StrideW": strides[1], **dilations}
