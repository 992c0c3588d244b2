"""Chips by name: the accelerator and the memory system of a ``--chip``, from shipped data or a TOML file of the user's."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from npu_model.accelerator import accelerator
from npu_model.documents import typed
from npu_model.errors import InputError, did_you_mean
from npu_model.printable import printable
from npu_model.toml_text import parse_toml
from npu_testbed.devices.chips import device_pack
from validation.reading import read_configuration


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table of a chip in a file."""

    title: str
    accelerator: str
    source: str
    unknown: str
    timing_adapter: str | None = None
    config: str | None = None
    system_config: str | None = None
    memory_mode: str | None = None
    sram_bytes: Annotated[int, Meta(ge=0, le=1 << 40)] = 0


class Chip(_File, frozen=True, kw_only=True):
    """A chip: the values of ``--accelerator-config`` and of the memory options, None where it names none.

    ``sram_bytes`` is all the SRAM that the NPU reaches (0: unstated). ``source`` says where the numbers are from, and ``unknown`` which
    numbers are missing.
    """

    name: str
    config: Path | None = None  # type: ignore[assignment]  # the file's name in the folder of its chip


def _folder() -> Path:
    return Path(str(resources.files(__name__)))


_READ = (".pdsc", ".cdef")
"""Endings of device packs that are read."""

_REMEDY = "write key = value lines"


def _file(name: str) -> dict[str, Any]:
    return parse_toml((_folder() / name).read_text(encoding="utf-8"), name, _REMEDY)


def _shipped() -> dict[str, Any]:
    return _file("chips.toml") | _file("u65.toml") | _file("u85.toml") | _file("unknown.toml")


def chip_names() -> tuple[str, ...]:
    """The names of the shipped chips with an Ethos-U55, in the order of their file."""
    return tuple(_file("chips.toml"))


def _chip(name: str, values: dict[str, Any], folder: Path) -> Chip:
    """The chip of a table; InputError names a key that is missing, unknown or wrong, or an unknown fact of the chip."""
    if "missing" in values:
        raise InputError(
            f"Chip {name} is known by its name, but no source says {printable(str(values['missing']))}: "
            "write what you know into a .toml file, and give that to --chip."
        )
    found = typed(_File, values, f"Chip {name}", remedy=_REMEDY)
    if (found.timing_adapter is None) == (found.system_config is None):
        raise InputError(f"Chip {name} needs either a timing_adapter or a system_config, which are both memory systems: write one of them.")
    shown = {key: printable(getattr(found, key)) for key in ("title", "source", "unknown")}
    config = None if found.config is None else folder / found.config
    return Chip(name=name, **asdict(found) | shown | {"accelerator": accelerator(found.accelerator).name, "config": config})


def load_chip(name_or_path: str) -> Chip:
    """Return a shipped chip by its name, or a chip from a TOML file, whose ``config`` is in the same folder. InputError if neither exists.

    >>> load_chip("himax-we2").accelerator
    'ethos-u55-64'
    """
    shipped = _shipped()
    if name_or_path in shipped:
        return _chip(name_or_path, shipped[name_or_path], _folder())
    path = Path(name_or_path)
    if path.suffix.lower() in _READ:
        return _chip(path.stem, dict(device_pack.pack_values(path)), path.parent)
    if path.suffix.lower() == ".pack":
        raise InputError(f"{printable(path.name)!r} is a device pack, which is an archive: unpack it, and give its .pdsc to --chip.")
    if path.suffix != ".toml":
        known = [name for name, values in shipped.items() if "missing" not in values]
        near = did_you_mean(name_or_path, known)
        raise InputError(f"Chip {name_or_path!r} is unknown{near}: choose {', '.join(known)}, or give a .toml file.")
    values = parse_toml(read_configuration(path, "Chip"), f"Chip {name_or_path!r}", _REMEDY)
    return _chip(path.stem, values, path.parent)


def chips_text() -> str:
    """Every shipped chip with its options, sources and unknown facts, as ``--list-chips`` prints them."""
    lines = []
    for name, values in _shipped().items():
        if "missing" in values:
            lines += [f"{name}: {values['title']}", f"  refused, as no source says {values['missing']}"]
            continue
        chip = load_chip(name)
        sram = f"{chip.sram_bytes:,} bytes of SRAM" if chip.sram_bytes else "SRAM not stated"
        memory = f"timing adapter {chip.timing_adapter}" if chip.timing_adapter else f"{chip.system_config}, {chip.memory_mode}"
        lines += [
            f"{name}: {chip.title}",
            f"  {chip.accelerator}, {memory}, {sram}",
            f"  source: {chip.source}",
            f"  not known: {chip.unknown}",
        ]
    return "\n".join(lines)
