"""Opcodes of the register command stream, and the shadow register file that makes sticky registers readable.

Source: Arm core driver ``ethosu55_interface.h`` (architecture 1.0.6) and Vela 5.2.0 ``ethos_u55_regs.py``.
"""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from npu_model.errors import InputError


class ShortRegister(IntEnum):
    """Commands of one word, of any family: :class:`Cmd0`, or an enumeration of what only one family has."""


class LongRegister(IntEnum):
    """Commands of two words, of any family: :class:`Cmd1`, or an enumeration of what only one family has."""


class Cmd0(ShortRegister):
    """Commands of one word of the U55 and the U65; the parameter is in bits 16-31. Others have most of them."""

    STOP = 0x000
    IRQ = 0x001
    CONV = 0x002
    DEPTHWISE = 0x003
    POOL = 0x005
    ELEMENTWISE = 0x006
    DMA_START = 0x010
    DMA_WAIT = 0x011
    KERNEL_WAIT = 0x012
    PMU_MASK = 0x013
    IFM_PAD_TOP = 0x100
    IFM_PAD_LEFT = 0x101
    IFM_PAD_RIGHT = 0x102
    IFM_PAD_BOTTOM = 0x103
    IFM_DEPTH_M1 = 0x104
    IFM_PRECISION = 0x105
    IFM_UPSCALE = 0x107
    IFM_ZERO_POINT = 0x109
    IFM_WIDTH0_M1 = 0x10A
    IFM_HEIGHT0_M1 = 0x10B
    IFM_HEIGHT1_M1 = 0x10C
    IFM_IB_END = 0x10D
    IFM_REGION = 0x10F
    OFM_WIDTH_M1 = 0x111
    OFM_HEIGHT_M1 = 0x112
    OFM_DEPTH_M1 = 0x113
    OFM_PRECISION = 0x114
    OFM_BLK_WIDTH_M1 = 0x115
    OFM_BLK_HEIGHT_M1 = 0x116
    OFM_BLK_DEPTH_M1 = 0x117
    OFM_ZERO_POINT = 0x118
    OFM_WIDTH0_M1 = 0x11A
    OFM_HEIGHT0_M1 = 0x11B
    OFM_HEIGHT1_M1 = 0x11C
    OFM_REGION = 0x11F
    KERNEL_WIDTH_M1 = 0x120
    KERNEL_HEIGHT_M1 = 0x121
    KERNEL_STRIDE = 0x122
    PARALLEL_MODE = 0x123
    ACC_FORMAT = 0x124
    ACTIVATION = 0x125
    ACTIVATION_MIN = 0x126
    ACTIVATION_MAX = 0x127
    WEIGHT_REGION = 0x128
    SCALE_REGION = 0x129
    AB_START = 0x12D
    BLOCKDEP = 0x12F
    DMA0_SRC_REGION = 0x130
    DMA0_DST_REGION = 0x131
    DMA0_SIZE0 = 0x132
    DMA0_SIZE1 = 0x133
    IFM2_BROADCAST = 0x180
    IFM2_SCALAR = 0x181
    IFM2_PRECISION = 0x185
    IFM2_ZERO_POINT = 0x189
    IFM2_WIDTH0_M1 = 0x18A
    IFM2_HEIGHT0_M1 = 0x18B
    IFM2_HEIGHT1_M1 = 0x18C
    IFM2_IB_START = 0x18D
    IFM2_REGION = 0x18F


class Cmd1(LongRegister):
    """Commands of two words of the U55 and the U65; the payload is the second, the parameter extends it. Others have most of them."""

    IFM_BASE0 = 0x000
    IFM_BASE1 = 0x001
    IFM_BASE2 = 0x002
    IFM_BASE3 = 0x003
    IFM_STRIDE_X = 0x004
    IFM_STRIDE_Y = 0x005
    IFM_STRIDE_C = 0x006
    OFM_BASE0 = 0x010
    OFM_BASE1 = 0x011
    OFM_BASE2 = 0x012
    OFM_BASE3 = 0x013
    OFM_STRIDE_X = 0x014
    OFM_STRIDE_Y = 0x015
    OFM_STRIDE_C = 0x016
    WEIGHT_BASE = 0x020
    WEIGHT_LENGTH = 0x021
    SCALE_BASE = 0x022
    SCALE_LENGTH = 0x023
    OFM_SCALE = 0x024
    OPA_SCALE = 0x025
    OPB_SCALE = 0x026
    DMA0_SRC = 0x030
    DMA0_DST = 0x031
    DMA0_LEN = 0x032
    DMA0_SKIP0 = 0x033
    DMA0_SKIP1 = 0x034
    IFM2_BASE0 = 0x080
    IFM2_BASE1 = 0x081
    IFM2_BASE2 = 0x082
    IFM2_BASE3 = 0x083
    IFM2_STRIDE_X = 0x084
    IFM2_STRIDE_Y = 0x085
    IFM2_STRIDE_C = 0x086
    WEIGHT1_BASE = 0x090
    WEIGHT1_LENGTH = 0x091
    SCALE1_BASE = 0x092
    SCALE1_LENGTH = 0x093


