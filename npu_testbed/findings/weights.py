"""Weights that a layer waits for: read in place, or copied into SRAM ahead. The finding is the way that the schedule does not take.

Each way is tried in a replay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.job.staging import weight_ranges
from npu_model.memory.outer_arena import ARENA, CONSTANTS
from npu_model.program import ByteRange, DmaOperation, KernelOperation, Program
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up
from npu_testbed.findings.edits import cycles_with, with_transfers, without_transfer
from npu_testbed.findings.finding import LEAST, Finding, count, part, percent
from npu_testbed.replays.layer_names import short_layers
from npu_testbed.replays.simulation import Simulation
from sim import Cause, Replay, Unit
from sim.views.layers import layer_cycles

AHEAD = (1, 2, 4)
"""Leads, in kernels, that are tried for a copy before its layer."""


class WaitingLayer(Struct, frozen=True):
    """A layer that waits for its weights: its kernels by index, its waiting cycles and its cycles."""

    name: str
    replay: Replay
    kernels: tuple[int, ...]
    waits: int
    cycles: int

    @property
    def program(self) -> Program:
        """The Program of the layer."""
        return self.replay.program


def waiting(replay: Replay) -> Iterator[WaitingLayer]:
    """The layers of a Program with weights, with the time that their MAC array waits for weights or their kernel waits for the copy."""
    kernels: dict[str, list[int]] = {}
    waits: Counter[str] = Counter()
    for one in replay.operations:
        if isinstance(one.op, KernelOperation) and one.op.weights:
            kernels.setdefault(one.name or f"#{one.index}", []).append(one.index)
            waits[one.name or f"#{one.index}"] += one.waits.get((Unit.MAC, Cause.WEIGHTS), 0) + one.waits.get((Unit.CC, Cause.DMA_WAIT), 0)
    cycles = layer_cycles(replay)
    for name, indices in kernels.items():
        yield WaitingLayer(name, replay, tuple(indices), waits[name], sum(cycles.get(index, 0) for index in indices))


def _kernel(program: Program, index: int) -> KernelOperation:
    op = program.operations[index]
    assert isinstance(op, KernelOperation)  # noqa: S101  # the index of a kernel
    return op


def copies_of(program: Program, layer: WaitingLayer) -> dict[int, DmaOperation] | None:
    """The transfers that bring the layer's weights. Empty if the layer reads constants; None if transfers are shared or not found."""
    found: dict[int, DmaOperation] = {}
    newest: dict[int, DmaOperation] = {}
    others: set[int] = set()
    for index, op in enumerate(program.operations):
        if isinstance(op, DmaOperation) and not op.to_shram and op.source.region == CONSTANTS:
            newest[index] = op
        elif isinstance(op, KernelOperation):
            for where in (*op.weights, *op.scales):
                at = max((i for i, copy in newest.items() if _holds(copy, where)), default=None)
                if index in layer.kernels and where.region != CONSTANTS and at is None:
                    return None
                if at is not None and index in layer.kernels:
                    found[at] = newest[at]
                elif at is not None:
                    others.add(at)
    return None if others & found.keys() else found


def _holds(copy: DmaOperation, where: ByteRange) -> bool:
    return copy.destination_region == where.region and copy.destination <= where.start and where.end <= copy.destination + copy.length


def _direct(layer: WaitingLayer, copies: dict[int, DmaOperation]) -> Program:
    """The Program with the layer's weights read from the constants. Its kernels keep their order, but not their indices."""
    program = layer.program

    def moved(where: ByteRange, before: int) -> ByteRange:
        at = max((i for i, copy in copies.items() if i < before and _holds(copy, where)), default=None)
        if at is None:
            return where
        shift = copies[at].source.start - copies[at].destination
        return ByteRange(copies[at].source.region, where.start + shift, where.end + shift)

    operations = list(program.operations)
    for index in layer.kernels:
        op = _kernel(program, index)
        weights, scales = (tuple(moved(where, index) for where in ranges) for ranges in (op.weights, op.scales))
        operations[index] = replace(op, weights=weights, scales=scales)
    edited = replace(program, operations=tuple(operations))
    for index in sorted(copies, reverse=True):
        edited = without_transfer(edited, index)
    return edited


