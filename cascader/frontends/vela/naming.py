"""Layer names for the Programs of any network that Vela has compiled."""

from __future__ import annotations

from dataclasses import replace

from cascader.frontends.vela.results import VelaResult
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.program import Control, Program


def name_operations(program: Program, layers: dict[int, str]) -> Program:
    """``program`` with the names of its layers, which ``layers`` gives by the byte offset of the kernel command.

    A DMA transfer or a wait belongs to the kernel that it prepares, the next one; STOP to none.
    """
    names = [""] * len(program.operations)
    upcoming, offsets = "", program.kernel_offsets
    for index in reversed(range(len(names))):
        upcoming = layers.get(offsets[index], "") if index in offsets else upcoming
        names[index] = "" if isinstance(program.operations[index], Control) else upcoming
    return replace(program, names=tuple(names))


def named_network(result: VelaResult) -> CompiledNetwork:
    """Decode a compilation; every Program gets ``names`` if the debug database was asked for."""
    network = read_compiled(result.compiled)
    if not result.layers:
        return network
    streams = iter(result.layers)
    steps = tuple(name_operations(step, next(streams, {})) if isinstance(step, Program) else step for step in network.steps)
    return replace(network, steps=steps)
