"""Savings of a faster memory: one bandwidth or one latency is changed at a time."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from msgspec.structs import replace

from npu_model.memory.outer_arena import ARENA, CONSTANTS, FAST_SCRATCH
from npu_model.memory.system import Memory, MemorySystem
from npu_model.printable import printable
from npu_testbed.findings.finding import Finding, part, percent
from npu_testbed.replays.simulation import Simulation
from sim import quick_cycles

KIND = "memory"

LEAST = 0.02
"""Share of the cycles that a faster memory must save to be mentioned: it costs more than a line of a build script."""

_NAME = 60
"""Characters of a memory's name in a sentence."""


def twice_as_fast(memory: Memory) -> Memory:
    """The memory with twice its data words a cycle, at most one, and twice the words that a pulse allows."""
    pulse = memory.pulse and replace(memory.pulse, cap_words=2 * memory.pulse.cap_words)
    return replace(memory, cycles_per_word=max(Fraction(1), memory.cycles_per_word / 2), pulse=pulse)


def half_the_latency(memory: Memory) -> Memory:
    """The memory with half the cycles from an address to its data, and from data to their response."""
    return replace(memory, read_latency=memory.read_latency // 2, write_latency=memory.write_latency // 2)


_CHANGES = (("twice the bandwidth", twice_as_fast), ("half the latency", half_the_latency))


def _with(system: MemorySystem, port: int, memory: Memory) -> MemorySystem:
    first, second = system.ports
    return replace(system, ports=(memory, second) if port == 0 else (first, memory))


def faster_memories(simulation: Simulation) -> Iterator[Finding]:
    """Yield the savings of twice the bandwidth and of half the latency of each memory, with a replay of each."""
    system, cycles = simulation.system, simulation.replay.cycles
    used = sorted({system.command_port, *(system.port_of(region) for region in (CONSTANTS, ARENA, FAST_SCRATCH))})
    for port in used:
        for words, change in _CHANGES:
            changed = change(system.ports[port])
            if changed == system.ports[port]:
                continue
            saved = cycles - quick_cycles(simulation.network, _with(system, port, changed), simulation.timing)
            share = part(saved, cycles)
            changes = f"{words} of the memory {printable(system.ports[port].name, _NAME)} behind AXI{port}"
            text = f"{changes[:1].upper()}{changes[1:]} saves {saved:,} cycles ({percent(share)})."
            yield Finding(KIND, text, changes, saved, 0, simulation.planned_bytes, share)


def memories(simulation: Simulation) -> Iterator[Finding]:
    """Yield the faster memories that save enough to be mentioned."""
    yield from (one for one in faster_memories(simulation) if one.share >= LEAST)
