"""The writer of register commands: words, sticky registers and the width of every field.

Widths: Arm core driver ``ethosu55_interface.h``, Vela 5.2.0 ``ethos_u65_interface.hpp`` (same layout).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct

from npu_model.command_stream.registers import ADDRESS_BITS, PAYLOAD_BIT, Cmd0, Cmd1, LongRegister, RegisterFile, ShortRegister
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
"""Bits of the fields that are narrower than their word (16 bits in a one-word command, 32 in a payload), by name."""

_SHIFT_BITS = 6
_SHORT_END, _LENGTH_END = 1 << 16, 1 << 32
"""The first value that is too large for a whole word."""


class Widths(Struct, frozen=True, dict=True):
    """Bits of the registers that are narrower than their word: of one word (16 bits), and lengths (32 bits) of two."""

    shorts: Mapping[ShortRegister, int]
    lengths: Mapping[LongRegister, int]

    @cached_property
    def ends(self) -> tuple[dict[ShortRegister, int], dict[LongRegister, int]]:
        """The first value that is too large for each."""
        return {one: 1 << bits for one, bits in self.shorts.items()}, {one: 1 << bits for one, bits in self.lengths.items()}


NARROW = Widths(
    {register: _NARROW[register.name] for register in Cmd0 if register.name in _NARROW},
    {register: _NARROW[register.name] for register in Cmd1 if register.name in _NARROW},
)
"""The bits of a U55 and a U65."""


class RegisterWriter:
    """The words so far and the registers after them; ``where`` names the operation in messages.

    ``narrow`` are a family's widths.
    """

    def __init__(self, narrow: Widths = NARROW) -> None:
        self._short_ends, self._length_ends = narrow.ends
        self.words: list[int] = []
        # Separate tables, because the two command enumerations share their numbers.
        self._shorts: dict[ShortRegister, int] = {}
        self._longs: dict[LongRegister, tuple[int, int]] = {}
        self.registers = RegisterFile(self._shorts, self._longs)
        self.where = ""

    def holds(self, register: ShortRegister | LongRegister) -> bool:
        """Whether the stream has SET this register."""
        return register in self._shorts if isinstance(register, ShortRegister) else register in self._longs

    def settings(self, but: int) -> dict[int, int]:
        """The value of each register whose value is not ``but``; registers of two words have the payload bit in their numbers.

        The parameter of the first word lies above the 32 bits of the second.
        """
        found: dict[int, int] = {register: value for register, value in self._shorts.items() if value != but}
        found |= {PAYLOAD_BIT | register: high << 32 | low for register, (high, low) in self._longs.items() if high != but}
        return found

    def check(self, what: str, value: int, low: int, high: int) -> None:
        """InputError unless ``low <= value <= high``."""
        if not low <= value <= high:
            raise InputError(f"{self.where} has {what} {value}: the register holds {low} to {high}; split or shrink the operation.")

    def short(self, register: ShortRegister, value: int) -> None:
        """SET an unsigned field."""
        end = self._short_ends.get(register, _SHORT_END)
        if not 0 <= value < end:
            self.check(register.name, value, 0, end - 1)
        if self._shorts.get(register) != value:
            self._shorts[register] = value
            self.words.append(value << 16 | register)

    def minus_one(self, register: ShortRegister, value: int) -> None:
        """SET an extent; the register holds the extent minus one."""
        end = self._short_ends.get(register, _SHORT_END)
        if not 0 < value <= end:
            self.check(register.name.removesuffix("_M1"), value, 1, end)
        self.short(register, value - 1)

    def signed(self, register: ShortRegister, value: int) -> None:
        """SET a 16-bit two's complement field."""
        if not -(1 << 15) <= value < 1 << 15:
            self.check(register.name, value, -(1 << 15), (1 << 15) - 1)
        self.short(register, value & 0xFFFF)

    def long(self, register: LongRegister, parameter: int, payload: int) -> None:
        """SET both words of a register as they are."""
        if self._longs.get(register) != (parameter, payload):
            self._longs[register] = parameter, payload
            self.words += [parameter << 16 | PAYLOAD_BIT | register, payload]

    def address(self, register: LongRegister, value: int) -> None:
        """SET an address or DMA length in bytes."""
        if not 0 <= value < 1 << ADDRESS_BITS:
            self.check(register.name, value, 0, (1 << ADDRESS_BITS) - 1)
        self.long(register, value >> 32, value & 0xFFFFFFFF)

    def stride(self, register: LongRegister, value: int) -> None:
        """SET a stride in bytes; a negative one steps backwards."""
        half = 1 << (ADDRESS_BITS - 1)
        if not -half <= value < half:
            self.check(register.name, value, -half, half - 1)
        self.address(register, value % (2 * half))

    def length(self, register: LongRegister, value: int) -> None:
        """SET a length in bytes."""
        end = self._length_ends.get(register, _LENGTH_END)
        if not 0 <= value < end:
            self.check(register.name, value, 0, end - 1)
        self.long(register, 0, value)

    def scale(self, register: LongRegister, value: Scale) -> None:
        """SET a scale word with its shift."""
        self.check(f"{register.name} shift", value.shift, 0, (1 << _SHIFT_BITS) - 1)
        self.check(register.name, value.scale, 0, (1 << 32) - 1)
        self.long(register, value.shift, value.scale)

    def operate(self, command: ShortRegister, parameter: int) -> None:
        """Append an operation command, which is never left out."""
        self.check(command.name, parameter, 0, self._short_ends.get(command, _SHORT_END) - 1)
        self.words.append(parameter << 16 | command)
