"""Quantised TFLite networks of plain operators, written as Tensor Expressions of the NPU: operator by operator, by TFLite's own rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tflite

from cascader.frontends import te as npu
from cascader.frontends.te.graph import Graph, graph_of
from cascader.tensorir.compat import load, shape_of
from npu_model.tflite.model import TfliteTensor, builtin_code, read_tflite

CODES = {value: name for name, value in vars(tflite.BuiltinOperator).items() if not name.startswith("_")}
SAME = 0
Padding = tuple[int, int, int, int]


class NotPlainError(Exception):
    """An operator that is not one of the plain ones, or a form of it."""


def padded(extents: tuple[int, int], taps: tuple[int, int], strides: tuple[int, int], *, same: bool) -> Padding:
    """Rows and columns of padding, top, left, bottom and right."""
    if not same:
        return (0, 0, 0, 0)
    total = [max(0, (-(-n // s) - 1) * s + t - n) for n, t, s in zip(extents, taps, strides, strict=True)]
    return total[0] // 2, total[1] // 2, total[0] - total[0] // 2, total[1] - total[1] // 2


class Writer:
    """A network's tensors while it is written."""

    def __init__(self, data: bytes) -> None:
        self.model = read_tflite(data)
        root = tflite.Model.GetRootAsModel(data, 0)
        self.root, self.graph = root, root.Subgraphs(0)
        self.made: dict[int, Any] = {}
        self.constants: dict[Any, np.ndarray] = {}

    def tensor(self, index: int) -> TfliteTensor:
        return self.model.tensors[index]

    def dtype(self, index: int) -> str:
        return self.tensor(index).dtype.lower()

    def values(self, index: int) -> np.ndarray:
        return np.frombuffer(self.tensor(index).data, self.dtype(index)).reshape(self.tensor(index).shape)

    def name(self, index: int) -> str:
        return self.tensor(index).name

    def constant(self, name: str, values: np.ndarray) -> Any:
        made = load().te.placeholder(values.shape, str(values.dtype), name=name)
        self.constants[made] = values
        return made

    def read(self, index: int) -> Any:
        """A tensor, or a constant one."""
        if index not in self.made:
            if not self.tensor(index).data:
                raise NotPlainError(self.name(index))
            shape = self.tensor(index).shape
            self.made[index] = self.constant(self.name(index), self.values(index).reshape((1,) * (4 - len(shape)) + shape))
        return self.made[index]

    def scale(self, index: int) -> float:
        return float(self.tensor(index).scales[0])

    def zero(self, index: int) -> int:
        return int(self.tensor(index).zero_points[0])

    def ends(self, ifm: int, ofm: int) -> dict[str, Any]:
        """Scales and zero points of an operator's tensors."""
        return {
            "ifm_scale": self.scale(ifm),
            "ifm_zero_point": self.zero(ifm),
            "ofm_scale": self.scale(ofm),
            "ofm_zero_point": self.zero(ofm),
        }

    def clip(self, function: int, ofm: int) -> dict[str, Any]:
        """A fused activation as a clip."""
        reach = {0: None, 1: (0.0, None), 2: (-1.0, 1.0), 3: (0.0, 6.0)}[function]
        if reach is None:
            return {}
        limits = np.iinfo(self.dtype(ofm))
        low, high = (None if real is None else self.zero(ofm) + round(real / self.scale(ofm)) for real in reach)
        return {
            "activation": "CLIP",
            "clip_min": max(limits.min, limits.min if low is None else low),
            "clip_max": min(limits.max, limits.max if high is None else high),
        }

    def graph_of(self) -> Graph:
        """The whole network."""
        for index in self.model.inputs:
            self.made[index] = load().te.placeholder(self.tensor(index).shape, self.dtype(index), name=self.name(index))
        for number in range(self.graph.OperatorsLength()):
            operator = self.graph.Operators(number)
            code = CODES[builtin_code(self.root.OperatorCodes(operator.OpcodeIndex()))]
            if code not in OPERATORS:
                raise NotPlainError(code)
            ifms, ofm = operator.InputsAsNumpy().tolist(), operator.Outputs(0)
            made = OPERATORS[code](self, operator, ifms, ofm)
            self.made[ofm] = made
        return graph_of(
            [self.made[index] for index in self.model.inputs], [self.made[index] for index in self.model.outputs], self.constants
        )


def options(operator: Any, kind: type) -> Any:
    found = kind()
    found.Init(operator.BuiltinOptions().Bytes, operator.BuiltinOptions().Pos)
    return found


