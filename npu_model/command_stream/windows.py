"""The registers of windows, tiles and values' bounds, which operations of every family share: read and SET.

Field layouts: Arm core driver ``ethosu55_interface.h``, Vela 5.2.0 ``architecture/ethosu85/ethos_u85_interface.hpp``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npu_model.command_stream.registers import Cmd0, LongRegister, MapRegisters, RegisterFile, ShortRegister
from npu_model.command_stream.writer import RegisterWriter
from npu_model.errors import InputError
from npu_model.program import Activation, DataType, FeatureMap, Kernel, KernelOperation, Padding, Strides, Tiles, Upscale, ifm_extent
from npu_model.program.coded import member
from npu_model.shapes import Shape3D

Bits = tuple[int, int]
"""Lowest bit of a field, and its bits."""

KERNEL_STRIDE: dict[str, Bits] = {
    "x": (0, 1),
    "y": (1, 1),
    "part_kernel": (2, 1),
    "dilation_x": (3, 1),
    "dilation_y": (4, 1),
    "decompose": (5, 1),
    "x_high": (6, 1),
    "y_high": (9, 1),
}
"""The fields of the register. The low bit of a stride minus one is separate from its high bit."""

_PADS = Cmd0.IFM_PAD_TOP, Cmd0.IFM_PAD_LEFT, Cmd0.IFM_PAD_BOTTOM, Cmd0.IFM_PAD_RIGHT
_OFM_EXTENTS = Cmd0.OFM_HEIGHT_M1, Cmd0.OFM_WIDTH_M1, Cmd0.OFM_DEPTH_M1
_BLOCK_EXTENTS = Cmd0.OFM_BLK_HEIGHT_M1, Cmd0.OFM_BLK_WIDTH_M1, Cmd0.OFM_BLK_DEPTH_M1


def taken_apart(known: Mapping[str, Bits], value: int) -> dict[str, int]:
    """The fields of a register's value by name.

    >>> taken_apart({"format": (0, 2), "ublock": (8, 3)}, 0x201)
    {'format': 1, 'ublock': 2}
    """
    return {name: value >> low & ((1 << bits) - 1) for name, (low, bits) in known.items()}


def packed(writer: RegisterWriter, register: ShortRegister | LongRegister, known: Mapping[str, Bits], values: Mapping[str, int]) -> int:
    """A register's value from its fields; a missing field is zero. InputError if a field cannot hold its value."""
    value = 0
    for name, number in values.items():
        low, bits = known[name]
        writer.check(f"{register.name} {name}", number, 0, (1 << bits) - 1)
        value |= number << low
    return value


def ofm_shape(registers: RegisterFile) -> Shape3D:
    """The extents of the OFM."""
    return Shape3D(*[registers.short(register) + 1 for register in _OFM_EXTENTS])


def block_shape(registers: RegisterFile) -> Shape3D:
    """The extents of the OFM block."""
    return Shape3D(*[registers.short(register) + 1 for register in _BLOCK_EXTENTS])


def read_window(registers: RegisterFile, ofm: Shape3D, *, weighted: bool) -> tuple[Shape3D, dict[str, Any]]:
    """The shape of the IFM that an operation's window reads for its OFM, and the fields of the window; ``weighted`` unless it is a pool.

    InputError if the IFM has no elements.
    """
    word = taken_apart(KERNEL_STRIDE, registers.short(Cmd0.KERNEL_STRIDE))
    dilation_x, dilation_y = 1 + word["dilation_x"], 1 + word["dilation_y"]
    kernel = Kernel(
        height=registers.short(Cmd0.KERNEL_HEIGHT_M1) // dilation_y + 1,
        width=registers.short(Cmd0.KERNEL_WIDTH_M1) // dilation_x + 1,
        stride_y=1 + word["y"] + 2 * word["y_high"],
        stride_x=1 + word["x"] + 2 * word["x_high"],
        dilation_y=dilation_y,
        dilation_x=dilation_x,
    )
    upscale = member(Upscale, registers.short(Cmd0.IFM_UPSCALE, 0), "Upscale mode")
    padding = Padding(*[registers.short(register) for register in _PADS])
    height = ifm_extent(ofm.height, kernel.stride_y, kernel.dilated_height, padding.top, padding.bottom, upscale)
    width = ifm_extent(ofm.width, kernel.stride_x, kernel.dilated_width, padding.left, padding.right, upscale)
    if height < 1 or width < 1:
        raise InputError(f"An operation reads an IFM of {height} x {width} elements: at least 1 x 1 is needed; the file is damaged.")
    order = {"decompose": bool(word["decompose"]), "part_kernel": weighted and bool(word["part_kernel"])}
    shape = Shape3D(height, width, registers.short(Cmd0.IFM_DEPTH_M1) + 1)
    return shape, {"kernel": kernel, "padding": padding, "upscale": upscale, **order}


