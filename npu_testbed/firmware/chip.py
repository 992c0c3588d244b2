"""Chips: a Cortex-M core, memories, an NPU and a UART with their addresses, read from TOML."""

from __future__ import annotations

import re
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec import Struct

from npu_model.accelerator import accelerator
from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from npu_model.memory.vela_names import DEFAULT_MEMORY_MODE, DEFAULT_SYSTEM_CONFIG
from npu_model.printable import printable, shown
from npu_model.programmer_registers import REGISTER_BYTES
from npu_model.toml_text import parse_toml
from npu_testbed.devices.chips import load_chip as load_named_chip
from npu_testbed.devices.configs import load_memory_system, load_timing_adapter
from validation.reading import read_configuration

CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33")
EMULATORS = ("unicorn", "qemu")
QEMU_CORES = ("cortex-m55", "cortex-m33")
UARTS = ("cmsdk", "pl011")
PAGE = 0x1000
_SPACE = 1 << 32
_SYSTEM_SPACE = 0xE000_0000
_MOST_MEMORY = 1 << 29
_MOST_INTERRUPTS = 480
_MOST_HZ = 100_000_000_000
_MOST_CHARACTERS = 60
"""Characters of a name."""


class MemoryBlock(Struct, frozen=True):
    """A memory: its addresses (the same bytes at each), bytes, whether the core may write it and the NPU reaches it."""

    name: str
    addresses: tuple[int, ...]
    size: int
    writable: bool
    npu: bool


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


class UartBlock(Struct, frozen=True):
    """A UART: its kind (cmsdk or pl011) and addresses."""

    kind: str
    addresses: tuple[int, ...]


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


class _Table:
    """A table of a chip's file. Complaints name the key, and a key that is never read is an error, too."""

    def __init__(self, where: str, values: Any) -> None:
        if not isinstance(values, dict):
            raise InputError(f"{where} of the chip is not a table: see docs/firmware.md for the keys.")
        self._where, self._values, self._asked = where, values, set[str]()

    def _get(self, key: str, default: Any) -> Any:
        self._asked.add(key)
        found = self._values.get(key, default)
        if found is None:
            raise InputError(f"{self._where} of the chip has no {key!r}: it is needed; see docs/firmware.md.")
        return found

    def number(self, key: str, low: int, high: int, default: int | None = None) -> int:
        found = self._get(key, default)
        if not isinstance(found, int) or isinstance(found, bool) or not low <= found <= high:
            raise InputError(f"{key} in {self._where} of the chip is {shown(found)}: give an integer from {low:#x} to {high:#x}.")
        return found

    def text(self, key: str, choices: tuple[str, ...] | None = None, default: str | None = None) -> str:
        found = self._get(key, default)
        if not isinstance(found, str) or (choices is not None and found not in choices):
            allowed = f"one of {', '.join(choices)}" if choices else "a string"
            raise InputError(f"{key} in {self._where} of the chip is {shown(found)}: give {allowed}.")
        return found

    def switch(self, key: str, *, default: bool) -> bool:
        found = self._get(key, default)
        if not isinstance(found, bool):
            raise InputError(f"{key} in {self._where} of the chip is {shown(found)}: give true or false.")
        return found

    def addresses(self, size: int) -> tuple[int, ...]:
        found = self._get("addresses", None)
        good = isinstance(found, list) and found and all(isinstance(one, int) and 0 <= one <= _SPACE - size for one in found)
        if not good or any(one % PAGE for one in found):
            raise InputError(f"addresses in {self._where} of the chip are {shown(found)}: give a list of multiples of {PAGE:#x}.")
        return tuple(found)

    def done(self) -> None:
        unknown = sorted(set(self._values) - self._asked)
        if unknown:
            known = ", ".join(sorted(self._asked))
            raise InputError(f"{self._where} of the chip has the key {shown(unknown[0])}: {known} are known; remove it.")


