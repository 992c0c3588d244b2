"""From operations to the registers of an Ethos-U55 or Ethos-U65: the SETs of an operation, and the command that starts it.

The SETs of an operation have a fixed order: IFM, upscaling, window and padding, OFM, weights and scales, activation, block, SHRAM, IFM2,
scaling, BLOCKDEP; inside a feature map: region, bases, tiles, extents, strides (y, x, c), zero point; then the precision.
"""

from __future__ import annotations

from npu_model.command_stream.registers import MAP_REGISTERS, Cmd0, Cmd1
from npu_model.command_stream.u55.decode import FIRST_LUT, FUNCTIONS, KINDS, RANGES
from npu_model.command_stream.windows import set_block, set_bounds, set_strides, set_tiles, set_window
from npu_model.command_stream.writer import RegisterWriter
from npu_model.errors import InputError
from npu_model.program import (
    Activation,
    ActivationKind,
    ByteRange,
    DataType,
    DmaOperation,
    ElementwiseKind,
    FeatureMap,
    KernelOperation,
    Layout,
    OperationKind,
    Scale,
)

_LOG2_BYTES = {8: 0, 16: 1, 32: 2}
_COMMANDS = {kind: command for command, kind in KINDS.items()}
SHRAM_DESTINATION = 1 << 8 | 3
"""DMA0_DST_REGION of a transfer to SHRAM: the internal mode bit, and the region that Vela 5.2.0 gives with it."""


def _log2_bytes(writer: RegisterWriter, dtype: DataType) -> int:
    if dtype.bits not in _LOG2_BYTES:
        raise InputError(f"{writer.where} has elements of {dtype.bits} bits: the NPU has 8, 16 and 32; convert the tensor.")
    return _LOG2_BYTES[dtype.bits]


def _feature_map(writer: RegisterWriter, prefix: str, fm: FeatureMap) -> None:
    """All registers of IFM, IFM2 or OFM except the precision, which also has fields of the operation."""
    names = MAP_REGISTERS[prefix]
    writer.short(names.region, fm.region)
    set_tiles(writer, names, fm.tiles)
    if prefix == "OFM":
        writer.minus_one(Cmd0.OFM_HEIGHT_M1, fm.shape.height)
        writer.minus_one(Cmd0.OFM_WIDTH_M1, fm.shape.width)
    if prefix != "IFM2":
        writer.minus_one(Cmd0.OFM_DEPTH_M1 if prefix == "OFM" else Cmd0.IFM_DEPTH_M1, fm.shape.depth)
    set_strides(writer, names, fm)
    writer.signed(names.zero_point, fm.zero_point)


def _input_precision(writer: RegisterWriter, dtype: DataType, layout: Layout) -> int:
    return int(dtype.signed) | _log2_bytes(writer, dtype) << 2 | (layout is Layout.NHCWB16) << 6


def _ifm(writer: RegisterWriter, op: KernelOperation) -> None:
    _feature_map(writer, "IFM", op.ifm)
    writer.short(Cmd0.IFM_PRECISION, _input_precision(writer, op.ifm.dtype, op.ifm.layout) | op.scaled_operand.code << 8)
    # Elementwise operations need it too: a stale factor would upscale their IFM.
    writer.short(Cmd0.IFM_UPSCALE, op.upscale.code)


def _ofm(writer: RegisterWriter, op: KernelOperation) -> None:
    _feature_map(writer, "OFM", op.ofm)
    precision = int(op.ofm.dtype.signed) | _log2_bytes(writer, op.ofm.dtype) << 1 | (op.ofm.layout is Layout.NHCWB16) << 6
    writer.short(Cmd0.OFM_PRECISION, precision | op.global_scale << 8 | op.rounding.code << 14)


def _ranges(writer: RegisterWriter, what: str, ranges: tuple[ByteRange, ...], cores: int) -> None:
    if len(ranges) != cores:
        raise InputError(f"{writer.where} has {len(ranges)} {what.lower()} ranges for {cores} core(s): give one range each.")
    region, places = RANGES[what]
    writer.short(region, ranges[0].region)
    for (base, length), part in zip(places, ranges, strict=False):
        writer.address(base, part.start)
        writer.length(length, part.length)


def over_earlier_values(op: KernelOperation) -> set[Cmd0 | Cmd1]:
    """Registers that an operation SETs only over an earlier value, if it SETs them at all."""
    found = set[Cmd0 | Cmd1]() if op.parallel_mode else {Cmd0.PARALLEL_MODE}
    if op.ifm2 is None and not op.shram.ib2_start:
        found.add(Cmd0.IFM2_IB_START)
    return found | ({Cmd1.OFM_SCALE} if not op.global_scale and op.ofm_scale == Scale(0, 0) else set())


def set_weights(writer: RegisterWriter, op: KernelOperation) -> None:
    """SET the registers of a kernel's weights and scales."""
    # The U55 has no PARALLEL_MODE: it is written if two cores were asked for, and to end that.
    if op.parallel_mode or writer.registers.short(Cmd0.PARALLEL_MODE, 0):
        writer.short(Cmd0.PARALLEL_MODE, op.parallel_mode)
    cores = 2 if op.parallel_mode else 1
    _ranges(writer, "WEIGHT", op.weights, cores)
    _ranges(writer, "SCALE", op.scales, cores)


