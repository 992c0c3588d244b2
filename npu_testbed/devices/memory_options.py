"""The memory system of an Ask: a chip, a timing-adapter profile or Vela's configuration, and single parameters."""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from npu_model.errors import InputError
from npu_model.front import later
from npu_model.memory.system import MemorySystem
from npu_model.memory.vela_names import DEFAULT_MEMORY_MODE, DEFAULT_SYSTEM_CONFIG
from npu_testbed.devices.configs import configuration_file, load_memory_system, load_timing_adapter
from npu_testbed.devices.settings import Setting, setting, with_setting
from npu_testbed.documents.units import MemorySystemEntry

with later():
    import json  # the hash of a memory system alone has it

    from npu_testbed.devices import chips  # few name one

DEFAULT_TIMING_ADAPTER = "u55_high_end"
"""Ethos_U55_High_End_Embedded and Shared_Sram with the limits of the Corstone-300 FVP. The accuracy table is measured on it."""


class SaysMemory(Protocol):
    """An Ask with the options of a memory system: a chip, a timing adapter or Vela's configuration, and single parameters."""

    @property
    def chip(self) -> Any:
        """``--chip``."""

    @property
    def timing_adapter(self) -> Any:
        """``--timing-adapter``."""

    @property
    def system_config(self) -> Any:
        """``--system-config``."""

    @property
    def memory_mode(self) -> Any:
        """``--memory-mode``."""

    @property
    def config(self) -> Any:
        """``--config``."""

    @property
    def set(self) -> Any:
        """``--set``, each as it was written."""


SaysMemoryT = TypeVar("SaysMemoryT", bound=SaysMemory)

_CHIP_HAS = ("timing_adapter", "system_config", "config")
"""Options that a chip replaces. Other options override the chip's values."""


def changed(ask: SaysMemoryT, **values: Any) -> SaysMemoryT:
    """The Ask with other values of some options."""
    return cast("SaysMemoryT", replace(cast("Struct", ask), **values))


def without_chip(ask: SaysMemoryT) -> SaysMemoryT:
    """The Ask with the chip's memory system instead of the chip; InputError if two memory systems are named."""
    ask = changed(ask, config=_one_file(ask.config))
    if ask.chip is not None:
        chip = chips.load_chip(str(ask.chip))
        for option in _CHIP_HAS:
            if getattr(ask, option) is not None:
                spelled = f"--{option.replace('_', '-')}"
                raise InputError(f"{spelled} cannot be combined with --chip {chip.name}, which has a memory system: drop one of them.")
        has = {option: getattr(chip, option) for option in _CHIP_HAS}
        ask = changed(ask, chip=None, memory_mode=chip.memory_mode if ask.memory_mode is None else ask.memory_mode, **has)
    if ask.timing_adapter is not None and from_vela(ask):
        raise InputError(
            f"--timing-adapter {ask.timing_adapter} cannot be combined with --system-config, --memory-mode or --config: "
            "both describe the memory system; choose one kind."
        )
    return ask


def _one_file(config: Any) -> Path | None:
    """The configuration file; InputError if there are several, which only `compile` takes, as Vela does."""
    if isinstance(config, tuple):
        if len(config) > 1:
            raise InputError(f"--config was given {len(config)} times: write the sections that are needed into one file.")
        config = config[0]
    return None if config is None else configuration_file(Path(config))


def from_vela(ask: SaysMemory) -> bool:
    """Whether the memory system is read from Vela's configuration."""
    return any(value is not None for value in (ask.system_config, ask.memory_mode, ask.config))


def names_memory(ask: SaysMemory) -> bool:
    """Whether any memory system is named."""
    return from_vela(ask) or ask.timing_adapter is not None or ask.chip is not None


def vela_names(ask: SaysMemory) -> tuple[str, str]:
    """System config and memory mode that Vela compiles for, or its own defaults."""
    return (
        DEFAULT_SYSTEM_CONFIG if ask.system_config is None else ask.system_config,
        DEFAULT_MEMORY_MODE if ask.memory_mode is None else ask.memory_mode,
    )


def settings_of(ask: SaysMemory) -> tuple[Setting, ...]:
    """The parameters that are set; InputError for a key that is set twice."""
    settings = tuple(setting(text) for text in ask.set)
    if len(dict(settings)) < len(settings):
        raise InputError("--set was given twice with the same key: give each once.")
    return settings


def memory_system(ask: SaysMemory) -> MemorySystem:
    """The requested memory system with its set parameters; the default timing adapter if none is requested."""
    ask = without_chip(ask)
    if from_vela(ask):
        return as_set(ask, load_memory_system(*vela_names(ask), ask.config))
    return as_set(ask, load_timing_adapter(DEFAULT_TIMING_ADAPTER if ask.timing_adapter is None else ask.timing_adapter))


def as_set(ask: SaysMemory, system: MemorySystem) -> MemorySystem:
    """A memory system with the parameters that are set, which its name then says; InputError if it has no such memory."""
    for key, value in settings_of(ask):
        system = replace(with_setting(system, (key, value)), name=f"{system.name}, {key} {value}")
    return system


def memory_system_sha256(system: MemorySystem) -> str:
    """SHA-256 of a memory system's values in canonical form."""

    def plain(value: object) -> str:
        if isinstance(value, Fraction):
            return str(value)
        raise TypeError(f"{value!r} has no canonical form.")

    return sha256(json.dumps(to_builtins(system, enc_hook=plain), sort_keys=True).encode()).hexdigest()


def memory_system_json(system: MemorySystem) -> MemorySystemEntry:
    """A memory system as reports name it: its name, the digest of its values, and its clock."""
    return MemorySystemEntry(system.name, memory_system_sha256(system), system.clock_hz)
