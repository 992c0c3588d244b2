"""Operators that work element by element: differences and products with broadcasting, activations, requantisation.

The samples of curved functions are rational functions of a similar shape. They only calibrate later layers, and are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu_model.errors import InputError
from validation.builder.base import one_of
from validation.builder.calibration import quantise, round_scale
from validation.builder.kernels import Array
from validation.builder.layers import Layers
from validation.builder.recorder import RecordedValue, TensorHandle, precision_of

_CURVES: dict[str, Callable[[Array], Array]] = {
    "ABS": np.abs,
    "NEG": lambda x: -x,
    "ELU": lambda x: np.where(x < 0, x / (1 + np.abs(x)), x),
    "EXP": lambda x: np.maximum(1 + x / 4, 0.0) * np.maximum(1 + x / 4, 0.0) * np.maximum(1 + x / 4, 0.0),
    "GELU": lambda x: x * np.clip(x * 0.3 + 0.5, 0.0, 1.0),
    "HARD_SWISH": lambda x: x * np.clip(x + 3, 0.0, 6.0) / 6,
    "LOG": lambda x: np.clip(x, 0.05, 8.0) - 1 / np.clip(x, 0.25, 8.0),
    "RSQRT": lambda x: 2 / (np.clip(x, 0.05, 8.0) + 0.5),
    "RELU": lambda x: np.maximum(x, 0.0),
    "RELU6": lambda x: np.clip(x, 0.0, 6.0),
    "RELU_0_TO_1": lambda x: np.clip(x, 0.0, 1.0),
    "RELU_N1_TO_1": lambda x: np.clip(x, -1.0, 1.0),
}
"""Operators of one input without options, with the sample of each."""

_OPTIONS = {"ABS": "AbsOptions", "NEG": "NegOptions", "EXP": "ExpOptions", "GELU": "GeluOptions", "HARD_SWISH": "HardSwishOptions"}


class Pointwise(Layers):
    """Elementwise operators of one and of two inputs."""

    def subtract(self, a: TensorHandle, b: TensorHandle, *, activation: str = "NONE", name: str | None = None) -> TensorHandle:
        """SUB of two tensors."""
        return self._binary("SUB", "SubOptions", np.subtract, a, b, activation=activation, name=name)

    def multiply(self, a: TensorHandle, b: TensorHandle, *, activation: str = "NONE", name: str | None = None) -> TensorHandle:
        """MUL of two tensors."""
        return self._binary("MUL", "MulOptions", np.multiply, a, b, activation=activation, name=name)

    def squared_difference(self, a: TensorHandle, b: TensorHandle, *, name: str | None = None) -> TensorHandle:
        """SQUARED_DIFFERENCE of two tensors."""
        return self._binary(
            "SQUARED_DIFFERENCE", "SquaredDifferenceOptions", lambda x, y: (x - y) * (x - y), a, b, activation=None, name=name
        )

    def minimum(self, a: TensorHandle, b: TensorHandle, *, name: str | None = None) -> TensorHandle:
        """MINIMUM of two tensors of one scale (outputs of RELU6 layers have one)."""
        return self._extreme("MINIMUM", np.minimum, a, b, name)

    def maximum(self, a: TensorHandle, b: TensorHandle, *, name: str | None = None) -> TensorHandle:
        """MAXIMUM of two tensors of one scale."""
        return self._extreme("MAXIMUM", np.maximum, a, b, name)

    def unary(self, kind: str, x: TensorHandle, *, name: str | None = None) -> TensorHandle:
        """One of the operators of one input without options: ABS, NEG, ELU, EXP, GELU, HARD_SWISH, LOG, RSQRT and the RELUs."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, kind.lower())
        real = _CURVES[one_of(f"Operator of {layer}", kind, tuple(_CURVES))](value.real)
        return self._recorder.operator(kind, (x.index,), self._activated(layer, real, "NONE"), _OPTIONS.get(kind, ""))

    def logistic(self, x: TensorHandle, *, name: str | None = None) -> TensorHandle:
        """LOGISTIC of every element (a lookup table on the NPU); its sample is the piecewise linear hard sigmoid."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "logistic")
        output = self._probability(layer, np.clip(value.real / 6 + 0.5, 0.0, 1.0))
        return self._recorder.operator("LOGISTIC", (x.index,), output)

    def tanh(self, x: TensorHandle, *, name: str | None = None) -> TensorHandle:
        """TANH of every element, whose output scale TFLite fixes: 1/128, or 1/32768 for 16 bits."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "tanh")
        scale = 2.0**-15 if self._recorder.precision.is_symmetric else 2.0**-7
        output = self._scaled(layer, np.clip(value.real, -1.0, 1.0), scale, 0)
        return self._recorder.operator("TANH", (x.index,), output)

    def leaky_relu(self, x: TensorHandle, slope: float = 0.125, *, name: str | None = None) -> TensorHandle:
        """LEAKY_RELU: values below zero times ``slope``."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "leaky_relu")
        real = np.where(value.real < 0, value.real * slope, value.real)
        output = self._activated(layer, real, "NONE")
        return self._recorder.operator("LEAKY_RELU", (x.index,), output, "LeakyReluOptions", Alpha=slope)

    def prelu(self, x: TensorHandle, *, name: str | None = None) -> TensorHandle:
        """PRELU of NHWC ``x``: values below zero times a seeded slope per channel, -0.5 to 0.5."""
        value, layer = self._image(x), self._recorder.layer_name(name, "prelu")
        slopes = self.constant((1, 1, x.shape[3]), reach=0.5, name=f"{layer}/slopes")
        slope = self._recorder.value(slopes).real[:1]
        output = self._activated(layer, np.where(value.real < 0, value.real * slope, value.real), "NONE")
        return self._recorder.operator("PRELU", (x.index, slopes.index), output)

    def quantize(self, x: TensorHandle, like: TensorHandle | None = None, *, name: str | None = None) -> TensorHandle:
        """QUANTIZE of ``x`` to the scale of ``like``, in the network's precision; without it to 3/4 of its own scale."""
        value, layer, precision = self._recorder.value(x), self._recorder.layer_name(name, "quantize"), self._recorder.precision
        if like is not None:
            other = self._recorder.value(like)
            scale, zero_point = other.scale, other.zero_point
        else:
            scale, zero_point = round_scale(value.scale * 0.75), 0
        sample = quantise(value.real, scale, zero_point, precision.lowest, precision.highest)
        return self._recorder.operator(
            "QUANTIZE", (x.index,), self._recorder.activation(layer, sample, scale, zero_point), "QuantizeOptions"
        )

    def as_precision(self, x: TensorHandle, precision: str, *, name: str | None = None) -> TensorHandle:
        """QUANTIZE of ``x`` to another precision, as at the edge of a network: its real values stay."""
        value, layer, target = self._recorder.value(x), self._recorder.layer_name(name, "as_precision"), precision_of(precision)
        eight = target.highest < 2**8
        scale = value.scale if eight and not self._is_wide(value) else round_scale(np.abs(value.real).max() / target.highest)
        zero_point = value.zero_point if eight and not self._is_wide(value) else 0
        sample = quantise(value.real, scale, zero_point, target.lowest, target.highest)
        output = self._recorder.activation(layer, sample, scale, zero_point, target)
        return self._recorder.operator("QUANTIZE", (x.index,), output, "QuantizeOptions")

    @staticmethod
    def _is_wide(value: RecordedValue) -> bool:
        return bool(np.abs(value.sample).max() >= 2**8)

    def _extreme(
        self, kind: str, function: Callable[[Array, Array], Array], a: TensorHandle, b: TensorHandle, name: str | None
    ) -> TensorHandle:
        layer = self._recorder.layer_name(name, kind.lower())
        first, second, left, right = self._paired(layer, a, b)
        if (first.scale, first.zero_point) != (second.scale, second.zero_point):
            raise InputError(f"{layer} compares tensors that differ in scale: give outputs of RELU6 layers.")
        output = self._moved(layer, first, function(left, right))
        return self._recorder.operator(kind, (a.index, b.index), output, "MaximumMinimumOptions")
