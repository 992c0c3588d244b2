"""Cascaded schedules: the stripe jobs, addresses and copies that a search has found, made a Schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from cascader.ethosu.network.network import Network, ethosu_part
from cascader.ethosu.schedule.schedule import UNKNOWN, Provenance, Schedule, arena_extent
from cascader.ethosu.schedule.staging import staged_bytes
from cascader.ethosu.verify.check import check_schedule
from cascader.graph.row_graph import RowGraph
from cascader.plan.depth_first import StripeJob
from cascader.plan.jobs import Buffer, Copy, Job
from cascader.plan.liveness import LiveRows, live_rows

_Place = tuple[int, int | None, int]
"""Address, rows of a rolling buffer (None: it does not roll) and bytes per row."""

_NONE_ROLL: Mapping[int, int] = MappingProxyType({})


def make_schedule(  # noqa: PLR0913  # what a schedule is made of
    network: Network,
    accelerator: str,
    graph: RowGraph,
    jobs: Sequence[StripeJob],
    addresses: Mapping[int, int],
    rolling: Mapping[int, int] = _NONE_ROLL,
    copies: Sequence[Copy] = (),
    *,
    provenance: Provenance = UNKNOWN,
    checked: bool = True,
) -> Schedule:
    """The schedule of ``jobs`` on ``graph``, which is the row graph of ``network``.

    If it is ``checked`` it has passed :func:`check_schedule`. A search makes many times as many as it reports, and has those checked.

    ``addresses`` gives the arena address of every tensor that the jobs touch, by its index in ``graph``. ``rolling`` gives the rows of
    those that lie in a rolling buffer; a buffer that holds all rows that are made does not roll. ``copies`` are in the order
    of their steps. A job is in its part's own block. A buffer is as large as
    the rows that are ever live in it, so that a tensor whose last rows nobody needs takes no bytes for them.

    InputError if the accelerator is unknown or the schedule is wrong.
    """
    lives = live_rows(graph, jobs)
    places = {tensor: (addresses[tensor], rows, graph.tensors[tensor].row_bytes) for tensor, rows in _rolling(lives, rolling).items()}
    buffers = tuple(_buffer(graph, lives, group, *places[group[0]]) for group in _groups(graph, lives, places))
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


def _rolling(lives: Mapping[int, LiveRows], rolling: Mapping[int, int]) -> dict[int, int | None]:
    """Rows of the rolling buffers; None for tensors whose highest row that is ever made fits without rolling over."""
    return {tensor: rows if (rows := rolling.get(tensor)) and rows < int(life.high.max()) else None for tensor, life in lives.items()}


def _groups(graph: RowGraph, lives: Mapping[int, LiveRows], places: Mapping[int, _Place]) -> list[list[int]]:
    """Tensors by the buffer that they share, in order of birth: those of one place that are handed on from operand to output."""
    heirs = {part.outputs[0]: part.in_place for part in graph.parts if part.in_place is not None}
    group_of: dict[int, list[int]] = {}
    for tensor in sorted(lives, key=lambda t: (lives[t].start, t)):
        group = group_of.get(heirs.get(tensor, -1), [])
        if group and places[group[-1]] == places[tensor]:
            group.append(tensor)
            group_of[tensor] = group
        else:
            group_of[tensor] = [tensor]
    return [group for tensor, group in group_of.items() if group[0] == tensor]


def _buffer(graph: RowGraph, lives: Mapping[int, LiveRows], group: Sequence[int], address: int, rows: int | None, row_bytes: int) -> Buffer:
    size = (rows or max(int(lives[tensor].high.max()) for tensor in group)) * row_bytes
    start, end = min(lives[tensor].start for tensor in group), max(lives[tensor].end for tensor in group)
    return Buffer(tuple(graph.tensors[tensor].name for tensor in group), address, size, start, end, rows)
