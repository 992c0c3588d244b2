"""The Ethos-U operators of Apache TVM as Tensor Expressions. They compute what the NPU computes, bit by bit.

Names and attributes are those of TVM 0.12's Ethos-U backend. TVM is imported when the first operator is made. Tensors are NHWC with one
image; weights are OHWI. ``scale_bias`` holds 10 bytes a channel, made by :func:`~cascader.frontends.te.scaling.scale_records`. ``lut``
holds the 256 results of a table; the first result belongs to the smallest value.

An operand or result in layout NHCWB16 is a tensor of (1, height, bricks, width, 16). Its operator works on images, between two moves
without a kernel.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from cascader.frontends.te.attributes import BINARY, BRICKS, CONV2D, DEPTHWISE, IDENTITY, POOLING, UNARY, Attributes, attributes
from cascader.frontends.te.moves import from_bricks, to_bricks
from cascader.frontends.te.pointwise import elementwise_operation
from cascader.frontends.te.stages import filtered, operand, pointwise, pooled
from cascader.frontends.te.windowed import filter_operation, pool_operation
from cascader.tensorir.compat import shape_of


def _image(made: Attributes, role: str, tensor: Any, channels: int, name: str) -> Any:
    """An operand as NHWC. An operand in bricks does not say how many ``channels`` it has."""
    if getattr(made, f"{role}_layout") != BRICKS:
        return tensor
    if not channels:
        raise made.refuse(
            f"{role}_layout", f"how many of the channels are none is not said by {made.op}; give NHWC, or its number of channels"
        )
    return from_bricks(tensor, channels, name=f"{name}_{role}_nhwc")


def _written(made: Attributes, ofm: Any, name: str) -> Any:
    """The result in the layout that the attributes ask for."""
    return to_bricks(ofm, name=f"{name}_nhcwb16") if made.ofm_layout == BRICKS else ofm


def _nhwc(made: Attributes) -> Attributes:
    """The attributes of the operator itself, which works on images."""
    return replace(made, ifm_layout="NHWC", ifm2_layout="NHWC", ofm_layout="NHWC")


def ethosu_conv2d(ifm: Any, weight: Any, scale_bias: Any, lut: Any = None, *, name: str = CONV2D, **given: Any) -> Any:
    """A convolution of every input channel.

    Attributes: ifm_scale, ifm_zero_point, weight_zero_point, ofm_scale, ofm_zero_point, strides, padding (top, left, bottom, right),
    dilation, activation, clip_min, clip_max, rounding_mode, upscale, ifm_layout, ofm_layout; kernel_shape and ofm_channels are checked.
    """
    made = attributes(CONV2D, given)
    return _filter(made, ifm, weight, (scale_bias, lut), name)


def ethosu_depthwise_conv2d(ifm: Any, weight: Any, scale_bias: Any, lut: Any = None, *, name: str = DEPTHWISE, **given: Any) -> Any:
    """A convolution of each channel by itself, with weights (channels, height, width, 1).

    It takes the attributes of a convolution, and ofm_dtype.
    """
    made = attributes(DEPTHWISE, given)
    return _filter(made, ifm, weight, (scale_bias, lut), name)


def _filter(made: Attributes, ifm: Any, weight: Any, others: tuple[Any, Any], name: str) -> Any:
    shape = shape_of(weight)
    source = _image(made, "ifm", ifm, shape[0 if made.op == DEPTHWISE else -1], name)
    own = _nhwc(made)
    return _written(made, filtered(own, filter_operation(own, operand(source), operand(weight)), (source, weight, *others), name), name)


def _pool(made: Attributes, ifm: Any, lut: Any, name: str) -> Any:
    own, source = _nhwc(made), _image(made, "ifm", ifm, 0 if made.pooling_type == "SUM" else made.ofm_channels, name)
    return _written(made, pooled(own, pool_operation(own, operand(source)), source, lut, name), name)


def ethosu_pooling(ifm: Any, lut: Any = None, *, name: str = POOLING, **given: Any) -> Any:
    """A mean (AVG), a maximum (MAX) or a sum over channels (SUM).

    Attributes: pooling_type, pool_shape, ifm_scale, ifm_zero_point, ofm_scale, ofm_zero_point, ofm_channels, ofm_dtype, strides, padding,
    activation, clip_min, clip_max, rounding_mode, upscale, ifm_layout, ofm_layout.
    """
    return _pool(attributes(POOLING, given), ifm, lut, name)


def ethosu_identity(ifm: Any, lut: Any = None, *, name: str = IDENTITY, **given: Any) -> Any:
    """A copy of every element, rescaled if the scales differ.

    Attributes: ifm_scale, ifm_zero_point, ofm_scale, ofm_zero_point, activation, rounding_mode, ifm_layout, ofm_layout.
    """
    return _pool(attributes(IDENTITY, given), ifm, lut, name)


def ethosu_binary_elementwise(ifm: Any, ifm2: Any, lut: Any = None, *, name: str = BINARY, **given: Any) -> Any:
    """ADD, SUB, MUL, MIN, MAX, SHR or SHL of two tensors; axes of extent 1 of the second tensor are broadcast.

    Attributes: operator_type, ifm_scale, ifm_zero_point, ifm2_scale, ifm2_zero_point, ofm_scale, ofm_zero_point, ifm_channels,
    ifm2_channels, reversed_operands, ofm_dtype, activation, clip_min, clip_max, rounding_mode, use_rescale, rescale_scale, rescale_shift,
    ifm_layout, ifm2_layout, ofm_layout.
    """
    made = attributes(BINARY, given)
    own, first = _nhwc(made), _image(made, "ifm", ifm, made.ifm_channels, name)
    second = _image(made, "ifm2", ifm2, made.ifm2_channels, name)
    return _written(made, pointwise(own, elementwise_operation(own, operand(first), operand(second)), first, second, lut, name), name)


def ethosu_unary_elementwise(ifm: Any, lut: Any = None, *, name: str = UNARY, **given: Any) -> Any:
    """ABS or CLZ of every element.

    Attributes: operator_type, ofm_channels, ofm_dtype and the attributes of ethosu_identity, with clip limits.
    """
    made = attributes(UNARY, given)
    own, source = _nhwc(made), _image(made, "ifm", ifm, made.ofm_channels, name)
    return _written(made, pointwise(own, elementwise_operation(own, operand(source), None), source, None, lut, name), name)