def _tables(document: dict[str, Any], key: str) -> list[tuple[str, Any]]:
    """One table, or a list of them."""
    found = document.get(key, [])
    return [(f"[[{key}]] {i}", one) for i, one in enumerate(found)] if isinstance(found, list) else [(f"[{key}]", found)]


def _memory(where: str, values: Any) -> MemoryBlock:
    table = _Table(where, values)
    size = table.number("size", PAGE, _MOST_MEMORY)
    if size % PAGE:
        raise InputError(f"size in {where} of the chip is {size:#x}: give a multiple of {PAGE:#x}.")
    block = MemoryBlock(
        printable(table.text("name", default="memory"), _MOST_CHARACTERS),
        table.addresses(size),
        size,
        writable=table.switch("writable", default=True),
        npu=table.switch("npu", default=True),
    )
    table.done()
    return block


def _system(table: _Table) -> MemorySystem:
    adapter = table.text("timing_adapter", default="")
    config, mode = table.text("system_config", default=""), table.text("memory_mode", default="")
    if bool(adapter) == bool(config):
        raise InputError("[npu] of the chip says its memories by timing_adapter, or by system_config with memory_mode: give one of them.")
    file = table.text("config", default="")
    if adapter:
        return load_timing_adapter(adapter)
    return load_memory_system(config, mode or DEFAULT_MEMORY_MODE, Path(file) if file else None)


def _named(name: str) -> tuple[str, MemorySystem]:
    """Accelerator and memory system of a chip that other commands know by this name."""
    chip = load_named_chip(name)
    if chip.timing_adapter is not None:
        return chip.accelerator, load_timing_adapter(chip.timing_adapter)
    config, mode = chip.system_config or DEFAULT_SYSTEM_CONFIG, chip.memory_mode or DEFAULT_MEMORY_MODE
    return chip.accelerator, load_memory_system(config, mode, chip.config)


def _npu(where: str, values: Any) -> NpuBlock:
    table = _Table(where, values)
    known = table.text("chip", default="")
    name, system = _named(known) if known else (accelerator(table.text("accelerator")).name, _system(table))
    addresses = table.addresses(REGISTER_BYTES)
    number = table.number("interrupt", 0, _MOST_INTERRUPTS - 1)
    block = NpuBlock(name, addresses, number, table.number("clock_hz", 1, _MOST_HZ), system)
    table.done()
    return block


def _uart(where: str, values: Any) -> UartBlock:
    table = _Table(where, values)
    block = UartBlock(table.text("kind", UARTS), table.addresses(PAGE))
    table.done()
    return block


def _core(where: str, values: Any) -> ChipCore:
    table = _Table(where, values)
    if table.text("emulator", EMULATORS, "unicorn") == "qemu":
        machine = table.text("machine")
        if not re.fullmatch(r"[a-z0-9-]{1,40}", machine):
            raise InputError(f"machine in [core] of the chip is {shown(machine)}: give a machine of QEMU, such as mps3-an547.")
        core = ChipCore(table.text("cpu", QEMU_CORES), table.number("clock_hz", 1, _MOST_HZ), 1, 0, machine)
    else:
        core = ChipCore(
            table.text("cpu", CORES),
            table.number("clock_hz", 1, _MOST_HZ),
            table.number("cycles_per_instruction", 1, 100, 1),
            table.number("vector_table", 0, _SPACE - PAGE, 0),
        )
    table.done()
    return core


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
    unknown = sorted(set(document) - {"name", "core", "npu", "uart", "memory"})
    if unknown:
        raise InputError(f"The chip has the key {shown(unknown[0])}: name, core, npu, uart and memory are known; remove it.")
    chip = FirmwareChip(
        printable(str(document.get("name", name)), _MOST_CHARACTERS),
        _core("[core]", document.get("core")),
        tuple(_npu(*one) for one in _tables(document, "npu")),
        tuple(_uart(*one) for one in _tables(document, "uart")),
        tuple(_memory(*one) for one in _tables(document, "memory")),
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
