"""A network's regions for an export: each region where the driver binds it, and every array inside the arena."""

from __future__ import annotations

import math
from collections.abc import Iterator

from npu_model.accelerator import accelerator
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.errors import InputError
from npu_model.program import Binding, Program, RegionRole
from npu_model.program.check import check_program
from npu_model.program.region_numbers import FIRST_HOME

CONSTANTS, ARENA, FAST_SCRATCH = range(3)
"""Base-pointer indices of the custom operator's inputs 1 to 3 (Vela 5.2.0; TFLite Micro's Ethos-U kernel binds them like this)."""

_ROLES = {CONSTANTS: RegionRole.CONSTANTS, ARENA: RegionRole.ARENA, FAST_SCRATCH: RegionRole.FAST_SCRATCH}


def constants_of(program: Program) -> bytes:
    """The bytes of the constants; b"" if the program has none."""
    return next((region.content for region in program.regions if region.index == CONSTANTS), b"")


def size_of(program: Program, index: int) -> int | None:
    """Bytes of a region; None if the program does not have it."""
    return next((region.size for region in program.regions if region.index == index), None)


def has_own_fast_scratch(program: Program) -> bool:
    """Whether the fast scratch is separate memory. In all memory modes but Dedicated_Sram it is the arena."""
    return size_of(program, FAST_SCRATCH) not in (None, size_of(program, ARENA))


def needs_fast_scratch(program: Program) -> bool:
    """Whether the program works in a fast scratch apart from the arena. A deployed file may name one of no bytes."""
    return has_own_fast_scratch(program) and size_of(program, FAST_SCRATCH) != 0


def home_sizes(network: CompiledNetwork) -> dict[int, int]:
    """Bytes of each region in which tensors live outside the arena."""
    found: dict[int, int] = {}
    for program in network.programs:
        for region in program.regions:
            if region.role is RegionRole.HOME:
                found[region.index] = max(found.get(region.index, 0), region.size)
    return dict(sorted(found.items()))


def check_handed(program: Program, file_kind: str) -> None:
    """InputError unless the home regions of a program belong to its inputs and outputs, in the order in which runtimes pass them.

    TFLite Micro's Ethos-U kernel passes constants, scratch and fast scratch to the driver, then the operator's inputs and then its outputs,
    as base addresses 0 to 7: the first input is region 3.
    """
    handed = {FIRST_HOME + place: binding for place, binding in enumerate((*program.inputs, *program.outputs))}
    for region in program.regions:
        if region.role is not RegionRole.HOME:
            continue
        binding = handed.get(region.index)
        if binding is None or (binding.region, binding.address) != (region.index, 0):
            raise InputError(
                f"Region {region.index} holds a tensor outside the arena that is not the operator's input or output of that number, and "
                f"{file_kind} hands on no other: export the C format, or leave that tensor in the arena."
            )
    for number, binding in handed.items():
        if binding.region >= FIRST_HOME and binding.region != number:
            raise InputError(
                f"Tensor {binding.name!r} lives in region {binding.region} but {file_kind} hands it on as region {number}: export the C "
                "format, or leave it in the arena."
            )


def _bindings(network: CompiledNetwork) -> Iterator[Binding]:
    yield from network.inputs
    for step in network.steps:
        yield from step.inputs + step.outputs
    yield from network.outputs


def _check_regions(program: Program) -> None:
    for region in program.regions:
        if _ROLES.get(region.index, RegionRole.HOME) is not region.role:
            raise InputError(
                f"Region {region.index} holds the program's {region.role.value}: an exported file has constants in 0, the arena in 1, fast "
                "scratch in 2 and tensors outside the arena from 3 on; compile for these."
            )
        if region.role is RegionRole.CONSTANTS and region.size != len(region.content):
            raise InputError(
                f"The constants have {len(region.content)} of {region.size} bytes: the program is incomplete; compile it again."
            )


def check_network(network: CompiledNetwork) -> None:
    """InputError unless the accelerator can run the network and all its arrays lie in the arena, or in home regions."""
    if not network.programs:
        raise InputError(f"The network has {len(network.steps)} CPU operators and no NPU program: there is nothing to export for an NPU.")
    for program in network.programs:
        check_program(program, accelerator(program.accelerator))
        _check_regions(program)
        if (size_of(program, ARENA) or 0) > network.arena_size:
            raise InputError(
                f"A program uses {size_of(program, ARENA)} bytes of an arena of {network.arena_size}: give the network the larger size."
            )
    homes = home_sizes(network)
    for binding in _bindings(network):
        room = network.arena_size if binding.region == ARENA else homes.get(binding.region, -1)
        if not 0 <= binding.address <= room - binding.size:
            raise InputError(
                f"Tensor {binding.name!r} lies at bytes {binding.address} to {binding.address + binding.size} of region "
                f"{binding.region}: the arena is region {ARENA} with {network.arena_size} bytes; schedule the network again."
            )
        if binding.quantisation is not None and not 0 < binding.quantisation.scale < math.inf:
            raise InputError(
                f"Tensor {binding.name!r} has quantisation scale {binding.quantisation.scale}: "
                "a positive finite number is needed; quantise the network again."
            )


def cpu_codes(network: CompiledNetwork) -> tuple[str, ...]:
    """Names of the operators that stay on the CPU, in order."""
    return tuple(step.code for step in network.steps if isinstance(step, CpuOperator))


def check_written(network: CompiledNetwork, file_kind: str) -> None:
    """InputError if an output is a constant, because a file with arena addresses of outputs cannot hold it."""
    if network.constant_outputs:
        raise InputError(
            f"Output {network.constant_outputs[0].name!r} is a constant: {file_kind} has outputs in the arena alone; "
            "export a .tflite file, or leave that output out of the network."
        )
