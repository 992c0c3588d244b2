"""Loads and stores of the Thumb instruction set, decoded into accesses to a device's registers.

Source: Armv8-M Architecture Reference Manual, encodings of LDR, LDRH, LDRB, LDRSH, LDRSB, STR, STRH, STRB, LDRD and STRD.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

Registers = Callable[[int], int]
"""The value of a core register by its number."""


class ThumbAccess(Struct, frozen=True):
    """One access: the instruction's bytes, the address, the registers that are loaded or stored, and the bytes of each."""

    size: int
    address: int
    registers: tuple[int, ...]
    width: int
    load: bool
    signed: bool = False
    back: tuple[int, int] | None = None
    """Base register, and its new value."""


_SHORT = {0b01100: (4, False), 0b01101: (4, True), 0b01110: (1, False), 0b01111: (1, True), 0b10000: (2, False), 0b10001: (2, True)}
"""By the five highest bits: width and load, of the forms with an immediate of five bits."""

_BY_REGISTER = (
    (4, False, False),
    (2, False, False),
    (1, False, False),
    (1, True, True),
    (4, True, False),
    (2, True, False),
    (1, True, False),
    (2, True, True),
)
"""By bits 9 to 11 of the form with two registers: width, load, signed."""


def _short(code: int, register: Registers) -> ThumbAccess | None:
    target, base = code & 7, code >> 3 & 7
    found = _SHORT.get(code >> 11)
    if found is not None:
        width, load = found
        return ThumbAccess(2, register(base) + width * (code >> 6 & 31), (target,), width, load)
    if code >> 12 == 0b0101:
        width, load, signed = _BY_REGISTER[code >> 9 & 7]
        return ThumbAccess(2, register(base) + register(code >> 6 & 7), (target,), width, load, signed)
    return None


def _indexed(base: int, value: int, offset: int, *, before: bool, back: bool) -> tuple[int, tuple[int, int] | None]:
    moved = value + offset & 0xFFFF_FFFF
    return (moved if before else value), ((base, moved) if back else None)


def _long(code: int, more: int, register: Registers) -> ThumbAccess | None:
    base, target = code & 15, more >> 12
    if code >> 9 == 0b1111100 and code >> 5 & 3 != 3 and base != 15:
        width, load, signed = 1 << (code >> 5 & 3), bool(code >> 4 & 1), bool(code >> 8 & 1)
        back = None
        if code >> 7 & 1:
            address = register(base) + (more & 0xFFF)
        elif more >> 11 & 1:
            offset = (more & 0xFF) * (1 if more >> 9 & 1 else -1)
            address, back = _indexed(base, register(base), offset, before=bool(more >> 10 & 1), back=bool(more >> 8 & 1))
        else:
            address = register(base) + (register(more & 15) << (more >> 4 & 3))
        return ThumbAccess(4, address, (target,), width, load, signed, back)
    if code >> 9 == 0b1110100 and code >> 6 & 1 and code & 0x120 and base != 15:
        offset = 4 * (more & 0xFF) * (1 if code >> 7 & 1 else -1)
        address, back = _indexed(base, register(base), offset, before=bool(code >> 8 & 1), back=bool(code >> 5 & 1))
        return ThumbAccess(4, address, (target, more >> 8 & 15), 4, bool(code >> 4 & 1), back=back)
    return None


def thumb_access(code: int, more: int, register: Registers) -> ThumbAccess | None:
    """Return the memory access of an instruction of one or two halfwords; None if it is not a plain load or store."""
    is_long = code >> 11 in (0b11101, 0b11110, 0b11111)
    return _long(code, more, register) if is_long else _short(code, register)


def advanced(status: int) -> int:
    """XPSR after an instruction: the state of an IT block advances by one."""
    state = status >> 25 & 3 | (status >> 10 & 0x3F) << 2
    state = 0 if not state & 7 else state & 0xE0 | state << 1 & 0x1F
    return status & ~(3 << 25 | 0x3F << 10) | (state & 3) << 25 | (state >> 2) << 10