def _activation(writer: RegisterWriter, activation: Activation, ofm_type: DataType) -> None:
    if activation.kind is ActivationKind.LUT:
        writer.check("LUT slot", activation.lut, 0, 7)
        function = FIRST_LUT + activation.lut
    else:
        function = next(code for code, kind in FUNCTIONS.items() if kind is activation.kind)
    writer.short(Cmd0.ACTIVATION, function | activation.clip.code << 12)
    set_bounds(writer, activation, ofm_type)


def _block_and_shram(writer: RegisterWriter, op: KernelOperation) -> None:
    set_block(writer, op.block)
    writer.short(Cmd0.IFM_IB_END, op.shram.ib_end)
    writer.short(Cmd0.AB_START, op.shram.ab_start)
    # A scalar has no buffer: its 0 is written only over an earlier value.
    if op.ifm2 is not None or op.shram.ib2_start or (op.is_binary and writer.holds(Cmd0.IFM2_IB_START)):
        writer.short(Cmd0.IFM2_IB_START, op.shram.ib2_start)
    writer.short(Cmd0.ACC_FORMAT, op.accumulator.code)


def _second_operand(writer: RegisterWriter, op: KernelOperation) -> None:
    broadcast = op.broadcast
    word = int(broadcast.height) | broadcast.width << 1 | broadcast.depth << 2 | broadcast.swap << 6
    if op.ifm2 is not None:
        _feature_map(writer, "IFM2", op.ifm2)
        writer.short(Cmd0.IFM2_PRECISION, _input_precision(writer, op.ifm2.dtype, op.ifm2.layout))
    elif op.scalar is not None:
        # IFM2_PRECISION gives the scalar's sign: the IFM's sign unless the value needs the other one. A scalar has no layout.
        bits, scalar = op.ifm.dtype.bits, op.scalar
        signed = scalar < 0 or (op.ifm.dtype.signed and scalar < 1 << 15)
        writer.check("IFM2_SCALAR", scalar, -(1 << 15), (1 << 16) - 1)
        writer.short(Cmd0.IFM2_PRECISION, _input_precision(writer, DataType(bits, signed), Layout.NHWC))
        writer.short(Cmd0.IFM2_SCALAR, scalar & 0xFFFF)
        writer.signed(Cmd0.IFM2_ZERO_POINT, op.scalar_zero_point)
        word |= 1 << 7
    else:
        raise InputError(f"{writer.where} has one operand: a binary operation needs a second feature map or a scalar.")
    writer.short(Cmd0.IFM2_BROADCAST, word)


def _scaling(writer: RegisterWriter, op: KernelOperation) -> None:
    # Maximum, minimum and shifts do not scale: their 0 is written only over an earlier value.
    unscaled = not op.global_scale and op.ofm_scale == Scale(0, 0) and not writer.holds(Cmd1.OFM_SCALE)
    if op.global_scale or (op.kind in (OperationKind.POOL, OperationKind.ELEMENTWISE) and not unscaled):
        writer.scale(Cmd1.OFM_SCALE, op.ofm_scale)
    if op.elementwise in (ElementwiseKind.ADD, ElementwiseKind.SUB):
        writer.scale(Cmd1.OPA_SCALE, op.opa_scale)
        writer.scale(Cmd1.OPB_SCALE, op.opb_scale)


def set_kernel(writer: RegisterWriter, op: KernelOperation) -> tuple[Cmd0, int]:
    """SET the registers of a kernel operation; return its command and parameter."""
    if op.kind not in _COMMANDS:
        raise InputError(f"{writer.where} is a {op.kind.value}: only an Ethos-U85 has that command.")
    function = {OperationKind.POOL: op.pool, OperationKind.ELEMENTWISE: op.elementwise}.get(op.kind)
    if op.kind in (OperationKind.POOL, OperationKind.ELEMENTWISE) and function is None:
        raise InputError(f"{writer.where} does not say which function it computes: give its {op.kind.value.lower()} field.")
    _ifm(writer, op)
    if op.kind is not OperationKind.ELEMENTWISE:
        set_window(writer, op)
    _ofm(writer, op)
    if op.kind in (OperationKind.CONV_2D, OperationKind.DEPTHWISE):
        set_weights(writer, op)
    _activation(writer, op.activation, op.ofm.dtype)
    _block_and_shram(writer, op)
    if op.is_binary:
        _second_operand(writer, op)
    _scaling(writer, op)
    writer.short(Cmd0.BLOCKDEP, op.blockdep)
    return _COMMANDS[op.kind], 0 if function is None else function.code


def set_transfer(writer: RegisterWriter, op: DmaOperation) -> tuple[Cmd0, int]:
    """SET the registers of a transfer; return its command and parameter."""
    writer.check("source region", op.source.region, 0, 7)
    writer.check("destination region", op.destination_region, 0, 7)
    writer.short(Cmd0.DMA0_SRC_REGION, op.source.region)
    writer.address(Cmd1.DMA0_SRC, op.source.start)
    writer.short(Cmd0.DMA0_DST_REGION, SHRAM_DESTINATION if op.to_shram else op.destination_region)
    writer.address(Cmd1.DMA0_DST, op.destination)
    writer.address(Cmd1.DMA0_LEN, op.length)
    return Cmd0.DMA_START, 0
