"""A map of the arena while compiled Programs run: areas of addresses over cycles, from the writes and reads of each operation.

For our schedules, :mod:`npu_testbed.views.arena_map` knows the tensors. Vela's files hold only operations. An area here is the output of
one operation, for as long as a later operation reads it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from npu_model.compiled.network import CpuOperator
from npu_model.memory.outer_arena import ARENA, FAST_SCRATCH
from npu_model.program import Binding, ByteRange, DmaOperation
from npu_testbed.replays.simulation import Simulation
from npu_testbed.views.arena_map import Area, AreaKind, ArenaMap, Slab
from sim import Replay


class _Step(Struct, frozen=True):
    """A step that reads and writes addresses: an operation, or the host before, between and after the Programs."""

    name: str
    kind: AreaKind
    start: int
    end: int
    reads: tuple[ByteRange, ...] = ()
    writes: tuple[ByteRange, ...] = ()


class _Life(Struct, frozen=True):
    """Bytes ``low`` to ``high`` from their write by a step to the end of the last one that reads them."""

    writer: _Step
    kind: AreaKind
    end: int
    low: int
    high: int


def _operations(replay: Replay, now: int) -> Iterator[_Step]:
    """The operations with their times. Kernels overlap, but their ends do not; transfers run in parallel."""
    done = now
    for one in replay.operations:
        moved, end = isinstance(one.op, DmaOperation), now + one.finished
        kind, start = (AreaKind.STAGED, now + one.issued) if moved else (AreaKind.TENSOR, done)
        yield _Step(one.name, kind, start, end, one.op.reads(), one.op.writes())
        done = done if moved else end


def _written(kind: AreaKind, now: int, bindings: Iterable[Binding]) -> list[_Step]:
    return [_Step(binding.name, kind, now, now, writes=(binding.byte_range,)) for binding in bindings]


def _steps(simulation: Simulation) -> list[_Step]:
    """All steps in order: inputs first, CPU operators in no time, outputs last."""
    network, now = simulation.network, 0
    steps = _written(AreaKind.INPUT, now, network.inputs) + _written(AreaKind.TENSOR, now, network.variables)
    replays = iter(simulation.replay.replays)
    for step in network.steps:
        if isinstance(step, CpuOperator):
            steps.append(_Step(step.code, AreaKind.TENSOR, now, now, reads=tuple(binding.byte_range for binding in step.inputs)))
            steps += _written(AreaKind.TENSOR, now, step.outputs)
        else:
            one = next(replays)
            steps += _operations(one, now)
            now += one.cycles
    kept = tuple(binding.byte_range for binding in network.variables)
    outputs = tuple(binding.byte_range for binding in network.outputs)
    return [*steps, _Step("", AreaKind.TENSOR, now, now, kept), _Step("", AreaKind.OUTPUT, now, now, outputs)]


def _inside(step: _Step, regions: frozenset[int]) -> _Step:
    """A step, restricted to the drawn regions."""
    reads, writes = (tuple(r for r in ranges if r.region in regions and r.length > 0) for ranges in (step.reads, step.writes))
    return replace(step, reads=reads, writes=writes)


def _lives(steps: Sequence[_Step]) -> Iterator[_Life]:
    """The lives of the pieces into which the edges of all accesses cut the arena."""
    cuts = sorted({edge for step in steps for r in (*step.reads, *step.writes) for edge in (r.start, r.end)})
    alive: dict[int, _Life] = {}
    for step in steps:
        for access in step.reads:
            for piece in range(bisect_left(cuts, access.start), bisect_left(cuts, access.end)):
                if piece in alive:
                    life = alive[piece]
                    kind = AreaKind.OUTPUT if step.kind is AreaKind.OUTPUT and life.kind is AreaKind.TENSOR else life.kind
                    alive[piece] = replace(life, kind=kind, end=max(life.end, step.end))
        for access in step.writes:
            for piece in range(bisect_left(cuts, access.start), bisect_left(cuts, access.end)):
                if piece in alive:
                    # An operation may write over its own input.
                    yield replace(alive[piece], end=min(alive[piece].end, step.start))
                alive[piece] = _Life(step, step.kind, step.end, cuts[piece], cuts[piece + 1])
    yield from alive.values()


def _areas(lives: Iterable[_Life]) -> Iterator[Area]:
    """Areas of neighbouring lives that begin and end together."""
    joined: list[_Life] = []
    for life in sorted(lives, key=lambda life: (life.writer.start, life.end, life.low)):
        last = joined[-1] if joined else None
        if last and (last.writer, last.kind, last.end, last.high) == (life.writer, life.kind, life.end, life.low):
            joined[-1] = replace(last, high=life.high)
        else:
            joined.append(life)
    for life in joined:
        if life.end > life.writer.start:
            yield Area(life.writer.name, life.kind, (Slab(life.writer.start, life.end, life.low, life.high),))


def program_map(simulation: Simulation) -> ArenaMap:
    """The areas of a replayed network; for a network with a fast scratch (memory mode Dedicated_Sram), the areas of the fast scratch."""
    regions = frozenset((FAST_SCRATCH,) if simulation.fast_scratch else (ARENA, FAST_SCRATCH))
    areas = tuple(_areas(_lives([_inside(step, regions) for step in _steps(simulation)])))
    return ArenaMap(
        model=simulation.model,
        accelerator=simulation.device.name,
        cycles=simulation.replay.cycles,
        arena_size=max(simulation.planned_bytes, simulation.replay.footprint.peak),
        areas=areas,
    )
