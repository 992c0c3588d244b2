"""LayerBuilder: inputs, constants and outputs of a network, and the steps that all operators share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from npu_model.errors import InputError
from npu_model.tflite.schema import tflite
from validation.builder import calibration
from validation.builder.calibration import CALIBRATION_IMAGES, Normalisation
from validation.builder.kernels import Array, Pair, paddings
from validation.builder.recorder import NetworkRecorder, RecordedValue, TensorHandle, precision_of

PADDINGS = ("SAME", "VALID")
"""In the order of TFLite's Padding enumeration."""

_UINT8_ZERO_POINT = 128
_RELU6_SCALE = 1542 / 65536  # 6/255 to 11 bits: the scale that converters give an int8 ReLU6 output.
_RELU6_SCALE_16 = 1536 / 2**23  # 6/32768
_LIMITS = {"NONE": (-math.inf, math.inf), "RELU": (0.0, math.inf), "RELU6": (0.0, 6.0)}


def one_of(what: str, value: str, options: tuple[str, ...]) -> str:
    """``value``, which must be one of ``options``."""
    if value not in options:
        raise InputError(f"{what} {value!r} is unknown: use one of {', '.join(options)}.")
    return value


def check_activation(layer: str, activation: str) -> None:
    """InputError unless ``activation`` is one that TFLite fuses and the builder knows."""
    one_of(f"Activation of {layer}", activation, tuple(_LIMITS))


def window(layer: str, x: TensorHandle, kernel: Pair, strides: Pair, dilation: Pair, padding: str) -> tuple[Pair, Pair]:
    """Padding of height and width for a sliding kernel; InputError if the kernel is invalid or does not fit."""
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


