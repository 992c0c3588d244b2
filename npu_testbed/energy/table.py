"""A table of energies for a multiply-accumulate, a byte of each memory and a cycle.

Its unit is arbitrary, because only ratios are formed.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from npu_model.errors import InputError
from npu_model.toml_text import read_toml
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


_Figure = Annotated[float, Meta(ge=0, le=_MOST)]


class _Cycle(Struct, forbid_unknown_fields=True):
    """Energies of a cycle."""

    active: _Figure
    idle: _Figure


class _Bytes(Struct, forbid_unknown_fields=True):
    """Energies of a byte of a memory."""

    read: _Figure
    write: _Figure


class _File(Struct, forbid_unknown_fields=True):
    """The content of the file."""

    mac: _Figure
    cycle: _Cycle
    memory: dict[str, _Bytes]


def _exact(figure: float) -> Fraction:
    return Fraction(str(figure))


def parse_energy_table(name: str, text: str) -> EnergyTable:
    """The table that a TOML text describes; InputError names what is wrong with it."""
    table = read_toml(_File, text, "The energy table", "write key = value lines")
    if not table.memory:
        raise InputError("The energy table has no [memory.NAME]: add one for each memory, with read and write.")
    memories = {key: (_exact(one.read), _exact(one.write)) for key, one in table.memory.items()}
    return EnergyTable(name, _exact(table.mac), _exact(table.cycle.active), _exact(table.cycle.idle), memories)


def load_energy_table(source: str) -> EnergyTable:
    """The table in a TOML file, or the shipped one of the name :data:`ILLUSTRATIVE`."""
    if source == ILLUSTRATIVE:
        return parse_energy_table(source, (resources.files(__package__) / f"{ILLUSTRATIVE}.toml").read_text(encoding="utf-8"))
    return parse_energy_table(Path(source).stem, read_configuration(source, "Energy table"))
