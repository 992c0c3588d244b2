"""The ports of an accelerator in a memory system: the number of paths to each memory, and the adapters of the published runs."""

from __future__ import annotations

from msgspec.structs import replace

from npu_model.accelerator import Accelerator, accelerator
from npu_model.memory.system import Memory, MemorySystem

DEEP_SYSTEMS = {128: "Low", 256: "Low", 512: "Mid", 1024: "Mid", 2048: "High"}
"""The system of an Ethos-U85's published runs by its MACs."""


def measured_with(device: str) -> str:
    """The built-in timing adapter of a device's published runs."""
    npu = accelerator(device)
    return f"u85_sys_dram_{DEEP_SYSTEMS[npu.macs].lower()}" if npu.family == "u85" else f"{npu.family}_high_end"


def _widened(memory: Memory, ports: int) -> Memory:
    pulse = memory.pulse
    return replace(
        memory,
        max_reads=memory.max_reads * ports,
        max_writes=memory.max_writes * ports,
        cycles_per_word=memory.cycles_per_word / ports,
        pulse=None if pulse is None else replace(pulse, cap_words=pulse.cap_words * ports),
    )


def through_ports(npu: Accelerator, system: MemorySystem) -> MemorySystem:
    """The memory system with a path to each memory for every port of its kind that the accelerator has."""
    if npu.sram_ports == npu.ext_ports == 1:
        return system
    sram, ext = system.ports
    access = npu.access
    ext = replace(ext, read_latency=ext.read_latency + access.ext_latency, write_latency=ext.write_latency + access.ext_latency)
    paths = min(npu.sram_ports, access.sram_words or npu.sram_ports)
    return replace(system, ports=(_widened(sram, paths), _widened(ext, npu.ext_ports)))
