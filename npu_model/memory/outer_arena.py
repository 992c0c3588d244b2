"""Memory modes with an outer arena (Dedicated_Sram): their memory system in a schedule, and the tensors in the outer memory."""

from __future__ import annotations

from msgspec.structs import replace

from npu_model.memory.system import MemorySystem

CONSTANTS, ARENA, FAST_SCRATCH = range(3)
"""Base-pointer regions (Vela's use)."""

_PARTED = "feature maps in the fast scratch"
"""Part of the name of a system whose memory mode has an outer arena, as a schedule records it."""


def has_outer_arena(system: MemorySystem) -> bool:
    """Whether the memory mode separates the arena, in an outer memory, from a small fast scratch (Vela's Dedicated_Sram)."""
    return system.port_of(ARENA) != system.port_of(FAST_SCRATCH)


def as_scheduled(system: MemorySystem) -> MemorySystem:
    """The memory system of our schedules: the memory mode's fast scratch becomes the arena. Other systems are unchanged."""
    if not has_outer_arena(system):
        return system
    ports = list(system.region_ports)
    ports[ARENA] = ports[FAST_SCRATCH]
    return replace(system, region_ports=tuple(ports), name=f"{system.name}, {_PARTED}")


def is_scheduled_in_fast_scratch(system: MemorySystem | None) -> bool:
    """Whether a schedule's recorded memory system is one that :func:`as_scheduled` made of a memory mode with an outer arena."""
    return system is not None and _PARTED in system.name


def outer_homes(system: MemorySystem, homes: tuple[str, ...]) -> tuple[str, ...]:
    """The requested homes. Inputs and outputs without one live in the outer arena, if the memory mode has one."""
    if not has_outer_arena(system):
        return homes
    said = {text.rpartition("=")[0].strip() for text in homes}
    return (*(f"{end}=axi{system.port_of(ARENA)}" for end in ("input", "output") if end not in said), *homes)


def outer_spill(system: MemorySystem) -> str | None:
    """The memory to which a search may move tensors by itself: the outer arena; None if there is none."""
    return f"axi{system.port_of(ARENA)}" if has_outer_arena(system) and system.ports[system.port_of(ARENA)].writable else None
