"""Graphs of Ethos-U operators for tests: placeholders with seeded constants, and one graph of every operator in many forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from cascader.frontends import te as npu
from cascader.frontends.te.graph import Graph, graph_of
from cascader.tensorir.compat import load, shape_of


class Constants:
    """Placeholders of known values."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.values: dict[Any, np.ndarray] = {}

    def of(self, values: np.ndarray, name: str) -> Any:
        made = load().te.placeholder(values.shape, str(values.dtype), name=name)
        self.values[made] = values
        return made

    def integers(self, shape: tuple[int, ...], dtype: str, name: str) -> Any:
        limits = np.iinfo(dtype)
        return self.of(self.random.integers(limits.min, limits.max + 1, shape).astype(dtype), name)

    def records(self, channels: int, name: str, scale: float = 0.002) -> Any:
        bias = self.random.integers(-3000, 3000, channels)
        return self.of(npu.scale_records(bias, 1.0, scale * self.random.uniform(0.5, 1.5, channels), 1.0), name)

    def conv2d(self, ifm: Any, channels: int, kernel: tuple[int, int], name: str, lut: Any = None, **given: Any) -> Any:
        weight = self.integers((channels, *kernel, shape_of(ifm)[3]), given.pop("weight_dtype", "int8"), f"{name}_weight")
        return npu.ethosu_conv2d(ifm, weight, self.records(channels, f"{name}_scale_bias"), lut, name=name, **given)

    def depthwise(self, ifm: Any, kernel: tuple[int, int], name: str, **given: Any) -> Any:
        channels = shape_of(ifm)[3]
        weight = self.integers((channels, *kernel, 1), "int8", f"{name}_weight")
        return npu.ethosu_depthwise_conv2d(ifm, weight, self.records(channels, f"{name}_scale_bias", 0.004), name=name, **given)


def image(shape: tuple[int, ...], name: str = "image", dtype: str = "int8") -> Any:
    return load().te.placeholder(shape, dtype, name=name)


def two_convolutions() -> Graph:
    """The pre-RFC's example: (26, 26, 3) to (24, 24, 32) to (24, 24, 8)."""
    made, x = Constants(), image((1, 26, 26, 3))
    first = made.conv2d(x, 32, (3, 3), "first", ifm_zero_point=-5, ofm_zero_point=3)
    return graph_of(x, made.conv2d(first, 8, (1, 1), "second", ifm_zero_point=3, ofm_zero_point=-7), made.values)


def filters() -> Graph:
    """Convolutions in every rounding, stride, dilation, padding, upscale, clip, and with a table."""
    made, x = Constants(1), image((1, 9, 11, 5))
    table = made.integers((256,), "int8", "table")
    plain = {"ifm_zero_point": 7, "ofm_zero_point": -9}
    outputs = [
        made.conv2d(x, 6, (3, 3), "padded", padding=(1, 1, 1, 1), weight_zero_point=3, **plain),
        made.conv2d(x, 9, (2, 3), "strided", strides=(2, 3), rounding_mode="NATURAL", **plain),
        made.conv2d(x, 4, (3, 2), "dilated", dilation=(2, 2), padding=(2, 0, 2, 1), rounding_mode="TRUNCATE", **plain),
        made.conv2d(x, 8, (3, 3), "nearest", upscale="NEAREST", padding=(1, 1, 1, 1), **plain),
        made.conv2d(x, 3, (2, 2), "zeros", upscale="ZEROS", padding=(1, 1, 0, 0), activation="CLIP", clip_min=-20, clip_max=90, **plain),
        made.conv2d(x, 5, (1, 1), "tabled", table, activation="LUT", **plain),
        made.depthwise(x, (3, 3), "depthwise", padding=(1, 1, 1, 1), **plain),
        made.depthwise(x, (2, 4), "depthwise_strided", strides=(2, 1), rounding_mode="NATURAL", **plain),
        made.depthwise(x, (3, 3), "depthwise_wide", ofm_dtype="int32", ifm_zero_point=7),
    ]
    return graph_of(x, outputs, made.values)


