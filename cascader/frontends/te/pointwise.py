"""The kernel operations of elementwise operators, from attributes and shapes."""

from __future__ import annotations

from typing import Any

from cascader.frontends.te.attributes import BINARY, UNARY, Attributes
from cascader.frontends.te.registers import (
    RegisterOperand,
    agree,
    data_type,
    dense_map,
    image,
    kernel_operation,
    require_type,
    require_zero_point,
    require_zero_points,
    scales_given,
)
from cascader.frontends.te.scaling import SumScales, product_scale, quantised, sum_scales
from npu_model.errors import InputError
from npu_model.program import Broadcast, DataType, ElementwiseKind, FeatureMap, KernelOperation, OperationKind, Scale, ScaledOperand
from npu_model.shapes import Shape3D


def elementwise_operation(made: Attributes, ifm: RegisterOperand, ifm2: RegisterOperand | None) -> KernelOperation:
    """A binary or unary elementwise operation. Only the second operand of a binary operation may be broadcast."""
    source, dtype = image(made.op, "ifm", ifm.shape), data_type(made.op, "ifm", ifm.dtype)
    ofm_type = data_type(made.op, "ofm_dtype", made.ofm_dtype or ifm.dtype)
    kind = ElementwiseKind[made.operator_type]
    is_wide = kind in (ElementwiseKind.CLZ, ElementwiseKind.SHR, ElementwiseKind.SHL)
    some = ("int8", "uint8", "int16") if kind in (ElementwiseKind.ABS, ElementwiseKind.MIN, ElementwiseKind.MAX) else ()
    require_type(made, "ifm", dtype, *(("int32",) if is_wide else some or ("int8", "uint8", "int16", "int32")))
    require_type(made, "ofm_dtype", ofm_type, *(("int32",) if is_wide else some or ("int8", "uint8", "int16", "int32")))
    require_zero_points(made, dtype, ofm_type)
    agree(made, "ofm_channels" if made.op == UNARY else "ifm_channels", source.depth)
    second, changes = None, dict[str, Any]()
    if made.op == BINARY and ifm2 is not None:
        second, changes = _second(made, source, dtype, ifm2)
    whole = kernel_operation(made, OperationKind.ELEMENTWISE, (source, source), (dtype, ofm_type), elementwise=kind, ifm2=second)
    return whole.having(**changes, **_elementwise_scales(made, kind, dtype))


def _second(made: Attributes, source: Shape3D, dtype: DataType, ifm2: RegisterOperand) -> tuple[FeatureMap | None, dict[str, Any]]:
    """The second operand as a feature map, or as a scalar in a register, and its broadcast axes."""
    shape = image(made.op, "ifm2", ifm2.shape)
    require_type(made, "ifm2", data_type(made.op, "ifm2", ifm2.dtype), str(dtype))
    require_zero_point(made, "ifm2_zero_point", dtype)
    agree(made, "ifm2_channels", shape.depth)
    pairs = ((shape.height, source.height), (shape.width, source.width), (shape.depth, source.depth))
    if any(own not in (1, extent) for own, extent in pairs):
        own = (1, source.height, source.width, source.depth)
        raise InputError(f"{made.op} has ifm2 of shape {ifm2.shape} for an ifm of {own}: each axis must be 1 or the ifm's; swap them.")
    if ifm2.scalar is not None:
        return None, {"scalar": ifm2.scalar, "scalar_zero_point": made.ifm2_zero_point, "broadcast": Broadcast(swap=made.reversed_operands)}
    height, width, depth = (own != extent for own, extent in pairs)
    broadcast = Broadcast(height=height, width=width, depth=depth, swap=made.reversed_operands)
    return dense_map(shape, dtype, made.ifm2_zero_point), {"broadcast": broadcast}


def _elementwise_scales(made: Attributes, kind: ElementwiseKind, dtype: DataType) -> dict[str, Any]:
    """The scale registers of an elementwise operation."""
    explicit = Scale(made.rescale_scale, made.rescale_shift)
    if made.use_rescale and dtype.bits == 32 and explicit.scale != 1:
        raise made.refuse("rescale_scale", "32-bit operands are shifted alone; give 1")
    names = ("ifm_scale", "ifm2_scale", "ofm_scale") if made.op == BINARY else ("ifm_scale", "ofm_scale")
    scales = scales_given(made, *names)
    if dtype.bits == 32 and len(set(scales)) > 1 and not made.use_rescale:
        raise made.refuse("ofm_scale", "32-bit operands are shifted alone; give use_rescale with rescale_shift")
    if kind in (ElementwiseKind.ADD, ElementwiseKind.SUB):
        if made.use_rescale or (len(set(scales)) == 1 and not any(getattr(made, name) for name in names)):
            out = explicit if made.use_rescale else Scale(1, 0)
            found = SumScales(Scale(1, 0), Scale(1, 0), out, ScaledOperand.BOTH)
        elif dtype.bits == 32:
            found = SumScales(Scale(1, 0), Scale(1, 0), Scale(1, 0), ScaledOperand.BOTH)
        else:
            found = sum_scales(scales[0], scales[1], scales[2], dtype.bits, swapped=made.reversed_operands)
        terms = {"ofm_scale": found.out, "opa_scale": found.first, "opb_scale": found.second, "scaled_operand": found.operand}
        return {"global_scale": True, **terms}
    if kind is ElementwiseKind.MUL:
        given = any(getattr(made, name) for name in names)
        product = explicit if made.use_rescale else product_scale(scales[0], scales[1], scales[2]) if given else Scale(1, 0)
        return {"global_scale": True, "ofm_scale": product}
    if kind is ElementwiseKind.ABS:
        return {"global_scale": True, "ofm_scale": quantised(scales[0] / scales[1]) if scales[0] != scales[1] else Scale(1, 0)}
    if len(set(scales)) > 1:
        raise made.refuse("ofm_scale", f"{made.operator_type} never rescales; rescale with ethosu_identity")
    return {"global_scale": kind not in (ElementwiseKind.MIN, ElementwiseKind.MAX), "ofm_scale": Scale(1, 0)}
