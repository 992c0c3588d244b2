"""Memories as Vela's estimator sees them: bandwidth, latencies and burst, and the cycles of a transfer.

Vela 5.2.0 (Regor, ``ethos_u55_performance.cpp``) divides bytes by bandwidth in 32-bit floats, so above 2^24 bytes its
cycles are not those of exact division. The same floats are used here, as the aim is Vela's number.
"""

from __future__ import annotations

import configparser
from fractions import Fraction
from importlib import resources

import numpy as np
from msgspec import Struct

from npu_model.cost.traffic import BEAT_BYTES
from npu_model.errors import InputError
from npu_model.memory.system import Memory
from npu_model.memory.vela_ini import memory_system


class VelaMemory(Struct, frozen=True):
    """One memory: bytes per cycle, cycles of latency, and the burst in bytes below which transfers count as inefficient."""

    name: str
    bytes_per_cycle: Fraction
    read_latency: int
    write_latency: int
    burst_bytes: int

    def cycles(self, size: int) -> int:
        """Cycles in which ``size`` bytes pass, without latency, as a 32-bit float cut to an integer.

        >>> VelaMemory("OffChipFlash", Fraction(1, 2), 64, 0, 128).cycles(608)
        1216
        """
        return int(np.float32(size) / np.float32(float(self.bytes_per_cycle)))


SHRAM = VelaMemory("shram", Fraction(1), 0, 0, 1)
"""The shared buffer as destination of look-up tables (Vela 5.2.0 regor ``ethos_u55.cpp``: 1 byte a cycle, no latency)."""


class VelaMemories(Struct, frozen=True):
    """The memories of a system config and memory mode by name, and which of them hold constants and buffered weights."""

    by_name: tuple[VelaMemory, ...]
    constants: VelaMemory
    staging: VelaMemory

    def find(self, name: str) -> VelaMemory:
        """The memory of this name; InputError if the configuration has none."""
        for memory in self.by_name:
            if memory.name == name:
                return memory
        known = ", ".join(memory.name for memory in self.by_name)
        raise InputError(f"Vela's debug database names the memory {name!r}: the configuration has {known}; use the one it was made with.")


def copy_cycles(source: VelaMemory, destination: VelaMemory, size: int) -> int:
    """Cycles of a DMA transfer of ``size`` bytes: the slower of reading and writing, each with its latency.

    Source: Vela 5.2.0 ``MemToMemCycles``. A weight range of 768 bytes from flash (1 byte a cycle, latency 64) to SRAM:

    >>> sram = VelaMemory("Sram", Fraction(8), 32, 32, 32)
    >>> flash = VelaMemory("OffChipFlash", Fraction(1), 64, 0, 128)
    >>> copy_cycles(flash, sram, 768)
    832
    """
    return max(source.cycles(size) + source.read_latency, destination.cycles(size) + destination.write_latency)


def _burst(text: str, system_config: str, name: str) -> int:
    """``burst_length`` in bytes; the reader of the memory system has checked that it is there and a number."""
    parser = configparser.ConfigParser()
    parser.read_string(text)
    section = f"System_Config.{system_config}"
    while not parser.has_option(section, f"{name}_burst_length"):
        section = parser.get(section, "inherit")
    return int(parser.get(section, f"{name}_burst_length"))


def read_memories(text: str, system_config: str, memory_mode: str) -> VelaMemories:
    """The memories that ``system_config`` and ``memory_mode`` of a ``vela.ini`` describe.

    InputError as :func:`npu_model.memory.vela_ini.memory_system`.
    """
    system = memory_system(text, system_config, memory_mode)

    def memory(port: Memory) -> VelaMemory:
        bandwidth = BEAT_BYTES / port.cycles_per_word
        return VelaMemory(port.name, bandwidth, port.read_latency, port.write_latency, _burst(text, system_config, port.name))

    memories = tuple(memory(port) for port in system.ports)
    constants, _, staging = (memories[system.port_of(region)] for region in range(3))
    return VelaMemories((*dict.fromkeys(memories), SHRAM), constants, staging)


def shipped_memories(system_config: str, memory_mode: str) -> VelaMemories:
    """The memories of a system config and a memory mode of the ``Arm/vela.ini`` that Vela comes with."""
    try:
        text = (resources.files("ethosu") / "config_files" / "Arm" / "vela.ini").read_text(encoding="utf-8")
    except (ModuleNotFoundError, FileNotFoundError):
        raise InputError("Vela's own configuration Arm/vela.ini is not installed: pip install 'ethos-u-vela>=5.2,<6'.") from None
    return read_memories(text, system_config, memory_mode)
