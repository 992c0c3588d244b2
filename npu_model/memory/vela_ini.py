"""Vela's configuration files: from the text of a ``vela.ini`` and two names in it to a MemorySystem."""

from __future__ import annotations

import configparser
import math
import re
from fractions import Fraction

from npu_model.errors import InputError
from npu_model.memory.mode import MemoryMode, port_number
from npu_model.memory.system import NPU_MAX_READS, NPU_MAX_WRITES, Memory, MemorySystem
from npu_model.memory.vela_names import DEFAULT_MEMORY_MODE, DEFAULT_SYSTEM_CONFIG

_SYSTEM, _MODE = "System_Config.", "Memory_Mode."
_MEMORIES = ("Sram", "Dram", "OnChipFlash", "OffChipFlash")
_MAX_SCALE = 4096
_MAX_CLOCK_HZ = 100_000_000_000
_MAX_CYCLES = 1_000_000
_MAX_BURST = 4096
_BURST_STEP = 8
_MAX_ARENA = 1 << 32
_MAX_EXPANDED = 1 << 12
_MAX_DEPTH = 10
"""References within references, as in configparser."""
_MAX_PARENTS = 32


def _fault(error: configparser.Error) -> str:
    if isinstance(error, configparser.DuplicateSectionError):
        return f"section [{error.section}] appears twice"
    if isinstance(error, configparser.DuplicateOptionError):
        return f"{error.option} appears twice in [{error.section}]"
    if isinstance(error, configparser.MissingSectionHeaderError):
        return f"line {error.lineno} stands before the first section"
    if isinstance(error, configparser.ParsingError) and error.errors:
        return f"line {error.errors[0][0]} is not key=value"
    return type(error).__name__


def _parse(text: str) -> configparser.RawConfigParser:
    # References are expanded by _expanded, whose result is bounded.
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise InputError(f"The Vela configuration cannot be read, as {_fault(error)}: correct it or give another file.") from None
    return parser


def _names(parser: configparser.RawConfigParser, prefix: str) -> tuple[str, ...]:
    return tuple(section.removeprefix(prefix) for section in parser.sections() if section.startswith(prefix))


