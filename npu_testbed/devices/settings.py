"""Settings: one parameter of a memory system and the values to try, as in ``--set OffChipFlash.read_latency=64,128``."""

from __future__ import annotations

import re
from contextlib import suppress
from fractions import Fraction
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from npu_model.errors import InputError, did_you_mean
from npu_model.memory.system import AXI1, Memory, MemorySystem
from npu_model.printable import shown

CLOCK = "clock_hz"
"""The one parameter that belongs to no memory."""

PARAMETERS = ("read_latency", "write_latency", "max_reads", "max_writes", "burst_bytes", "cycles_per_word")
"""Parameters of a memory, by the names of :class:`npu_model.memory.system.Memory`."""

_ENDLESS = re.compile(r"[eE][+-]?[\d_]{4}")
"""An exponent beyond every parameter: 1e999999999 as a fraction would never finish."""

Setting = tuple[str, str]
"""A key, such as "OffChipFlash.read_latency" or "clock_hz", and a value as it was written."""


class TriedValues(Struct, frozen=True):
    """A key with the values to try, as they were written."""

    key: str
    values: tuple[str, ...]


def choice(text: str, pattern: str = "VALUE,VALUE", others: tuple[str, ...] = ()) -> TriedValues:
    """The choice in ``KEY=VALUE,VALUE``; InputError if there is none, with the ``pattern`` of its values.

    ``others`` are further options that are allowed.

    >>> choice("ext.read_latency=64,128")
    TriedValues(key='ext.read_latency', values=('64', '128'))
    """
    key, equals, values = text.partition("=")
    listed = tuple(value.strip() for value in values.split(","))
    parameter = key.rpartition(".")[2]
    if not equals or not all(listed) or (key != CLOCK and parameter not in PARAMETERS):
        options = f", or OPTION={pattern} with one of {', '.join(others)}" if others else ""
        raise InputError(
            f"--set {shown(text)} is not a parameter with a value{did_you_mean(parameter, (*PARAMETERS, CLOCK, *others))}: write "
            f"MEMORY.PARAMETER={pattern} with a parameter of {', '.join(PARAMETERS)}, or {CLOCK}={pattern}{options}."
        )
    return TriedValues(key, tuple(dict.fromkeys(listed)))


def setting(text: str) -> Setting:
    """The setting in ``KEY=VALUE``; InputError if there is none, or if it has several values.

    >>> setting("ext.read_latency=64")
    ('ext.read_latency', '64')
    """
    found = choice(text, "VALUE")
    if len(found.values) > 1:
        raise InputError(f"--set {shown(text)} has {len(found.values)} values: give one here, or try them all with `npu-testbed sweep`.")
    return found.key, found.values[0]


def _number(key: str, value: str) -> Fraction:
    with suppress(ValueError, ZeroDivisionError):
        if value.isascii() and not _ENDLESS.search(value):
            return Fraction(value)
    raise InputError(f"--set {key} has the value {shown(value)}: give a number, such as 64 or 4/3.")


def _integer(key: str, value: str) -> int:
    number = _number(key, value)
    if number.denominator != 1:
        raise InputError(f"--set {key} has the value {shown(value)}: give an integer.")
    return number.numerator


def _changed(memory: Memory, key: str, parameter: str, value: str) -> Memory:
    if parameter == "cycles_per_word":
        return replace(memory, cycles_per_word=_number(key, value))
    changes: dict[str, Any] = {parameter: _integer(key, value)}
    return replace(memory, **changes)


EXTERNAL = "ext"
"""The memory at AXI1, by any name that a configuration gives it. A timing adapter gives it no other name."""

_EXTERNAL = (EXTERNAL, "dram", "onchipflash", "offchipflash")


def _named(system: MemorySystem, name: str) -> str:
    """The memory system's own name for the memory ``name``: each memory has one name in any kind of system.

    The case of letters does not matter. :data:`EXTERNAL` is the memory behind AXI1; a timing adapter's memory represents any flash or DRAM
    and has all of their names.
    """
    names = {memory.name.lower(): memory.name for memory in reversed(system.ports)}
    wanted = name.lower()
    external = system.ports[AXI1].name
    if wanted not in names and (wanted == EXTERNAL or (external == EXTERNAL and wanted in _EXTERNAL)):
        return external
    return names.get(wanted, name)


def with_setting(system: MemorySystem, setting: Setting) -> MemorySystem:
    """The memory system with one parameter set; InputError if it has no such memory, or if the memory cannot take the value."""
    key, value = setting
    if key == CLOCK:
        return replace(system, clock_hz=_integer(key, value))
    name, _, parameter = key.rpartition(".")
    name = _named(system, name)
    names = dict.fromkeys(memory.name for memory in system.ports)
    if name not in names:
        raise InputError(f"--set {shown(key)} names a memory that {system.name} does not have: it has {' and '.join(map(shown, names))}.")
    first, second = (_changed(one, key, parameter, value) if one.name == name else one for one in system.ports)
    return replace(system, ports=(first, second))
