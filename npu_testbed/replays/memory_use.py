"""Bytes that a replayed network needs of each memory: the arena, and a fast scratch that Vela keeps apart from it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.memory.outer_arena import ARENA, FAST_SCRATCH
from npu_model.memory.system import AXI0, MemorySystem
from npu_model.program import DmaOperation, KernelOperation, Program, RegionRole
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up
from sim import Footprint, footprint


def arena_bytes(network: CompiledNetwork) -> int:
    """The bytes to set aside for the arena of a compiled network, from its base to its end, rounded up to 16.

    The file asks for these bytes as its scratch tensor. They reach at least to the end of every tensor in the arena: tensors of the NPU's
    programs, of operators on the CPU, and of the network itself. The highest byte that a replay touches may lie below.
    """
    bindings = [*network.inputs, *network.outputs, *(b for step in network.steps for b in (*step.inputs, *step.outputs))]
    ends = (binding.byte_range.end for binding in bindings if binding.region == ARENA)
    return round_up(max((network.arena_size, *ends)), ALIGNMENT)


def _uses(program: Program, region: int) -> bool:
    if all(one.index != region for one in program.regions):
        return False
    operations = (op for op in program.operations if isinstance(op, (KernelOperation, DmaOperation)))
    return any(part.region == region for op in operations for part in op.reads() + op.writes())


def has_fast_scratch(network: CompiledNetwork) -> bool:
    """Whether Vela keeps feature maps in a fast scratch apart from the arena (memory mode Dedicated_Sram).

    In its other modes it addresses the arena alone, though the file names both.
    """
    return any(_uses(program, FAST_SCRATCH) for program in network.programs)


def fast_scratch_bytes(network: CompiledNetwork) -> int:
    """Size of the fast scratch that the network declares; 0 if the network keeps nothing there."""
    if not has_fast_scratch(network):
        return 0
    return max((r.size for program in network.programs for r in program.regions if r.role is RegionRole.FAST_SCRATCH), default=0)


def sram_bytes(network: CompiledNetwork) -> int:
    """Bytes of SRAM that a compiled network asks for: its arena, or its separate fast scratch."""
    return fast_scratch_bytes(network) if has_fast_scratch(network) else arena_bytes(network)


def _only(programs: Sequence[Program], role: RegionRole) -> tuple[Program, ...]:
    """The programs with ``role`` as their only region of feature maps, and the bindings inside it."""
    result = []
    for program in programs:
        regions = tuple(r if r.role in (role, RegionRole.CONSTANTS) else replace(r, role=RegionRole.UNUSED) for r in program.regions)
        inside = [r.index for r in regions if r.role is role]
        inputs = tuple(b for b in program.inputs if b.region in inside)
        outputs = tuple(b for b in program.outputs if b.region in inside)
        result.append(replace(program, regions=regions, inputs=inputs, outputs=outputs))
    return tuple(result)


_MEMORIES = {"sram": "SRAM", "dram": "DRAM", "onchipflash": "on-chip flash", "offchipflash": "off-chip flash"}
"""Names of memories as Vela's configurations spell them, and as they are printed."""


def memory_name(system: MemorySystem, region: int) -> str:
    """Return the printed name of the memory that holds a region. On AXI0 it is SRAM, as in Vela's memory modes."""
    port = system.port_of(region)
    name = system.ports[port].name
    return _MEMORIES.get(name.casefold(), "SRAM" if port == AXI0 else name)


def fast_scratch_footprint(network: CompiledNetwork, system: MemorySystem) -> Footprint:
    """The bytes that the network touches in its fast scratch, which is its SRAM; the arena is another memory.

    InputError if ``system`` has both in one memory, because their addresses would collide.
    """
    if system.port_of(ARENA) == system.port_of(FAST_SCRATCH):
        raise InputError(
            f"The network was compiled for a fast scratch in another memory than its arena (memory mode Dedicated_Sram), but {system.name} "
            "has both in one: give a --config, --system-config and --memory-mode with two memories."
        )
    return footprint(_only(network.programs, RegionRole.FAST_SCRATCH), (), ())
