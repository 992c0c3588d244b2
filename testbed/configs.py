"""Configuration files: where Vela's ini and timing-adapter profiles lie, read into MemorySystems."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from npu_model.errors import InputError
from npu_model.memory import MemorySystem
from npu_model.timing_adapter import parse_profile, profile, profile_names
from npu_model.vela_ini import DEFAULT_MEMORY_MODE, DEFAULT_SYSTEM_CONFIG, memory_system


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{what} {path} is not a text file: give one in UTF-8.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{what} {path} cannot be read ({reason}): give the path of a readable file.") from None


def vela_ini_text() -> str:
    """The text of the configuration file that Vela ships (``Arm/vela.ini``); InputError if Vela is not installed."""
    try:
        file = resources.files("ethosu") / "config_files" / "Arm" / "vela.ini"
        return file.read_text(encoding="utf-8")
    except (ModuleNotFoundError, FileNotFoundError):
        raise InputError("Vela's own configuration Arm/vela.ini is not installed: install ethos-u-vela, or give a file.") from None


def load_memory_system(
    system_config: str = DEFAULT_SYSTEM_CONFIG, memory_mode: str = DEFAULT_MEMORY_MODE, config: Path | None = None
) -> MemorySystem:
    """The memory system of a system config and a memory mode in a ``vela.ini``; Vela's own file if ``config`` is None."""
    text = vela_ini_text() if config is None else _read(config, "Configuration file")
    return memory_system(text, system_config, memory_mode)


def load_timing_adapter(name_or_path: str | Path) -> MemorySystem:
    """The memory system of a built-in timing-adapter profile or of a TOML file."""
    if str(name_or_path) in profile_names():
        return profile(str(name_or_path)).memory_system()
    path = Path(name_or_path)
    if path.suffix != ".toml":
        raise InputError(f"Timing-adapter profile {name_or_path} is unknown: choose {', '.join(profile_names())}, or give a .toml file.")
    return parse_profile(path.stem, _read(path, "Timing-adapter profile")).memory_system()