FIRST_SET = 0x100
"""First Cmd0 opcode that sets a register; lower ones are operations."""

PAYLOAD_BIT = 1 << 14
"""Set in the first word of a two-word command."""


class MapRegisters(Struct, frozen=True):
    """The registers of one feature map; the bases in order, strides from row to row, column to column and brick to brick."""

    region: Cmd0
    precision: Cmd0
    zero_point: Cmd0
    height0: Cmd0
    height1: Cmd0
    width0: Cmd0
    bases: tuple[Cmd1, Cmd1, Cmd1, Cmd1]
    strides: tuple[Cmd1, Cmd1, Cmd1]

    @classmethod
    def of(cls, prefix: str) -> MapRegisters:
        """The registers of IFM, IFM2 or OFM."""
        first, second, third, fourth = (Cmd1[f"{prefix}_BASE{index}"] for index in range(4))
        return cls(
            region=Cmd0[f"{prefix}_REGION"],
            precision=Cmd0[f"{prefix}_PRECISION"],
            zero_point=Cmd0[f"{prefix}_ZERO_POINT"],
            height0=Cmd0[f"{prefix}_HEIGHT0_M1"],
            height1=Cmd0[f"{prefix}_HEIGHT1_M1"],
            width0=Cmd0[f"{prefix}_WIDTH0_M1"],
            bases=(first, second, third, fourth),
            strides=(Cmd1[f"{prefix}_STRIDE_Y"], Cmd1[f"{prefix}_STRIDE_X"], Cmd1[f"{prefix}_STRIDE_C"]),
        )


MAP_REGISTERS = {prefix: MapRegisters.of(prefix) for prefix in ("IFM", "IFM2", "OFM")}
"""Registers of feature maps by the prefix of their names."""


ADDRESS_BITS = 40
"""Bits of an address or a stride: 32 in the payload, 8 in the parameter (U65; the U55's 32-bit bus is the program check's concern)."""


_PARAMETER_ONES = (1 << (48 - ADDRESS_BITS)) - 1
"""The bits of a parameter that lie above an address, all set."""


class RegisterFile:
    """The registers after the commands so far; InputError for reading a register that was never set.

    Given dictionaries hold the registers.
    """

    def __init__(self, short: dict[ShortRegister, int] | None = None, long: dict[LongRegister, tuple[int, int]] | None = None) -> None:
        self._short: dict[ShortRegister, int] = {} if short is None else short
        self._long: dict[LongRegister, tuple[int, int]] = {} if long is None else long

    def set_short(self, register: ShortRegister, value: int) -> None:
        """Store the 16-bit parameter of a one-word command."""
        self._short[register] = value

    def set_long(self, register: LongRegister, parameter: int, payload: int) -> None:
        """Store the 16-bit parameter and the 32-bit payload of a two-word command."""
        self._long[register] = (parameter, payload)

    def short(self, register: ShortRegister, default: int | None = None) -> int:
        """The 16-bit value, unsigned."""
        value = self._short.get(register, default)
        if value is None:
            raise InputError(f"The command stream uses register {register.name} before setting it: the file is damaged.")
        return value

    def signed(self, register: ShortRegister, default: int | None = None) -> int:
        """The 16-bit value, two's complement."""
        value = self.short(register, default)
        return value - (1 << 16) if value & 0x8000 else value

    def long(self, register: LongRegister, default: int | None = None) -> tuple[int, int]:
        """Parameter and payload of a two-word register."""
        value = self._long.get(register)
        if value is None:
            if default is None:
                raise InputError(f"The command stream uses register {register.name} before setting it: the file is damaged.")
            return 0, default
        return value

    def address(self, register: LongRegister, default: int | None = None) -> int:
        """An address: the payload with the parameter as bits 32 and up (beyond 4 GiB on U65)."""
        parameter, payload = self.long(register, default)
        return parameter << 32 | payload

    def stride(self, register: LongRegister) -> int:
        """A stride: an address's bits, of which the highest is the sign. Vela steps backwards through the reflected part of a MIRROR_PAD.

        The parameter has 16 bits; Vela's Python core also fills the bits above 40 with the sign.
        """
        value = self.address(register)
        above, low = divmod(value, 1 << ADDRESS_BITS)
        return low - (1 << ADDRESS_BITS) if low >> (ADDRESS_BITS - 1) and above in (0, _PARAMETER_ONES) else value