def pools() -> Graph:
    """Pools of both kinds, padded and not, behind the upscaler, rescaled and clipped, identities, moves."""
    x = image((1, 8, 10, 6))
    made = Constants(2)
    table = made.integers((256,), "int8", "table")
    average = npu.ethosu_pooling(x, pooling_type="AVG", pool_shape=(2, 3), strides=(2, 1), rounding_mode="NATURAL", name="average")
    rescaled = {"ifm_scale": 0.5, "ifm_zero_point": 3, "ofm_scale": 0.75, "ofm_zero_point": -2}
    outputs = [
        average,
        npu.ethosu_pooling(x, pooling_type="MAX", pool_shape=(3, 3), padding=(1, 1, 1, 1), name="maximum"),
        npu.ethosu_pooling(x, pooling_type="AVG", pool_shape=(3, 3), padding=(1, 1, 1, 1), rounding_mode="NATURAL", name="average_padded"),
        npu.ethosu_pooling(x, pooling_type="AVG", pool_shape=(2, 2), padding=(0, 0, 1, 1), upscale="NEAREST", name="bilinear"),
        npu.ethosu_pooling(x, pooling_type="AVG", pool_shape=(2, 2), name="average_rescaled", **rescaled),
        npu.ethosu_pooling(x, pooling_type="MAX", pool_shape=(2, 2), activation="CLIP", clip_min=-10, clip_max=99, name="maximum_clipped"),
        npu.ethosu_identity(x, ifm_scale=1.0, ofm_scale=0.3, ofm_zero_point=11, name="rescaled"),
        npu.ethosu_identity(x, table, activation="LUT", name="looked_up"),
        npu.concatenate([x, npu.strided_slice(x, (0, 0, 0, 2), (1, 8, 10, 4), name="cut"), x], 3, name="channels"),
        npu.concatenate([average, npu.ethosu_identity(average, name="again")], 1, name="rows"),
        npu.ethosu_identity(npu.reshape(x, (1, 4, 20, 6), name="folded"), name="reshaped"),
    ]
    return graph_of(x, outputs, made.values)


def elementwise() -> Graph:
    """Every operator of two operands and of one, on 8, 16 and 32 bits, broadcast, swapped, with scalars, and sums over channels."""
    made = Constants(3)
    a, b = image((1, 6, 7, 5), "a"), image((1, 6, 7, 5), "b")
    wide = image((1, 6, 7, 5), "wide", "int32")
    half = image((1, 6, 7, 5), "half", "int16")
    row, one = made.integers((1, 1, 7, 5), "int8", "row"), made.integers((1, 1, 1, 1), "int8", "one")
    shifts = made.of(made.random.integers(0, 20, (1, 1, 1, 5)).astype("int32"), "shifts")
    scales = {"ifm_scale": 0.5, "ifm2_scale": 0.25, "ofm_scale": 0.7}
    zero_points = {"ifm_zero_point": 4, "ifm2_zero_point": -3, "ofm_zero_point": 9}
    binary, unary = npu.ethosu_binary_elementwise, npu.ethosu_unary_elementwise
    outputs = [
        binary(a, b, operator_type="ADD", name="add", **scales, **zero_points),
        binary(a, b, operator_type="ADD", name="add_alike", ifm_scale=0.5, ifm2_scale=0.5, ofm_scale=0.6, **zero_points),
        binary(a, row, operator_type="SUB", name="sub_row", **scales, **zero_points),
        binary(a, b, operator_type="SUB", name="sub_swapped", reversed_operands=True, **scales, **zero_points),
        binary(a, one, operator_type="MUL", name="mul_scalar", **scales, **zero_points),
        binary(a, b, operator_type="MUL", name="mul_rescaled", use_rescale=True, rescale_scale=1 << 30, rescale_shift=36, **zero_points),
        binary(a, b, operator_type="MUL", name="mul_wide", ofm_dtype="int32"),
        binary(a, row, operator_type="MIN", name="min", ifm_zero_point=4, ifm2_zero_point=4, ofm_zero_point=4),
        binary(a, b, operator_type="MAX", name="max", activation="CLIP", clip_min=0, clip_max=50),
        binary(wide, shifts, operator_type="SHR", name="shr", rounding_mode="NATURAL"),
        binary(wide, shifts, operator_type="SHL", name="shl"),
        binary(half, half, operator_type="ADD", name="add_half", ifm_scale=0.5, ifm2_scale=0.5, ofm_scale=0.9),
        unary(a, operator_type="ABS", name="abs", ifm_scale=0.5, ofm_scale=0.3, ifm_zero_point=4, ofm_zero_point=-100),
        unary(wide, operator_type="CLZ", name="clz"),
        npu.ethosu_pooling(half, pooling_type="SUM", pool_shape=(1, 1), ofm_dtype="int32", name="sum"),
    ]
    return graph_of([a, b, wide, half], outputs, made.values)
