"""What lies in the arena while a schedule runs: areas of addresses over cycles, from its rows and its replay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from cascader.ethosu.network import CpuPart, ethosu_part
from cascader.ethosu.rows import row_graph
from cascader.ethosu.schedule import Schedule
from cascader.ethosu.staging import staged_bytes, weight_ranges
from cascader.graph import TensorKind
from cascader.liveness import LiveRows, live_rows
from cascader.pull import StripeJob
from cascader.row_graph import RowGraph, RowTensor
from cascader.schedule import Buffer
from cascader.storage import joint_rows, rolled
from npu_model.program import KernelOperation
from sim import NetworkReplay


class AreaKind(Enum):
    """What an area holds, and so how it is drawn."""

    INPUT = "input of the network"
    OUTPUT = "output of the network"
    TENSOR = "tensor between layers, rows that are alive"
    ROLLING = "rolling buffer"
    STAGED = "staged weights"


@dataclass(frozen=True, slots=True)
class Slab:
    """Bytes ``low`` to ``high`` (exclusive) from cycle ``start`` to ``end``."""

    start: int
    end: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Area:
    """One tensor or one copy of weights: slabs in order of time, without those that hold nothing."""

    name: str
    kind: AreaKind
    slabs: tuple[Slab, ...]


@dataclass(frozen=True, slots=True)
class ArenaMap:
    """All areas of a schedule of ``cycles`` in an arena of ``arena_size`` bytes."""

    model: str
    accelerator: str
    cycles: int
    arena_size: int
    areas: tuple[Area, ...]


@dataclass(frozen=True, slots=True)
class _Clock:
    """Cycles at which each step begins (with a last entry for the end), and at which each copy is issued."""

    steps: tuple[int, ...]
    copies: tuple[int, ...]


def _clock(schedule: Schedule, replay: NetworkReplay) -> _Clock:
    """Step i lasts from the end of kernel i - 1 to the end of kernel i: kernels overlap, their ends do not."""
    finished: list[int] = []
    issued: list[int] = []
    now = 0
    for program in replay.replays:
        for operation in program.operations:
            if isinstance(operation.op, KernelOperation):
                finished.append(now + operation.finished)
            elif not operation.op.to_shram:
                issued.append(now + operation.issued)
        now += program.cycles
    on_cpu = {part.name for part in schedule.network.graph.parts if isinstance(part.payload, CpuPart)}
    steps, ends = [0], iter(finished)
    for job in schedule.jobs:
        steps.append(steps[-1] if job.part in on_cpu else max(steps[-1], next(ends)))
    steps[-1] = now
    return _Clock(tuple(steps), _copy_times(schedule, issued))


def _operation(schedule: Schedule, name: str) -> KernelOperation:
    """The kernel of a part whose weights are copied."""
    part = ethosu_part(schedule.network.graph.parts[schedule.network.graph.index(name)])
    assert part is not None  # noqa: S101  # a checked schedule copies weights of NPU parts only
    return part.operation


def _copy_times(schedule: Schedule, issued: Sequence[int]) -> tuple[int, ...]:
    """When each copy begins: one of several ranges is as many transfers, of which the first counts."""
    times, position = [], 0
    for copy in schedule.copies:
        times.append(issued[position])
        position += len(weight_ranges(_operation(schedule, copy.part)))
    return tuple(times)


def _joined(slabs: Iterable[Slab]) -> tuple[Slab, ...]:
    """The slabs that hold bytes for some time, those that go on unchanged as one."""
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


def _places(buffer: Buffer, lives: Mapping[int, LiveRows], family: Sequence[int], facts: RowTensor) -> LiveRows:
    """The places of a buffer that its tensors use at every step: their live rows, in a rolling buffer those that they go round in."""
    joint = joint_rows(lives, family)
    if buffer.rows is None or buffer.rows >= facts.rows:
        return joint
    return LiveRows(joint.start, *rolled(joint.low, joint.high, buffer.rows))


def _tensor_area(facts: RowTensor, life: LiveRows, buffer: Buffer, places: LiveRows, steps: Sequence[int]) -> Area:
    """A tensor's live rows where they lie; of a rolling buffer all that is in use while any row is live."""
    rolls = buffer.rows is not None and buffer.rows < facts.rows
    slabs = []
    rows = zip(life.low.tolist(), life.high.tolist(), strict=True)
    for step, (low, high) in enumerate(rows, life.start):
        first, last = low, high
        if rolls and high > low:
            first, last = int(places.low[step - places.start]), int(places.high[step - places.start])
        base, size = buffer.address, facts.row_bytes
        slabs.append(Slab(steps[step], steps[step + 1], base + first * size, base + last * size))
    kind = AreaKind.ROLLING if rolls else _KINDS.get(facts.kind, AreaKind.TENSOR)
    return Area(facts.name, kind, _joined(slabs))


def _tensor_areas(schedule: Schedule, graph: RowGraph, lives: Mapping[int, LiveRows], steps: Sequence[int]) -> Iterator[Area]:
    """The areas of all tensors, in the order of the graph."""
    numbers = {tensor.name: number for number, tensor in enumerate(graph.tensors)}
    buffers = {name: buffer for buffer in schedule.buffers for name in buffer.tensors}
    for tensor, life in lives.items():
        facts = graph.tensors[tensor]
        buffer = buffers[facts.name]
        family = [numbers[name] for name in buffer.tensors if numbers[name] in lives]
        yield _tensor_area(facts, life, buffer, _places(buffer, lives, family, facts), steps)


def _copy_area(schedule: Schedule, index: int, clock: _Clock) -> Area:
    """A copy, from its issue to the end of the last job that reads it."""
    copy = schedule.copies[index]
    later = next((other.step for other in schedule.copies[index + 1 :] if other.part == copy.part), len(schedule.jobs))
    last = max(step for step in range(copy.step, later) if schedule.jobs[step].part == copy.part)
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