def staged(program: Program, kernels: Sequence[int], ahead: int, name: str) -> Program | None:
    """Return the Program with the constants of these kernels copied to the end of the arena, ``ahead`` kernels before.

    None if fewer kernels come before.
    """
    address = round_up(max(region.size for region in program.regions if region.index == ARENA), ALIGNMENT)
    places: list[tuple[ByteRange, int]] = []
    transfers = []
    for span in _spans(program, kernels):
        transfers.append(DmaOperation(span, address, ARENA))
        places.append((span, address - span.start))
        address += span.length

    def moved(where: ByteRange) -> ByteRange:
        shift = next(shift for span, shift in places if span.start <= where.start and where.end <= span.end)
        return ByteRange(ARENA, where.start + shift, where.end + shift)

    operations = list(program.operations)
    for index in kernels:
        op = _kernel(program, index)
        operations[index] = replace(op, weights=tuple(map(moved, op.weights)), scales=tuple(map(moved, op.scales)))
    before = [index for index, op in enumerate(operations[: kernels[0]]) if isinstance(op, KernelOperation)]
    if len(before) < ahead:
        return None
    regions = tuple(replace(r, size=address) if r.index == ARENA else r for r in program.regions)
    edited = replace(program, operations=tuple(operations), regions=regions)
    return with_transfers(edited, transfers, before[-ahead], kernels[0], name)


def _all(ranges: Iterable[tuple[ByteRange, ...]]) -> tuple[ByteRange, ...]:
    return tuple(dict.fromkeys(where for each in ranges for where in each))


class Trial(Struct, frozen=True):
    """Another way to read a layer's weights, with the network's cycles and a description.

    ``copied`` bytes go into SRAM in addition to the plan's. ``ahead`` is the lead of the copy in kernels, 0 if the layer has such a copy
    already.
    """

    cycles: int
    words: str
    changed: str
    ahead: int = 0
    copied: int = 0


def trials(simulation: Simulation, layer: WaitingLayer, copies: dict[int, DmaOperation]) -> Iterator[Trial]:
    """Yield each way that the NPU accepts; ``copies`` are those of :func:`copies_of`."""
    direct = _direct(layer, copies)
    port = simulation.system.port_of(CONSTANTS)
    if copies:
        yield Trial(
            cycles_with(simulation, layer.program, direct),
            f"reading them through AXI{port} as the kernel runs, without a copy,",
            "weights read from the constants",
        )
    shift = [sum(copy < index for copy in copies) for index in layer.kernels]
    kernels = [index - less for index, less in zip(layer.kernels, shift, strict=True)]
    size = sum(span.length for span in _spans(direct, kernels))
    for ahead in AHEAD:
        edited = staged(direct, kernels, ahead, layer.name)
        if edited is not None:
            kernels_ahead = count(ahead, "kernel")
            words = f"copying the {size:,} bytes into SRAM of their own {kernels_ahead} ahead"
            cycles, changed = cycles_with(simulation, layer.program, edited), f"weights copied {kernels_ahead} ahead"
            yield Trial(cycles, words, changed, 0 if copies else ahead, size)


def _spans(program: Program, kernels: Sequence[int]) -> tuple[ByteRange, ...]:
    every = [_kernel(program, index) for index in kernels]
    return weight_ranges(replace(every[0], weights=_all(op.weights for op in every), scales=_all(op.scales for op in every)))


KIND = "weights"

LAYERS = 4
"""Number of layers whose weights are tried the other way: those that wait longest."""


