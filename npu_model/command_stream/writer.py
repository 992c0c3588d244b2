"""The writer of register commands: words, sticky registers and the width of every field.

Widths: Arm core driver ``ethosu55_interface.h``, Vela 5.2.0 ``ethos_u65_interface.hpp`` (same layout).
"""

from __future__ import annotations

from npu_model.command_stream.registers import ADDRESS_BITS, PAYLOAD_BIT, Cmd0, Cmd1, RegisterFile
from npu_model.errors import InputError
from npu_model.program import Scale

_NARROW = {
    "IFM_PAD_TOP": 7,
    "IFM_PAD_LEFT": 7,
    "IFM_PAD_RIGHT": 8,
    "IFM_PAD_BOTTOM": 8,
    "IFM_IB_END": 6,
    "IFM2_IB_START": 6,
    "AB_START": 6,
    "IFM_REGION": 3,
    "IFM2_REGION": 3,
    "OFM_REGION": 3,
    "WEIGHT_REGION": 3,
    "SCALE_REGION": 3,
    "OFM_BLK_HEIGHT_M1": 5,
    "OFM_BLK_WIDTH_M1": 6,
    "OFM_BLK_DEPTH_M1": 7,
    "PARALLEL_MODE": 1,
    "BLOCKDEP": 2,
    "DMA_WAIT": 4,
    "KERNEL_WAIT": 4,
    "SCALE_LENGTH": 20,
    "SCALE1_LENGTH": 20,
}
"""Bits of the fields that are narrower than their word (16 bits in a one-word command, 32 in a payload)."""

_SHIFT_BITS = 6

_SHORT_ENDS = {register: 1 << _NARROW.get(register.name, 16) for register in Cmd0}
"""The first value that is too large for a field of one word."""

_LENGTH_ENDS = {register: 1 << _NARROW.get(register.name, 32) for register in Cmd1}
"""The first length that is too large for its payload."""


class RegisterWriter:
    """The words so far and the registers as they leave them; ``where`` names the operation in messages."""

    def __init__(self) -> None:
        self.words: list[int] = []
        # Apart, as the two command enumerations share their numbers.
        self._shorts: dict[Cmd0, int] = {}
        self._longs: dict[Cmd1, tuple[int, int]] = {}
        self.registers = RegisterFile(self._shorts, self._longs)
        self.where = ""

    def holds(self, register: Cmd0 | Cmd1) -> bool:
        """Whether the stream has SET this register."""
        return register in self._shorts if isinstance(register, Cmd0) else register in self._longs

    def settings(self, but: int) -> dict[int, int]:
        """The value of each register that holds one other than ``but``; those of two words by their numbers with the payload bit.

        Of two words the first one's parameter is above the 32 bits of the second one.
        """
        shorts = {register.value: value for register, value in self._shorts.items() if value != but}
        return shorts | {PAYLOAD_BIT | register.value: high << 32 | low for register, (high, low) in self._longs.items() if high != but}

    def check(self, what: str, value: int, low: int, high: int) -> None:
        """InputError unless ``low <= value <= high``."""
        if not low <= value <= high:
            raise InputError(f"{self.where} has {what} {value}: the register holds {low} to {high}; split or shrink the operation.")

    def short(self, register: Cmd0, value: int) -> None:
        """SET an unsigned field."""
        if not 0 <= value < _SHORT_ENDS[register]:
            self.check(register.name, value, 0, _SHORT_ENDS[register] - 1)
        if self._shorts.get(register) != value:
            self._shorts[register] = value
            self.words.append(value << 16 | register)

    def minus_one(self, register: Cmd0, value: int) -> None:
        """SET an extent, which the register holds less one."""
        if not 0 < value <= _SHORT_ENDS[register]:
            self.check(register.name.removesuffix("_M1"), value, 1, _SHORT_ENDS[register])
        self.short(register, value - 1)

    def signed(self, register: Cmd0, value: int) -> None:
        """SET a 16-bit two's complement field."""
        if not -(1 << 15) <= value < 1 << 15:
            self.check(register.name, value, -(1 << 15), (1 << 15) - 1)
        self.short(register, value & 0xFFFF)

    def _long(self, register: Cmd1, parameter: int, payload: int) -> None:
        if self._longs.get(register) != (parameter, payload):
            self._longs[register] = parameter, payload
            self.words += [parameter << 16 | PAYLOAD_BIT | register, payload]

    def address(self, register: Cmd1, value: int) -> None:
        """SET an address or DMA length in bytes."""
        if not 0 <= value < 1 << ADDRESS_BITS:
            self.check(register.name, value, 0, (1 << ADDRESS_BITS) - 1)
        self._long(register, value >> 32, value & 0xFFFFFFFF)

    def stride(self, register: Cmd1, value: int) -> None:
        """SET a stride in bytes; a negative one steps backwards."""
        half = 1 << (ADDRESS_BITS - 1)
        if not -half <= value < half:
            self.check(register.name, value, -half, half - 1)
        self.address(register, value % (2 * half))

    def length(self, register: Cmd1, value: int) -> None:
        """SET a length in bytes."""
        if not 0 <= value < _LENGTH_ENDS[register]:
            self.check(register.name, value, 0, _LENGTH_ENDS[register] - 1)
        self._long(register, 0, value)

    def scale(self, register: Cmd1, value: Scale) -> None:
        """SET a scale word with its shift."""
        self.check(f"{register.name} shift", value.shift, 0, (1 << _SHIFT_BITS) - 1)
        self.check(register.name, value.scale, 0, (1 << 32) - 1)
        self._long(register, value.shift, value.scale)

    def operate(self, command: Cmd0, parameter: int) -> None:
        """Append an operation command, which is never left out."""
        self.check(command.name, parameter, 0, (1 << _NARROW.get(command.name, 16)) - 1)
        self.words.append(parameter << 16 | command)
