"""A map of the arena during a schedule: areas of addresses over cycles, from its rows and its replay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import places_of
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.job.staging import staged_bytes, weight_ranges
from cascader.ethosu.job.stripes import BufferPlace, stripe
from cascader.ethosu.job.transfers import transfers
from cascader.ethosu.network.network import ethosu_part
from cascader.ethosu.network.rows import row_graph
from cascader.graph.cascader_graph import TensorKind
from cascader.graph.row_graph import RowGraph
from cascader.plan.buffers import joint_rows, rolled
from cascader.plan.depth_first import StripeJob
from cascader.plan.jobs import Job
from cascader.plan.liveness import LiveRows, live_rows
from npu_model.program import KernelOperation
from sim import NetworkReplay, OperationReplay
from sim.views.trace_memory import TraceBuffer


class AreaKind(Enum):
    """Kinds of areas by content, which decide how an area is drawn."""

    INPUT = "input of the network"
    OUTPUT = "output of the network"
    TENSOR = "tensor between layers, rows that are alive"
    ROLLING = "rolling buffer"
    STAGED = "staged weights"


class Slab(Struct, frozen=True):
    """Bytes ``low`` to ``high`` (exclusive) from cycle ``start`` to ``end``."""

    start: int
    end: int
    low: int
    high: int


class Area(Struct, frozen=True):
    """One tensor or one copy of weights: slabs in order of time, without empty slabs."""

    name: str
    kind: AreaKind
    slabs: tuple[Slab, ...]


class ArenaMap(Struct, frozen=True):
    """All areas of a schedule of ``cycles`` in an arena of ``arena_size`` bytes."""

    model: str
    accelerator: str
    cycles: int
    arena_size: int
    areas: tuple[Area, ...]


def trace_buffers(arena: ArenaMap) -> tuple[TraceBuffer, ...]:
    """The areas as tracks of a trace, in the order in which they begin: each from its first slab to its last."""
    found = [
        TraceBuffer(
            area.name,
            area.kind.value,
            min(slab.start for slab in area.slabs),
            max(slab.end for slab in area.slabs),
            min(slab.low for slab in area.slabs),
            max(slab.high for slab in area.slabs),
        )
        for area in arena.areas
        if area.slabs
    ]
    return tuple(sorted(found, key=lambda buffer: (buffer.start, buffer.low)))


class _Clock(Struct, frozen=True):
    """Cycles at which each step begins (with a last entry for the end), and at which each copy is issued."""

    steps: tuple[int, ...]
    copies: tuple[int, ...]


def _clock(schedule: Schedule, replay: NetworkReplay) -> _Clock:
    """Step i lasts from the end of job i - 1 to the end of job i: kernels overlap, their ends do not.

    A job that runs as DMA transfers ends with its last transfer. Kernels after it may end earlier; these have no step.
    """
    left, now = list[tuple[int, OperationReplay]](), 0
    for program in replay.replays:
        left += [(now, one) for one in program.operations if isinstance(one.op, KernelOperation) or not one.op.to_shram]
        now += program.cycles
    operations, places, steps, copies = iter(left), places_of(schedule), [0], list[int]()
    for step, job in enumerate(schedule.jobs):
        for copy in (copy for copy in schedule.copies if copy.step == step):
            # A copy of several ranges is several transfers; the first transfer counts.
            begun, *_ = [origin + one.issued for origin, one in islice(operations, len(weight_ranges(_operation(schedule, copy.part))))]
            copies.append(begun)
        ends = [origin + one.finished for origin, one in islice(operations, _operations(schedule, job, places))]
        steps.append(max(steps[-1], *ends, 0))
    steps[-1] = now
    return _Clock(tuple(steps), tuple(copies))


def _operations(schedule: Schedule, job: Job, places: Mapping[str, BufferPlace]) -> int:
    """The operations of a job in its Program: one kernel or some transfers, or none for a job on the CPU."""
    part = ethosu_part(schedule.network.graph.parts[schedule.network.graph.index(job.part)])
    if part is None:
        return 0
    start, end = job.rows or (0, part.axis.extent(part.operation.ofm.shape))
    return len(transfers(stripe(part, start, end, places))) or 1 if part.transfer else 1


def _operation(schedule: Schedule, name: str) -> KernelOperation:
    """The kernel of a part whose weights are copied."""
    part = ethosu_part(schedule.network.graph.parts[schedule.network.graph.index(name)])
    assert part is not None  # noqa: S101  # a checked schedule copies weights of NPU parts only
    return part.operation


def _joined(slabs: Iterable[Slab]) -> tuple[Slab, ...]:
    """The slabs that hold bytes for some time; consecutive equal slabs are joined."""
    result: list[Slab] = []
    for slab in slabs:
        if slab.low >= slab.high or slab.start >= slab.end:
            continue
        if result and (result[-1].end, result[-1].low, result[-1].high) == (slab.start, slab.low, slab.high):
            result[-1] = replace(result[-1], end=slab.end)
        else:
            result.append(slab)
    return tuple(result)


_KINDS = {TensorKind.INPUT: AreaKind.INPUT, TensorKind.OUTPUT: AreaKind.OUTPUT}


def _places(life: LiveRows, joint: LiveRows, rows: int) -> LiveRows:
    """Places of a rolling buffer of ``rows`` that all of its tensors (``joint``) use while rows of one tensor are live."""
    first, last = rolled(joint.low, joint.high, rows)
    span = slice(life.start - joint.start, life.end - joint.start)
    alive = life.high > life.low
    return LiveRows(life.start, first[span] * alive, last[span] * alive)


def _tensor_areas(schedule: Schedule, graph: RowGraph, lives: Mapping[int, LiveRows], steps: Sequence[int]) -> Iterator[Area]:
    """Every tensor's live rows at their addresses, in the order of the graph.

    For a rolling buffer, everything that is in use while any row is live.
    """
    numbers = {tensor.name: number for number, tensor in enumerate(graph.tensors)}
    buffers = {name: buffer for buffer in schedule.buffers for name in buffer.tensors}
    for tensor, life in lives.items():
        facts = graph.tensors[tensor]
        if not facts.row_bytes:
            continue  # its home is not the arena
        buffer = buffers[facts.name]
        kind, places = _KINDS.get(facts.kind, AreaKind.TENSOR), life
        if buffer.rows is not None and buffer.rows < facts.rows:
            family = [numbers[name] for name in buffer.tensors if numbers[name] in lives]
            kind, places = AreaKind.ROLLING, _places(life, joint_rows(lives, family), buffer.rows)
        rows = zip(places.low.tolist(), places.high.tolist(), strict=True)
        base, size = buffer.address, facts.row_bytes
        slabs = [Slab(steps[at], steps[at + 1], base + low * size, base + high * size) for at, (low, high) in enumerate(rows, life.start)]
        yield Area(facts.name, kind, _joined(slabs))


def _copy_area(schedule: Schedule, index: int, clock: _Clock) -> Area:
    """A copy, from its issue to the end of the last job that reads it."""
    copy = schedule.copies[index]
    later = next((other.step for other in schedule.copies[index + 1 :] if other.part == copy.part), len(schedule.jobs))
    last = max(step for step in range(copy.step, later) if schedule.jobs[step].part in copy.readers)
    size = staged_bytes(_operation(schedule, copy.part))
    slab = Slab(clock.copies[index], clock.steps[last + 1], copy.address, copy.address + size)
    return Area(copy.part, AreaKind.STAGED, _joined([slab]))


def arena_map(schedule: Schedule, replay: NetworkReplay) -> ArenaMap:
    """The areas of a schedule at the times of its replay, tensors in the order of the graph and then copies."""
    network, clock = schedule.network, _clock(schedule, replay)
    graph = row_graph(network)
    parts = {part.name: index for index, part in enumerate(network.graph.parts)}
    jobs = [StripeJob(parts[job.part], *(job.rows or (0, graph.parts[parts[job.part]].rows))) for job in schedule.jobs]
    areas = list(_tensor_areas(schedule, graph, live_rows(graph, jobs), clock.steps))
    areas += [_copy_area(schedule, index, clock) for index in range(len(schedule.copies))]
    return ArenaMap(
        model=schedule.provenance.model,
        accelerator=schedule.accelerator,
        cycles=clock.steps[-1],
        arena_size=schedule.arena_size,
        areas=tuple(area for area in areas if area.slabs),
    )
