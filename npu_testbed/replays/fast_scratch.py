"""Fast scratch: a network for stock software in the memory mode Dedicated_Sram, with its arena in the fast scratch.

A schedule of ours has region 1 for its arena, and regions from 3 on for tensors outside it. In that memory mode, runtimes keep inputs and
outputs in their arena in an outer memory, as region 1. They pass a small fast memory to the driver as region 2.
"""

from __future__ import annotations

from msgspec.structs import replace

from cascader.ethosu.job.schedule import Schedule
from npu_model.command_stream import encode_operations
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.errors import InputError
from npu_model.export.regions import home_sizes
from npu_model.program import Binding, Program, Region, RegionRole
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.moves import Moves, moved, moved_place
from npu_model.program.region_numbers import ARENA, FIRST_HOME
from npu_model.shapes import round_up

FAST_SCRATCH = 2


def in_fast_scratch(network: CompiledNetwork, alignment: int = ALIGNMENT) -> CompiledNetwork:
    """The network with its arena as the fast scratch, and its home regions one after the other as the arena.

    Each of these begins at a multiple of ``alignment`` bytes, at which the arena ends, too: with lines of a cache, no two share one.
    InputError if it has operators on the CPU, states, a fast scratch already, or an input or output in its arena.
    """
    _check(network)
    moves, outer = {ARENA: (FAST_SCRATCH, 0)}, 0
    for region, size in home_sizes(network).items():
        moves[region] = ARENA, outer
        outer += round_up(size, alignment)
    # Two regions of one size count as one memory, as in Vela's files of the other memory modes.
    fast = network.arena_size + (ALIGNMENT if network.arena_size == outer else 0)
    steps = tuple(_program(program, moves, outer, fast) for program in network.programs)
    inputs, outputs = (tuple(_binding(one, moves) for one in ends) for ends in (network.inputs, network.outputs))
    return replace(network, steps=steps, arena_size=outer, inputs=inputs, outputs=outputs)


def scratch_note(network: CompiledNetwork, *, fast_scratch: bool) -> str:
    """A note for a schedule's file for Dedicated_Sram, whose lowered ``network`` this is; "" if it takes the planned cycles."""
    if not fast_scratch:
        return (
            "the schedule was made for a fast scratch (Dedicated_Sram), and this file has its arena as region 1: firmware must keep that "
            "in the fast memory and regions from 3 on in the outer one, else it takes other cycles than planned."
        )
    words = [sum(sum(program.words) for program in one.programs) for one in (network, in_fast_scratch(network))]
    if words[0] == words[1]:
        return ""
    return (
        f"the file's command streams have {words[1]:,} words where the schedule's have {words[0]:,}, for addresses in the outer arena: its "
        "cycles may differ by the fetch of these words."
    )


def require_outer(schedule: Schedule) -> None:
    """InputError if a tensor has its home in the memory of the schedule's arena, because a fast scratch's file puts it elsewhere."""
    system = schedule.provenance.memory_system
    near = next((home for home in schedule.network.homes if system is not None and home.port == system.port_of(ARENA)), None)
    if near is not None:
        raise InputError(
            f"Tensor {near.tensor!r} lives in {near.memory}, where the fast scratch is, but a file for Dedicated_Sram has all inputs and "
            "outputs in the outer arena: schedule without this --home, or export with --no-fast-scratch for your own firmware."
        )


def _check(network: CompiledNetwork) -> None:
    on_cpu = next((step for step in network.steps if isinstance(step, CpuOperator)), None)
    if on_cpu is not None or network.variables:
        what = f"runs {on_cpu.code} on the CPU" if on_cpu is not None else f"keeps state {network.variables[0].name!r}"
        raise InputError(
            f"The network {what}, which needs its tensors in the arena, but a file for Dedicated_Sram has the arena in another memory than "
            "the schedule: export with --no-fast-scratch for firmware that keeps region 1 in the fast memory."
        )
    if any(region.role is RegionRole.FAST_SCRATCH for program in network.programs for region in program.regions):
        raise InputError("--fast-scratch was given and the network has a fast scratch already: leave the option out.")
    inside = next((one for one in (*network.inputs, *network.outputs) if one.region < FIRST_HOME), None)
    if inside is not None:
        raise InputError(
            f"--fast-scratch was given, but {inside.name!r} lies in the schedule's arena, where no runtime of Dedicated_Sram looks for it: "
            "schedule with that memory mode, or with --home for inputs and outputs."
        )


def _program(program: Program, moves: Moves, outer: int, fast: int) -> Program:
    operations = tuple(moved(one, moves) for one in program.operations)
    constants = tuple(region for region in program.regions if region.role is RegionRole.CONSTANTS)
    return replace(
        program,
        operations=operations,
        words=encode_operations(operations)[1],
        regions=(*constants, Region(ARENA, RegionRole.ARENA, outer), Region(FAST_SCRATCH, RegionRole.FAST_SCRATCH, fast)),
        inputs=tuple(_binding(one, moves) for one in program.inputs),
        outputs=tuple(_binding(one, moves) for one in program.outputs),
    )


def _binding(binding: Binding, moves: Moves) -> Binding:
    region, address = moved_place(binding.region, binding.address, moves)
    return replace(binding, region=region, address=address)
