"""Hypothesis strategies for operations that the registers can express."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from msgspec.structs import replace

from npu_model.program import (
    SEPARATE_BUFFERS,
    AccumulatorFormat,
    AccumulatorInput,
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
    IndexList,
    Kernel,
    KernelOperation,
    KernelWait,
    Layout,
    MapStorage,
    Modes,
    OperationKind,
    Padding,
    PoolKind,
    Resize,
    ResizeAxis,
    ResizeKind,
    Reverse,
    Rounding,
    Rows,
    Scale,
    ScaledOperand,
    Shram,
    Strides,
    TableFormat,
    Tiles,
    Transpose,
    Upscale,
    ifm_extent,
)
from npu_model.program.coded import Coded
from npu_model.shapes import Shape3D

ADDRESSES = st.integers(0, (1 << 32) - 1)
EXTENTS = st.integers(1, 64)
SHAPES = st.builds(Shape3D, EXTENTS, EXTENTS, st.integers(1, 512))
DATA_TYPES = st.builds(DataType, st.sampled_from([8, 16, 32]), st.booleans())
SCALES = st.builds(Scale, ADDRESSES, st.integers(0, 63))
SIGNED = st.integers(-(1 << 15), (1 << 15) - 1)
STRIDES = ADDRESSES | st.integers(-(1 << 20), -1)


POOLS = [PoolKind.MAX, PoolKind.AVERAGE, PoolKind.REDUCE_SUM]
ELEMENTWISE = [kind for kind in ElementwiseKind if kind.code <= ElementwiseKind.SHL.code]
"""Functions that a U55 has."""


def own(kind: type[Coded]) -> list[Any]:
    """The members that a U55's registers have a code for."""
    return [one for one in kind if one.code < 16]


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
    return Activation(kind, draw(clamp), draw(clamp), slot, draw(st.sampled_from(own(ClipRange))))


