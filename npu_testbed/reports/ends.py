"""Ends: the bytes of a network's inputs and outputs, in the arena or outside it, in words and as JSON."""

from __future__ import annotations

from typing import Any

from npu_model.compiled.network import CompiledNetwork
from npu_model.export.regions import home_sizes
from npu_model.memory.system import MemorySystem


def io_bytes(network: CompiledNetwork) -> int:
    """Bytes of the network's inputs and outputs, wherever they live; what is both counts once."""
    places = {(one.region, one.address, one.size) for one in (*network.inputs, *network.outputs)}
    return sum(size for _, _, size in places)


def outside_bytes(network: CompiledNetwork) -> int:
    """Bytes of all tensors that live outside the arena."""
    return sum(home_sizes(network).values())


def ends_text(network: CompiledNetwork, system: MemorySystem, arena: int) -> str:
    """Where inputs, outputs and other tensors with a home of their own live, and the bytes of both conventions, as a clause."""
    whole = f"{io_bytes(network):,} bytes of inputs and outputs"
    homes = home_sizes(network)
    if not homes:
        return f"{whole}, in the arena"
    places = " and ".join(
        f"{size:,} in region {region} behind AXI{system.port_of(region)} ({system.ports[system.port_of(region)].name})"
        for region, size in homes.items()
    )
    return f"{whole}; outside the arena are {places}: {arena:,} bytes without these, {arena + outside_bytes(network):,} with them"


def ends_json(network: CompiledNetwork, system: MemorySystem) -> dict[str, Any]:
    """The bytes of inputs and outputs, those outside the arena, and the regions in which they are."""
    homes = [{"region": region, "port": system.port_of(region), "bytes": size} for region, size in home_sizes(network).items()]
    return {"io_bytes": io_bytes(network), "outside_bytes": outside_bytes(network), "homes": homes}