def filtered(writer: Writer, ifms: list[int], ofm: int, weights: np.ndarray, op: Callable[..., Any], ifm: Any, **given: Any) -> Any:
    """A convolution or depthwise convolution of OHWI weights."""
    name, weight = writer.name(ofm), writer.tensor(ifms[1])
    channels = weights.shape[0]
    bias = writer.values(ifms[2]) if len(ifms) > 2 and ifms[2] >= 0 else np.zeros(channels, np.int32)
    records = npu.scale_records(bias, writer.scale(ifms[0]), weight.scales, writer.scale(ofm), writer.dtype(ifms[0]))
    return op(
        ifm,
        writer.constant(f"{name}_weight", np.ascontiguousarray(weights)),
        writer.constant(f"{name}_scale_bias", records),
        name=name,
        weight_zero_point=int(weight.zero_points[0]),
        **{"rounding_mode": "NATURAL" if writer.dtype(ifms[0]) == "int16" else "TFL"} | writer.ends(ifms[0], ofm) | given,
    )


def conv2d(writer: Writer, operator: Any, ifms: list[int], ofm: int) -> Any:
    own, weights = options(operator, tflite.Conv2DOptions), writer.values(ifms[1])
    ifm = writer.read(ifms[0])
    if weights.shape[3] != shape_of(ifm)[3]:
        raise NotPlainError("groups")
    strides, dilation = (own.StrideH(), own.StrideW()), (own.DilationHFactor(), own.DilationWFactor())
    taps = tuple((k - 1) * d + 1 for k, d in zip(weights.shape[1:3], dilation, strict=True))
    pads = padded(shape_of(ifm)[1:3], taps, strides, same=own.Padding() == SAME)
    clip = writer.clip(own.FusedActivationFunction(), ofm)
    return filtered(writer, ifms, ofm, weights, npu.ethosu_conv2d, ifm, strides=strides, dilation=dilation, padding=pads, **clip)


def depthwise(writer: Writer, operator: Any, ifms: list[int], ofm: int) -> Any:
    own, weights = options(operator, tflite.DepthwiseConv2DOptions), writer.values(ifms[1])
    ifm = writer.read(ifms[0])
    strides, dilation = (own.StrideH(), own.StrideW()), (own.DilationHFactor(), own.DilationWFactor())
    taps = tuple((k - 1) * d + 1 for k, d in zip(weights.shape[1:3], dilation, strict=True))
    pads = padded(shape_of(ifm)[1:3], taps, strides, same=own.Padding() == SAME)
    given = {"strides": strides, "dilation": dilation, "padding": pads, **writer.clip(own.FusedActivationFunction(), ofm)}
    if own.DepthMultiplier() != 1:
        raise NotPlainError("depth multiplier")
    return filtered(writer, ifms, ofm, np.transpose(weights, (3, 1, 2, 0)), npu.ethosu_depthwise_conv2d, ifm, **given)


def fully_connected(writer: Writer, operator: Any, ifms: list[int], ofm: int) -> Any:
    own, weights = options(operator, tflite.FullyConnectedOptions), writer.values(ifms[1])
    ifm = npu.reshape(writer.read(ifms[0]), (1, 1, 1, weights.shape[1]), name=f"{writer.name(ofm)}_ifm")
    clip = writer.clip(own.FusedActivationFunction(), ofm)
    made = filtered(writer, ifms, ofm, weights[:, None, None, :], npu.ethosu_conv2d, ifm, rounding_mode="NATURAL", **clip)
    return npu.reshape(made, writer.tensor(ofm).shape, name=f"{writer.name(ofm)}_shaped")


def pooled(kind: str) -> Callable[..., Any]:
    def write(writer: Writer, operator: Any, ifms: list[int], ofm: int) -> Any:
        own, ifm = options(operator, tflite.Pool2DOptions), writer.read(ifms[0])
        strides, taps = (own.StrideH(), own.StrideW()), (own.FilterHeight(), own.FilterWidth())
        if max(strides) > 3 and taps != shape_of(ifm)[1:3]:
            raise NotPlainError("long steps")
        strides = strides if max(strides) <= 3 else (1, 1)
        pads = padded(shape_of(ifm)[1:3], taps, strides, same=own.Padding() == SAME)
        zero = writer.zero(ifms[0]) if kind == "MAX" else 0
        given = {"pooling_type": kind, "pool_shape": taps, "strides": strides, "padding": pads, "rounding_mode": "NATURAL"}
        clip = writer.clip(own.FusedActivationFunction(), ofm)
        return npu.ethosu_pooling(ifm, name=writer.name(ofm), ifm_zero_point=zero, ofm_zero_point=zero, **given, **clip)

    return write


