"""The kernel operations of convolutions, depthwise convolutions, poolings and identities, from attributes and shapes."""

from __future__ import annotations

from cascader.frontends.te.attributes import CONV2D, DEPTHWISE, IDENTITY, POOLING, Attributes
from cascader.frontends.te.registers import (
    RegisterOperand,
    agree,
    data_type,
    image,
    kernel_operation,
    require_type,
    require_zero_points,
    scales_given,
)
from cascader.frontends.te.scaling import pooling_scale, quantised
from npu_model.errors import InputError
from npu_model.program import LONGEST_STRIDE, Kernel, KernelOperation, OperationKind, Padding, PoolKind, Scale, Upscale, ifm_extent
from npu_model.shapes import Shape3D

_POOLS = {"AVG": PoolKind.AVERAGE, "MAX": PoolKind.MAX, "SUM": PoolKind.REDUCE_SUM}
_LONGEST_SIDES = {CONV2D: 64, DEPTHWISE: 64, POOLING: 256, IDENTITY: 1}
"""The most rows and columns of a window (Vela 5.2.0's supported operators)."""
_LONGEST_PADDED = 8
"""The most rows and columns of an average with padding (Vela 5.2.0's supported operators)."""


def _window(made: Attributes, kernel: Kernel, ifm: Shape3D, depth: int) -> tuple[Shape3D, Padding, Upscale]:
    """The OFM of a window, with its padding registers and upscaler; InputError if the NPU has no such window."""
    upscale = Upscale[made.upscale]
    factor = 1 if upscale is Upscale.NONE else 2
    top, left, bottom, right = made.padding
    if max(kernel.stride_y, kernel.stride_x) > LONGEST_STRIDE:
        raise made.refuse("strides", f"the NPU steps over {LONGEST_STRIDE} at most; take several operators")
    if not {kernel.dilation_y, kernel.dilation_x} <= {1, 2}:
        raise made.refuse("dilation", "1 and 2 are possible; write the zeros into the weights")
    is_padded = made.pooling_type == "AVG" and any(made.padding)
    longest = _LONGEST_PADDED if is_padded else _LONGEST_SIDES[made.op]
    if max(kernel.dilated_height, kernel.dilated_width) > longest:
        what = "of an average with padding" if is_padded else "with its dilation"
        raise InputError(f"{made.op} has a window of {kernel.height} x {kernel.width}: {longest} {what} is the most; split it.")
    extents, pads = [], []
    for extent, before, after, dilated, stride in (
        (ifm.height, top, bottom, kernel.dilated_height, kernel.stride_y),
        (ifm.width, left, right, kernel.dilated_width, kernel.stride_x),
    ):
        covered = extent * factor + before + after - dilated
        if covered < 0:
            raise made.refuse("padding", f"a window of {dilated} does not fit into {extent * factor + before + after} elements; add to it")
        if max(before, after) >= dilated:
            raise made.refuse("padding", f"a window of {dilated} would lie in it alone; less than that is possible")
        outputs = covered // stride + 1
        # Rows and columns that no window reaches are not padding for the NPU, which derives the IFM from the padding.
        used = (outputs - 1) * stride + dilated - before
        extents.append(outputs)
        pads.append((before, max(0, used - extent * factor)))
    (y0, y1), (x0, x1) = pads
    return Shape3D(extents[0], extents[1], depth), Padding(y0, x0, y1, x1), upscale


def _read(ifm: Shape3D, ofm: Shape3D, kernel: Kernel, padding: Padding, upscale: Upscale) -> Shape3D:
    """The part of the IFM that the windows reach. The NPU takes it for the IFM's extent."""
    rows = ifm_extent(ofm.height, kernel.stride_y, kernel.dilated_height, padding.top, padding.bottom, upscale)
    columns = ifm_extent(ofm.width, kernel.stride_x, kernel.dilated_width, padding.left, padding.right, upscale)
    return Shape3D(min(rows, ifm.height), min(columns, ifm.width), ifm.depth)


