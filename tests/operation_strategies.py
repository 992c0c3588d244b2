"""Hypothesis strategies for operations that the registers can express."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from npu_model.program import (
    AccumulatorFormat,
    Activation,
    ActivationKind,
    Broadcast,
    ByteRange,
    ClipRange,
    Control,
    ControlKind,
    DataType,
    DmaOperation,
    DmaWait,
    ElementwiseKind,
    FeatureMap,
    Kernel,
    KernelOperation,
    KernelWait,
    Layout,
    OperationKind,
    Padding,
    PoolKind,
    Rounding,
    Scale,
    ScaledOperand,
    Shram,
    Strides,
    Tiles,
    Upscale,
    ifm_extent,
)
from npu_model.shapes import Shape3D

ADDRESSES = st.integers(0, (1 << 32) - 1)
EXTENTS = st.integers(1, 64)
SHAPES = st.builds(Shape3D, EXTENTS, EXTENTS, st.integers(1, 512))
DATA_TYPES = st.builds(DataType, st.sampled_from([8, 16, 32]), st.booleans())
SCALES = st.builds(Scale, ADDRESSES, st.integers(0, 63))
SIGNED = st.integers(-(1 << 15), (1 << 15) - 1)
STRIDES = ADDRESSES | st.integers(-(1 << 20), -1)


@st.composite
def tiles(draw: DrawFn, shape: Shape3D) -> Tiles:
    if draw(st.booleans()):
        return Tiles.single(shape, draw(ADDRESSES))
    return Tiles(draw(EXTENTS), draw(EXTENTS), draw(EXTENTS), tuple(draw(ADDRESSES) for _ in range(4)))


@st.composite
def feature_maps(draw: DrawFn, shape: Shape3D) -> FeatureMap:
    return FeatureMap(
        region=draw(st.integers(0, 7)),
        shape=shape,
        dtype=draw(DATA_TYPES),
        layout=draw(st.sampled_from(Layout)),
        tiles=draw(tiles(shape)),
        strides=Strides(draw(STRIDES), draw(STRIDES), draw(STRIDES)),
        zero_point=draw(SIGNED),
    )


@st.composite
def activations(draw: DrawFn, ofm_type: DataType) -> Activation:
    kind = draw(st.sampled_from(ActivationKind))
    clamp = st.integers(0, (1 << 16) - 1) if ofm_type == DataType(16, signed=False) else SIGNED
    slot = draw(st.integers(0, 7)) if kind is ActivationKind.LUT else 0
    return Activation(kind, draw(clamp), draw(clamp), slot, draw(st.sampled_from(ClipRange)))


@st.composite
def common_fields(draw: DrawFn) -> dict[str, Any]:
    ofm = draw(feature_maps(draw(SHAPES)))
    return {
        "ofm": ofm,
        "block": Shape3D(draw(st.integers(1, 32)), draw(st.integers(1, 64)), draw(st.integers(1, 128))),
        "activation": draw(activations(ofm.dtype)),
        "accumulator": draw(st.sampled_from(AccumulatorFormat)),
        "rounding": draw(st.sampled_from(Rounding)),
        "blockdep": draw(st.integers(0, 3)),
        "global_scale": draw(st.booleans()),
        "shram": Shram(draw(st.integers(0, 63)), draw(st.integers(0, 63))),
    }


KERNELS = st.builds(
    Kernel,
    height=st.integers(1, 8),
    width=st.integers(1, 8),
    stride_y=st.integers(1, 4),
    stride_x=st.integers(1, 4),
    dilation_y=st.integers(1, 2),
    dilation_x=st.integers(1, 2),
)


@st.composite
def ranges(draw: DrawFn, cores: int) -> tuple[ByteRange, ...]:
    region = draw(st.integers(0, 7))
    starts = [draw(ADDRESSES) for _ in range(cores)]
    return tuple(ByteRange(region, start, start + draw(st.integers(0, (1 << 20) - 1))) for start in starts)


@st.composite
def windowed_operations(draw: DrawFn) -> KernelOperation:
    fields = draw(common_fields())
    kind = draw(st.sampled_from([OperationKind.CONV_2D, OperationKind.DEPTHWISE, OperationKind.POOL]))
    kernel, upscale, ofm = draw(KERNELS), draw(st.sampled_from(Upscale)), fields["ofm"].shape
    # No more padding than leaves one row and one column of the IFM.
    rows = (ofm.height - 1) * kernel.stride_y + kernel.dilated_height - 1
    columns = (ofm.width - 1) * kernel.stride_x + kernel.dilated_width - 1
    top, left = draw(st.integers(0, min(rows, 127))), draw(st.integers(0, min(columns, 127)))
    padding = Padding(top, left, draw(st.integers(0, min(rows - top, 255))), draw(st.integers(0, min(columns - left, 255))))
    height = ifm_extent(ofm.height, kernel.stride_y, kernel.dilated_height, padding.top, padding.bottom, upscale)
    width = ifm_extent(ofm.width, kernel.stride_x, kernel.dilated_width, padding.left, padding.right, upscale)
    fields |= {"kind": kind, "kernel": kernel, "padding": padding, "upscale": upscale, "decompose": draw(st.booleans())}
    fields["ifm"] = draw(feature_maps(Shape3D(height, width, draw(st.integers(1, 512)))))
    if kind is OperationKind.POOL:
        return KernelOperation(**fields, pool=draw(st.sampled_from(PoolKind)), ofm_scale=draw(SCALES))
    parallel = draw(st.integers(0, 1))
    fields |= {"parallel_mode": parallel, "weights": draw(ranges(1 + parallel)), "scales": draw(ranges(1 + parallel))}
    if fields["global_scale"]:
        fields["ofm_scale"] = draw(SCALES)
    return KernelOperation(**fields, part_kernel=draw(st.booleans()))


@st.composite
def elementwise_operations(draw: DrawFn) -> KernelOperation:
    fields = draw(common_fields())
    function, ofm = draw(st.sampled_from(ElementwiseKind)), fields["ofm"].shape
    fields |= {"kind": OperationKind.ELEMENTWISE, "elementwise": function, "ofm_scale": draw(SCALES)}
    fields["ifm"] = draw(feature_maps(Shape3D(ofm.height, ofm.width, draw(st.integers(1, 512)))))
    if function.is_unary:
        return KernelOperation(**fields)
    fields["shram"] = Shram(fields["shram"].ib_end, fields["shram"].ab_start, draw(st.integers(0, 63)))
    if draw(st.booleans()):
        fields |= {"scalar": draw(SIGNED), "scalar_zero_point": draw(SIGNED), "broadcast": Broadcast(swap=draw(st.booleans()))}
    else:
        height, width, depth, swap = (draw(st.booleans()) for _ in range(4))
        fields["broadcast"] = Broadcast(height, width, depth, swap)
        shape = Shape3D(1 if height else ofm.height, 1 if width else ofm.width, 1 if depth else ofm.depth)
        fields["ifm2"] = draw(feature_maps(shape))
    if function in (ElementwiseKind.ADD, ElementwiseKind.SUB):
        operand = draw(st.sampled_from(ScaledOperand))
        fields |= {"opa_scale": draw(SCALES), "opb_scale": draw(SCALES), "scaled_operand": operand}
    return KernelOperation(**fields)


@st.composite
def dma_operations(draw: DrawFn) -> DmaOperation:
    start, to_shram = draw(ADDRESSES), draw(st.booleans())
    source = ByteRange(draw(st.integers(0, 7)), start, start + draw(ADDRESSES))
    return DmaOperation(source, draw(ADDRESSES), 0 if to_shram else draw(st.integers(0, 7)), to_shram)


OPERATIONS = st.one_of(
    windowed_operations(),
    elementwise_operations(),
    dma_operations(),
    st.builds(DmaWait, st.integers(0, 15)),
    st.builds(KernelWait, st.integers(0, 15)),
    st.builds(Control, st.sampled_from([ControlKind.IRQ, ControlKind.PMU_MASK]), st.integers(0, 0xFFFF)),
)
