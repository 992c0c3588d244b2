"""From the registers of an Ethos-U55 or Ethos-U65 to operations.

Field layouts: Arm core driver ``ethosu55_interface.h``. A register that an operation does not use is left out of its
description, so that stale values never show.
"""

from __future__ import annotations

from typing import Any, TypeVar

from npu_model.command_stream.registers import MAP_REGISTERS, Cmd0, Cmd1, RegisterFile
from npu_model.command_stream.windows import block_shape, ofm_shape, read_bounds, read_tiles, read_window
from npu_model.errors import InputError
from npu_model.program import (
    AccumulatorFormat,
    Activation,
    ActivationKind,
    Broadcast,
    ByteRange,
    ClipRange,
    DataType,
    DmaOperation,
    ElementwiseKind,
    FeatureMap,
    KernelOperation,
    Layout,
    OperationKind,
    PoolKind,
    Rounding,
    Scale,
    ScaledOperand,
    Shram,
)
from npu_model.program.coded import member
from npu_model.shapes import Shape3D

KINDS = {
    Cmd0.CONV: OperationKind.CONV_2D,
    Cmd0.DEPTHWISE: OperationKind.DEPTHWISE,
    Cmd0.POOL: OperationKind.POOL,
    Cmd0.ELEMENTWISE: OperationKind.ELEMENTWISE,
}
_F = TypeVar("_F", PoolKind, ElementwiseKind)

_POOLS = PoolKind.MAX, PoolKind.AVERAGE, PoolKind.REDUCE_SUM
_ELEMENTWISE = tuple(kind for kind in ElementwiseKind if kind.code <= ElementwiseKind.SHL.code)
"""The functions that the family supports."""

FUNCTIONS = {0: ActivationKind.NONE, 3: ActivationKind.TANH, 4: ActivationKind.SIGMOID}
"""By the function's number in ACTIVATION."""

FIRST_LUT = 16
"""ACTIVATION function of LUT slot 0; slot 7 is ``_LAST_LUT``."""

_LAST_LUT = 23

RANGES = {
    what: (Cmd0[f"{what}_REGION"], [(Cmd1[f"{what}{core}_BASE"], Cmd1[f"{what}{core}_LENGTH"]) for core in ("", "1")])
    for what in ("WEIGHT", "SCALE")
}
"""Registers of the region, and of the first byte and the length for each core."""


def _function(known: tuple[_F, ...], code: int, what: str) -> _F:
    """The function of a parameter among the family's functions."""
    for function in known:
        if function.code == code:
            return function
    raise InputError(f"{what} {code} in the command stream is unknown: the file is damaged or for another NPU.")


def _data_type(log2_bytes: int, signed: int) -> DataType:
    if log2_bytes > 2:
        raise InputError(f"Element size code {log2_bytes} in the command stream is unknown: 0, 1 and 2 exist; the file is damaged.")
    return DataType(8 << log2_bytes, bool(signed))


def _feature_map(registers: RegisterFile, prefix: str, shape: Shape3D) -> FeatureMap:
    """Feature map IFM, IFM2 or OFM by ``prefix``. The caller gives the shape, because no register holds IFM height and width."""
    names = MAP_REGISTERS[prefix]
    precision = registers.short(names.precision)
    log2_bytes = precision >> (1 if prefix == "OFM" else 2) & 3
    tiles, strides = read_tiles(registers, names)
    return FeatureMap(
        region=registers.short(names.region) & 7,
        shape=shape,
        dtype=_data_type(log2_bytes, precision & 1),
        layout=Layout.NHCWB16 if precision >> 6 & 1 else Layout.NHWC,
        tiles=tiles,
        strides=strides,
        zero_point=registers.signed(names.zero_point, 0),
    )


