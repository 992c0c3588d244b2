"""From operations to the Ethos-U85's registers: the SETs of an operation, and the command that starts it."""

from __future__ import annotations

from npu_model.command_stream.registers import MAP_REGISTERS, Cmd0, Cmd1, LongRegister, ShortRegister
from npu_model.command_stream.u85.decode import ACCUMULATORS, KINDS, LAYOUTS, ROUNDINGS, UBLOCKS
from npu_model.command_stream.u85.layout import RESIZE_OFFSET_BITS, STREAMS, Long, Short, field_bits
from npu_model.command_stream.windows import packed, set_block, set_bounds, set_strides, set_tiles, set_window
from npu_model.command_stream.writer import RegisterWriter
from npu_model.errors import InputError
from npu_model.program import (
    ClipRange,
    DmaOperation,
    FeatureMap,
    KernelOperation,
    MapStorage,
    OperationKind,
    ResizeAxis,
    Scale,
)
from npu_model.program.operations import Broadcast

_LOG2_BYTES = {8: 0, 16: 1, 32: 2, 64: 3}
_COMMANDS = {kind: command for command, kind in KINDS.items()}


def _short(writer: RegisterWriter, register: ShortRegister, **values: int) -> None:
    writer.short(register, packed(writer, register, field_bits(register), values))


def _long(writer: RegisterWriter, register: LongRegister, **values: int) -> None:
    value = packed(writer, register, field_bits(register), values)
    writer.long(register, value & 0xFFFF, value >> 16)


def _code(writer: RegisterWriter, members: tuple[object, ...], value: object, what: str) -> int:
    """The number of a member; InputError if the U85 has none for it."""
    if value not in members:
        raise InputError(f"{writer.where} has {what} {value}: the Ethos-U85 knows {', '.join(map(str, members))}.")
    return members.index(value)


def _type(writer: RegisterWriter, fm: FeatureMap) -> dict[str, int]:
    if fm.dtype.bits not in _LOG2_BYTES:
        raise InputError(f"{writer.where} has elements of {fm.dtype.bits} bits: the NPU has 8, 16, 32 and 64; convert the tensor.")
    layout = _code(writer, LAYOUTS, fm.layout, "layout")
    return {"signed": int(fm.dtype.signed), "bytes": _LOG2_BYTES[fm.dtype.bits], "format": layout, "storage": fm.storage.code}


def _feature_map(writer: RegisterWriter, prefix: str, fm: FeatureMap) -> None:
    """Region, addresses, extents and zero point of a map; a map without an address has no region."""
    names = MAP_REGISTERS[prefix]
    if fm.storage is not MapStorage.NONE:
        writer.short(names.region, fm.region)
    if fm.storage is MapStorage.TILES:
        set_tiles(writer, names, fm.tiles)
        set_strides(writer, names, fm)
    writer.signed(names.zero_point, fm.zero_point)


def _input(writer: RegisterWriter, prefix: str, fm: FeatureMap) -> None:
    _feature_map(writer, prefix, fm)
    _short(writer, MAP_REGISTERS[prefix].precision, **_type(writer, fm))


def _ofm(writer: RegisterWriter, op: KernelOperation) -> None:
    _feature_map(writer, "OFM", op.ofm)
    extents = op.ofm.shape.height, op.ofm.shape.width, op.ofm.shape.depth
    for axis, extent in zip(("HEIGHT", "WIDTH", "DEPTH"), extents, strict=True):
        writer.minus_one(Cmd0[f"OFM_{axis}_M1"], extent)
    modes = {"reverse": op.modes.reverse.code, "transpose": op.modes.transpose.code}
    _short(writer, Cmd0.OFM_PRECISION, **_type(writer, op.ofm), **modes, global_scale=int(op.global_scale))


