"""The memory system that the user asked for: a timing-adapter profile or Vela's configuration, as one value."""

from __future__ import annotations

import json
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import force_setattr, replace

from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from npu_model.memory.vela_names import DEFAULT_MEMORY_MODE, DEFAULT_SYSTEM_CONFIG
from npu_testbed.configs import configuration_file, load_arena_cache_size, load_memory_system, load_timing_adapter
from npu_testbed.documents.surroundings import MemorySystemEntry
from npu_testbed.settings import Setting, with_setting

DEFAULT_TIMING_ADAPTER = "u55_high_end"
"""Ethos_U55_High_End_Embedded and Shared_Sram as the Corstone-300 FVP throttles them: what the accuracy table is about."""


class MemoryOptions(Struct, frozen=True):
    """The options ``--timing-adapter`` or ``--system-config``, ``--memory-mode`` and ``--config``; None where not given.

    ``settings`` change parameters of whichever system that is. InputError if both kinds are given.
    """

    timing_adapter: str | None = None
    system_config: str | None = None
    memory_mode: str | None = None
    config: Path | None = None
    settings: tuple[Setting, ...] = ()

    def __post_init__(self) -> None:
        if self.timing_adapter is not None and self.from_vela:
            raise InputError(
                f"--timing-adapter {self.timing_adapter} cannot be combined with --system-config, --memory-mode or --config: "
                "both describe the memory system; choose one kind."
            )
        if self.config is not None:
            force_setattr(self, "config", configuration_file(self.config))

    @property
    def from_vela(self) -> bool:
        """Whether the memory system is read from Vela's configuration."""
        return any(value is not None for value in (self.system_config, self.memory_mode, self.config))

    @property
    def given(self) -> bool:
        """Whether any option was given."""
        return self.from_vela or self.timing_adapter is not None

    @property
    def vela_names(self) -> tuple[str, str]:
        """System config and memory mode that Vela compiles for, its own defaults where none is given."""
        return (
            DEFAULT_SYSTEM_CONFIG if self.system_config is None else self.system_config,
            DEFAULT_MEMORY_MODE if self.memory_mode is None else self.memory_mode,
        )

    def memory_system(self) -> MemorySystem:
        """The memory system that is asked for, the default timing adapter if none is."""
        if self.from_vela:
            return self.as_set(load_memory_system(*self.vela_names, self.config))
        return self.as_set(load_timing_adapter(DEFAULT_TIMING_ADAPTER if self.timing_adapter is None else self.timing_adapter))

    def arena_bound(self, given: int | None = None) -> int | None:
        """Most bytes of the arena: those ``given`` by an option, else the ``arena_cache_size`` of the memory mode; None if neither says.

        If the mode separates a fast scratch from the arena, the bytes are the fast scratch's.
        """
        if given is not None or not self.from_vela:
            return given
        return load_arena_cache_size(self.vela_names[1], self.config)

    def as_set(self, system: MemorySystem) -> MemorySystem:
        """A memory system with the settings, which its name then says; InputError if it has no such memory."""
        for key, value in self.settings:
            system = replace(with_setting(system, (key, value)), name=f"{system.name}, {key} {value}")
        return system


NO_OPTIONS = MemoryOptions()
"""The default memory system."""


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
