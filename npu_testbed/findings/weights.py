"""Weights that a layer waits for: read in place, or copied into SRAM ahead. The finding is the way that the schedule does not take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npu_model.memory.outer_arena import ARENA, CONSTANTS
from npu_model.program import KernelOperation, Program
from npu_testbed.findings.edits import cycles_with
from npu_testbed.findings.finding import LEAST, Finding, part, percent
from npu_testbed.findings.weight_trials import Trial, WaitingLayer, copies_of, staged, trials, waiting
from npu_testbed.replays.layer_names import short_layers
from npu_testbed.replays.simulation import Simulation

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