def _streams(writer: RegisterWriter, op: KernelOperation) -> None:
    """Weights and scales. A stream that the kernel lacks is set empty if an earlier kernel had it."""
    if op.weights:
        if len(op.weights) > len(STREAMS):
            raise InputError(f"{writer.where} has {len(op.weights)} weight streams: {len(STREAMS)} is the most.")
        _short(writer, Short.WEIGHT_FORMAT, fast=int(op.modes.fast_weights), sparse=int(op.modes.sparse_weights))
        writer.short(Cmd0.WEIGHT_REGION, op.weights[0].region)
        for number, (base, length) in enumerate(STREAMS):
            stream = op.weights[number] if number < len(op.weights) else None
            if stream is not None and stream.length:
                writer.address(base, stream.start)
            if stream is not None or writer.holds(length):
                writer.length(length, stream.length if stream is not None else 0)
    for table in op.scales:
        writer.short(Cmd0.SCALE_REGION, table.region)
        writer.address(Cmd1.SCALE_BASE, table.start)
        writer.length(Cmd1.SCALE_LENGTH, table.length)


def _activation(writer: RegisterWriter, op: KernelOperation) -> None:
    activation = op.activation
    clip = _code(writer, (ClipRange.OFM, ClipRange.NONE), activation.clip, "clip range")
    _short(writer, Cmd0.ACTIVATION, function=activation.table.code, table=activation.lut, no_clip=clip)
    set_bounds(writer, activation, op.ofm.dtype)


def _operand_scale(writer: RegisterWriter, register: LongRegister, scale: Scale) -> None:
    _long(writer, register, scale=scale.scale, shift=scale.shift, double_round=scale.double_round, natural=int(scale.is_natural))


def _broadcast(writer: RegisterWriter, register: ShortRegister, fm: FeatureMap, axes: tuple[bool, bool, bool]) -> None:
    if fm.storage is MapStorage.NONE:
        _short(writer, register, scalar=1)
    else:
        _short(writer, register, height=int(axes[0]), width=int(axes[1]), depth=int(axes[2]))


def _elementwise(writer: RegisterWriter, op: KernelOperation) -> None:
    """Scales of the operands, broadcasting and the scalar."""
    writer.minus_one(Cmd0.IFM_DEPTH_M1, op.ifm.shape.depth)
    _operand_scale(writer, Long.IFM_SCALE, op.opa_scale)
    if op.is_binary or op.opb_scale != Scale(0, 0):
        _operand_scale(writer, Long.IFM2_SCALE, op.opb_scale)
    _broadcast(writer, Short.IFM_BROADCAST, op.ifm, op.modes.ifm_broadcast)
    if op.ifm2 is not None:
        axes: Broadcast = op.broadcast
        _broadcast(writer, Cmd0.IFM2_BROADCAST, op.ifm2, (axes.height, axes.width, axes.depth))
    if op.scalar is not None:
        writer.check("scalar", op.scalar, -(1 << 31), (1 << 31) - 1)
        writer.long(Long.OP_SCALAR, 0, op.scalar & 0xFFFFFFFF)


def _axis(writer: RegisterWriter, axis: str, given: ResizeAxis) -> None:
    half = 1 << (RESIZE_OFFSET_BITS - 1)
    writer.check(f"RESIZE_{axis}_OFFSET", given.offset, -half, half - 1)
    writer.minus_one(Short[f"RESIZE_{axis}_SCALE_N_M1"], given.numerator)
    writer.short(Short[f"RESIZE_{axis}_OFFSET"], given.offset % (2 * half))
    _long(
        writer,
        Long[f"RESIZE_{axis}_STEP"],
        quotient=given.quotient,
        remainder=given.remainder,
        block_quotient=given.block_quotient,
        block_remainder=given.block_remainder,
    )


