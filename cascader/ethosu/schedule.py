"""Schedule: the jobs of a network in order, its buffers with addresses, and where all of it came from."""

from __future__ import annotations

from dataclasses import dataclass

from cascader.ethosu.in_place import overwritable_operand
from cascader.ethosu.network import Network, ethosu_part
from cascader.schedule import Buffer, Job, place
from npu_model.errors import InputError
from npu_model.shapes import round_up

ARENA_ALIGNMENT = 16
"""The arena's size is a multiple of this, as the regions of a driver job are (core driver)."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a schedule was made from and by: file name without folder, its SHA-256, versions of the tools, memory system."""

    model: str = ""
    model_sha256: str = ""
    tools: tuple[tuple[str, str], ...] = ()
    memory_system: str = ""
    memory_system_sha256: str = ""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Self-contained: lowering it needs nothing else.

    Jobs run in order, one per step; every tensor of the arena is in one buffer; ``arena_size`` is the bytes that all
    buffers together span, a multiple of 16.
    """

    accelerator: str
    network: Network
    jobs: tuple[Job, ...]
    buffers: tuple[Buffer, ...]
    arena_size: int
    provenance: Provenance = Provenance()

    def addresses(self) -> dict[str, int]:
        """Arena address of every tensor."""
        return {tensor: buffer.address for buffer in self.buffers for tensor in buffer.tensors}


def arena_extent(buffers: tuple[Buffer, ...]) -> int:
    """Bytes from address 0 to the end of the highest buffer, rounded up to 16."""
    return round_up(max((buffer.address + buffer.size for buffer in buffers), default=0), ARENA_ALIGNMENT)


def schedule_layer_by_layer(
    network: Network,
    accelerator: str,
    *,
    arena_cache_size: int | None = None,
    in_place: bool = True,
    provenance: Provenance = Provenance(),
) -> Schedule:
    """Every part whole, in the network's order: the schedule that cascading is measured against.

    With ``in_place`` an elementwise output takes over the storage of an operand that dies with it. InputError if the arena
    would exceed ``arena_cache_size`` bytes.
    """
    order = tuple(part.name for part in network.graph.parts)
    operands = {part.name: overwritable_operand(part) for part in network.graph.parts} if in_place else {}
    buffers = place(network.graph, order, {part: tensor for part, tensor in operands.items() if tensor is not None})
    size = arena_extent(buffers)
    if arena_cache_size is not None and size > arena_cache_size:
        raise InputError(
            f"The layer-by-layer schedule needs {size} bytes, {size - arena_cache_size} more than the arena cache size of "
            f"{arena_cache_size}: allow {size}, the smallest that it reaches, or cascade."
        )
    payloads = [ethosu_part(part) for part in network.graph.parts]
    jobs = tuple(Job(name, payload.operation.block if payload else None) for name, payload in zip(order, payloads, strict=True))
    return Schedule(accelerator, network, jobs, buffers, size, provenance)
