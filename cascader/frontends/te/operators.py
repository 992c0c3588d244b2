"""The Ethos-U operators of Apache TVM as Tensor Expressions that compute what the NPU computes, bit by bit.

Names and attributes are those of TVM 0.12's Ethos-U backend. Tensors are NHWC of one image; weights are OHWI; ``scale_bias`` are the 10
bytes of each channel that :func:`~cascader.frontends.te.scaling.scale_records` makes; ``lut`` are the 256 results of a table, that of the
smallest value first. TVM is imported when the first operator is made.
"""

from __future__ import annotations

from typing import Any

from cascader.frontends.te.attributes import BINARY, CONV2D, DEPTHWISE, IDENTITY, POOLING, UNARY, attributes
from cascader.frontends.te.pointwise import elementwise_operation
from cascader.frontends.te.stages import filtered, operand, pointwise, pooled
from cascader.frontends.te.windowed import filter_operation, pool_operation


def ethosu_conv2d(ifm: Any, weight: Any, scale_bias: Any, lut: Any = None, *, name: str = CONV2D, **given: Any) -> Any:
    """A convolution of every input channel.

    Attributes: ifm_scale, ifm_zero_point, weight_zero_point, ofm_scale, ofm_zero_point, strides, padding (top, left, bottom, right),
    dilation, activation, clip_min, clip_max, rounding_mode, upscale, ifm_layout, ofm_layout; kernel_shape and ofm_channels are checked.
    """
    made = attributes(CONV2D, given)
    return filtered(made, filter_operation(made, operand(ifm), operand(weight)), (ifm, weight, scale_bias, lut), name)


def ethosu_depthwise_conv2d(ifm: Any, weight: Any, scale_bias: Any, lut: Any = None, *, name: str = DEPTHWISE, **given: Any) -> Any:
    """A convolution of each channel by itself, weights (channels, height, width, 1). Attributes: those of a convolution, and ofm_dtype."""
    made = attributes(DEPTHWISE, given)
    return filtered(made, filter_operation(made, operand(ifm), operand(weight)), (ifm, weight, scale_bias, lut), name)


def ethosu_pooling(ifm: Any, lut: Any = None, *, name: str = POOLING, **given: Any) -> Any:
    """A mean (AVG), a largest element (MAX) or a sum over channels (SUM).

    Attributes: pooling_type, pool_shape, ifm_scale, ifm_zero_point, ofm_scale, ofm_zero_point, ofm_channels, ofm_dtype, strides, padding,
    activation, clip_min, clip_max, rounding_mode, upscale, ifm_layout, ofm_layout.
    """
    made = attributes(POOLING, given)
    return pooled(made, pool_operation(made, operand(ifm)), ifm, lut, name)


def ethosu_identity(ifm: Any, lut: Any = None, *, name: str = IDENTITY, **given: Any) -> Any:
    """Every element as it is, rescaled where the scales differ.

    Attributes: ifm_scale, ifm_zero_point, ofm_scale, ofm_zero_point, activation, rounding_mode, ifm_layout, ofm_layout.
    """
    made = attributes(IDENTITY, given)
    return pooled(made, pool_operation(made, operand(ifm)), ifm, lut, name)


def ethosu_binary_elementwise(ifm: Any, ifm2: Any, lut: Any = None, *, name: str = BINARY, **given: Any) -> Any:
    """ADD, SUB, MUL, MIN, MAX, SHR or SHL of two tensors; axes of 1 of the second one are broadcast.

    Attributes: operator_type, ifm_scale, ifm_zero_point, ifm2_scale, ifm2_zero_point, ofm_scale, ofm_zero_point, ifm_channels,
    ifm2_channels, reversed_operands, ofm_dtype, activation, clip_min, clip_max, rounding_mode, use_rescale, rescale_scale, rescale_shift,
    ifm_layout, ifm2_layout, ofm_layout.
    """
    made = attributes(BINARY, given)
    return pointwise(made, elementwise_operation(made, operand(ifm), operand(ifm2)), ifm, ifm2, lut, name)


def ethosu_unary_elementwise(ifm: Any, lut: Any = None, *, name: str = UNARY, **given: Any) -> Any:
    """ABS or CLZ of every element. Attributes: operator_type, ofm_channels, ofm_dtype and those of ethosu_identity, with clip limits."""
    made = attributes(UNARY, given)
    return pointwise(made, elementwise_operation(made, operand(ifm), None), ifm, None, lut, name)
