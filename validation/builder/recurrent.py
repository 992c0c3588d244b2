"""Operators whose state lasts from one inference to the next: UNIDIRECTIONAL_SEQUENCE_LSTM and SVDF, for int8."""

from __future__ import annotations

import math

import numpy as np

from npu_model.errors import InputError
from npu_model.tflite.schema import tflite
from validation.builder.calibration import Normalisation, WeightSpread, normalise, quantise, round_scale
from validation.builder.kernels import Array
from validation.builder.layers import Layers
from validation.builder.recorder import RecordedValue, TensorHandle

_GATES = ("input", "forget", "cell", "output")
_WEIGHT_DECAY = 228
_WEIGHT_DEVIATION = 12.0
"""Standard deviation of the weights that the decay gives, in their integers."""

_HIDDEN_SCALE = 2.0**-7
_CELL_SCALE = 2.0**-11
"""Scale of a cell state of 16 bits, a power of two as LiteRT demands: it reaches up to 16."""

_GATE_SCALE = 2.0**-12
_RELU, _TANH, _NO_TENSOR = 1, 4, -1


class Recurrent(Layers):
    """Sequence operators with variable tensors."""

    def lstm(self, x: TensorHandle, units: int, *, name: str | None = None) -> TensorHandle:
        """UNIDIRECTIONAL_SEQUENCE_LSTM of ``x`` (batch, time, features): the hidden state of ``units`` after each step.

        Its sample starts from zero and takes rational stand-ins for the curves of the gates.
        """
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "lstm")
        self._require_int8(layer)
        if len(x.shape) != 3 or units < 1:
            raise InputError(f"{layer} has an input of {x.shape} and {units} units: give (batch, time, features) and at least 1 unit.")
        weights = [self._draw(f"{layer}/{gate}", (units, x.shape[2]), (_WEIGHT_DECAY,)) for gate in _GATES]
        recurrent = [self._draw(f"{layer}/{gate}/recurrent", (units, units), (_WEIGHT_DECAY,)) for gate in _GATES]
        norms = [
            normalise(self._recorder.key(f"{layer}/{gate}"), value.centred @ w.T, value.scale, WeightSpread(0.0, 1.25), per_channel=False)
            for gate, w in zip(_GATES, weights, strict=True)
        ]
        scale = round_scale(1.0 / (_WEIGHT_DEVIATION * math.sqrt(units)))
        inputs = self._lstm_constants(layer, value, weights, recurrent, norms, scale)
        kept = (
            self._recorder.held(f"{layer}/output_state", (x.shape[0], units), tflite.TensorType.INT8, _HIDDEN_SCALE),
            self._recorder.held(f"{layer}/cell_state", (x.shape[0], units), tflite.TensorType.INT16, _CELL_SCALE),
        )
        output = self._recorder.activation(layer, _hidden_states(value, weights, recurrent, norms, scale), _HIDDEN_SCALE, 0)
        inner = [self._recorder.held(f"{layer}/{i}", (0,), tflite.TensorType.INT16, _GATE_SCALE, is_variable=False) for i in range(4)]
        inner.append(self._recorder.held(f"{layer}/hidden", (0,), tflite.TensorType.INT8, _HIDDEN_SCALE, is_variable=False))
        return self._recorder.operator_of_many(
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            (x.index, *inputs[:8], *(_NO_TENSOR,) * 3, *inputs[8:], *(_NO_TENSOR,) * 2, *kept, *(_NO_TENSOR,) * 4),
            (output,),
            "UnidirectionalSequenceLSTMOptions",
            {"FusedActivationFunction": _TANH, "CellClip": 10.0},
            tuple(inner),
        )[0]

    def svdf(self, x: TensorHandle, units: int, memory: int, *, name: str | None = None) -> TensorHandle:
        """SVDF of rank 1 with RELU of ``x`` (batch, features): ``units`` filters over the features of the last ``memory`` inferences.

        Vela 5.2 leaves it on the CPU. Its sample comes from the newest features alone.
        """
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "svdf")
        self._require_int8(layer)
        if len(x.shape) != 2 or min(units, memory) < 1:
            raise InputError(
                f"{layer} has an input of {x.shape}, {units} units, a memory of {memory}: give (batch, features), 1 and 1 at least."
            )
        features = self._draw(f"{layer}/features", (units, x.shape[1]), (_WEIGHT_DECAY,))
        times = self._draw(f"{layer}/times", (units, memory), (_WEIGHT_DECAY,))
        sums = value.centred @ features.T
        feature_scale = round_scale(1.0 / (_WEIGHT_DEVIATION * math.sqrt(x.shape[1])))
        state_scale = round_scale(4.0 / 32767)
        real = sums * (feature_scale * value.scale)
        bias_scale = round_scale(state_scale * 2.0**-12)
        constants = (
            self._recorder.constant(f"{layer}/features", features.astype("<i1"), tflite.TensorType.INT8, (feature_scale,)),
            self._recorder.constant(f"{layer}/times", (times * 256).astype("<i2"), tflite.TensorType.INT16, (2.0**-12,)),
            self._recorder.constant(f"{layer}/bias", np.zeros(units, "<i4"), tflite.TensorType.INT32, (bias_scale,)),
            self._recorder.held(f"{layer}/state", (x.shape[0], units * memory), tflite.TensorType.INT16, state_scale),
        )
        output = self._activated(layer, real * 2, "RELU")
        fields = {"Rank": 1, "FusedActivationFunction": _RELU}
        return self._recorder.operator("SVDF", (x.index, *constants), output, "SVDFOptions", **fields)

    def _require_int8(self, layer: str) -> None:
        if self._recorder.precision.name != "int8":
            raise InputError(f"{layer} is in a network of {self._recorder.precision.name}: it is made for int8 alone.")

    def _lstm_constants(
        self, layer: str, x: RecordedValue, weights: list[Array], recurrent: list[Array], norms: list[Normalisation], scale: float
    ) -> list[int]:
        """Numbers of the input weights, recurrent weights and biases, gate by gate."""
        found = []
        for gate, array, norm in zip(_GATES, weights, norms, strict=True):
            name, scales = f"{layer}/{gate}/weights", norm.weight_scales[:1]
            found.append(self._recorder.constant(name, array.astype("<i1"), tflite.TensorType.INT8, scales))
        for gate, array in zip(_GATES, recurrent, strict=True):
            name = f"{layer}/{gate}/recurrent_weights"
            found.append(self._recorder.constant(name, array.astype("<i1"), tflite.TensorType.INT8, (scale,)))
        for gate, norm in zip(_GATES, norms, strict=True):
            scales = (norm.weight_scales[0] * x.scale,)
            name, biases = f"{layer}/{gate}/bias", norm.biases.astype("<i4")
            found.append(self._recorder.constant(name, biases, tflite.TensorType.INT32, scales))
        return found


def _hidden_states(x: RecordedValue, weights: list[Array], recurrent: list[Array], norms: list[Normalisation], scale: float) -> Array:
    """The sample of an LSTM's output: quantised at every step, so that products stay sums of integers."""
    hidden = np.zeros((x.sample.shape[0], weights[0].shape[0]))
    cell, steps = hidden.copy(), []
    for step in range(x.sample.shape[1]):
        gates = [
            (x.centred[:, step] @ w.T + norm.biases) * (norm.weight_scales[0] * x.scale) + (hidden @ r.T) * (scale * _HIDDEN_SCALE)
            for w, r, norm in zip(weights, recurrent, norms, strict=True)
        ]
        let_in, keep, let_out = (np.clip(gates[i] / 4 + 0.5, 0.0, 1.0) for i in (0, 1, 3))
        cell = keep * cell + let_in * np.clip(gates[2], -1.0, 1.0)
        hidden = quantise(let_out * np.clip(cell, -1.0, 1.0), _HIDDEN_SCALE, 0, -128, 127)
        steps.append(hidden)
    return np.stack(steps, axis=1)
