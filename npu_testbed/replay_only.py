"""The Ethos-U65, whose streams are replayed but which nothing is scheduled for: its memories and their limits."""

from __future__ import annotations

from msgspec.structs import replace

from npu_model.accelerator import replay_only_names, require_use
from npu_model.errors import InputError
from npu_model.memory.system import NPU_MAX_READS, NPU_MAX_WRITES, Memory, MemorySystem
from npu_model.memory.timing_adapter import profile_names
from npu_testbed.memory_options import MemoryOptions

DEFAULT_MEMORY = MemoryOptions(system_config="Ethos_U65_Client_Server", memory_mode="Dedicated_Sram_384KB")
"""Vela 5.2.0's defaults for the U65."""

COMPILED_FOR = ("Ethos_U65_High_End", "Dedicated_Sram")
"""System config and memory mode that Vela compiles for where the memories of a U65 are a timing adapter's: those of its published runs."""

ADAPTER_OFF = "u65_off"
"""The profile that ``--timing-adapter off`` means on a U65: constants and arena behind AXI1, the fast scratch behind AXI0."""

MAX_READS, MAX_WRITES = 64, 32
"""Outstanding transactions that the U65's AXI_LIMIT registers allow at most (core driver ``ethosu65_interface.h``)."""


def memory_of(device: str, memory: MemoryOptions) -> MemoryOptions:
    """The memory options for an accelerator: those given, or for a U65 without any Vela's defaults; ``off`` keeps its memory mode.

    InputError if the accelerator's cycles are not simulated, or if a built-in timing adapter is that of the other family: its words are as
    wide as the ports there.
    """
    require_use(device, "replay")
    family = "u65" if device in replay_only_names() else "u55"
    adapter = memory.timing_adapter
    if adapter in profile_names() and adapter.startswith("u") and not adapter.startswith(family):
        raise InputError(
            f"--timing-adapter {adapter} describes the memories of another family and the accelerator is {device}: "
            f"give {family}_high_end, a file of your own, or --system-config and --memory-mode."
        )
    if family == "u65" and adapter == "off":
        return replace(memory, timing_adapter=ADAPTER_OFF)
    if family == "u55" or memory.given:
        return memory
    return replace(DEFAULT_MEMORY, settings=memory.settings)


def compiled_for(device: str, memory: MemoryOptions) -> tuple[str, str]:
    """System config and memory mode that Vela compiles for."""
    if device in replay_only_names() and memory.timing_adapter is not None:
        return COMPILED_FOR
    return memory.vela_names


def as_seen_by(device: str, system: MemorySystem) -> MemorySystem:
    """The memory system with the transactions that the accelerator may have outstanding."""
    if device not in replay_only_names():
        return system

    def widened(memory: Memory) -> Memory:
        # A bound of the memory's own stays; Vela's configuration is read with the U55's.
        reads = MAX_READS if memory.max_reads == NPU_MAX_READS else memory.max_reads
        writes = MAX_WRITES if memory.max_writes == NPU_MAX_WRITES else memory.max_writes
        return replace(memory, max_reads=reads, max_writes=writes)

    first, second = system.ports
    return replace(system, ports=(widened(first), widened(second)))
