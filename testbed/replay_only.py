"""The Ethos-U65, whose streams are replayed but which nothing is scheduled for: its memories and their limits."""

from __future__ import annotations

from dataclasses import replace

from npu_model.accelerator import replay_only_names
from npu_model.errors import InputError
from npu_model.memory.system import NPU_MAX_READS, NPU_MAX_WRITES, Memory, MemorySystem
from testbed.memory_options import MemoryOptions

DEFAULT_MEMORY = MemoryOptions(system_config="Ethos_U65_Client_Server", memory_mode="Dedicated_Sram_384KB")
"""Vela 5.2.0's defaults for the U65."""

MAX_READS, MAX_WRITES = 64, 32
"""Outstanding transactions that the U65's AXI_LIMIT registers allow at most (core driver ``ethosu65_interface.h``)."""


def memory_of(device: str, memory: MemoryOptions) -> MemoryOptions:
    """The memory options for an accelerator: those given, or for a U65 without any Vela's defaults.

    InputError if a U65 is given a timing adapter: their words and limits are those that a U55 was measured with.
    """
    if device not in replay_only_names():
        return memory
    if memory.timing_adapter is not None:
        raise InputError(
            f"--timing-adapter {memory.timing_adapter} describes the memories of a U55 and the accelerator is {device}: "
            f"give --system-config and --memory-mode, or neither for {DEFAULT_MEMORY.system_config} with {DEFAULT_MEMORY.memory_mode}."
        )
    return memory if memory.given else replace(DEFAULT_MEMORY, settings=memory.settings)


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
