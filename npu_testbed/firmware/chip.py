"""Chips: a Cortex-M core, memories, an NPU and a UART with their addresses, read from TOML."""

from __future__ import annotations

import re
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from npu_model.accelerator import accelerator
from npu_model.documents import typed
from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from npu_model.memory.vela_names import DEFAULT_MEMORY_MODE, DEFAULT_SYSTEM_CONFIG
from npu_model.printable import printable, shown
from npu_model.toml_text import parse_toml
from npu_testbed.devices.chips import load_chip as load_named_chip
from npu_testbed.devices.configs import load_memory_system, load_timing_adapter
from validation.reading import read_configuration

PAGE = 0x1000
_SPACE = 1 << 32
_SYSTEM_SPACE = 0xE000_0000
_MOST_MEMORY = 1 << 29
_MOST_CHARACTERS = 60
"""Characters of a name."""

_REMEDY = "see docs/firmware.md for the keys"

_Hz = Annotated[int, Meta(ge=1, le=100_000_000_000)]
_Address = Annotated[int, Meta(ge=0, le=_SPACE - PAGE, multiple_of=PAGE)]
Addresses = Annotated[tuple[_Address, ...], Meta(min_length=1)]
"""The first bytes of blocks of registers or of a memory."""


class MemoryBlock(Struct, frozen=True, forbid_unknown_fields=True):
    """A memory: its addresses (the same bytes at each), bytes, whether the core may write it and the NPU reaches it."""

    addresses: Addresses
    size: Annotated[int, Meta(ge=PAGE, le=_MOST_MEMORY, multiple_of=PAGE)]
    name: str = "memory"
    writable: bool = True
    npu: bool = True


class ChipCore(Struct, frozen=True):
    """A core: its type, clock, cycles per instruction, and the address of its vector table at reset.

    ``machine`` is QEMU's machine with this core, "" if unicorn emulates the core.
    """

    cpu: str
    clock_hz: int
    cycles_per_instruction: int
    vector_table: int
    machine: str = ""


class NpuBlock(Struct, frozen=True):
    """The NPU: its accelerator, register addresses, interrupt number, clock, and the memory system on its AXI ports."""

    accelerator: str
    addresses: tuple[int, ...]
    interrupt: int
    clock_hz: int
    memory_system: MemorySystem


class UartBlock(Struct, frozen=True, forbid_unknown_fields=True):
    """A UART: its kind and addresses."""

    kind: Literal["cmsdk", "pl011"]
    addresses: Addresses


class FirmwareChip(Struct, frozen=True):
    """A system that firmware runs on."""

    name: str
    core: ChipCore
    npus: tuple[NpuBlock, ...]
    uarts: tuple[UartBlock, ...]
    memories: tuple[MemoryBlock, ...]

    def require_memory(self, address: int, size: int) -> None:
        """InputError unless a memory of the chip has these bytes."""
        if not any(first <= address and address + size <= first + one.size for one in self.memories for first in one.addresses):
            raise InputError(f"--dump names {size} bytes at {address:#x}: no memory of the chip {self.name} has them; give other ones.")


class _UnicornCore(Struct, forbid_unknown_fields=True):
    """The table of a core that unicorn emulates."""

    cpu: Literal["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33"]
    clock_hz: _Hz
    emulator: Literal["unicorn", "qemu"] = "unicorn"
    cycles_per_instruction: Annotated[int, Meta(ge=1, le=100)] = 1
    vector_table: Annotated[int, Meta(ge=0, le=_SPACE - PAGE)] = 0

    def core(self) -> ChipCore:
        """The core."""
        return ChipCore(self.cpu, self.clock_hz, self.cycles_per_instruction, self.vector_table)


class _QemuCore(Struct, forbid_unknown_fields=True):
    """The table of a core that QEMU emulates."""

    cpu: Literal["cortex-m55", "cortex-m33"]
    clock_hz: _Hz
    machine: str
    emulator: Literal["qemu"]

    def core(self) -> ChipCore:
        """The core; InputError for the name of a machine that QEMU cannot have."""
        if not re.fullmatch(r"[a-z0-9-]{1,40}", self.machine):
            raise InputError(f"machine in [core] of the chip is {shown(self.machine)}: give a machine of QEMU, such as mps3-an547.")
        return ChipCore(self.cpu, self.clock_hz, 1, 0, self.machine)