def weights(simulation: Simulation) -> Iterator[Finding]:
    """Yield the savings of the layers that wait longest, if their weights are read the other way, with replays of each.

    Layers that gain from the same change, a copy ahead instead of reading in place, are one finding with one replay.
    """
    network = simulation.replay
    if simulation.fast_scratch or simulation.system.port_of(CONSTANTS) == simulation.system.port_of(ARENA):
        return
    layers = [layer for replay in network.replays for layer in waiting(replay)]
    gains: list[tuple[WaitingLayer, Trial]] = []
    for layer in sorted(layers, key=lambda layer: -layer.waits)[:LAYERS]:
        copies = copies_of(layer.program, layer) if layer.waits >= LEAST * network.cycles else None
        if copies is None:
            continue
        best = min(trials(simulation, layer, copies), key=lambda trial: trial.cycles, default=None)
        if best is not None and best.cycles < network.cycles:
            gains.append((layer, best))
    for program in dict.fromkeys(id(layer.program) for layer, _ in gains):
        own = [(layer, trial) for layer, trial in gains if id(layer.program) == program]
        joined = _joined(simulation, own)
        yield from [joined] if joined else []
        yield from (
            _finding(simulation, layer, trial) for layer, trial in own if joined is None or not _is_worth_joining(simulation, trial)
        )


def _title(simulation: Simulation, layer: WaitingLayer) -> str:
    """The layer's name as the tables have it."""
    return short_layers(simulation.replay).get(layer.name, layer.name)


def _waited(layer: WaitingLayer) -> float:
    """The share of a layer's time that it waits for its weights."""
    return min(1.0, part(layer.waits, layer.cycles))


def _finding(simulation: Simulation, layer: WaitingLayer, trial: Trial) -> Finding:
    saved = simulation.replay.cycles - trial.cycles
    share = part(saved, simulation.replay.cycles)
    waits = f"{_title(simulation, layer)} waits for its weights {percent(_waited(layer))} of its time"
    text = f"{waits}: {trial.words} saves {saved:,} cycles ({percent(share)})."
    return Finding(KIND, text, f"{_title(simulation, layer)}: {trial.changed}", saved, 0, simulation.planned_bytes + trial.copied, share)


def _is_worth_joining(simulation: Simulation, trial: Trial) -> bool:
    return bool(trial.ahead) and simulation.replay.cycles - trial.cycles >= LEAST * simulation.replay.cycles


def _joined(simulation: Simulation, gains: Sequence[tuple[WaitingLayer, Trial]]) -> Finding | None:
    """One finding for two or more layers of a Program that gain by a copy ahead; None unless they save more together than each alone."""
    worth = [(layer, trial) for layer, trial in gains if _is_worth_joining(simulation, trial)]
    chosen = sorted(worth, key=lambda gain: gain[0].kernels)
    if len(chosen) < 2 or not all(one.replay.program.name(index) for one, _ in chosen for index in one.kernels):
        return None
    program = chosen[0][0].program
    edited: Program | None = program
    for layer, trial in chosen:
        found = () if edited is None else _kernels_of(edited, layer.name)
        edited = staged(edited, found, trial.ahead, layer.name) if edited is not None and found else None
    if edited is None:
        return None
    cycles = cycles_with(simulation, program, edited)
    if cycles >= min(trial.cycles for _, trial in chosen):
        return None
    saved = simulation.replay.cycles - cycles
    share, size = part(saved, simulation.replay.cycles), sum(trial.copied for _, trial in chosen)
    *names, last = (_title(simulation, layer) for layer, _ in chosen)
    waited = " to ".join(dict.fromkeys(percent(share) for share in sorted(_waited(layer) for layer, _ in chosen)[:: len(chosen) - 1]))
    text = (
        f"{', '.join(names)} and {last} wait for their weights {waited} of their time: copying all "
        f"{size:,} bytes into SRAM of their own ahead saves {saved:,} cycles ({percent(share)})."
    )
    changed = "; ".join(f"{_title(simulation, layer)}: {trial.changed}" for layer, trial in chosen)
    return Finding(KIND, text, changed, saved, 0, simulation.planned_bytes + size, share)


def _kernels_of(program: Program, name: str) -> tuple[int, ...]:
    """The kernels of a layer that have weights, by index."""
    every = enumerate(program.operations)
    return tuple(index for index, op in every if isinstance(op, KernelOperation) and op.weights and program.name(index) == name)
