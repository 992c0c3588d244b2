"""From the Ethos-U85's registers to operations.

A map in a chaining buffer has neither addresses nor strides here: its region is the buffer's number. No register holds the size of an
elementwise operation's operands: it is the OFM's, except along axes where an operand repeats.
"""

from __future__ import annotations

from typing import Any

from npu_model.command_stream.registers import MAP_REGISTERS, Cmd0, Cmd1, LongRegister, RegisterFile, ShortRegister
from npu_model.command_stream.u85.layout import RESIZE_OFFSET_BITS, STREAMS, Long, Short, fields
from npu_model.command_stream.windows import block_shape, ofm_shape, read_bounds, read_tiles, read_window
from npu_model.errors import InputError
from npu_model.program import (
    SEPARATE_BUFFERS,
    AccumulatorFormat,
    AccumulatorInput,
    Activation,
    ActivationKind,
    Broadcast,
    ByteRange,
    ClipRange,
    DataType,
    DmaOperation,
    ElementwiseKind,
    FeatureMap,
    IndexList,
    KernelOperation,
    Layout,
    MapStorage,
    Modes,
    OperationKind,
    PoolKind,
    Resize,
    ResizeAxis,
    ResizeKind,
    Reverse,
    Rounding,
    Rows,
    Scale,
    ScaledOperand,
    Strides,
    TableFormat,
    Tiles,
    Transpose,
)
from npu_model.program.coded import member
from npu_model.shapes import Shape3D

KINDS = {
    Cmd0.CONV: OperationKind.CONV_2D,
    Cmd0.DEPTHWISE: OperationKind.DEPTHWISE,
    Cmd0.POOL: OperationKind.POOL,
    Cmd0.ELEMENTWISE: OperationKind.ELEMENTWISE,
    Short.RESIZE: OperationKind.RESIZE,
}

ROUNDINGS: tuple[Rounding, ...] = (
    Rounding.DOUBLE,
    Rounding.NATURAL,
    Rounding.DOUBLE_ASYMMETRIC,
    Rounding.SYMMETRIC,
    Rounding.TRUNCATE,
    Rounding.TRUNCATE_LOWER,
)
"""Rounding and its fields by the code of OFM_SCALE."""

ACCUMULATORS = AccumulatorFormat.INT32, AccumulatorFormat.INT48
"""By the code of ACC_FORMAT."""

