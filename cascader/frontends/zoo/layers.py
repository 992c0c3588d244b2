"""The steps that a network's operators share: weights with their scales, activated outputs, outputs of a known scale."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import tflite

from cascader.frontends.zoo.calibration import SPREADS, Normalisation, normalise, output_quantisation, quantise
from cascader.frontends.zoo.kernels import Array, Pair, paddings
from cascader.frontends.zoo.recorder import Recorder, TensorHandle, Value
from npu_model.errors import InputError
from npu_model.values import dataclass

PADDINGS = ("SAME", "VALID")
"""In the order of TFLite's Padding enumeration."""

_UINT8_ZERO_POINT = 128
_RELU6_SCALE = 1542 / 65536  # 6/255 to 11 bits: what converters give an int8 ReLU6 output
_RELU6_SCALE_16 = 1536 / 2**23  # 6/32768
_LIMITS = {"NONE": (-math.inf, math.inf), "RELU": (0.0, math.inf), "RELU6": (0.0, 6.0)}


def one_of(what: str, value: str, options: tuple[str, ...]) -> str:
    """``value``, which must be one of ``options``."""
    if value not in options:
        raise InputError(f"{what} {value!r} is unknown: use one of {', '.join(options)}.")
    return value


def window(layer: str, x: TensorHandle, kernel: Pair, strides: Pair, dilation: Pair, padding: str) -> tuple[Pair, Pair]:
    """Padding of height and width for a sliding kernel; InputError if the kernel makes no sense or does not fit."""
    for what, pair in (("Kernel", kernel), ("Stride", strides), ("Dilation", dilation)):
        if len(pair) != 2 or min(pair) < 1:
            raise InputError(f"{what} of {layer} is {pair}: give (height, width), each at least 1.")
    pads = paddings(x.shape, kernel, strides, dilation, one_of(f"Padding of {layer}", padding, PADDINGS))
    for axis in (0, 1):
        extent, room = (kernel[axis] - 1) * dilation[axis] + 1, x.shape[axis + 1] + sum(pads[axis])
        if extent > room:
            raise InputError(
                f"The kernel of {layer} covers {extent} elements but its input has {room}: use padding SAME or a smaller kernel."
            )
    return pads


@dataclass(frozen=True, slots=True)
class Weighted:
    """An operator with weights: integer ``weights``, the ``sums`` they give, and how the file describes it.

    ``channel_axis`` is the axis of the weights that has one scale each; ``per_channel`` False gives one scale for all.
    """

    kind: str
    layer: str
    weights: Array
    sums: Array
    channel_axis: int
    per_channel: bool
    options: str
    fields: Mapping[str, int]


def _add_constants(recorder: Recorder, x: Value, op: Weighted, norm: Normalisation, *, per_channel: bool) -> tuple[int, int]:
    """Weights and bias as constant tensors: integers with scales, or real numbers in a float network."""
    precision = recorder.precision
    scales = norm.weight_scales if per_channel else norm.weight_scales[:1]
    bias_scales = tuple(scale * x.scale for scale in scales)
    names = f"{op.layer}/weights", f"{op.layer}/bias"
    if precision.is_float:
        along = [-1 if axis == op.channel_axis else 1 for axis in range(op.weights.ndim)]
        weights = (op.weights * np.array(scales).reshape(along)).astype("<f4")
        bias = (norm.biases * np.array(bias_scales)).astype("<f4")
        return recorder.constant(names[0], weights, precision.weight), recorder.constant(names[1], bias, precision.bias)
    unsigned = precision.weight == tflite.TensorType.UINT8
    stored = (op.weights + _UINT8_ZERO_POINT).astype("<u1") if unsigned else op.weights.astype("<i1")
    return (
        recorder.constant(names[0], stored, precision.weight, scales, op.channel_axis),
        recorder.constant(names[1], norm.biases.astype(precision.bias_dtype), precision.bias, bias_scales),
    )


def add_weighted(
    recorder: Recorder, x: Value, op: Weighted, activation: str, spread: str | None = None, shape: int | None = None
) -> TensorHandle:
    """Add ``op`` with its constants, normalised to the ``spread`` of that name (that of its ``activation`` unless given).

    ``shape`` is the constant that gives the output's shape where the operator reads one: then its inputs are in the order of
    TRANSPOSE_CONV.
    """
    check_activation(op.layer, activation)
    wanted = SPREADS[one_of(f"Spread of {op.layer}", spread or activation, tuple(SPREADS))]
    per_channel = recorder.precision.per_channel and op.per_channel
    norm = normalise(recorder.key(op.layer), op.sums, x.scale, wanted, per_channel=per_channel)
    weights, bias = _add_constants(recorder, x, op, norm, per_channel=per_channel)
    inputs = (x.handle.index, weights, bias) if shape is None else (shape, weights, x.handle.index, bias)
    real = (op.sums + norm.biases) * (np.array(norm.weight_scales) * x.scale)
    output = add_activated(recorder, op.layer, real, activation)
    function = getattr(tflite.ActivationFunctionType, activation)
    return recorder.operator(op.kind, inputs, output, op.options, **op.fields, FusedActivationFunction=function)


def check_activation(layer: str, activation: str) -> None:
    """InputError unless ``activation`` is one that TFLite fuses and the zoo knows."""
    one_of(f"Activation of {layer}", activation, tuple(_LIMITS))


def add_activated(recorder: Recorder, layer: str, real: Array, activation: str) -> TensorHandle:
    """The output tensor of a layer whose values before the ``activation`` are ``real``; its scale holds all of them."""
    precision = recorder.precision
    clipped = np.clip(real, *_LIMITS[activation]) if activation != "NONE" else real
    if activation == "RELU6":
        scale, zero_point = (_RELU6_SCALE_16, 0) if precision.is_symmetric else (_RELU6_SCALE, precision.lowest)
    else:
        scale, zero_point = output_quantisation(clipped, precision.lowest, precision.highest, symmetric=precision.is_symmetric)
    return add_scaled(recorder, layer, clipped, scale, zero_point)


def add_scaled(recorder: Recorder, layer: str, real: Array, scale: float, zero_point: int) -> TensorHandle:
    """An output tensor of given quantisation with the values ``real``, saturated."""
    sample = quantise(real, scale, zero_point, recorder.precision.lowest, recorder.precision.highest)
    return recorder.activation(layer, sample, scale, zero_point)


def add_probability(recorder: Recorder, layer: str, real: Array) -> TensorHandle:
    """An output between 0 and 1, whose scale TFLite fixes: 1/256 from the lowest value on, 1/32768 for 16 bits."""
    scale, zero_point = (2.0**-15, 0) if recorder.precision.is_symmetric else (2.0**-8, recorder.precision.lowest)
    return add_scaled(recorder, layer, real, scale, zero_point)