def binary(kind: str, table: type | None) -> Callable[..., Any]:
    def write(writer: Writer, operator: Any, ifms: list[int], ofm: int) -> Any:
        clip = {} if table is None else writer.clip(options(operator, table).FusedActivationFunction(), ofm)
        first, second = (writer.read(index) for index in ifms)
        swapped = bool(writer.tensor(ifms[0]).data) or np.prod(shape_of(first)) < np.prod(shape_of(second))
        if swapped:
            first, second, ifms = second, first, ifms[::-1]
        scales = writer.ends(ifms[0], ofm) | {"ifm2_scale": writer.scale(ifms[1]), "ifm2_zero_point": writer.zero(ifms[1])}
        if kind in ("MIN", "MAX"):
            scales = {key: value for key, value in scales.items() if "scale" not in key}
        swap = swapped and kind == "SUB"
        return npu.ethosu_binary_elementwise(
            first, second, operator_type=kind, name=writer.name(ofm), reversed_operands=swap, **scales, **clip
        )

    return write


def concatenation(writer: Writer, operator: Any, ifms: list[int], ofm: int) -> Any:
    own = options(operator, tflite.ConcatenationOptions)
    if {(writer.scale(index), writer.zero(index)) for index in ifms} != {(writer.scale(ofm), writer.zero(ofm))}:
        raise NotPlainError("concatenation with rescaling")
    return npu.concatenate([writer.read(index) for index in ifms], own.Axis(), name=writer.name(ofm))


def reshaped(writer: Writer, _operator: Any, ifms: list[int], ofm: int) -> Any:
    return npu.reshape(writer.read(ifms[0]), writer.tensor(ofm).shape, name=writer.name(ofm))


def resized(kind: str, table: type) -> Callable[..., Any]:
    def write(writer: Writer, operator: Any, ifms: list[int], ofm: int) -> Any:
        own = options(operator, table)
        ifm, shape = writer.read(ifms[0]), writer.tensor(ofm).shape
        if own.AlignCorners() or own.HalfPixelCenters() or shape[1:3] != tuple(2 * n for n in shape_of(ifm)[1:3]):
            raise NotPlainError("a resize by other than 2")
        window = {"pool_shape": (1, 1)} if kind == "nearest" else {"pool_shape": (2, 2), "padding": (0, 0, 1, 1)}
        return npu.ethosu_pooling(ifm, pooling_type="AVG", upscale="NEAREST", name=writer.name(ofm), **window)

    return write


def clipped(function: int) -> Callable[..., Any]:
    def write(writer: Writer, _operator: Any, ifms: list[int], ofm: int) -> Any:
        if writer.scale(ifms[0]) != writer.scale(ofm) or writer.zero(ifms[0]) != writer.zero(ofm):
            raise NotPlainError("an activation with rescaling")
        zero = writer.zero(ofm)
        given = {"pooling_type": "AVG", "pool_shape": (1, 1), "ifm_zero_point": zero, "ofm_zero_point": zero}
        return npu.ethosu_pooling(writer.read(ifms[0]), name=writer.name(ofm), **given, **writer.clip(function, ofm))

    return write


def absolute(writer: Writer, _operator: Any, ifms: list[int], ofm: int) -> Any:
    return npu.ethosu_unary_elementwise(writer.read(ifms[0]), operator_type="ABS", name=writer.name(ofm), **writer.ends(ifms[0], ofm))


def quantize(writer: Writer, _operator: Any, ifms: list[int], ofm: int) -> Any:
    if writer.dtype(ifms[0]) != writer.dtype(ofm):
        raise NotPlainError("a change of type")
    return npu.ethosu_identity(writer.read(ifms[0]), name=writer.name(ofm), **writer.ends(ifms[0], ofm))


OPERATORS: dict[str, Callable[..., Any]] = {
    "CONV_2D": conv2d,
    "DEPTHWISE_CONV_2D": depthwise,
    "FULLY_CONNECTED": fully_connected,
    "MAX_POOL_2D": pooled("MAX"),
    "AVERAGE_POOL_2D": pooled("AVG"),
    "ADD": binary("ADD", tflite.AddOptions),
    "SUB": binary("SUB", tflite.SubOptions),
    "MUL": binary("MUL", tflite.MulOptions),
    "MINIMUM": binary("MIN", None),
    "MAXIMUM": binary("MAX", None),
    "CONCATENATION": concatenation,
    "RESHAPE": reshaped,
    "RESIZE_NEAREST_NEIGHBOR": resized("nearest", tflite.ResizeNearestNeighborOptions),
    "RESIZE_BILINEAR": resized("bilinear", tflite.ResizeBilinearOptions),
    "RELU": clipped(1),
    "RELU_N1_TO_1": clipped(2),
    "RELU6": clipped(3),
    "ABS": absolute,
    "QUANTIZE": quantize,
}


def te_graph(data: bytes) -> Graph:
    """The network as Tensor Expressions; NotPlainError for an operator that is none of the plain ones."""
    return Writer(data).graph_of()
