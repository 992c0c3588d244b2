"""The recorder of a network under construction: its number format, its records for the file, and a sample of every tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_model.errors import InputError
from npu_model.tflite.records import FieldValue, ModelRecord, OperatorRecord, SubgraphRecord, TensorRecord
from npu_model.tflite.schema import tflite
from npu_model.tflite.writer import write_tflite
from validation.builder.calibration import CALIBRATION_IMAGES
from validation.builder.kernels import Array

_TYPE = tflite.TensorType

# Versions of an operator for (8-bit, 16-bit) activations: op_version.cc of LiteRT; float32 and uint8 have version 1.
_KINDS_BY_VERSIONS = {
    (1, 1): (
        "ASSIGN_VARIABLE CALL_ONCE DEPTH_TO_SPACE ELU EXPAND_DIMS HARD_SWISH NEG PRELU READ_VARIABLE RELU_0_TO_1 RELU_N1_TO_1 RESHAPE "
        "REVERSE_V2 SHAPE SPACE_TO_DEPTH SQUEEZE TILE VAR_HANDLE"
    ),
    (1, 2): "QUANTIZE",
    (2, 2): ("ARG_MAX BATCH_TO_SPACE_ND EXP GELU LEAKY_RELU LOG PAD PADV2 SPACE_TO_BATCH_ND SPLIT_V SQUARED_DIFFERENCE SUM TRANSPOSE"),
    (2, 3): (
        "ADD AVERAGE_POOL_2D BATCH_MATMUL CONCATENATION LOGISTIC MAXIMUM MAX_POOL_2D MEAN MINIMUM MIRROR_PAD PACK "
        "REDUCE_MAX REDUCE_MIN RELU RELU6 RSQRT SOFTMAX SUB TANH UNPACK"
    ),
    (2, 4): "ABS GATHER MUL RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR SLICE SPLIT STRIDED_SLICE",
    (3, 3): "FILL SVDF UNIDIRECTIONAL_SEQUENCE_LSTM",
    (3, 4): "CONV_2D TRANSPOSE_CONV",
    (3, 5): "DEPTHWISE_CONV_2D",
    (4, 7): "FULLY_CONNECTED",
}
_VERSIONS = {kind: versions for versions, kinds in _KINDS_BY_VERSIONS.items() for kind in kinds.split()}


_UINT8_OFFSET = 128

_OPERATOR = tflite.BuiltinOperator
_ONCE = OperatorRecord(_OPERATOR.CALL_ONCE, 1, (), (), "CallOnceOptions", (("InitSubgraphIndex", 1),))
"""The operator that runs the second subgraph before the first inference."""


def _handle_of(name: str, tensor: int) -> OperatorRecord:
    """The operator that makes ``tensor`` a handle of the resource variable ``name``."""
    return OperatorRecord(_OPERATOR.VAR_HANDLE, 1, (), (tensor,), "VarHandleOptions", (("Container", ""), ("SharedName", name)))


class Precision(Struct, frozen=True):
    """One format: TFLite's tensor types for activations, weights and biases, and the integers an activation can be.

    ``offset`` is the number that the file adds to both values and zero points: uint8 is int8 shifted by 128. ``activation_dtype`` and
    ``bias_dtype`` are little-endian types of numpy.
    """

    name: str
    activation: int
    activation_dtype: str
    weight: int
    bias: int
    bias_dtype: str
    lowest: int
    highest: int
    offset: int
    per_channel: bool

    @property
    def is_float(self) -> bool:
        """Whether the file holds real numbers, with no quantisation."""
        return bool(self.activation == _TYPE.FLOAT32)

    @property
    def is_symmetric(self) -> bool:
        """Whether activations have zero point 0 (16x8, by the LiteRT quantisation specification)."""
        return bool(self.activation == _TYPE.INT16)


_PRECISIONS = {
    made.name: made
    for made in (
        Precision("int8", _TYPE.INT8, "<i1", _TYPE.INT8, _TYPE.INT32, "<i4", -128, 127, 0, per_channel=True),
        Precision("int16", _TYPE.INT16, "<i2", _TYPE.INT8, _TYPE.INT64, "<i8", -32768, 32767, 0, per_channel=True),
        Precision("uint8", _TYPE.UINT8, "<u1", _TYPE.UINT8, _TYPE.INT32, "<i4", -128, 127, 128, per_channel=False),
        Precision("float32", _TYPE.FLOAT32, "<f4", _TYPE.FLOAT32, _TYPE.FLOAT32, "<f4", -128, 127, 0, per_channel=True),
    )
}


def precision_of(name: str) -> Precision:
    """The format ``name``; InputError lists the known ones."""
    if name not in _PRECISIONS:
        raise InputError(f"Precision {name!r} is unknown: use one of {', '.join(_PRECISIONS)}.")
    return _PRECISIONS[name]


class TensorHandle(Struct, frozen=True):
    """A tensor of the network under construction: its number in the file, and its shape (NHWC where it has rank 4)."""

    index: int
    shape: tuple[int, ...]


class RecordedValue(Struct, frozen=True):
    """An activation: its quantised ``sample`` (int8 or int16 values in a float64 array) with scale and zero point.

    The first axis of the sample is CALIBRATION_IMAGES times that of the handle.
    """

    handle: TensorHandle
    sample: Array
    scale: float
    zero_point: int

    @property
    def centred(self) -> Array:
        """The sample without its zero point."""
        return self.sample - self.zero_point if self.zero_point else self.sample

    @property
    def real(self) -> Array:
        """The sample in real units."""
        return self.centred * self.scale


def _shape(sample: Array) -> tuple[int, ...]:
    return sample.shape[0] // CALIBRATION_IMAGES, *sample.shape[1:]


class NetworkRecorder:
    """Tensors and operators in file order, with the calibration sample of each activation."""

    def __init__(self, name: str, precision: Precision, seed: int) -> None:
        self.name = name
        self.precision = precision
        self.seed = seed
        self._tensors: list[TensorRecord] = []
        self._operators: list[OperatorRecord] = []
        self._values: dict[int, RecordedValue] = {}
        self.inputs: list[int] = []
        self._names: dict[str, int] = {}
        self._resources: list[TensorRecord] = []

    def key(self, layer: str) -> str:
        """The name of a layer's stream of random numbers."""
        return f"{self.name}/{self.seed}/{layer}"

    def layer_name(self, given: str | None, kind: str) -> str:
        """``given``, or ``kind`` with a running number; InputError if the name is taken."""
        self._names[kind] = self._names.get(kind, 0) + 1
        name = given or f"{kind}_{self._names[kind]}"
        if any(tensor.name == name for tensor in self._tensors):
            raise InputError(f"Layer name {name!r} is taken in network {self.name!r}: give each layer its own.")
        return name

    def value(self, handle: TensorHandle) -> RecordedValue:
        """The activation of ``handle``; InputError if it belongs to another network."""
        value = self._values.get(handle.index)
        if value is None or value.handle is not handle:
            raise InputError(
                f"Tensor {handle.index} is not an activation of network {self.name!r}: use a handle that its builder returned."
            )
        return value

    def constant(
        self,
        name: str,
        data: np.ndarray[tuple[int, ...], np.dtype[np.generic]],
        dtype: int,
        scales: Sequence[float] = (),
        dimension: int = 0,
        zero_point: int = 0,
    ) -> int:
        """Add a constant tensor and return its number; ``zero_point`` represents 0 if it is stored as int8."""
        stored = zero_point + (_UINT8_OFFSET if dtype == tflite.TensorType.UINT8 else 0)
        zero_points = (stored,) * len(scales)
        self._tensors.append(TensorRecord(name, data.shape, dtype, tuple(scales), zero_points, dimension, data.tobytes()))
        return len(self._tensors) - 1

    def known(self, name: str, values: Array, scale: float) -> TensorHandle:
        """Add a constant tensor in the number format of activations, with zero point 0, so that operators can read it as an activation."""
        precision = self.precision
        stored = values * scale if precision.is_float else values + precision.offset
        scales, zero_points = ((), ()) if precision.is_float else ((scale,), (precision.offset,))
        data = stored.astype(precision.activation_dtype).tobytes()
        record = TensorRecord(name, values.shape, precision.activation, scales, zero_points, data=data)
        return self._added(record, np.concatenate([values] * CALIBRATION_IMAGES), scale, 0)

    def held(self, name: str, shape: tuple[int, ...], dtype: int, scale: float, zero_point: int = 0, *, is_variable: bool = True) -> int:
        """Add a tensor that belongs to an operator, and return its number. A variable keeps its values from one inference to the next."""
        self._tensors.append(TensorRecord(name, shape, dtype, (scale,), (zero_point,), is_variable=is_variable))
        return len(self._tensors) - 1

    def resource(self, name: str, values: np.ndarray[tuple[int, ...], np.dtype[np.int8]], like: RecordedValue) -> int:
        """Add a resource variable with initial int8 ``values``, quantised like ``like``, and return the number of its handle."""
        self._resources.append(
            TensorRecord(name, values.shape, tflite.TensorType.INT8, (like.scale,), (like.zero_point,), data=values.tobytes())
        )
        self._tensors.append(TensorRecord(f"{name}/handle", (), tflite.TensorType.RESOURCE))
        handle = len(self._tensors) - 1
        self._operators.append(_handle_of(name, handle))
        return handle

    def number(self, name: str) -> TensorHandle:
        """Add a 32-bit integer without axes."""
        return self._added(TensorRecord(name, (), tflite.TensorType.INT32), np.ones(CALIBRATION_IMAGES), 1.0, 0)

    def indices(self, name: str, sample: Array, dtype: int = tflite.TensorType.INT32) -> TensorHandle:
        """Add a tensor of 32-bit integers (or of ``dtype``) without quantisation, which counts or numbers something."""
        return self._added(TensorRecord(name, _shape(sample), dtype), sample, 1.0, 0)

    def activation(self, name: str, sample: Array, scale: float, zero_point: int, precision: Precision | None = None) -> TensorHandle:
        """Add an activation tensor with its sample and quantisation, in the network's ``precision`` unless another is given."""
        precision = precision or self.precision
        scales, zero_points = ((), ()) if precision.is_float else ((scale,), (zero_point + precision.offset,))
        return self._added(TensorRecord(name, _shape(sample), precision.activation, scales, zero_points), sample, scale, zero_point)

    def _added(self, record: TensorRecord, sample: Array, scale: float, zero_point: int) -> TensorHandle:
        """Add a tensor that operators can read."""
        handle = TensorHandle(len(self._tensors), record.shape)
        self._tensors.append(record)
        self._values[handle.index] = RecordedValue(handle, sample, scale, zero_point)
        return handle

    def operator(self, kind: str, inputs: Sequence[int], output: TensorHandle, options: str = "", **fields: FieldValue) -> TensorHandle:
        """Add an operator of that builtin ``kind`` with its options table, and return its output."""
        return self.operator_of_many(kind, inputs, (output,), options, fields)[0]

    def operator_of_many(
        self,
        kind: str,
        inputs: Sequence[int],
        outputs: tuple[TensorHandle, ...],
        options: str,
        fields: Mapping[str, FieldValue],
        intermediates: tuple[int, ...] = (),
    ) -> tuple[TensorHandle, ...]:
        """Add an operator with several outputs, or with ``intermediates`` (tensors by number), and return its outputs."""
        eight, sixteen = _VERSIONS[kind]
        version = {"int8": eight, "int16": sixteen}.get(self.precision.name, 1)
        code, numbers = getattr(tflite.BuiltinOperator, kind), tuple(output.index for output in outputs)
        record = OperatorRecord(code, version, tuple(inputs), numbers, options, tuple(fields.items()), intermediates=intermediates)
        self._operators.append(record)
        return outputs

    def write(self, outputs: Sequence[TensorHandle]) -> bytes:
        """The .tflite file of the network with these ``outputs``."""
        indices = tuple(self.value(output).handle.index for output in outputs)
        description = f"npu-testbed zoo: {self.name}"
        tensors, operators, inputs = tuple(self._tensors), tuple(self._operators), tuple(self.inputs)
        model = ModelRecord(self.name, description, tensors, operators, inputs, indices)
        return write_tflite(replace(model, operators=(_ONCE, *operators), others=(self._beginning(),)) if self._resources else model)

    def _beginning(self) -> SubgraphRecord:
        """The subgraph that CALL_ONCE runs: it assigns the initial values of the resource variables."""
        tensors: list[TensorRecord] = []
        operators: list[OperatorRecord] = []
        for values in self._resources:
            number = len(tensors)
            handle = TensorRecord(f"{values.name}/first_handle", (), tflite.TensorType.RESOURCE)
            tensors += [handle, replace(values, name=f"{values.name}/first")]
            operators += [_handle_of(values.name, number), OperatorRecord(_OPERATOR.ASSIGN_VARIABLE, 1, (number, number + 1), ())]
        return SubgraphRecord("beginning", tuple(tensors), tuple(operators), (), ())
