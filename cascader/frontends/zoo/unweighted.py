"""Operators without weights that the zoo's networks have: sums, softmax, reshapes, concatenations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import tflite

from cascader.frontends.zoo import layers
from cascader.frontends.zoo.base import LayerBuilder, per_image
from cascader.frontends.zoo.calibration import CALIBRATION_IMAGES
from cascader.frontends.zoo.kernels import Array
from cascader.frontends.zoo.recorder import TensorHandle, Value
from npu_model.errors import InputError


class Unweighted(LayerBuilder):
    """ADD, SOFTMAX, RESHAPE and CONCATENATION."""

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

        Its sample is each value's share of its row, not the exponential: only what later layers calibrate with, and free of
        the differences between mathematical libraries.
        """
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "softmax")
        above = value.sample - value.sample.min(axis=-1, keepdims=True) + 1
        output = layers.add_probability(self._recorder, layer, above / above.sum(axis=-1, keepdims=True))
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
        """The operator ``kind`` of two inputs, which computes ``function``; ``activation`` None where TFLite fuses none."""
        layer = self._recorder.layer_name(name, kind.lower())
        fields = {}
        if activation is not None:
            layers.check_activation(layer, activation)
            fields["FusedActivationFunction"] = getattr(tflite.ActivationFunctionType, activation)
        first, second, left, right = self._paired(layer, a, b)
        real = function((left - first.zero_point) * first.scale, (right - second.zero_point) * second.scale)
        output = layers.add_activated(self._recorder, layer, real.reshape(-1, *real.shape[2:]), activation or "NONE")
        return self._recorder.operator(kind, (a.index, b.index), output, options, **fields)

    def _paired(self, layer: str, a: TensorHandle, b: TensorHandle) -> tuple[Value, Value, Array, Array]:
        """Both values, and their samples with an axis of images, of one rank."""
        first, second = self._recorder.value(a), self._recorder.value(b)
        rank = max(len(a.shape), len(b.shape))
        samples = [per_image(v).reshape(CALIBRATION_IMAGES, *(1,) * (rank - len(v.handle.shape)), *v.handle.shape) for v in (first, second)]
        extents = zip(*(sample.shape[1:] for sample in samples), strict=True)
        if any(one != other and 1 not in {one, other} for one, other in extents):
            raise InputError(f"{layer} has inputs of shapes {a.shape} and {b.shape}: give two of one shape, or extents of 1 to broadcast.")
        return first, second, samples[0], samples[1]
