"""From the Ethos-U85's registers to operations.

A map in a chaining buffer has neither addresses nor strides here: its region is the buffer's number. No register holds the size of an
elementwise operation's operands: it is the OFM's, except along axes where an operand repeats.
"""

from __future__ import annotations

from typing import Any

from npu_model.command_stream.registers import RegisterFile
from npu_model.command_stream.u85.layout import MAPS, RESIZE_OFFSET_BITS, STREAMS, Long, Short, fields
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
    Kernel,
    KernelOperation,
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
    Strides,
    TableFormat,
    Tiles,
    Transpose,
    Upscale,
    ifm_extent,
)
from npu_model.program.coded import member
from npu_model.shapes import Shape3D

KINDS = {
    Short.CONV: OperationKind.CONV_2D,
    Short.DEPTHWISE: OperationKind.DEPTHWISE,
    Short.POOL: OperationKind.POOL,
    Short.ELEMENTWISE: OperationKind.ELEMENTWISE,
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
_PADS = Short.IFM_PAD_TOP, Short.IFM_PAD_LEFT, Short.IFM_PAD_BOTTOM, Short.IFM_PAD_RIGHT


def _coded(members: tuple[Any, ...], code: int, what: str) -> Any:
    """The member with a code; InputError if there is none."""
    if code >= len(members):
        raise InputError(f"{what} {code} in the command stream is unknown: the file is damaged or for another NPU.")
    return members[code]


def _feature_map(registers: RegisterFile, prefix: str, shape: Shape3D) -> FeatureMap:
    """IFM, IFM2 or OFM, of ``shape`` unless it is a scalar."""
    names = MAPS[prefix]
    word = fields(registers, names.precision)
    storage = member(MapStorage, word["storage"], "Storage")
    stored = storage is MapStorage.TILES
    if storage is MapStorage.NONE and prefix != "OFM":
        shape = SCALAR_SHAPE
    tiles, strides = Tiles.single(shape, 0), NO_STRIDES
    if stored:
        first, second, third, fourth = names.bases
        bases = registers.address(first), registers.address(second, 0), registers.address(third, 0), registers.address(fourth, 0)
        height0, height1, width0 = (registers.short(one) + 1 for one in (names.height0, names.height1, names.width0))
        tiles, strides = Tiles(height0, height1, width0, bases), Strides(*[registers.stride(one) for one in names.strides])
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


def _kernel(registers: RegisterFile) -> tuple[Kernel, dict[str, int]]:
    """The window, and the other fields of KERNEL_STRIDE."""
    word = fields(registers, Short.KERNEL_STRIDE)
    dilation_x, dilation_y = 1 + word["dilation_x"], 1 + word["dilation_y"]
    kernel = Kernel(
        height=registers.short(Short.KERNEL_HEIGHT_M1) // dilation_y + 1,
        width=registers.short(Short.KERNEL_WIDTH_M1) // dilation_x + 1,
        stride_y=1 + word["y"] + 2 * word["y_high"],
        stride_x=1 + word["x"] + 2 * word["x_high"],
        dilation_y=dilation_y,
        dilation_x=dilation_x,
    )
    return kernel, word


def _activation(registers: RegisterFile, ofm_type: DataType) -> Activation:
    word = fields(registers, Short.ACTIVATION)
    table = member(TableFormat, word["function"], "Activation function")
    read = registers.short if ofm_type == DataType(16, signed=False) else registers.signed
    return Activation(
        kind=ActivationKind.NONE if table is TableFormat.OFM else ActivationKind.LUT,
        minimum=read(Short.ACTIVATION_MIN),
        maximum=read(Short.ACTIVATION_MAX),
        lut=word["table"],
        clip=ClipRange.NONE if word["no_clip"] else ClipRange.OFM,
        table=table,
    )


def _weights(registers: RegisterFile) -> tuple[ByteRange, ...]:
    """The weight streams up to the last non-empty one; at least the first."""
    region, ranges = registers.short(Short.WEIGHT_REGION) & 7, []
    for stream, (base, length) in enumerate(STREAMS):
        size = registers.long(length, 0 if stream else None)[1]
        start = registers.address(base) if size else 0
        ranges.append(ByteRange(region, start, start + size))
    while len(ranges) > 1 and not ranges[-1].length:
        ranges.pop()
    return tuple(ranges)


def _scales(registers: RegisterFile) -> tuple[ByteRange, ...]:
    start = registers.address(Long.SCALE_BASE)
    return (ByteRange(registers.short(Short.SCALE_REGION) & 7, start, start + registers.long(Long.SCALE_LENGTH)[1]),)


def _operand_scale(registers: RegisterFile, register: Long) -> Scale:
    word = fields(registers, register)
    return Scale(word["scale"], word["shift"], word["double_round"], bool(word["natural"]))


def _broadcast(registers: RegisterFile, prefix: str) -> Broadcast:
    """The axes along which an operand repeats; InputError unless exactly the operand without an address is the scalar."""
    word = fields(registers, Short[f"{prefix}_BROADCAST"])
    nowhere = fields(registers, MAPS[prefix].precision)["storage"] == MapStorage.NONE.code
    if bool(word["scalar"]) is not nowhere:
        raise InputError(f"{prefix}_BROADCAST and {prefix}_PRECISION disagree whether the operand is a scalar: the file is damaged.")
    return Broadcast() if nowhere else Broadcast(bool(word["height"]), bool(word["width"]), bool(word["depth"]))


def _elementwise(registers: RegisterFile, kind: ElementwiseKind, ofm: Shape3D) -> dict[str, Any]:
    """The fields of an elementwise operation, with its own modes."""
    first = _broadcast(registers, "IFM")
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
        broadcast = _broadcast(registers, "IFM2")
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
    kernel, word = _kernel(registers)
    upscale = member(Upscale, registers.short(Short.IFM_UPSCALE, 0), "Upscale mode")
    padding = Padding(*[registers.short(register) for register in _PADS])
    height = ifm_extent(ofm.height, kernel.stride_y, kernel.dilated_height, padding.top, padding.bottom, upscale)
    width = ifm_extent(ofm.width, kernel.stride_x, kernel.dilated_width, padding.left, padding.right, upscale)
    if height < 1 or width < 1:
        raise InputError(f"An operation reads an IFM of {height} x {width} elements: at least 1 x 1 is needed; the file is damaged.")
    shape = Shape3D(height, width, registers.short(Short.IFM_DEPTH_M1) + 1)
    found: dict[str, Any] = {"kernel": kernel, "padding": padding, "upscale": upscale, "decompose": bool(word["decompose"])}
    if kind is not OperationKind.POOL:
        found["part_kernel"] = bool(word["part_kernel"])
        is_dynamic = kind is OperationKind.CONV_2D and bool(parameter & 1)
        found["weights_from_ifm2"] = is_dynamic
        if is_dynamic:
            # Each OFM channel is a row of the second operand, whose channels are the IFM's.
            found["ifm2"] = _feature_map(registers, "IFM2", Shape3D(1, ofm.depth, shape.depth))
        else:
            formats = fields(registers, Short.WEIGHT_FORMAT)
            found |= {"weights": _weights(registers), "fast_weights": bool(formats["fast"]), "sparse_weights": bool(formats["sparse"])}
    if not (kind is OperationKind.POOL or fields(registers, Short.OFM_PRECISION)["global_scale"]):
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
    extents = Short.KERNEL_HEIGHT_M1, Short.KERNEL_WIDTH_M1, Short.IFM_DEPTH_M1
    shape = Shape3D(*[registers.short(one) + 1 for one in extents])
    kind = member(ResizeKind, parameter, "Resize function")
    return {"ifm": _feature_map(registers, "IFM", shape), "resize": Resize(kind, _axis(registers, "Y"), _axis(registers, "X"))}


_MODES = frozenset(Modes.__struct_fields__)


def decode_kernel(registers: RegisterFile, command: Short, parameter: int) -> KernelOperation:
    """The kernel operation that ``command`` starts with the current registers; InputError if they are inconsistent."""
    kind = KINDS[command]
    if parameter >> (6 if kind is OperationKind.ELEMENTWISE else 3):
        raise InputError(f"NPU_OP_{command.name} has parameter {parameter:#x}, of which some bits are unknown: the file is damaged.")
    shape = Shape3D(*[registers.short(one) + 1 for one in (Short.OFM_HEIGHT_M1, Short.OFM_WIDTH_M1, Short.OFM_DEPTH_M1)])
    pool = member(PoolKind, parameter, "Pooling function") if kind is OperationKind.POOL else None
    function = member(ElementwiseKind, parameter, "Elementwise function") if kind is OperationKind.ELEMENTWISE else None
    if function is not None:
        found = _elementwise(registers, function, shape)
    elif kind is OperationKind.RESIZE:
        found = _resized(registers, parameter)
    else:
        found = _windowed(registers, kind, parameter, shape)
    precision, accumulator = fields(registers, Short.OFM_PRECISION), fields(registers, Short.ACC_FORMAT)
    scale = fields(registers, Long.OFM_SCALE)
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
        block=Shape3D(*[registers.short(Short[f"OFM_BLK_{axis}_M1"]) + 1 for axis in ("HEIGHT", "WIDTH", "DEPTH")]),
        shram=SEPARATE_BUFFERS,
        activation=_activation(registers, ofm.dtype),
        accumulator=_coded(ACCUMULATORS, accumulator["format"], "Accumulator format"),
        rounding=_coded(ROUNDINGS, scale["rounding"], "Rounding mode"),
        global_scale=bool(precision["global_scale"]),
        ofm_scale=Scale(scale["scale"], scale["shift"], scale["double_round"]),
        blockdep=registers.short(Short.BLOCKDEP),
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
    source, destination = (fields(registers, one) for one in (Short.DMA0_SRC_REGION, Short.DMA0_DST_REGION))
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
            count=registers.short(Short.DMA0_SIZE0),
            planes=registers.short(Short.DMA0_SIZE1) if dimensions == _PLANES else 1,
            source=_strides(registers, "SRC", dimensions, indexed=picks_source),
            destination=_strides(registers, "DST", dimensions, indexed=bool(destination["indexed"])),
            indices=indices,
        )
    start, length = registers.address(Long.DMA0_SRC), registers.address(Long.DMA0_LEN)
    return DmaOperation(
        source=ByteRange(source["region"], start, start + length),
        destination=registers.address(Long.DMA0_DST),
        destination_region=0 if destination["internal"] else destination["region"],
        to_shram=bool(destination["internal"]),
        rows=rows,
    )
