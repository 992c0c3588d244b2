"""Staged inputs and outputs: a DMA brings inputs from a slower memory into the arena and takes outputs there, in parallel with the kernels.

A kernel that reads or writes its stripes in that memory waits for it. A transfer that runs some rows ahead hides the wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cascader.ethosu.network.homes import with_homes
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.wanted_homes import Wanted
from cascader.ethosu.spill.carried import Carried, CarriedCut, carried, movable, taken
from cascader.graph.cascader_graph import TensorKind
from npu_model.accelerator import Accelerator
from npu_model.memory.system import MemorySystem
from npu_model.program.region_numbers import ARENA

_AHEAD = (1, 2, 4, 8)
"""Rows by which transfers run ahead. Each number is a form of its own, because its rows take bytes of the arena."""


def staged_ends(network: Network, homes: Sequence[Wanted], system: MemorySystem, device: Accelerator) -> Iterator[Network]:
    """Forms of a network in the arena with tensors in their ``homes``. Inputs and outputs there are staged if possible."""
    slower = [home.tensor for home in with_homes(network, homes).homes if home.port != system.port_of(ARENA)]
    for ahead in _AHEAD if slower else ():
        made = _staged(network, slower, device, ahead)
        if made.moved:
            yield with_homes(made.network, homes)


def _staged(network: Network, outside: Sequence[str], device: Accelerator, ahead: int) -> Carried:
    graph, made = network.graph, Carried(network, dict(zip(outside, outside, strict=True)))
    for tensor in sorted(movable(network, outside)):
        kind, readers = graph.tensor(tensor).kind, graph.consumers(tensor)
        if tensor in outside and kind is TensorKind.INPUT and readers:
            made = carried(made, CarriedCut(tensor, readers[0].name), device, ahead) or made
        elif tensor in outside and kind is TensorKind.OUTPUT:
            made = taken(made, tensor, device, ahead) or made
    return made