class Weighted(Struct, frozen=True):
    """An operator with weights: integer ``weights``, their ``sums``, and its description in the file.

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


class LayerBuilder:
    """Builds one network called ``name``; ``precision`` is int8, int16 (16x8), uint8 or float32.

    int8 and int16 networks have per-channel weight scales (per tensor in fully connected layers), uint8 ones per tensor. A float32 network
    has the same operators and no quantisation: an NPU compiler leaves all of it on the CPU. All methods raise InputError for arguments that
    do not make a network.
    """

    def __init__(self, name: str, precision: str = "int8", seed: int = 0) -> None:
        self._recorder = NetworkRecorder(name, precision_of(precision), seed)

    @property
    def precision(self) -> str:
        """Name of the network's number format."""
        return self._recorder.precision.name

    def input(
        self, shape: tuple[int, ...], name: str | None = None, *, precision: str | None = None, positive: bool = False
    ) -> TensorHandle:
        """A network input of ``shape`` (1, ...), NHWC for an image: about -1 to 1 over its integers, or 0 to 2 if ``positive``.

        ``precision`` is the network's by default; only :meth:`quantize` can read an input of another precision.
        """
        if not shape or min(shape) < 1:
            raise InputError(f"Input shape {shape} is empty: give at least one dimension, each at least 1.")
        given = self._recorder.precision if precision is None else precision_of(precision)
        scale, zero_point = (2.0**-15, 0) if given.is_symmetric else (2.0**-7, given.lowest if positive else -1)
        layer, samples = self._recorder.layer_name(name, "input"), (CALIBRATION_IMAGES * shape[0], *shape[1:])
        sample = calibration.calibration_input(self._recorder.key(layer), samples, given.lowest, given.highest)
        handle = self._recorder.activation(layer, sample, scale, zero_point, given)
        self._recorder.inputs.append(handle.index)
        return handle

    def constant(self, shape: tuple[int, ...], *, reach: float = 1.0, name: str | None = None) -> TensorHandle:
        """A constant of ``shape`` with seeded values from about -``reach`` to ``reach``, for the second input of an operator."""
        layer, precision = self._recorder.layer_name(name, "constant"), self._recorder.precision
        if not shape or min(shape) < 1:
            raise InputError(f"Constant shape {shape} is empty: give at least one dimension, each at least 1.")
        values = calibration.uniform(self._recorder.key(layer), math.prod(shape), -precision.highest, precision.highest).reshape(shape)
        return self._recorder.known(layer, values.astype(np.float64), calibration.round_scale(reach / precision.highest))

    def finish(self, outputs: Sequence[TensorHandle]) -> bytes:
        """The .tflite file of the network with these ``outputs``."""
        if not outputs:
            raise InputError(f"Network {self._recorder.name!r} has no output: name at least one tensor.")
        return self._recorder.write(outputs)

    def _image(self, x: TensorHandle) -> RecordedValue:
        if len(x.shape) != 4:
            raise InputError(f"The operator needs an NHWC input but got shape {x.shape}: reshape it to four dimensions.")
        return self._recorder.value(x)

    def _draw(self, layer: str, shape: tuple[int, ...], decays: tuple[int, ...]) -> Array:
        key = self._recorder.key(f"{layer}/weights")
        return calibration.laplace(key, math.prod(shape), calibration.choose(f"{key}/decay", decays)).reshape(shape).astype(np.float64)

    def _integers(self, name: str, values: object) -> int:
        """A constant tensor of 32-bit integers, such as a shape or paddings."""
        return self._recorder.constant(name, np.array(values, dtype="<i4"), tflite.TensorType.INT32)

    def _same_scale(self, layer: str, x: RecordedValue, sample: Array) -> TensorHandle:
        """An output with the quantisation of ``x``; ``sample`` has its images and batch in one axis."""
        return self._recorder.activation(layer, sample, x.scale, x.zero_point)

    def _moved(self, layer: str, x: RecordedValue, sample: Array) -> TensorHandle:
        """Like :meth:`_same_scale`, for a ``sample`` with an axis of images before the batch, as :func:`per_image` returns it."""
        return self._same_scale(layer, x, sample.reshape(-1, *sample.shape[2:]))

    @staticmethod
    def _axis(layer: str, x: TensorHandle, axis: int) -> int:
        """``axis`` counted from the front; InputError if ``x`` has none such."""
        rank = len(x.shape)
        if not -rank <= axis < rank:
            raise InputError(f"{layer} works along axis {axis} of a tensor of {rank} dimensions: give one from {-rank} to {rank - 1}.")
        return axis % rank

    def _constants(self, x: RecordedValue, op: Weighted, norm: Normalisation, *, per_channel: bool) -> tuple[int, int]:
        """Weights and bias as constant tensors: integers with scales, or real numbers in a float network."""
        precision = self._recorder.precision
        scales = norm.weight_scales if per_channel else norm.weight_scales[:1]
        bias_scales = tuple(scale * x.scale for scale in scales)
        names = f"{op.layer}/weights", f"{op.layer}/bias"
        if precision.is_float:
            along = [-1 if axis == op.channel_axis else 1 for axis in range(op.weights.ndim)]
            weights = (op.weights * np.array(scales).reshape(along)).astype("<f4")
            bias = (norm.biases * np.array(bias_scales)).astype("<f4")
            return self._recorder.constant(names[0], weights, precision.weight), self._recorder.constant(names[1], bias, precision.bias)
        unsigned = precision.weight == tflite.TensorType.UINT8
        stored = (op.weights + _UINT8_ZERO_POINT).astype("<u1") if unsigned else op.weights.astype("<i1")
        return (
            self._recorder.constant(names[0], stored, precision.weight, scales, op.channel_axis),
            self._recorder.constant(names[1], norm.biases.astype(precision.bias_dtype), precision.bias, bias_scales),
        )

    def _weighted(
        self, x: RecordedValue, op: Weighted, activation: str, spread: str | None = None, shape: int | None = None
    ) -> TensorHandle:
        """Add ``op`` with its constants, normalised to the named ``spread`` (by default its ``activation``'s).

        ``shape`` is the constant with the output's shape, for operators that read one; their inputs are in the order of TRANSPOSE_CONV.
        """
        check_activation(op.layer, activation)
        wanted = calibration.SPREADS[one_of(f"Spread of {op.layer}", spread or activation, tuple(calibration.SPREADS))]
        per_channel = self._recorder.precision.per_channel and op.per_channel
        norm = calibration.normalise(self._recorder.key(op.layer), op.sums, x.scale, wanted, per_channel=per_channel)
        weights, bias = self._constants(x, op, norm, per_channel=per_channel)
        inputs = (x.handle.index, weights, bias) if shape is None else (shape, weights, x.handle.index, bias)
        real = (op.sums + norm.biases) * (np.array(norm.weight_scales) * x.scale)
        output = self._activated(op.layer, real, activation)
        function = getattr(tflite.ActivationFunctionType, activation)
        return self._recorder.operator(op.kind, inputs, output, op.options, **op.fields, FusedActivationFunction=function)

    def _activated(self, layer: str, real: Array, activation: str) -> TensorHandle:
        """The output tensor of a layer with ``real`` values before the ``activation``; its scale covers all values."""
        precision = self._recorder.precision
        clipped = np.clip(real, *_LIMITS[activation]) if activation != "NONE" else real
        if activation == "RELU6":
            scale, zero_point = (_RELU6_SCALE_16, 0) if precision.is_symmetric else (_RELU6_SCALE, precision.lowest)
        else:
            lowest, highest = precision.lowest, precision.highest
            scale, zero_point = calibration.output_quantisation(clipped, lowest, highest, symmetric=precision.is_symmetric)
        return self._scaled(layer, clipped, scale, zero_point)

    def _scaled(self, layer: str, real: Array, scale: float, zero_point: int) -> TensorHandle:
        """An output tensor of given quantisation with the values ``real``, saturated."""
        sample = calibration.quantise(real, scale, zero_point, self._recorder.precision.lowest, self._recorder.precision.highest)
        return self._recorder.activation(layer, sample, scale, zero_point)

    def _probability(self, layer: str, real: Array) -> TensorHandle:
        """An output between 0 and 1, whose scale TFLite fixes: 1/256 from the lowest value on, 1/32768 for 16 bits."""
        scale, zero_point = (2.0**-15, 0) if self._recorder.precision.is_symmetric else (2.0**-8, self._recorder.precision.lowest)
        return self._scaled(layer, real, scale, zero_point)


def per_image(x: RecordedValue) -> Array:
    """The sample of ``x`` with an axis of its own for the calibration images: (images, *shape)."""
    return x.sample.reshape(CALIBRATION_IMAGES, *x.handle.shape)