def config_names(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The system configs and the memory modes of a ``vela.ini``, in file order."""
    parser = _parse(text)
    return _names(parser, _SYSTEM), _names(parser, _MODE)


_REFERENCE = re.compile(r"%(?:%|\((\w[^()]*)\)s)?")


def _expanded(section: str, values: dict[str, str]) -> dict[str, str]:
    """The values with all references ``%(key)s`` expanded, as configparser does it.

    Every key is expanded once. Configparser, which Vela uses, expands a key at every reference. Its work for one key is limited to
    :data:`_MAX_EXPANDED` characters, because a few hundred bytes of references to references keep it busy for hours. InputError names a key
    that refers to itself, to a missing key, or to too much.
    """
    done: dict[str, tuple[str, int]] = {}

    def expand(key: str, within: tuple[str, ...]) -> tuple[str, int]:
        if key in done:
            return done[key]
        read = len(values[key])

        def value(match: re.Match[str]) -> str:
            nonlocal read
            if match[0] == "%%":
                return "%"
            inner = (match[1] or "").lower()
            if inner not in values or inner in (*within, key):
                raise InputError(f"{key} in [{section}] cannot be expanded: write %% for a per cent sign.")
            text, more = expand(inner, (*within, key))
            read += more
            return text

        text = _REFERENCE.sub(value, values[key])
        if read > _MAX_EXPANDED or len(within) > _MAX_DEPTH:
            raise InputError(
                f"{key} in [{section}] expands over {read} characters in {len(within)} steps: the most is {_MAX_EXPANDED} in {_MAX_DEPTH}; "
                "write its value."
            )
        done[key] = text, read
        return done[key]

    return {key: expand(key, ())[0] for key in values}


class _Section:
    """One section with its inherited keys: the section's own value wins over its parent's."""

    def __init__(self, parser: configparser.RawConfigParser, prefix: str, name: str, option: str) -> None:
        if not parser.has_section(prefix + name):
            known = ", ".join(_names(parser, prefix)) or "none at all"
            raise InputError(f"{option} {name!r} is not in the Vela configuration: it has {known}; choose one of them.")
        self.title = prefix + name
        self._values: dict[str, str] = {}
        seen: list[str] = []
        section = self.title
        while section:
            if section in seen:
                raise InputError(f"Section [{self.title}] inherits itself through {' -> '.join([*seen, section])}: remove one inherit key.")
            if len(seen) > _MAX_PARENTS:
                raise InputError(f"Section [{self.title}] inherits more than {_MAX_PARENTS} others: write its keys into it.")
            if not parser.has_section(section):
                raise InputError(f"Section [{seen[-1]}] inherits [{section}], which is not in the file: correct its inherit key.")
            seen.append(section)
            own = _expanded(section, dict(parser.items(section)))
            self._values = own | self._values
            section = own.get("inherit", "")

    def has(self, key: str) -> bool:
        return key.lower() in self._values

    def text(self, key: str) -> str:
        if not self.has(key):
            raise InputError(f"Section [{self.title}] has no {key}: add {key}=VALUE to it.")
        return self._values[key.lower()]

    def number(self, key: str, low: Fraction, high: Fraction) -> Fraction:
        """An exact decimal number in [low, high]."""
        text = self.text(key)
        try:
            rough = float(text)
            # Only a plausible number is read exactly: 1e999999999 as a fraction would never finish.
            value = Fraction(text) if math.isfinite(rough) and low / 2 <= rough <= high * 2 else None
        except ValueError:
            raise InputError(f"{key}={text[:40]} in [{self.title}] is not a number: write one from {low} to {high}.") from None
        if value is None or not low <= value <= high:
            raise InputError(f"{key}={text[:40]} in [{self.title}] is out of range: write a number from {low} to {high}.")
        return value

    def integer(self, key: str, low: int, high: int) -> int:
        value = self.number(key, Fraction(low), Fraction(high))
        if value.denominator != 1:
            raise InputError(f"{key}={self.text(key)[:40]} in [{self.title}] is not whole: write an integer from {low} to {high}.")
        return int(value)


def _memory_name(section: _Section, port: int) -> str:
    key = f"axi{port}_port"
    name = section.text(key)
    if name not in _MEMORIES:
        raise InputError(f"{key}={name} in [{section.title}] is not a memory that Vela knows: write one of {', '.join(_MEMORIES)}.")
    return name


def _memory(section: _Section, port: int) -> Memory:
    name = _memory_name(section, port)
    scale = section.number(f"{name}_clock_scale", Fraction(1, _MAX_SCALE), Fraction(_MAX_SCALE))
    burst = section.integer(f"{name}_burst_length", _BURST_STEP, _MAX_BURST)
    if burst % _BURST_STEP:
        raise InputError(
            f"{name}_burst_length={burst} in [{section.title}] is not in whole bus words: write a multiple of {_BURST_STEP} bytes."
        )
    return Memory(
        name=name,
        read_latency=section.integer(f"{name}_read_latency", 0, _MAX_CYCLES),
        write_latency=section.integer(f"{name}_write_latency", 0, _MAX_CYCLES),
        max_reads=NPU_MAX_READS,
        max_writes=NPU_MAX_WRITES,
        # A port moves one word a cycle at most, however fast the memory. Reads and writes share the memory, as in Vela's estimates.
        cycles_per_word=max(Fraction(1), 1 / scale),
        shared=True,
    )


def _memory_mode(section: _Section) -> MemoryMode:
    return MemoryMode(*(port_number(key, section.text(key)) for key in ("const_mem_area", "arena_mem_area", "cache_mem_area")))


def memory_system(text: str, system_config: str = DEFAULT_SYSTEM_CONFIG, memory_mode: str = DEFAULT_MEMORY_MODE) -> MemorySystem:
    """The memory system that ``system_config`` and ``memory_mode`` of a ``vela.ini`` describe, as a U55 sees it.

    A clock scale of 1/n becomes n cycles per bus word, exactly; above 1 it is 1, because a port moves one word a cycle. Reads and writes
    share the memory, as Vela counts them. Transactions and their outstanding number are the NPU's own (64 bytes, 32 reads, 16 writes):
    Vela's ``burst_length`` (a hint at how short transfers waste bandwidth, which the simulator counts beat by beat) is checked and, like
    ``max_reads`` and ``max_writes`` (which Vela heeds for the U85 alone), left to Vela's estimator. A missing key is an InputError; so are
    unknown names, malformed values and an arena in flash. Keys of other NPUs (``ports_used``: a U55 has one port per memory) and unknown
    ones do not matter.
    """
    parser = _parse(text)
    system = _Section(parser, _SYSTEM, system_config, "System config")
    mode = _memory_mode(_Section(parser, _MODE, memory_mode, "Memory mode"))
    for area, port in (("arena", mode.arena_port), ("cache", mode.cache_port)):
        name = _memory_name(system, port)
        if name.endswith("Flash"):
            raise InputError(
                f"Memory mode {memory_mode} puts the {area} into {name} of {system_config}, which the NPU cannot write: "
                "choose a memory mode or a system config with Sram or Dram there."
            )
    clock = system.number("core_clock", Fraction(1), Fraction(_MAX_CLOCK_HZ))
    memories = {port: _memory(system, port) for port in mode.used_ports}
    return mode.system(f"{system_config}, {memory_mode}", round(clock), memories)


def arena_cache_size(text: str, memory_mode: str = DEFAULT_MEMORY_MODE) -> int | None:
    """Bytes that the memory mode grants (``arena_cache_size``), None if it sets no limit; InputError for a number that limits nothing.

    They limit the arena, or the fast scratch if the mode separates it from the arena (Vela's Dedicated_Sram).
    """
    section = _Section(_parse(text), _MODE, memory_mode, "Memory mode")
    return section.integer("arena_cache_size", 1, _MAX_ARENA) if section.has("arena_cache_size") else None