def filter_operation(made: Attributes, ifm: RegisterOperand, weight: RegisterOperand) -> KernelOperation:
    """A convolution or depthwise convolution. ``weight`` is OHWI; a depthwise one has one input channel."""
    source, dtype = image(made.op, "ifm", ifm.shape), data_type(made.op, "ifm", ifm.dtype)
    require_type(made, "ifm", dtype, "int8", "uint8", "int16")
    require_type(made, "weight", data_type(made.op, "weight", weight.dtype), "int8", "uint8")
    ofm_type = data_type(made.op, "ofm_dtype", made.ofm_dtype or ifm.dtype)
    require_type(made, "ofm_dtype", ofm_type, "int8", "uint8", "int16", "int32")
    if len(weight.shape) != 4:
        raise InputError(f"{made.op} has weight of shape {weight.shape}: OHWI is expected; reshape it to 4 axes.")
    channels, height, width, inputs = weight.shape
    expected = 1 if made.op == DEPTHWISE else source.depth
    if inputs != expected or (made.op == DEPTHWISE and channels != source.depth):
        raise InputError(
            f"{made.op} has weight of shape {weight.shape} and {source.depth} input channels: OHWI of one filter each is needed."
        )
    agree(made, "kernel_shape", (height, width))
    agree(made, "ofm_channels", channels)
    kernel = Kernel(height, width, *made.strides, *made.dilation)
    ofm, padding, upscale = _window(made, kernel, source, channels)
    require_zero_points(made, dtype, ofm_type)
    kind = OperationKind.CONV_2D if made.op == CONV2D else OperationKind.DEPTHWISE
    shapes = _read(source, ofm, kernel, padding, upscale), ofm
    return kernel_operation(made, kind, shapes, (dtype, ofm_type), kernel=kernel, padding=padding, upscale=upscale)


def pool_operation(made: Attributes, ifm: RegisterOperand) -> KernelOperation:
    """A pooling, or an identity, which is a pooling over one element."""
    source, dtype = image(made.op, "ifm", ifm.shape), data_type(made.op, "ifm", ifm.dtype)
    ofm_type = data_type(made.op, "ofm_dtype", made.ofm_dtype or ifm.dtype)
    kind = PoolKind.AVERAGE if made.op == IDENTITY else _POOLS[made.pooling_type]
    kernel = Kernel(*(made.pool_shape or (1, 1)), *made.strides)
    if made.op == POOLING and not made.pool_shape:
        raise made.refuse("pool_shape", "give its height and width")
    depth = 1 if kind is PoolKind.REDUCE_SUM else source.depth
    agree(made, "ofm_channels", depth)
    ofm, padding, upscale = _window(made, kernel, source, depth)
    if kind is PoolKind.REDUCE_SUM:
        require_type(made, "ifm", dtype, "int16", "int32")
        require_type(made, "ofm_dtype", ofm_type, "int16", "int32")
        if kernel != Kernel() or padding != Padding():
            raise made.refuse("pool_shape", "pooling_type SUM sums over channels; give (1, 1) without strides or padding")
    else:
        require_type(made, "ifm", dtype, "int8", "uint8", "int16")
        require_type(made, "ofm_dtype", ofm_type, "int8", "uint8", "int16")
    if kind is PoolKind.MAX and upscale is Upscale.ZEROS:
        raise made.refuse("upscale", "what pooling_type MAX makes of the zeros is not public; use NEAREST")
    require_zero_points(made, dtype, ofm_type)
    shapes, scale = (_read(source, ofm, kernel, padding, upscale), ofm), _pool_scale(made, kind, kernel, padding)
    more = {"pool": kind, "global_scale": True, "ofm_scale": scale}
    return kernel_operation(made, OperationKind.POOL, shapes, (dtype, ofm_type), kernel=kernel, padding=padding, upscale=upscale, **more)


def _pool_scale(made: Attributes, kind: PoolKind, kernel: Kernel, padding: Padding) -> Scale:
    first, out = scales_given(made, "ifm_scale", "ofm_scale")
    if kind is PoolKind.MAX or (kind is PoolKind.AVERAGE and padding != Padding()):
        what = (
            "MAX does not scale an element"
            if kind is PoolKind.MAX
            else "with padding the NPU divides by the number of elements inside the tensor"
        )
        if first != out:
            raise made.refuse("ofm_scale", f"ifm_scale is {first:g}, and pooling_type {what}; rescale with ethosu_identity")
        if kind is PoolKind.AVERAGE and made.rounding_mode == "TRUNCATE":
            raise made.refuse("rounding_mode", "pooling_type AVG with padding rounds to the nearest; use NATURAL or TFL")
        return Scale(1, 0)
    if kind is PoolKind.REDUCE_SUM:
        return quantised(first / out) if first != out else Scale(1, 0)
    if kernel.elements == 1 and made.op == IDENTITY:
        return quantised(first / out) if first != out else Scale(1, 0)
    return pooling_scale(kernel.elements, first / out)
