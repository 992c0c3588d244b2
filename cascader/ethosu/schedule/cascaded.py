"""Cascaded schedules: the stripe jobs, buffers and copies that a search has found, made a Schedule."""

from __future__ import annotations

from collections.abc import Sequence

from cascader.ethosu.job.schedule import UNKNOWN, Provenance, Schedule, arena_extent
from cascader.ethosu.job.staging import staged_bytes
from cascader.ethosu.network.network import Network, ethosu_part
from cascader.ethosu.verify.check import check_schedule
from cascader.graph.row_graph import RowGraph
from cascader.plan.buffers import Buffers
from cascader.plan.depth_first import StripeJob
from cascader.plan.jobs import Buffer, Copy, Job


def make_schedule(  # noqa: PLR0913  # what a schedule is made of
    network: Network,
    accelerator: str,
    graph: RowGraph,
    jobs: Sequence[StripeJob],
    stores: Buffers,
    addresses: Sequence[int],
    copies: Sequence[Copy] = (),
    *,
    provenance: Provenance = UNKNOWN,
    checked: bool = True,
) -> Schedule:
    """The schedule of ``jobs`` on ``graph``, which is the row graph of ``network``.

    ``stores`` are the buffers of the tensors that the jobs touch, at ``addresses`` of the arena. A buffer that holds all rows that are
    made does not roll. ``copies`` are in the order of their steps. A job is in its part's own block.

    If it is ``checked`` it has passed :func:`check_schedule`. A search makes many times as many as it reports, and has those checked.
    InputError if the accelerator is unknown or the schedule is wrong.
    """
    buffers = _buffers(graph, jobs, stores, addresses)
    schedule = Schedule(
        accelerator=accelerator,
        network=network,
        jobs=tuple(_job(network, graph, job) for job in jobs),
        buffers=buffers,
        arena_size=arena_extent(buffers, _ends(network, copies)),
        provenance=provenance,
        copies=tuple(copies),
    )
    if checked:
        check_schedule(schedule)
    return schedule


def _ends(network: Network, copies: Sequence[Copy]) -> tuple[int, ...]:
    """First byte after each copy."""
    parts = [(copy, ethosu_part(network.graph.parts[network.graph.index(copy.part)])) for copy in copies]
    return tuple(copy.address + (staged_bytes(part.operation) if part else 0) for copy, part in parts)


def _job(network: Network, graph: RowGraph, job: StripeJob) -> Job:
    part = graph.parts[job.part]
    payload = ethosu_part(network.graph.parts[job.part])
    own = payload.operation.block if payload else None
    everything = part.atomic or (job.start, job.end) == (0, part.rows)
    return Job(part.name, own, None if everything else (job.start, job.end))


def _buffers(graph: RowGraph, jobs: Sequence[StripeJob], stores: Buffers, addresses: Sequence[int]) -> tuple[Buffer, ...]:
    """The buffers in the order of their birth; the tensors of one that share it stand in the order in which they are made."""
    made, makers = [tensor.rows if tensor.kind.is_there_at_first else 0 for tensor in graph.tensors], [-1] * len(graph.tensors)
    for index, end in {job.part: job.end for job in jobs}.items():
        for output, tensor in enumerate(graph.parts[index].outputs):
            rows = graph.tensors[tensor].rows
            made[tensor] = max(made[tensor], min(rows, graph.parts[index].written(output, 0, end, rows)[1]))
            makers[tensor] = max(makers[tensor], index)
    starts, ends = stores.extents.starts.tolist(), stores.extents.ends.tolist()
    found = []
    for number, (family, rows, address) in enumerate(zip(stores.tensors, stores.rows, addresses, strict=True)):
        tensors = sorted(family, key=makers.__getitem__)
        names, size = tuple(graph.tensors[tensor].name for tensor in tensors), rows * graph.tensors[tensors[0]].row_bytes
        if not size:
            continue  # its home is not the arena
        rolls = rows < max(made[tensor] for tensor in family)
        buffer = Buffer(names, address, size, starts[number], ends[number], rows if rolls else None)
        found.append((starts[number], tensors[0], buffer))
    return tuple(buffer for _, _, buffer in sorted(found, key=lambda one: one[:2]))
