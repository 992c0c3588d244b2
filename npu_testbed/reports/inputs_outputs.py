"""Inputs and outputs: their bytes in the arena or outside it, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cascader.ethosu.codegen.lowering import lower
from npu_model.compiled.network import CompiledNetwork
from npu_model.export.regions import home_sizes
from npu_model.memory.system import MemorySystem
from npu_testbed.documents.units import HomeEntry, InputsOutputsEntry

if TYPE_CHECKING:
    from npu_testbed.searches.frontiers import Frontier


def io_bytes(network: CompiledNetwork) -> int:
    """Bytes of the network's inputs and outputs, wherever they live. A tensor that is both counts once."""
    places = {(one.region, one.address, one.size) for one in (*network.inputs, *network.outputs)}
    return sum(size for _, _, size in places)


def network_and_system(frontier: Frontier) -> tuple[CompiledNetwork, MemorySystem | None]:
    """The network of a frontier's first point and its memory system: inputs and outputs have the same homes in all points."""
    plan = frontier.points[0].schedule
    return lower(plan), plan.provenance.memory_system


def _port(system: MemorySystem | None, region: int) -> int:
    assert system is not None  # noqa: S101  # a search has one, and so has whatever has a region of its own
    return system.port_of(region)


def outside_bytes(network: CompiledNetwork) -> int:
    """Bytes of all tensors that live outside the arena."""
    return sum(home_sizes(network).values())


def inputs_outputs_text(network: CompiledNetwork, system: MemorySystem | None, arena: int) -> str:
    """The homes of inputs, outputs and other tensors outside the arena, and the bytes by both conventions, as a clause."""
    whole = f"{io_bytes(network):,} bytes of inputs and outputs"
    homes = home_sizes(network)
    if not homes:
        return f"{whole}, in the arena: its {arena:,} bytes count them"
    ports = {region: _port(system, region) for region in homes}
    names = {} if system is None else {region: system.ports[port].name for region, port in ports.items()}
    places = " and ".join(f"{size:,} in region {region} behind AXI{ports[region]} ({names[region]})" for region, size in homes.items())
    return f"{whole}; outside the arena are {places}: {arena:,} bytes without these, {arena + outside_bytes(network):,} with them"


def inputs_outputs_json(network: CompiledNetwork, system: MemorySystem | None) -> InputsOutputsEntry:
    """The bytes of inputs and outputs, the bytes outside the arena, and the regions there."""
    homes = tuple(HomeEntry(region, _port(system, region), size) for region, size in home_sizes(network).items())
    return InputsOutputsEntry(io_bytes(network), outside_bytes(network), homes)
