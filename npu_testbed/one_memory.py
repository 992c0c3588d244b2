"""Memory systems in which a schedule can run: those with one memory for all that changes."""

from __future__ import annotations

from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem

CONSTANTS, ARENA, FAST_SCRATCH = range(3)
"""Base-pointer regions (Vela's use)."""


def require_one_memory(system: MemorySystem) -> None:
    """InputError unless the arena lies where a fast scratch would: a schedule of ours has one arena, and plans SRAM for it."""
    if system.port_of(ARENA) != system.port_of(FAST_SCRATCH):
        raise InputError(
            f"Memory system {system.name} parts the arena from a fast scratch, but a schedule has one arena in SRAM: "
            "choose a memory mode that keeps both in one memory, such as Shared_Sram."
        )