class _Npu(Struct, forbid_unknown_fields=True):
    """The table of an NPU: its accelerator and memories, or a ``chip`` that other commands know by this name."""

    addresses: Addresses
    interrupt: Annotated[int, Meta(ge=0, le=479)]
    clock_hz: _Hz
    chip: str = ""
    accelerator: str = ""
    timing_adapter: str = ""
    system_config: str = ""
    memory_mode: str = ""
    config: str = ""

    def block(self) -> NpuBlock:
        """The NPU with its memory system."""
        name, system = self._named() if self.chip else (accelerator(self.accelerator).name, self._system())
        return NpuBlock(name, self.addresses, self.interrupt, self.clock_hz, system)

    def _named(self) -> tuple[str, MemorySystem]:
        if self.accelerator or self.timing_adapter or self.system_config or self.memory_mode or self.config:
            raise InputError("[npu] of the chip names a chip, which has an accelerator and memories: leave these out, or the chip.")
        chip = load_named_chip(self.chip)
        if chip.timing_adapter is not None:
            return chip.accelerator, load_timing_adapter(chip.timing_adapter)
        config, mode = chip.system_config or DEFAULT_SYSTEM_CONFIG, chip.memory_mode or DEFAULT_MEMORY_MODE
        return chip.accelerator, load_memory_system(config, mode, chip.config)

    def _system(self) -> MemorySystem:
        if bool(self.timing_adapter) == bool(self.system_config):
            raise InputError(
                "[npu] of the chip says its memories by timing_adapter, or by system_config with memory_mode: give one of them."
            )
        if self.timing_adapter:
            return load_timing_adapter(self.timing_adapter)
        return load_memory_system(self.system_config, self.memory_mode or DEFAULT_MEMORY_MODE, Path(self.config) if self.config else None)


class _File(Struct, forbid_unknown_fields=True):
    """The content of the file."""

    core: dict[str, object]
    npu: tuple[_Npu, ...] = ()
    uart: tuple[UartBlock, ...] = ()
    memory: tuple[MemoryBlock, ...] = ()
    name: object = None


def _require_apart(chip: FirmwareChip) -> None:
    spans = [(one, one + block.size, block.name) for block in chip.memories for one in block.addresses]
    spans += [(one, one + PAGE, "the NPU") for npu in chip.npus for one in npu.addresses]
    spans += [(one, one + PAGE, "the UART") for uart in chip.uarts for one in uart.addresses]
    spans.append((_SYSTEM_SPACE, _SPACE, "the core's own registers"))
    spans.sort()
    for (start, end, name), (following, _, other) in pairwise(spans):
        if following < end:
            raise InputError(f"{other} at {following:#x} lies in {name} at {start:#x} to {end:#x}: give them addresses apart.")
    total = sum(block.size for block in chip.memories)
    if not chip.core.machine and total > _MOST_MEMORY:
        raise InputError(f"The chip's memories have {total:#x} bytes: {_MOST_MEMORY:#x} is the most that is emulated; make them smaller.")


def parse_chip(name: str, text: str) -> FirmwareChip:
    """A chip from its TOML; InputError names the key, the value and the allowed values."""
    document = parse_toml(text, f"The chip {name!r}", "write key = value lines; see docs/firmware.md")
    # There is one table of a kind, or a list of them.
    lists = {key: [document[key]] for key in ("npu", "uart", "memory") if isinstance(document.get(key), dict)}
    file = typed(_File, document | lists, "The chip", remedy=_REMEDY)
    kind: type[_QemuCore | _UnicornCore] = _QemuCore if file.core.get("emulator") == "qemu" else _UnicornCore
    chip = FirmwareChip(
        printable(name if file.name is None else str(file.name), _MOST_CHARACTERS),
        typed(kind, file.core, "The chip", "core", _REMEDY).core(),
        tuple(npu.block() for npu in file.npu),
        file.uart,
        tuple(replace(one, name=printable(one.name, _MOST_CHARACTERS)) for one in file.memory),
    )
    for what, blocks in (("[npu]", chip.npus), ("[[memory]]", chip.memories)):
        if not blocks:
            raise InputError(f"The chip has no {what}: at least one is needed; see docs/firmware.md.")
    _require_apart(chip)
    return chip


def _folder() -> Any:
    return resources.files("npu_testbed.firmware") / "chips"


def chip_names() -> tuple[str, ...]:
    """The chips that the package has."""
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in _folder().iterdir() if entry.name.endswith(".toml")))


def load_chip(name_or_path: str) -> FirmwareChip:
    """The chip of this name, or of a TOML file; InputError if there is none or it is inconsistent."""
    if name_or_path in chip_names():
        return parse_chip(name_or_path, (_folder() / f"{name_or_path}.toml").read_text(encoding="utf-8"))
    path = Path(name_or_path)
    if path.suffix != ".toml":
        raise InputError(f"Chip {name_or_path[:60]!r} is unknown: choose {', '.join(chip_names())}, or give a .toml file.")
    return parse_chip(path.stem, read_configuration(path, "Chip"))