def set_window(writer: RegisterWriter, op: KernelOperation) -> None:
    """SET padding and kernel."""
    kernel, padding = op.kernel, op.padding
    for register, extent in zip(_PADS, (padding.top, padding.left, padding.bottom, padding.right), strict=True):
        writer.short(register, extent)
    writer.check("vertical dilation", kernel.dilation_y, 1, 2)
    writer.check("horizontal dilation", kernel.dilation_x, 1, 2)
    writer.check("vertical stride", kernel.stride_y, 1, 4)
    writer.check("horizontal stride", kernel.stride_x, 1, 4)
    writer.minus_one(Cmd0.KERNEL_HEIGHT_M1, kernel.dilated_height)
    writer.minus_one(Cmd0.KERNEL_WIDTH_M1, kernel.dilated_width)
    y, x = kernel.stride_y - 1, kernel.stride_x - 1
    strides = {"x": x & 1, "y": y & 1, "x_high": x >> 1, "y_high": y >> 1}
    dilations = {"dilation_x": kernel.dilation_x - 1, "dilation_y": kernel.dilation_y - 1}
    order = {"part_kernel": int(op.part_kernel), "decompose": int(op.decompose)}
    writer.short(Cmd0.KERNEL_STRIDE, packed(writer, Cmd0.KERNEL_STRIDE, KERNEL_STRIDE, strides | dilations | order))


def read_tiles(registers: RegisterFile, names: MapRegisters) -> tuple[Tiles, Strides]:
    """The tiles of a feature map, and its strides."""
    first, second, third, fourth = names.bases
    bases = registers.address(first), registers.address(second, 0), registers.address(third, 0), registers.address(fourth, 0)
    height0, height1, width0 = (registers.short(one) + 1 for one in (names.height0, names.height1, names.width0))
    return Tiles(height0, height1, width0, bases), Strides(*[registers.stride(one) for one in names.strides])


def set_tiles(writer: RegisterWriter, names: MapRegisters, tiles: Tiles) -> None:
    """SET the bases and the extents of a feature map's tiles."""
    for register, base in zip(names.bases, tiles.bases, strict=True):
        writer.address(register, base)
    writer.minus_one(names.height0, tiles.height0)
    writer.minus_one(names.height1, tiles.height1)
    writer.minus_one(names.width0, tiles.width0)


def set_strides(writer: RegisterWriter, names: MapRegisters, fm: FeatureMap) -> None:
    """SET the strides of a feature map."""
    for register, stride in zip(names.strides, (fm.strides.y, fm.strides.x, fm.strides.c), strict=True):
        writer.stride(register, stride)


_UNSIGNED = DataType(16, signed=False)
"""The type of OFMs whose bounds have no sign."""


def read_bounds(registers: RegisterFile, ofm_type: DataType) -> tuple[int, int]:
    """The least and the largest value of an OFM."""
    read = registers.short if ofm_type == _UNSIGNED else registers.signed
    return read(Cmd0.ACTIVATION_MIN), read(Cmd0.ACTIVATION_MAX)


def set_bounds(writer: RegisterWriter, activation: Activation, ofm_type: DataType) -> None:
    """SET the least and the largest value of an OFM."""
    write = writer.short if ofm_type == _UNSIGNED else writer.signed
    write(Cmd0.ACTIVATION_MIN, activation.minimum)
    write(Cmd0.ACTIVATION_MAX, activation.maximum)


def set_block(writer: RegisterWriter, block: Shape3D) -> None:
    """SET the extents of the OFM block."""
    for register, extent in zip(_BLOCK_EXTENTS, (block.height, block.width, block.depth), strict=True):
        writer.minus_one(register, extent)
