"""From register command-stream words to operations, through sticky registers.

Field layouts: Arm core driver ``ethosu55_interface.h``. A register that an operation does not use is left out of its
description, so that stale values never show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from npu_model.command_stream.registers import FIRST_SET, MAP_REGISTERS, PAYLOAD_BIT, Cmd0, Cmd1, MapRegisters, RegisterFile
from npu_model.errors import InputError
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
    Operation,
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
from npu_model.program.coded import Coded
from npu_model.shapes import Shape3D

_E = TypeVar("_E", bound=Coded)

_KINDS = {
    Cmd0.CONV: OperationKind.CONV_2D,
    Cmd0.DEPTHWISE: OperationKind.DEPTHWISE,
    Cmd0.POOL: OperationKind.POOL,
    Cmd0.ELEMENTWISE: OperationKind.ELEMENTWISE,
}
MAX_STREAM_BYTES = 1 << 24
"""A command stream is shorter than 16 MiB (the hardware's limit; Vela 5.2.0 ``generate_command_stream`` has the same bound)."""

FIRST_LUT = 16
"""ACTIVATION function of LUT slot 0; slot 7 is ``_LAST_LUT``."""

_LAST_LUT = 23

_OFM_EXTENTS = Cmd0.OFM_HEIGHT_M1, Cmd0.OFM_WIDTH_M1, Cmd0.OFM_DEPTH_M1
_BLOCK_EXTENTS = Cmd0.OFM_BLK_HEIGHT_M1, Cmd0.OFM_BLK_WIDTH_M1, Cmd0.OFM_BLK_DEPTH_M1
_PADS = Cmd0.IFM_PAD_TOP, Cmd0.IFM_PAD_LEFT, Cmd0.IFM_PAD_BOTTOM, Cmd0.IFM_PAD_RIGHT
_RANGES = {
    what: (Cmd0[f"{what}_REGION"], [(Cmd1[f"{what}{core}_BASE"], Cmd1[f"{what}{core}_LENGTH"]) for core in ("", "1")])
    for what in ("WEIGHT", "SCALE")
}
"""Registers of the region, and of the first byte and the length for each core."""


def _member(kind: type[_E], value: int, what: str) -> _E:
    try:
        return kind.of(value)
    except ValueError:
        raise InputError(f"{what} {value} in the command stream is unknown: the file is damaged or for another NPU.") from None


def _data_type(log2_bytes: int, signed: int) -> DataType:
    if log2_bytes > 2:
        raise InputError(f"Element size code {log2_bytes} in the command stream is unknown: 0, 1 and 2 exist; the file is damaged.")
    return DataType(8 << log2_bytes, bool(signed))


def _tiles(registers: RegisterFile, names: MapRegisters) -> Tiles:
    first, second, third, fourth = names.bases
    return Tiles(
        height0=registers.short(names.height0) + 1,
        height1=registers.short(names.height1) + 1,
        width0=registers.short(names.width0) + 1,
        bases=(registers.address(first), registers.address(second, 0), registers.address(third, 0), registers.address(fourth, 0)),
    )


def _feature_map(registers: RegisterFile, prefix: str, shape: Shape3D) -> FeatureMap:
    """``prefix`` is IFM, IFM2 or OFM; the shape comes from the caller, as no register holds IFM height and width."""
    names = MAP_REGISTERS[prefix]
    precision = registers.short(names.precision)
    log2_bytes = precision >> (1 if prefix == "OFM" else 2) & 3
    strides = Strides(*[registers.stride(name) for name in names.strides])
    return FeatureMap(
        region=registers.short(names.region) & 7,
        shape=shape,
        dtype=_data_type(log2_bytes, precision & 1),
        layout=Layout.NHCWB16 if precision >> 6 & 1 else Layout.NHWC,
        tiles=_tiles(registers, names),
        strides=strides,
        zero_point=registers.signed(names.zero_point, 0),
    )


def _kernel(registers: RegisterFile) -> Kernel:
    word = registers.short(Cmd0.KERNEL_STRIDE)
    dilation_x, dilation_y = 1 + (word >> 3 & 1), 1 + (word >> 4 & 1)
    return Kernel(
        height=registers.short(Cmd0.KERNEL_HEIGHT_M1) // dilation_y + 1,
        width=registers.short(Cmd0.KERNEL_WIDTH_M1) // dilation_x + 1,
        stride_y=1 + (word >> 1 & 1) + 2 * (word >> 9 & 7),
        stride_x=1 + (word & 1) + 2 * (word >> 6 & 7),
        dilation_y=dilation_y,
        dilation_x=dilation_x,
    )


def _activation(registers: RegisterFile, ofm_type: DataType) -> Activation:
    word = registers.short(Cmd0.ACTIVATION)
    function = word & 31
    read = registers.short if ofm_type == DataType(16, signed=False) else registers.signed
    if function in (0, 3, 4):
        kind, lut = {0: ActivationKind.NONE, 3: ActivationKind.TANH, 4: ActivationKind.SIGMOID}[function], 0
    elif FIRST_LUT <= function <= _LAST_LUT:
        kind, lut = ActivationKind.LUT, function - FIRST_LUT
    else:
        raise InputError(
            f"Activation function {function} in the command stream is unknown: 0, 3, 4 and 16 to 23 exist; the file is damaged."
        )
    return Activation(
        kind=kind,
        minimum=read(Cmd0.ACTIVATION_MIN),
        maximum=read(Cmd0.ACTIVATION_MAX),
        lut=lut,
        clip=_member(ClipRange, word >> 12 & 7, "Clip range"),
    )


def _ranges(registers: RegisterFile, what: str, cores: int) -> tuple[ByteRange, ...]:
    """Weight or scale ranges, one per core."""
    where, bounds = _RANGES[what]
    region = registers.short(where) & 7
    ranges = []
    for start, length in bounds[:cores]:
        base = registers.address(start)
        ranges.append(ByteRange(region, base, base + registers.long(length)[1]))
    return tuple(ranges)


def _scale(registers: RegisterFile, register: Cmd1) -> Scale:
    shift, scale = registers.long(register, 0)
    return Scale(scale, shift & 63)


def _ifm2_shape(ofm: Shape3D, broadcast: Broadcast) -> Shape3D:
    return Shape3D(
        1 if broadcast.height else ofm.height,
        1 if broadcast.width else ofm.width,
        1 if broadcast.depth else ofm.depth,
    )


def _elementwise(registers: RegisterFile, kind: ElementwiseKind, ofm: FeatureMap) -> dict[str, object]:
    """The facts that an elementwise operation adds: operands, broadcasting and scales."""
    ifm = _feature_map(registers, "IFM", Shape3D(ofm.shape.height, ofm.shape.width, registers.short(Cmd0.IFM_DEPTH_M1) + 1))
    fields: dict[str, object] = {"ifm": ifm, "ofm_scale": _scale(registers, Cmd1.OFM_SCALE)}
    if kind.is_unary:
        return fields
    word = registers.short(Cmd0.IFM2_BROADCAST)
    swap = bool(word >> 6 & 1)
    if word >> 7 & 1:
        precision = registers.short(Cmd0.IFM2_PRECISION)
        value = registers.short(Cmd0.IFM2_SCALAR)
        fields["scalar"] = value - (1 << 16) if precision & 1 and value & 0x8000 else value
        fields["scalar_zero_point"] = registers.signed(Cmd0.IFM2_ZERO_POINT, 0)
        fields["broadcast"] = Broadcast(swap=swap)
    else:
        broadcast = Broadcast(bool(word & 1), bool(word >> 1 & 1), bool(word >> 2 & 1), swap)
        fields["broadcast"] = broadcast
        fields["ifm2"] = _feature_map(registers, "IFM2", _ifm2_shape(ofm.shape, broadcast))
    if kind in (ElementwiseKind.ADD, ElementwiseKind.SUB):
        fields["opa_scale"] = _scale(registers, Cmd1.OPA_SCALE)
        fields["opb_scale"] = _scale(registers, Cmd1.OPB_SCALE)
        mode = registers.short(Cmd0.IFM_PRECISION) >> 8 & 3
        fields["scaled_operand"] = _member(ScaledOperand, mode, "Elementwise scale mode")
    return fields


def _windowed(registers: RegisterFile, kind: OperationKind, ofm: FeatureMap) -> dict[str, object]:
    """The facts that convolutions and pooling add: the window, the IFM that it implies, weights and scales."""
    kernel = _kernel(registers)
    upscale = _member(Upscale, registers.short(Cmd0.IFM_UPSCALE, 0) & 3, "Upscale mode")
    padding = Padding(*[registers.short(register) for register in _PADS])
    height = ifm_extent(ofm.shape.height, kernel.stride_y, kernel.dilated_height, padding.top, padding.bottom, upscale)
    width = ifm_extent(ofm.shape.width, kernel.stride_x, kernel.dilated_width, padding.left, padding.right, upscale)
    if height < 1 or width < 1:
        raise InputError(f"An operation reads an IFM of {height} x {width} elements: at least 1 x 1 is needed; the file is damaged.")
    shape = Shape3D(height, width, registers.short(Cmd0.IFM_DEPTH_M1) + 1)
    fields: dict[str, object] = {
        "ifm": _feature_map(registers, "IFM", shape),
        "kernel": kernel,
        "padding": padding,
        "upscale": upscale,
        "decompose": bool(registers.short(Cmd0.KERNEL_STRIDE) >> 5 & 1),
    }
    if kind is OperationKind.POOL:
        fields["ofm_scale"] = _scale(registers, Cmd1.OFM_SCALE)
        return fields
    parallel_mode = registers.short(Cmd0.PARALLEL_MODE, 0)
    cores = 2 if parallel_mode else 1
    fields |= {
        "weights": _ranges(registers, "WEIGHT", cores),
        "scales": _ranges(registers, "SCALE", cores),
        "part_kernel": bool(registers.short(Cmd0.KERNEL_STRIDE) >> 2 & 1),
        "parallel_mode": parallel_mode,
    }
    if registers.short(Cmd0.OFM_PRECISION) >> 8 & 1:
        fields["ofm_scale"] = _scale(registers, Cmd1.OFM_SCALE)
    return fields


def _kernel_operation(registers: RegisterFile, command: Cmd0, parameter: int) -> KernelOperation:
    kind = _KINDS[command]
    pool = _member(PoolKind, parameter, "Pooling function") if kind is OperationKind.POOL else None
    elementwise = _member(ElementwiseKind, parameter, "Elementwise function") if kind is OperationKind.ELEMENTWISE else None
    ofm_shape = Shape3D(*[registers.short(register) + 1 for register in _OFM_EXTENTS])
    ofm = _feature_map(registers, "OFM", ofm_shape)
    fields = _elementwise(registers, elementwise, ofm) if elementwise else _windowed(registers, kind, ofm)
    precision = registers.short(Cmd0.OFM_PRECISION)
    block = Shape3D(*[registers.short(register) + 1 for register in _BLOCK_EXTENTS])
    shram = Shram(
        ib_end=registers.short(Cmd0.IFM_IB_END),
        ab_start=registers.short(Cmd0.AB_START),
        ib2_start=registers.short(Cmd0.IFM2_IB_START, 0) if "ifm2" in fields or "scalar" in fields else 0,
    )
    return KernelOperation(
        kind=kind,
        pool=pool,
        elementwise=elementwise,
        ofm=ofm,
        block=block,
        shram=shram,
        activation=_activation(registers, ofm.dtype),
        accumulator=_member(AccumulatorFormat, registers.short(Cmd0.ACC_FORMAT), "Accumulator format"),
        rounding=_member(Rounding, precision >> 14 & 3, "Rounding mode"),
        global_scale=bool(precision >> 8 & 1),
        blockdep=registers.short(Cmd0.BLOCKDEP),
        **fields,  # type: ignore[arg-type]  # the two helpers return the remaining fields by name
    )


def _dma(registers: RegisterFile) -> DmaOperation:
    source_region = registers.short(Cmd0.DMA0_SRC_REGION)
    destination_region = registers.short(Cmd0.DMA0_DST_REGION)
    if (source_region | destination_region) >> 9 & 3:
        raise InputError("A DMA transfer uses a 2D or 3D mode: only the 1D transfers of the U55 are read.")
    source = registers.address(Cmd1.DMA0_SRC)
    length = registers.address(Cmd1.DMA0_LEN)
    to_shram = bool(destination_region >> 8 & 1)
    return DmaOperation(
        source=ByteRange(source_region & 7, source, source + length),
        destination=registers.address(Cmd1.DMA0_DST),
        destination_region=0 if to_shram else destination_region & 7,
        to_shram=to_shram,
    )


def decode_operation(registers: RegisterFile, command: Cmd0, parameter: int) -> Operation:
    """The operation that ``command`` starts with the registers as they are; InputError if they make no sense."""
    if command in _KINDS:
        return _kernel_operation(registers, command, parameter)
    if command is Cmd0.DMA_START:
        return _dma(registers)
    if command is Cmd0.DMA_WAIT:
        return DmaWait(parameter)
    if command is Cmd0.KERNEL_WAIT:
        return KernelWait(parameter)
    return Control(ControlKind(command.value), parameter)


_SHORTS = {register.value: register for register in Cmd0}
_LONGS = {register.value: register for register in Cmd1}
_BASES = {
    register: (field, number)
    for field, prefix in (("ifm", "IFM"), ("ifm2", "IFM2"), ("ofm", "OFM"))
    for number, register in enumerate(MAP_REGISTERS[prefix].bases)
}
"""The operand, and the number of the tile, whose base a register holds."""


class _Like:
    """The last kernel operation, and the bases that were set since: one that differs in these alone is not read from the registers anew.

    Vela's C++ core emits 65,790 of such kernels in a row for an ARG_MAX of 513 x 513 elements.
    """

    def __init__(self) -> None:
        self._last: KernelOperation | None = None
        self._command = (-1, -1)
        self._bases: list[tuple[str, int, int]] = []

    def set_short(self) -> None:
        """A register that holds no base was set."""
        self._last = None

    def set_long(self, register: Cmd1, parameter: int, payload: int) -> None:
        """A register that may hold a base was set."""
        base = _BASES.get(register)
        if base is None:
            self._last = None
        elif self._last is not None:
            self._bases.append((*base, parameter << 32 | payload))

    def operation(self, registers: RegisterFile, command: Cmd0, parameter: int) -> Operation:
        """The operation that a command starts; see :func:`decode_operation`."""
        if command not in _KINDS:
            return decode_operation(registers, command, parameter)
        last = self._last
        if last is None or self._command != (command, parameter):
            last = _kernel_operation(registers, command, parameter)
        elif self._bases:
            last = _moved(last, self._bases)
        self._last, self._command = last, (command, parameter)
        self._bases.clear()
        return last


def _moved(operation: KernelOperation, bases: list[tuple[str, int, int]]) -> KernelOperation:
    """The operation with other bases: of an operand, of a tile, the new one. What it does not have stays so."""
    maps: dict[str, FeatureMap] = {}
    for field, number, base in bases:
        fm = maps.get(field) or getattr(operation, field)
        if fm is not None:
            tiles = fm.tiles
            placed = (*tiles.bases[:number], base, *tiles.bases[number + 1 :])
            moved = Tiles(tiles.height0, tiles.height1, tiles.width0, placed)
            maps[field] = FeatureMap(fm.region, fm.shape, fm.dtype, fm.layout, moved, fm.strides, fm.zero_point)
    return operation.having(**maps)


def decoded(words: tuple[int, ...]) -> Iterator[tuple[Operation, int]]:
    """The operations of a register command stream, one by one, each with the words that it took (its SETs and itself).

    Words after NPU_OP_STOP are not read. InputError, after the operations before it, on an unknown command or a register used before it
    is set.
    """
    registers, like = RegisterFile(), _Like()
    position = start = 0
    while position < len(words):
        word = words[position]
        # Bits 10-13 and 15 are zero in every command: left in the code, they make it an unknown one.
        code, parameter = word & 0xFFFF & ~PAYLOAD_BIT, word >> 16
        if word & PAYLOAD_BIT:
            if position + 1 >= len(words):
                raise InputError(f"The command stream ends inside the two-word command at word {position}: the file is cut off.")
            register = _LONGS.get(code)
            if register is None:
                raise _unknown(word, position)
            registers.set_long(register, parameter, words[position + 1])
            like.set_long(register, parameter, words[position + 1])
            position += 2
            continue
        command = _SHORTS.get(code)
        if command is None:
            raise _unknown(word, position)
        position += 1
        if code >= FIRST_SET:
            registers.set_short(command, parameter)
            like.set_short()
            continue
        yield like.operation(registers, command, parameter), position - start
        start = position
        if command is Cmd0.STOP:
            return


def _unknown(word: int, position: int) -> InputError:
    return InputError(f"Command {word:#010x} at word {position} is unknown: the file is damaged or for another NPU.")


def decode_words(words: tuple[int, ...]) -> tuple[tuple[Operation, ...], tuple[int, ...]]:
    """Operations of a register command stream, and the words that each took: see :func:`decoded`.

    InputError on an unknown command, a register used before it is set, or a stream that is too long for the hardware.
    """
    if 4 * len(words) >= MAX_STREAM_BYTES:
        raise InputError(f"The command stream has {4 * len(words)} bytes: the NPU reads less than {MAX_STREAM_BYTES}; the file is damaged.")
    found = list(decoded(words))
    return tuple(operation for operation, _ in found), tuple(count for _, count in found)
