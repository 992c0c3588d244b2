"""The programmer's registers of an NPU as data: offset, fields, access rule, reset value and source of each word."""

from __future__ import annotations

import sys
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from npu_model.accelerator import accelerator
from npu_model.command_stream.payload import config_word

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REGISTER_BYTES = 0x1000
"""Size of the register file in a core's address space."""

WORD = 4
"""Bytes of a register."""

_INTERFACE = "interface"


class RegisterAccess(Enum):
    """Effects of a write on a field, and the result of a read."""

    READ_ONLY = "ro"
    READ_WRITE = "rw"
    WRITE_ONLY = "wo"
    """Reads as 0."""
    SET = "w1s"
    """A written 1 sets the bit, a 0 leaves it."""
    CLEAR = "w1c"
    """A written 1 clears the bit, a 0 leaves it; a read gives the set bits."""


class Field(Struct, frozen=True):
    """Some bits of a register: the lowest one, and their number."""

    name: str
    lowest: int
    bits: int
    access: RegisterAccess

    @property
    def mask(self) -> int:
        """The field's bits in the word, all set."""
        return ((1 << self.bits) - 1) << self.lowest

    def of(self, word: int) -> int:
        """The field's value in a word."""
        return (word & self.mask) >> self.lowest

    def at(self, value: int) -> int:
        """A word with this field alone; bits beyond the field are lost."""
        return value << self.lowest & self.mask


class Register(Struct, frozen=True):
    """One word: its byte offset, its value after a reset, its fields, and the source of access rule and reset value."""

    name: str
    offset: int
    access: RegisterAccess
    reset: int
    fields: tuple[Field, ...]
    source: str

    def mask(self, *kinds: RegisterAccess) -> int:
        """The bits of all fields with one of these access rules."""
        return sum(field.mask for field in self.fields if field.access in kinds)

    def field(self, name: str) -> Field:
        """The field of this name; KeyError if there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"{self.name}.{name}")


def _register(table: dict[str, Any], product: str, number: int) -> Register:
    own = table.get(product, {})
    is_odd = bool(number & 1)
    access = RegisterAccess((own.get("odd") if is_odd and "odd" in own else None) or own.get("access", table["access"]))
    named = table["odd"] if is_odd and "odd" in table else table["fields"]
    fields = tuple(Field(name, one[0], one[1], RegisterAccess(one[2]) if len(one) > 2 else access) for name, one in named.items())
    several = "words" in table
    return Register(
        name=f"{table['name']}{number}" if several else table["name"],
        offset=table["offset"] + WORD * number,
        access=access,
        reset=own.get("reset", table.get("reset", 0)),
        fields=fields,
        source=table.get("source", _INTERFACE),
    )


def _tables() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "data" / "registers.toml").read_text(encoding="utf-8"))


@cache
def registers(accelerator_name: str) -> tuple[Register, ...]:
    """The registers of an accelerator, by offset; the reset value of CONFIG is its configuration word. InputError if it is unknown."""
    product = accelerator(accelerator_name).name.split("-")[1]
    config = config_word(accelerator_name)
    found = []
    for table in _tables()["register"]:
        if table["name"] == "CONFIG":
            table["reset"] = config
        found += [_register(table, product, number) for number in range(table.get("words", 1))]
    return tuple(sorted(found, key=lambda register: register.offset))


@cache
def event_numbers() -> dict[str, int]:
    """The counted events of the PMU, by name."""
    return dict(_tables()["events"])


@cache
def register_offsets() -> dict[str, int]:
    """Byte offsets by the register's name, which all products share."""
    return {register.name: register.offset for register in registers("ethos-u55-128")}