def _activation(registers: RegisterFile, ofm_type: DataType) -> Activation:
    word = registers.short(Cmd0.ACTIVATION)
    function = word & 31
    minimum, maximum = read_bounds(registers, ofm_type)
    if function in FUNCTIONS:
        kind, lut = FUNCTIONS[function], 0
    elif FIRST_LUT <= function <= _LAST_LUT:
        kind, lut = ActivationKind.LUT, function - FIRST_LUT
    else:
        raise InputError(
            f"Activation function {function} in the command stream is unknown: 0, 3, 4 and 16 to 23 exist; the file is damaged."
        )
    return Activation(
        kind=kind,
        minimum=minimum,
        maximum=maximum,
        lut=lut,
        clip=member(ClipRange, word >> 12 & 7, "Clip range"),
    )


def _ranges(registers: RegisterFile, what: str, cores: int) -> tuple[ByteRange, ...]:
    """Weight or scale ranges, one per core."""
    where, bounds = RANGES[what]
    region = registers.short(where) & 7
    ranges = []
    for start, length in bounds[:cores]:
        base = registers.address(start)
        ranges.append(ByteRange(region, base, base + registers.long(length)[1]))
    return tuple(ranges)


def _scale(registers: RegisterFile, register: Cmd1) -> Scale:
    shift, scale = registers.long(register, 0)
    return Scale(scale, shift & 63)


def _elementwise(registers: RegisterFile, kind: ElementwiseKind, ofm: FeatureMap) -> dict[str, object]:
    """The fields of an elementwise operation: operands, broadcasting and scales."""
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
        fields["ifm2"] = _feature_map(registers, "IFM2", broadcast.operand(ofm.shape))
    if kind in (ElementwiseKind.ADD, ElementwiseKind.SUB):
        fields["opa_scale"] = _scale(registers, Cmd1.OPA_SCALE)
        fields["opb_scale"] = _scale(registers, Cmd1.OPB_SCALE)
        mode = registers.short(Cmd0.IFM_PRECISION) >> 8 & 3
        fields["scaled_operand"] = member(ScaledOperand, mode, "Elementwise scale mode")
    return fields


def _windowed(registers: RegisterFile, kind: OperationKind, ofm: FeatureMap) -> dict[str, Any]:
    """The fields of convolutions and pooling: the window, the IFM that it implies, weights and scales."""
    shape, fields = read_window(registers, ofm.shape, weighted=kind is not OperationKind.POOL)
    fields["ifm"] = _feature_map(registers, "IFM", shape)
    if kind is OperationKind.POOL:
        fields["ofm_scale"] = _scale(registers, Cmd1.OFM_SCALE)
        return fields
    parallel_mode = registers.short(Cmd0.PARALLEL_MODE, 0)
    cores = 2 if parallel_mode else 1
    fields |= {
        "weights": _ranges(registers, "WEIGHT", cores),
        "scales": _ranges(registers, "SCALE", cores),
        "parallel_mode": parallel_mode,
    }
    if registers.short(Cmd0.OFM_PRECISION) >> 8 & 1:
        fields["ofm_scale"] = _scale(registers, Cmd1.OFM_SCALE)
    return fields


def decode_kernel(registers: RegisterFile, command: Cmd0, parameter: int) -> KernelOperation:
    """The kernel operation that ``command`` starts with the current registers; InputError if they are inconsistent."""
    kind = KINDS[command]
    pool = _function(_POOLS, parameter, "Pooling function") if kind is OperationKind.POOL else None
    elementwise = _function(_ELEMENTWISE, parameter, "Elementwise function") if kind is OperationKind.ELEMENTWISE else None
    ofm = _feature_map(registers, "OFM", ofm_shape(registers))
    fields = _elementwise(registers, elementwise, ofm) if elementwise else _windowed(registers, kind, ofm)
    precision = registers.short(Cmd0.OFM_PRECISION)
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
        block=block_shape(registers),
        shram=shram,
        activation=_activation(registers, ofm.dtype),
        accumulator=member(AccumulatorFormat, registers.short(Cmd0.ACC_FORMAT), "Accumulator format"),
        rounding=member(Rounding, precision >> 14 & 3, "Rounding mode"),
        global_scale=bool(precision >> 8 & 1),
        blockdep=registers.short(Cmd0.BLOCKDEP),
        **fields,
    )


def decode_transfer(registers: RegisterFile) -> DmaOperation:
    """The transfer that the current registers describe."""
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
