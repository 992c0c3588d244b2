"""The memories of an accelerator: the options that a user left out, and the limits of the accelerator's own ports."""

from __future__ import annotations

from msgspec.structs import replace

from cascader.frontends.vela.compiler_options import require_family
from npu_model.accelerator import accelerator, require_use
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

_U65 = "u65"


def memory_of(device: str, memory: MemoryOptions) -> MemoryOptions:
    """The memory options for an accelerator: what is left out for a U65 is Vela's default there; ``off`` keeps its memory mode.

    InputError if a built-in timing adapter, or a U65's system config, is that of the other family: its words are as wide as the ports
    there.
    """
    require_use(device, "replay")
    family = accelerator(device).family
    adapter = memory.timing_adapter
    if adapter in profile_names() and adapter.startswith("u") and not adapter.startswith(family):
        raise InputError(
            f"--timing-adapter {adapter} describes the memories of another family and the accelerator is {device}: "
            f"give {family}_high_end, a file of your own, or --system-config and --memory-mode."
        )
    if family != _U65:
        return memory
    if adapter is not None:
        return replace(memory, timing_adapter=ADAPTER_OFF) if adapter == "off" else memory
    if memory.system_config is not None:
        require_family(device, memory.system_config)
    return replace(
        memory,
        system_config=memory.system_config or DEFAULT_MEMORY.system_config,
        memory_mode=memory.memory_mode or DEFAULT_MEMORY.memory_mode,
    )


def compiled_for(device: str, memory: MemoryOptions) -> tuple[str, str]:
    """System config and memory mode that Vela compiles for."""
    if accelerator(device).family == _U65 and memory.timing_adapter is not None:
        return COMPILED_FOR
    return memory_of(device, memory).vela_names


def system_of(device: str, memory: MemoryOptions) -> MemorySystem:
    """The memory system of the options on an accelerator."""
    # The bounds of a timing adapter are its own, whatever the NPU may have outstanding.
    memory = memory_of(device, memory)
    system = memory.memory_system()
    return system if memory.timing_adapter is not None else as_seen_by(device, system)


def arena_bound(device: str, memory: MemoryOptions, given: int | None = None) -> int | None:
    """Most bytes of the arena on an accelerator, as :meth:`MemoryOptions.arena_bound` says."""
    return memory_of(device, memory).arena_bound(given)


def as_seen_by(device: str, system: MemorySystem) -> MemorySystem:
    """The memory system with the transactions that the accelerator may have outstanding."""
    npu = accelerator(device)
    if (npu.max_reads, npu.max_writes) == (NPU_MAX_READS, NPU_MAX_WRITES):
        return system

    def widened(memory: Memory) -> Memory:
        # A bound of the memory's own stays; Vela's configuration is read with the U55's.
        reads = npu.max_reads if memory.max_reads == NPU_MAX_READS else memory.max_reads
        writes = npu.max_writes if memory.max_writes == NPU_MAX_WRITES else memory.max_writes
        return replace(memory, max_reads=reads, max_writes=writes)

    first, second = system.ports
    return replace(system, ports=(widened(first), widened(second)))
