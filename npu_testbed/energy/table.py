"""A table of energies for a multiply-accumulate, a byte of each memory and a cycle.

Its unit is arbitrary, because only ratios are formed.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.printable import printable, shown
from npu_model.toml_text import parse_toml
from validation.reading import read_configuration

ILLUSTRATIVE = "illustrative"
"""Name of the shipped table, whose figures belong to no device."""

_MOST = 10**9
"""Bound of a figure, so that sums of figures stay finite."""


class EnergyTable(Struct, frozen=True):
    """The figures of a table, all in one unit: for a MAC, for a cycle with or without MAC work, and for a byte read or written."""

    name: str
    mac: Fraction
    active: Fraction
    idle: Fraction
    memories: Mapping[str, tuple[Fraction, Fraction]]


def _keys(where: str, table: Any, needed: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(table, dict) or set(table) != set(needed):
        found = printable(", ".join(sorted(table))) if isinstance(table, dict) else shown(table)
        raise InputError(f"{where} of the energy table has {found or 'nothing'}: it takes {', '.join(needed)}.")
    return table


def _figure(key: str, value: Any) -> Fraction:
    if type(value) not in (int, float) or not 0 <= value <= _MOST:
        raise InputError(f"{printable(key)} of the energy table is {shown(value)}: a number from 0 to {_MOST} is needed.")
    return Fraction(str(value))


def parse_energy_table(name: str, text: str) -> EnergyTable:
    """The table that a TOML text describes; InputError names what is wrong with it."""
    table = _keys("The top level", parse_toml(text, "The energy table", "write key = value lines"), ("mac", "cycle", "memory"))
    cycle = _keys("[cycle]", table["cycle"], ("active", "idle"))
    memories = table["memory"]
    if not isinstance(memories, dict) or not memories:
        raise InputError("The energy table has no [memory.NAME]: add one for each memory, with read and write.")
    bytes_of = {key: _keys(f"[memory.{printable(key)}]", value, ("read", "write")) for key, value in memories.items()}
    return EnergyTable(
        name,
        _figure("mac", table["mac"]),
        _figure("cycle.active", cycle["active"]),
        _figure("cycle.idle", cycle["idle"]),
        {
            key: (_figure(f"memory.{key}.read", value["read"]), _figure(f"memory.{key}.write", value["write"]))
            for key, value in bytes_of.items()
        },
    )


def load_energy_table(source: str) -> EnergyTable:
    """The table in a TOML file, or the shipped one of the name :data:`ILLUSTRATIVE`."""
    if source == ILLUSTRATIVE:
        return parse_energy_table(source, (resources.files(__package__) / f"{ILLUSTRATIVE}.toml").read_text(encoding="utf-8"))
    return parse_energy_table(Path(source).stem, read_configuration(source, "Energy table"))