@st.composite
def common_fields(draw: DrawFn) -> dict[str, Any]:
    ofm = draw(feature_maps(draw(SHAPES)))
    return {
        "ofm": ofm,
        "block": Shape3D(draw(st.integers(1, 32)), draw(st.integers(1, 64)), draw(st.integers(1, 128))),
        "activation": draw(activations(ofm.dtype)),
        "accumulator": draw(st.sampled_from(own(AccumulatorFormat))),
        "rounding": draw(st.sampled_from(own(Rounding))),
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
        return KernelOperation(**fields, pool=draw(st.sampled_from(POOLS)), ofm_scale=draw(SCALES))
    parallel = draw(st.integers(0, 1))
    fields |= {"parallel_mode": parallel, "weights": draw(ranges(1 + parallel)), "scales": draw(ranges(1 + parallel))}
    if fields["global_scale"]:
        fields["ofm_scale"] = draw(SCALES)
    return KernelOperation(**fields, part_kernel=draw(st.booleans()))


@st.composite
def elementwise_operations(draw: DrawFn) -> KernelOperation:
    fields = draw(common_fields())
    function, ofm = draw(st.sampled_from(ELEMENTWISE)), fields["ofm"].shape
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
        operand = draw(st.sampled_from(own(ScaledOperand)))
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


BITS = st.booleans()
AXES = st.tuples(BITS, BITS, BITS)
OPERAND_SCALES = st.builds(Scale, st.integers(0, (1 << 31) - 1), st.integers(0, 63), st.integers(0, 31), BITS)
RESIZE_AXES = st.builds(
    ResizeAxis,
    numerator=st.integers(1, 2048),
    offset=st.integers(-2048, 2047),
    quotient=st.integers(0, 15),
    remainder=st.integers(0, 2047),
    block_quotient=st.integers(0, 2047),
    block_remainder=st.integers(0, 2047),
)


@st.composite
def stored_anywhere(draw: DrawFn, fm: FeatureMap) -> FeatureMap:
    """The map in memory, or in a chaining buffer, where it has neither addresses nor strides."""
    if draw(BITS):
        return fm
    return replace(fm, tiles=Tiles.single(fm.shape, 0), strides=Strides(0, 0, 0), storage=MapStorage.CHAINED)


@st.composite
def u85_modes(draw: DrawFn, **fields: Any) -> Modes:
    return Modes(
        ublock=draw(st.sampled_from([(1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (4, 4)])),
        accumulators=draw(st.sampled_from([AccumulatorInput.RESET, AccumulatorInput.KEEP])),
        has_output=draw(BITS),
        transpose=draw(st.sampled_from(Transpose)),
        reverse=draw(st.sampled_from(Reverse)),
        **fields,
    )


@st.composite
def u85_activations(draw: DrawFn, ofm_type: DataType) -> Activation:
    table = draw(st.sampled_from(TableFormat))
    clamp = st.integers(0, (1 << 16) - 1) if ofm_type == DataType(16, signed=False) else SIGNED
    kind = ActivationKind.NONE if table is TableFormat.OFM else ActivationKind.LUT
    clip = draw(st.sampled_from([ClipRange.OFM, ClipRange.NONE]))
    return Activation(kind, draw(clamp), draw(clamp), draw(st.integers(0, 7)), clip, table)


@st.composite
def u85_kernels(draw: DrawFn) -> KernelOperation:
    """Kernels of a U85: those of a U55 with what only a U85 has."""
    op = draw(st.one_of(windowed_operations(), elementwise_operations()))
    double = st.builds(Scale, st.integers(0, (1 << 31) - 1), st.integers(0, 63), st.integers(0, 31))
    fields: dict[str, Any] = {
        "shram": SEPARATE_BUFFERS,
        "parallel_mode": 0,
        "ofm": draw(stored_anywhere(op.ofm)),
        "activation": draw(u85_activations(op.ofm.dtype)),
        "accumulator": draw(st.sampled_from([AccumulatorFormat.INT32, AccumulatorFormat.INT48])),
        "rounding": draw(st.sampled_from(Rounding)),
        "ofm_scale": draw(double),
        "blockdep": draw(st.integers(0, 7)),
    }
    if op.kind is OperationKind.ELEMENTWISE:
        return op.having(**fields, **draw(u85_operands(op)))
    modes: dict[str, Any] = {}
    if op.kind is OperationKind.POOL:
        fields["pool"] = draw(st.sampled_from(PoolKind))
    else:
        streams = draw(ranges(draw(st.integers(1, 4))))
        *_, last = streams
        streams = tuple(one if one.length else replace(one, start=0, end=0) for one in streams)
        fields |= {
            "weights": streams if last.length or len(streams) == 1 else streams[:1],
            "scales": () if op.global_scale else draw(ranges(1)),
        }
        modes = {"fast_weights": draw(BITS), "sparse_weights": draw(BITS)}
    return op.having(**fields, ifm=draw(stored_anywhere(op.ifm)), modes=draw(u85_modes(**modes)))


@st.composite
def u85_operands(draw: DrawFn, op: KernelOperation) -> dict[str, Any]:
    """Fields that an elementwise kernel of a U85 has of its own: either operand repeats, is the scalar or in a chaining buffer."""
    function, ofm = draw(st.sampled_from(ElementwiseKind)), op.ofm.shape
    operands = []
    for axes in (draw(AXES), draw(AXES)):
        height, width, depth = axes
        shape = Shape3D(1 if height else ofm.height, 1 if width else ofm.width, 1 if depth else ofm.depth)
        operands.append((axes, draw(stored_anywhere(draw(feature_maps(shape))))))
    (first, ifm), (second, ifm2) = operands
    scalar = draw(st.integers(0, 0 if function.is_unary else 2))
    nowhere = {"tiles": Tiles.single(Shape3D(1, 1, 1), 0), "strides": Strides(0, 0, 0), "storage": MapStorage.NONE, "region": 0}
    if scalar == 1:
        ifm, first = replace(ifm, shape=Shape3D(1, 1, 1), **nowhere), (False, False, False)
    elif scalar == 2:
        ifm2, second = replace(ifm2, shape=Shape3D(1, 1, 1), **nowhere), (False, False, False)
    has_second_scale = function is ElementwiseKind.LRELU or not function.is_unary
    return {
        "elementwise": function,
        "ifm": ifm,
        "ifm2": None if function.is_unary else ifm2,
        "scalar": draw(st.integers(-(1 << 31), (1 << 31) - 1)) if scalar else None,
        "scalar_zero_point": 0,
        "broadcast": Broadcast() if function.is_unary else Broadcast(*second),
        "opa_scale": draw(OPERAND_SCALES),
        "opb_scale": draw(OPERAND_SCALES) if has_second_scale else Scale(0, 0),
        "scaled_operand": ScaledOperand.EACH,
        "modes": draw(u85_modes(ifm_broadcast=first)),
    }


@st.composite
def u85_resizes(draw: DrawFn) -> KernelOperation:
    base = draw(u85_kernels().filter(lambda op: op.kind is OperationKind.POOL))
    resize = Resize(draw(st.sampled_from(ResizeKind)), draw(RESIZE_AXES), draw(RESIZE_AXES))
    plain = {"pool": None, "kernel": Kernel(), "padding": Padding(), "upscale": Upscale.NONE, "decompose": False}
    return base.having(kind=OperationKind.RESIZE, modes=replace(base.modes, resize=resize), **plain)


@st.composite
def u85_transfers(draw: DrawFn) -> DmaOperation:
    op = draw(dma_operations())
    if draw(BITS):
        return op
    planes, count = draw(st.sampled_from([(1, 2), (1, 65535), (2, 1), (7, 9)]))
    source, destination = ((draw(ADDRESSES), draw(ADDRESSES) if planes > 1 else 0) for _ in range(2))
    indices = None
    if draw(BITS):
        skip = draw(ADDRESSES) if planes > 1 else 0
        indices = IndexList(draw(st.integers(0, 7)), draw(ADDRESSES), draw(st.integers(0, (1 << 31) - 1)), skip, draw(BITS))
    return replace(op, rows=Rows(count, planes, source, destination, indices))


U85_OPERATIONS = st.one_of(
    u85_kernels(),
    u85_resizes(),
    u85_transfers(),
    st.builds(DmaWait, st.integers(0, 3)),
    st.builds(KernelWait, st.integers(0, 1)),
    st.builds(Control, st.sampled_from([ControlKind.IRQ, ControlKind.PMU_MASK]), st.integers(0, 0xFFFF)),
)