UBLOCKS = (1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (4, 4)
"""Height and width by the code of ACC_FORMAT."""

LAYOUTS = Layout.NHWC, Layout.NHCWB16
SCALAR_SHAPE = Shape3D(1, 1, 1)
NO_STRIDES = Strides(0, 0, 0)


def _coded(members: tuple[Any, ...], code: int, what: str) -> Any:
    """The member with a code; InputError if there is none."""
    if code >= len(members):
        raise InputError(f"{what} {code} in the command stream is unknown: the file is damaged or for another NPU.")
    return members[code]


def _feature_map(registers: RegisterFile, prefix: str, shape: Shape3D) -> FeatureMap:
    """IFM, IFM2 or OFM, of ``shape`` unless it is a scalar."""
    names = MAP_REGISTERS[prefix]
    word = fields(registers, names.precision)
    storage = member(MapStorage, word["storage"], "Storage")
    if storage is MapStorage.NONE and prefix != "OFM":
        shape = SCALAR_SHAPE
    stored = storage is MapStorage.TILES
    tiles, strides = read_tiles(registers, names) if stored else (Tiles.single(shape, 0), NO_STRIDES)
    return FeatureMap(
        region=0 if storage is MapStorage.NONE else registers.short(names.region) & 7,
        shape=shape,
        dtype=DataType(8 << word["bytes"], bool(word["signed"])),
        layout=_coded(LAYOUTS, word["format"], "Layout"),
        tiles=tiles,
        strides=strides,
        zero_point=registers.signed(names.zero_point, 0),
        storage=storage,
    )


def _activation(registers: RegisterFile, ofm_type: DataType) -> Activation:
    word = fields(registers, Cmd0.ACTIVATION)
    table = member(TableFormat, word["function"], "Activation function")
    minimum, maximum = read_bounds(registers, ofm_type)
    return Activation(
        kind=ActivationKind.NONE if table is TableFormat.OFM else ActivationKind.LUT,
        minimum=minimum,
        maximum=maximum,
        lut=word["table"],
        clip=ClipRange.NONE if word["no_clip"] else ClipRange.OFM,
        table=table,
    )


def _weights(registers: RegisterFile) -> tuple[ByteRange, ...]:
    """The weight streams up to the last non-empty one; at least the first."""
    region, ranges = registers.short(Cmd0.WEIGHT_REGION) & 7, []
    for stream, (base, length) in enumerate(STREAMS):
        size = registers.long(length, 0 if stream else None)[1]
        start = registers.address(base) if size else 0
        ranges.append(ByteRange(region, start, start + size))
    while len(ranges) > 1 and not ranges[-1].length:
        ranges.pop()
    return tuple(ranges)


def _scales(registers: RegisterFile) -> tuple[ByteRange, ...]:
    start = registers.address(Cmd1.SCALE_BASE)
    return (ByteRange(registers.short(Cmd0.SCALE_REGION) & 7, start, start + registers.long(Cmd1.SCALE_LENGTH)[1]),)


def _operand_scale(registers: RegisterFile, register: LongRegister) -> Scale:
    word = fields(registers, register)
    return Scale(word["scale"], word["shift"], word["double_round"], bool(word["natural"]))


def _broadcast(registers: RegisterFile, prefix: str, register: ShortRegister) -> Broadcast:
    """The axes along which an operand repeats; InputError unless exactly the operand without an address is the scalar."""
    word = fields(registers, register)
    nowhere = fields(registers, MAP_REGISTERS[prefix].precision)["storage"] == MapStorage.NONE.code
    if bool(word["scalar"]) is not nowhere:
        raise InputError(f"{register.name} and {prefix}_PRECISION disagree whether the operand is a scalar: the file is damaged.")
    return Broadcast() if nowhere else Broadcast(bool(word["height"]), bool(word["width"]), bool(word["depth"]))


def _elementwise(registers: RegisterFile, kind: ElementwiseKind, ofm: Shape3D) -> dict[str, Any]:
    """The fields of an elementwise operation, with its own modes."""
    first = _broadcast(registers, "IFM", Short.IFM_BROADCAST)
    ifm = _feature_map(registers, "IFM", first.operand(ofm))
    found: dict[str, Any] = {
        "ifm": ifm,
        "opa_scale": _operand_scale(registers, Long.IFM_SCALE),
        "scaled_operand": ScaledOperand.EACH,
        "ifm_broadcast": (first.height, first.width, first.depth),
    }
    nowhere = [ifm.storage is MapStorage.NONE]
    if kind is ElementwiseKind.LRELU or not kind.is_unary:
        found["opb_scale"] = _operand_scale(registers, Long.IFM2_SCALE)
    if not kind.is_unary:
        broadcast = _broadcast(registers, "IFM2", Cmd0.IFM2_BROADCAST)
        ifm2 = _feature_map(registers, "IFM2", broadcast.operand(ofm))
        found |= {"ifm2": ifm2, "broadcast": broadcast}
        nowhere.append(ifm2.storage is MapStorage.NONE)
    if any(nowhere):
        value = registers.long(Long.OP_SCALAR)[1]
        found["scalar"] = value - (1 << 32) if value >> 31 else value
    if all(nowhere):
        raise InputError("All operands of an elementwise operation are the scalar: at least one tensor is needed; the file is damaged.")
    return found


def _windowed(registers: RegisterFile, kind: OperationKind, parameter: int, ofm: Shape3D) -> dict[str, Any]:
    """The fields of convolutions and pooling, with their own modes."""
    shape, found = read_window(registers, ofm, weighted=kind is not OperationKind.POOL)
    if kind is not OperationKind.POOL:
        is_dynamic = kind is OperationKind.CONV_2D and bool(parameter & 1)
        found["weights_from_ifm2"] = is_dynamic
        if is_dynamic:
            # Each OFM channel is a row of the second operand, whose channels are the IFM's.
            found["ifm2"] = _feature_map(registers, "IFM2", Shape3D(1, ofm.depth, shape.depth))
        else:
            formats = fields(registers, Short.WEIGHT_FORMAT)
            found |= {"weights": _weights(registers), "fast_weights": bool(formats["fast"]), "sparse_weights": bool(formats["sparse"])}
    if not (kind is OperationKind.POOL or fields(registers, Cmd0.OFM_PRECISION)["global_scale"]):
        found["scales"] = _scales(registers)
    found["ifm"] = _feature_map(registers, "IFM", shape)
    return found


def _axis(registers: RegisterFile, axis: str) -> ResizeAxis:
    offset = registers.short(Short[f"RESIZE_{axis}_OFFSET"]) & ((1 << RESIZE_OFFSET_BITS) - 1)
    offset -= offset >> (RESIZE_OFFSET_BITS - 1) << RESIZE_OFFSET_BITS
    word = fields(registers, Long[f"RESIZE_{axis}_STEP"])
    return ResizeAxis(numerator=registers.short(Short[f"RESIZE_{axis}_SCALE_N_M1"]) + 1, offset=offset, **word)


def _resized(registers: RegisterFile, parameter: int) -> dict[str, Any]:
    """The fields of a resize: the window's registers hold the extents of its IFM."""
    extents = Cmd0.KERNEL_HEIGHT_M1, Cmd0.KERNEL_WIDTH_M1, Cmd0.IFM_DEPTH_M1
    shape = Shape3D(*[registers.short(one) + 1 for one in extents])
    kind = member(ResizeKind, parameter, "Resize function")
    return {"ifm": _feature_map(registers, "IFM", shape), "resize": Resize(kind, _axis(registers, "Y"), _axis(registers, "X"))}


_MODES = frozenset(Modes.__struct_fields__)


def decode_kernel(registers: RegisterFile, command: ShortRegister, parameter: int) -> KernelOperation:
    """The kernel operation that ``command`` starts with the current registers; InputError if they are inconsistent."""
    kind = KINDS[command]
    if parameter >> (6 if kind is OperationKind.ELEMENTWISE else 3):
        raise InputError(f"NPU_OP_{command.name} has parameter {parameter:#x}, of which some bits are unknown: the file is damaged.")
    shape = ofm_shape(registers)
    pool = member(PoolKind, parameter, "Pooling function") if kind is OperationKind.POOL else None
    function = member(ElementwiseKind, parameter, "Elementwise function") if kind is OperationKind.ELEMENTWISE else None
    if function is not None:
        found = _elementwise(registers, function, shape)
    elif kind is OperationKind.RESIZE:
        found = _resized(registers, parameter)
    else:
        found = _windowed(registers, kind, parameter, shape)
    precision, accumulator = fields(registers, Cmd0.OFM_PRECISION), fields(registers, Cmd0.ACC_FORMAT)
    scale = fields(registers, Cmd1.OFM_SCALE)
    source = member(AccumulatorInput, accumulator["input"], "Accumulator source")
    if source is AccumulatorInput.IFM2 and "ifm2" not in found:
        found["ifm2"] = _feature_map(registers, "IFM2", shape)
    ofm = _feature_map(registers, "OFM", shape)
    modes = Modes(
        ublock=_coded(UBLOCKS, accumulator["ublock"], "Microblock"),
        accumulators=source,
        has_output=not accumulator["no_output"],
        transpose=member(Transpose, precision["transpose"], "Transpose"),
        reverse=member(Reverse, precision["reverse"], "Reverse"),
        **{name: found.pop(name) for name in _MODES & found.keys()},
    )
    return KernelOperation(
        kind=kind,
        pool=pool,
        elementwise=function,
        ofm=ofm,
        block=block_shape(registers),
        shram=SEPARATE_BUFFERS,
        activation=_activation(registers, ofm.dtype),
        accumulator=_coded(ACCUMULATORS, accumulator["format"], "Accumulator format"),
        rounding=_coded(ROUNDINGS, scale["rounding"], "Rounding mode"),
        global_scale=bool(precision["global_scale"]),
        ofm_scale=Scale(scale["scale"], scale["shift"], scale["double_round"]),
        blockdep=registers.short(Cmd0.BLOCKDEP),
        modes=modes,
        **found,
    )


def _strides(registers: RegisterFile, side: str, dimensions: int, *, indexed: bool) -> tuple[int, int]:
    """Bytes from row to row and from plane to plane of the source (SRC) or the destination (DST) of a transfer."""
    row = registers.address(Long[f"DMA0_{side}_STRIDE0"]) if dimensions or indexed else 0
    return row, registers.address(Long[f"DMA0_{side}_STRIDE1"]) if dimensions == _PLANES else 0


_PLANES = 2
"""Code of the transfers that move planes of rows."""


def decode_transfer(registers: RegisterFile) -> DmaOperation:
    """The transfer that the current registers describe."""
    source, destination = (fields(registers, one) for one in (Cmd0.DMA0_SRC_REGION, Cmd0.DMA0_DST_REGION))
    dimensions, picks_source = source["dimensions"], bool(source["indexed"])
    if source["internal"] or dimensions > _PLANES or (picks_source and destination["indexed"]):
        raise InputError("A DMA transfer reads internal memory or has an unknown mode: the file is damaged or for another NPU.")
    rows = None
    if dimensions or picks_source or destination["indexed"]:
        indices = None
        if picks_source or destination["indexed"]:
            indices = IndexList(
                region=registers.short(Short.DMA0_IDX_REGION) & 7,
                address=registers.address(Long.DMA0_IDX),
                largest=registers.long(Long.DMA0_IDX_MAX)[1],
                skip=registers.address(Long.DMA0_IDX_SKIP1) if dimensions == _PLANES else 0,
                picks_source=picks_source,
            )
        rows = Rows(
            count=registers.short(Cmd0.DMA0_SIZE0),
            planes=registers.short(Cmd0.DMA0_SIZE1) if dimensions == _PLANES else 1,
            source=_strides(registers, "SRC", dimensions, indexed=picks_source),
            destination=_strides(registers, "DST", dimensions, indexed=bool(destination["indexed"])),
            indices=indices,
        )
    start, length = registers.address(Cmd1.DMA0_SRC), registers.address(Cmd1.DMA0_LEN)
    return DmaOperation(
        source=ByteRange(source["region"], start, start + length),
        destination=registers.address(Cmd1.DMA0_DST),
        destination_region=0 if destination["internal"] else destination["region"],
        to_shram=bool(destination["internal"]),
        rows=rows,
    )
