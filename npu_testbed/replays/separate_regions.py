"""Separate regions: Vela's schedules with inputs and outputs outside the arena, compared with ours with homes.

Vela's ``--separate-io-regions`` takes all inputs and all outputs out of its arena, but only on its C++ core: the Python core accepts the
option and ignores it. The replay chooses their memory: the memory of our homes, or the arena's memory for a tensor without a home.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.network.network import ARENA, Network
from cascader.frontends.vela import CORES
from npu_model.compiled.network import CompiledNetwork
from npu_model.memory.system import MemorySystem
from npu_model.program import Binding
from npu_model.program.region_numbers import FIRST_HOME

SEPARATE_CORES = CORES[:1]
"""Cores of Vela that take inputs and outputs out of the arena."""


class EndPorts(Struct, frozen=True):
    """The port of each input, and of each output, of a network; None for one that ours keeps in the arena."""

    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]


def end_ports(network: Network) -> EndPorts | None:
    """The ports of the inputs and outputs of a network of ours; None if all of them are in the arena."""
    ports = {home.tensor: home.port for home in network.homes}
    found = EndPorts(*(tuple(ports.get(one.tensor) for one in ends) for ends in (network.inputs, network.outputs)))
    return found if any(port is not None for port in (*found.inputs, *found.outputs)) else None


def on_end_ports(system: MemorySystem, network: CompiledNetwork, ports: EndPorts) -> MemorySystem:
    """Return ``system`` with these ports for the regions of a compiled network's inputs and outputs. None means the arena's port.

    A region that several tensors share lies at the slowest requested port: AXI1 if any of them lives there.
    """
    behind = list(system.region_ports)
    asked: dict[int, list[int]] = {}
    for binding, port in (*_pairs(network.inputs, ports.inputs), *_pairs(network.outputs, ports.outputs)):
        if binding.region >= FIRST_HOME:
            asked.setdefault(binding.region, []).append(system.port_of(ARENA) if port is None else port)
    for region, wanted in asked.items():
        behind[region] = max(wanted)
    return replace(system, region_ports=tuple(behind))


def _pairs(bindings: Sequence[Binding], ports: Sequence[int | None]) -> Sequence[tuple[Binding, int | None]]:
    """Bindings with their ports, in the model's order. If the numbers differ, all get the first named port."""
    if len(bindings) == len(ports):
        return list(zip(bindings, ports, strict=True))
    said = next((port for port in ports if port is not None), None)
    return [(binding, said) for binding in bindings]