def _resize(writer: RegisterWriter, op: KernelOperation) -> int:
    if op.modes.resize is None:
        raise InputError(f"{writer.where} does not say how it resizes: give the modes' resize field.")
    _axis(writer, "Y", op.modes.resize.y)
    _axis(writer, "X", op.modes.resize.x)
    extents = (
        (Cmd0.KERNEL_HEIGHT_M1, op.ifm.shape.height),
        (Cmd0.KERNEL_WIDTH_M1, op.ifm.shape.width),
        (Cmd0.IFM_DEPTH_M1, op.ifm.shape.depth),
    )
    for register, extent in extents:
        writer.minus_one(register, extent)
    return op.modes.resize.kind.code


def set_kernel(writer: RegisterWriter, op: KernelOperation) -> tuple[ShortRegister, int]:
    """SET the registers of a kernel operation; return its command and parameter."""
    function = op.pool or op.elementwise
    if op.kind in (OperationKind.POOL, OperationKind.ELEMENTWISE) and function is None:
        raise InputError(f"{writer.where} does not say which function it computes: give its {op.kind.value.lower()} field.")
    parameter = function.code if function is not None else int(op.modes.weights_from_ifm2)
    _input(writer, "IFM", op.ifm)
    writer.short(Cmd0.IFM_UPSCALE, op.upscale.code)
    if op.ifm2 is not None:
        _input(writer, "IFM2", op.ifm2)
    _ofm(writer, op)
    if op.kind is OperationKind.ELEMENTWISE:
        _elementwise(writer, op)
    elif op.kind is OperationKind.RESIZE:
        parameter = _resize(writer, op)
    else:
        set_window(writer, op)
        writer.minus_one(Cmd0.IFM_DEPTH_M1, op.ifm.shape.depth)
    _streams(writer, op)
    _activation(writer, op)
    scale, rounding = op.ofm_scale, _code(writer, ROUNDINGS, op.rounding, "rounding")
    _long(writer, Cmd1.OFM_SCALE, scale=scale.scale, shift=scale.shift, double_round=scale.double_round, rounding=rounding)
    set_block(writer, op.block)
    modes = op.modes
    _short(
        writer,
        Cmd0.ACC_FORMAT,
        format=_code(writer, ACCUMULATORS, op.accumulator, "accumulators"),
        input=modes.accumulators.code,
        no_output=int(not modes.has_output),
        ublock=_code(writer, UBLOCKS, modes.ublock, "microblock"),
    )
    writer.short(Cmd0.BLOCKDEP, op.blockdep)
    return _COMMANDS[op.kind], parameter


def set_transfer(writer: RegisterWriter, op: DmaOperation) -> tuple[ShortRegister, int]:
    """SET the registers of a transfer; return its command and parameter."""
    rows = op.rows
    indices = rows.indices if rows is not None else None
    dimensions = 0 if rows is None else 2 if rows.planes > 1 else 1 if rows.count > 1 else 0
    picks_source = indices is not None and indices.picks_source
    picks_destination = indices is not None and not indices.picks_source
    _short(writer, Cmd0.DMA0_SRC_REGION, region=op.source.region, dimensions=dimensions, indexed=int(picks_source))
    _short(writer, Cmd0.DMA0_DST_REGION, region=op.destination_region, internal=int(op.to_shram), indexed=int(picks_destination))
    writer.address(Cmd1.DMA0_SRC, op.source.start)
    writer.address(Cmd1.DMA0_DST, op.destination)
    writer.address(Cmd1.DMA0_LEN, op.length)
    if rows is not None:
        writer.short(Cmd0.DMA0_SIZE0, rows.count)
        writer.short(Cmd0.DMA0_SIZE1, rows.planes)
        for side, strides in (("SRC", rows.source), ("DST", rows.destination)):
            for number, stride in enumerate(strides):
                writer.address(Long[f"DMA0_{side}_STRIDE{number}"], stride)
    if indices is not None:
        writer.short(Short.DMA0_IDX_REGION, indices.region)
        writer.address(Long.DMA0_IDX, indices.address)
        writer.length(Long.DMA0_IDX_MAX, indices.largest)
        writer.address(Long.DMA0_IDX_SKIP1, indices.skip)
    return Cmd0.DMA_START, 0
