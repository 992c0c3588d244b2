"""Configuration files: Vela's ini and timing-adapter profiles, found and read into MemorySystems."""

from __future__ import annotations

import os
from pathlib import Path

from npu_model.errors import InputError
from npu_model.front import later
from npu_model.memory.system import MemorySystem
from npu_model.memory.timing_adapter import parse_profile, profile, profile_names
from npu_model.memory.vela_names import DEFAULT_MEMORY_MODE, DEFAULT_SYSTEM_CONFIG
from validation.reading import read_configuration

with later():
    from importlib import resources  # a path of the user's is a file

    from npu_model.memory import vela_ini  # a timing adapter is another source of memories


def vela_ini_text() -> str:
    """The text of the configuration file that Vela ships (``Arm/vela.ini``); InputError if Vela is not installed."""
    try:
        file = resources.files("ethosu") / "config_files" / "Arm" / "vela.ini"
        return file.read_text(encoding="utf-8")
    except (ModuleNotFoundError, FileNotFoundError):
        raise InputError("Vela's own configuration Arm/vela.ini is not installed: install ethos-u-vela, or give a file.") from None


def configuration_file(path: Path) -> Path:
    """The file of ``path`` for Vela's ``--config``; it may be missing.

    As in Vela, a folder and a file (``Arm/vela.ini``) that do not exist here name a file that Vela ships.
    """
    if path.is_absolute() or len(path.parts) != 2 or ".." in path.parts or os.path.lexists(path):
        return path
    try:
        shipped = Path(str(resources.files("ethosu") / "config_files" / str(path)))
    except ModuleNotFoundError:
        return path
    return shipped if shipped.is_file() else path


def load_memory_system(
    system_config: str = DEFAULT_SYSTEM_CONFIG, memory_mode: str = DEFAULT_MEMORY_MODE, config: Path | None = None
) -> MemorySystem:
    """The memory system of a system config and a memory mode in a ``vela.ini``; Vela's own file if ``config`` is None."""
    return vela_ini.memory_system(_ini_text(config), system_config, memory_mode)


def load_arena_cache_size(memory_mode: str = DEFAULT_MEMORY_MODE, config: Path | None = None) -> int | None:
    """The bytes that a memory mode in a ``vela.ini`` grants; None if it sets no bound. Vela's own file if ``config`` is None."""
    return vela_ini.arena_cache_size(_ini_text(config), memory_mode)


def _ini_text(config: Path | None) -> str:
    return vela_ini_text() if config is None else read_configuration(config, "Configuration file")


def load_timing_adapter(name_or_path: str | Path) -> MemorySystem:
    """The memory system of a built-in timing-adapter profile or of a TOML file."""
    if str(name_or_path) in profile_names():
        return profile(str(name_or_path)).memory_system()
    path = Path(name_or_path)
    if path.suffix != ".toml":
        raise InputError(f"Timing-adapter profile {name_or_path} is unknown: choose {', '.join(profile_names())}, or give a .toml file.")
    return parse_profile(path.stem, read_configuration(path, "Timing-adapter profile")).memory_system()
