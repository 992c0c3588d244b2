"""LayerBuilder: inputs, constants and outputs of a network, and the steps that all of its operators share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tflite

from cascader.frontends.zoo.calibration import CALIBRATION_IMAGES, round_scale
from cascader.frontends.zoo.kernels import Array
from cascader.frontends.zoo.precision import precision_of
from cascader.frontends.zoo.recorder import Recorder, TensorHandle, Value
from cascader.frontends.zoo.weights import choose, laplace, uniform
from npu_model.errors import InputError


class LayerBuilder:
    """Builds one network called ``name``; ``precision`` is int8, int16 (16x8), uint8 or float32.

    int8 and int16 networks have per-channel weight scales (per tensor in fully connected layers), uint8 ones per tensor.
    A float32 network has the same operators and no quantisation: an NPU compiler leaves all of it on the CPU.
    All methods raise InputError for arguments that make no network.
    """

    def __init__(self, name: str, precision: str = "int8", seed: int = 0) -> None:
        self._recorder = Recorder(name, precision_of(precision), seed)

    @property
    def precision(self) -> str:
        """Name of the number format that the network has."""
        return self._recorder.precision.name

    def input(
        self, shape: tuple[int, ...], name: str | None = None, *, precision: str | None = None, positive: bool = False
    ) -> TensorHandle:
        """A network input of ``shape`` (1, ...), NHWC for an image: about -1 to 1 over its integers, or 0 to 2 if ``positive``.

        ``precision`` is the network's unless given; an input of another one can be read by :meth:`quantize` only.
        """
        if not shape or min(shape) < 1:
            raise InputError(f"Input shape {shape} is empty: give at least one dimension, each at least 1.")
        given = self._recorder.precision if precision is None else precision_of(precision)
        scale, zero_point = (2.0**-15, 0) if given.is_symmetric else (2.0**-7, given.lowest if positive else -1)
        return self._recorder.add_input(self._recorder.layer_name(name, "input"), shape, scale, zero_point, given)

    def constant(self, shape: tuple[int, ...], *, reach: float = 1.0, name: str | None = None) -> TensorHandle:
        """A constant of ``shape`` with seeded values from about -``reach`` to ``reach``, for the second input of an operator."""
        layer, precision = self._recorder.layer_name(name, "constant"), self._recorder.precision
        if not shape or min(shape) < 1:
            raise InputError(f"Constant shape {shape} is empty: give at least one dimension, each at least 1.")
        values = uniform(self._recorder.key(layer), math.prod(shape), -precision.highest, precision.highest).reshape(shape)
        return self._recorder.known(layer, values.astype(np.float64), round_scale(reach / precision.highest))

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

    def _integers(self, name: str, values: object) -> int:
        """A constant tensor of 32-bit integers, such as a shape or paddings."""
        return self._recorder.constant(name, np.array(values, dtype="<i4"), tflite.TensorType.INT32)

    def _same_scale(self, layer: str, x: Value, sample: Array) -> TensorHandle:
        """An output with the quantisation of ``x``; ``sample`` has its images and batch in one axis."""
        return self._recorder.activation(layer, sample, x.scale, x.zero_point)

    def _moved(self, layer: str, x: Value, sample: Array) -> TensorHandle:
        """The same for a ``sample`` with an axis of images before that of the batch, as :func:`per_image` gives it."""
        return self._same_scale(layer, x, sample.reshape(-1, *sample.shape[2:]))

    @staticmethod
    def _axis(layer: str, x: TensorHandle, axis: int) -> int:
        """``axis`` counted from the front; InputError if ``x`` has none such."""
        rank = len(x.shape)
        if not -rank <= axis < rank:
            raise InputError(f"{layer} works along axis {axis} of a tensor of {rank} dimensions: give one from {-rank} to {rank - 1}.")
        return axis % rank


def per_image(x: Value) -> Array:
    """The sample of ``x`` with an axis of its own for the calibration images: (images, *shape)."""
    return x.sample.reshape(CALIBRATION_IMAGES, *x.handle.shape)
