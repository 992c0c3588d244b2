"""The layer-by-layer schedule: what cascading is measured against."""

from __future__ import annotations

from cascader.ethosu.network.in_place import overwritable_operands
from cascader.ethosu.network.network import Network, ethosu_part
from cascader.ethosu.schedule.schedule import Provenance, Schedule, arena_extent
from cascader.ethosu.verify.check import check_schedule
from cascader.plan.jobs import Job, place
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.errors import InputError

_UNKNOWN = Provenance()


def schedule_layer_by_layer(
    network: Network,
    accelerator: str,
    *,
    arena_cache_size: int | None = None,
    in_place: bool = True,
    provenance: Provenance = _UNKNOWN,
) -> Schedule:
    """Every part whole, in the network's order, at addresses that are reused as tensors die.

    With ``in_place`` an elementwise output takes over the storage of an operand that dies with it. InputError if the
    accelerator is unknown or the arena would exceed ``arena_cache_size`` bytes.
    """
    find_accelerator(accelerator)
    parts = network.graph.parts
    operands = {part.name: overwritable_operands(part) for part in parts} if in_place else {}
    order = tuple(part.name for part in parts)
    buffers = place(network.graph, order, operands)
    size = arena_extent(buffers)
    if arena_cache_size is not None and size > arena_cache_size:
        raise InputError(
            f"The layer-by-layer schedule needs {size} bytes, {size - arena_cache_size} more than the arena cache size of "
            f"{arena_cache_size}: allow {size}, the smallest that it reaches, or cascade."
        )
    payloads = [ethosu_part(part) for part in parts]
    jobs = tuple(Job(name, payload.operation.block if payload else None) for name, payload in zip(order, payloads, strict=True))
    schedule = Schedule(accelerator, network, jobs, buffers, size, provenance)
    check_schedule(schedule)
    return schedule
