"""The memories of an accelerator: defaults for fields that an Ask leaves out, and the limits of the accelerator's ports."""

from __future__ import annotations

from msgspec.structs import replace

from cascader.ethosu.search.request import MemoryNames
from cascader.frontends.vela.compiler_options import require_family
from npu_model.accelerator import accelerator, require_use
from npu_model.errors import InputError
from npu_model.memory.ports import DEEP_SYSTEMS, measured_with, through_ports
from npu_model.memory.system import NPU_MAX_READS, NPU_MAX_WRITES, Memory, MemorySystem
from npu_model.memory.timing_adapter import profile_names
from npu_testbed.devices.configs import load_arena_cache_size
from npu_testbed.devices.memory_options import (
    SaysMemory,
    SaysMemoryT,
    changed,
    from_vela,
    memory_system,
    settings_of,
    vela_names,
    without_chip,
)

_DEFAULTS = {"u65": ("Ethos_U65_Client_Server", "Dedicated_Sram_384KB"), "u85": ("Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB")}
"""Vela 5.2.0's default system config and memory mode of the families that have an outer arena by default."""

ADAPTER_OFF = "u65_off"
"""The profile that ``--timing-adapter off`` means on a U65 and a U85: constants and arena behind AXI1, the fast scratch behind AXI0."""

EXT_BURST = 128
"""Bytes of the U85's longest transaction to external memory: ``Dram_burst_length`` of Vela's ``vela.ini``."""


def memory_of(device: str, ask: SaysMemoryT) -> SaysMemoryT:
    """The Ask for an accelerator. Memory options that it leaves out take Vela's defaults; ``off`` keeps the memory mode.

    InputError if a built-in timing adapter or a system config belongs to another family, whose ports have another width.
    """
    require_use(device, "replay")
    ask, family = without_chip(ask), accelerator(device).family
    adapter = None if ask.timing_adapter is None else str(ask.timing_adapter)
    is_own = adapter is None or adapter.startswith(family) or (adapter == ADAPTER_OFF and family in _DEFAULTS)
    if adapter in profile_names() and adapter.startswith("u") and not is_own:
        raise InputError(
            f"--timing-adapter {adapter} describes the memories of another family and the accelerator is {device}: "
            f"give {measured_with(device)}, a file of your own, or --system-config and --memory-mode."
        )
    if family not in _DEFAULTS:
        return ask
    if adapter is not None:
        return changed(ask, timing_adapter=ADAPTER_OFF) if adapter == "off" else ask
    if ask.system_config is not None:
        require_family(device, ask.system_config)
    system_config, memory_mode = _DEFAULTS[family]
    return changed(ask, system_config=ask.system_config or system_config, memory_mode=ask.memory_mode or memory_mode)


def compiled_for(device: str, ask: SaysMemory) -> tuple[str, str]:
    """System config and memory mode that Vela compiles for; for a timing adapter, those of the published runs."""
    npu, ask = accelerator(device), memory_of(device, ask)
    if npu.family in _DEFAULTS and ask.timing_adapter is not None:
        system = f"Ethos_U85_SYS_DRAM_{DEEP_SYSTEMS[npu.macs]}" if npu.family == "u85" else "Ethos_U65_High_End"
        return system, "Dedicated_Sram"
    return vela_names(ask)


def names_of(device: str, ask: SaysMemory) -> MemoryNames:
    """The names by which Vela knows the memories of an Ask on an accelerator."""
    return MemoryNames(*compiled_for(device, ask), without_chip(ask).config, settings_of(ask))


def system_of(device: str, ask: SaysMemory) -> MemorySystem:
    """The memory system of an Ask on an accelerator."""
    # A timing adapter has its own bounds, independent of the NPU's limit of outstanding transfers.
    ask = memory_of(device, ask)
    system = memory_system(ask)
    return through_ports(accelerator(device), system if ask.timing_adapter is not None else as_seen_by(device, system))


def arena_bound(device: str, ask: SaysMemory, given: int | None = None) -> int | None:
    """Most bytes of the arena: ``given`` by an option, else the ``arena_cache_size`` of the memory mode; None without either.

    If the mode separates a fast scratch from the arena, the bytes are the fast scratch's.
    """
    ask = memory_of(device, ask)
    return given if given is not None or not from_vela(ask) else load_arena_cache_size(vela_names(ask)[1], ask.config)


def as_seen_by(device: str, system: MemorySystem) -> MemorySystem:
    """The memory system with the transactions that the accelerator may have outstanding."""
    npu = accelerator(device)
    if (npu.max_reads, npu.max_writes) == (NPU_MAX_READS, NPU_MAX_WRITES):
        return system

    def widened(memory: Memory) -> Memory:
        # A limit of the memory itself stays; Vela's configuration is read with the U55's limits.
        reads = npu.max_reads if memory.max_reads == NPU_MAX_READS else memory.max_reads
        writes = npu.max_writes if memory.max_writes == NPU_MAX_WRITES else memory.max_writes
        return replace(memory, max_reads=reads, max_writes=writes)

    first, second = system.ports
    if npu.buffers is not None:
        second = replace(second, burst_bytes=EXT_BURST)
    return replace(system, ports=(widened(first), widened(second)))
