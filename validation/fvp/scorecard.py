"""The scorecard against the Corstone FVPs: measured command streams replayed, counter by counter.

It shows agreement with Arm's simulator, which is itself an approximation, not with silicon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import astuple, replace

from npu_model.accelerator import Accelerator, accelerator
from npu_model.cost.deep_jobs import TimedProgram
from npu_model.memory.ports import measured_with, through_ports
from npu_model.memory.system import MemorySystem
from npu_model.memory.timing_adapter import TimingProfile, profile
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from sim import quick_replay, replay
from sim.events import Unit
from sim.replay import Beats
from validation.fvp.bars import Scorecard
from validation.fvp.references.records import (
    ReferencePoint,
    SingleOperator,
    Sweep,
    WholeRun,
    measured_parts,
    measured_program,
    measured_work,
    old_points,
    points,
    single_operators,
    sweeps,
    u65_points,
    u85_points,
    whole_runs,
)
from validation.fvp.scores import (
    CLAIM,
    SHARES,
    BeatScore,
    OperatorScore,
    PointScore,
    SweepScore,
    WholeRunScore,
)
from validation.fvp.single import single_program

ADAPTERS_ON, ADAPTERS_OFF = "u55_high_end", "off"
"""The timing-adapter profiles of the Ethos-U55's measurements."""

_OFF = {"u55": ADAPTERS_OFF, "u65": "u65_off"}
"""The profile of each family's measurements with the adapters off."""

Progress = Callable[[int, int], None]
"""Told how many replays are done and how many there are."""


def _beats(beats: Beats, point: ReferencePoint | WholeRun) -> tuple[BeatScore, ...]:
    if point.beats is None:
        return ()
    ports = ("AXI0_RD", "AXI0_WR", "AXI1_RD") if point.beats.axi1_write is None else ("SRAM_RD", "SRAM_WR", "EXT_RD", "EXT_WR")
    return tuple(BeatScore(port, ours, fvp) for port, ours, fvp in zip(ports, astuple(beats), astuple(point.beats), strict=False))


def _profile(device: str, *, adapters: bool) -> TimingProfile:
    """The timing-adapter profile of a measurement."""
    return profile(measured_with(device) if adapters else _OFF[accelerator(device).family])


def _adapters(point: ReferencePoint, device: Accelerator | None = None) -> MemorySystem:
    """The memory system of a measurement, on the ports of its accelerator or of a changed ``device``."""
    system = _profile(point.accelerator, adapters=point.adapters).memory_system()
    return through_ports(device or accelerator(point.accelerator), system)


def score_point(
    point: ReferencePoint,
    timing: TimingParameters = DEFAULT_TIMING,
    device: Accelerator | None = None,
    timed: TimedProgram | None = None,
) -> PointScore:
    """Replay one measured inference with the adapters as they were, on a changed ``device`` if one is given.

    ``timed`` has the jobs of the program's chains on that device, if they are known.
    """
    names = point.network, point.accelerator
    run = quick_replay(measured_program(*names), _adapters(point, device), timing, measured_work(*names), device, timed)
    return PointScore(point, run.cycles, _beats(run.beats, point))


def score_parts(point: ReferencePoint, timing: TimingParameters = DEFAULT_TIMING) -> PointScore:
    """Like :func:`score_point` for a network that operators on the CPU part into several Programs."""
    parts = measured_parts(point.network, point.accelerator)
    runs = [quick_replay(program, _adapters(point), timing, work) for program, work in parts]
    moved = sum((run.beats for run in runs), Beats())
    return PointScore(point, sum(run.cycles for run in runs), _beats(moved, point))


def score_whole_run(whole: WholeRun, timing: TimingParameters = DEFAULT_TIMING) -> WholeRunScore:
    """Replay one run of small kernels or of a cascade, adapters on, by the fast recurrence."""
    names = whole.stream, whole.accelerator
    run = quick_replay(measured_program(*names), profile(ADAPTERS_ON).memory_system(), timing, measured_work(*names))
    return WholeRunScore(whole, run.cycles, _beats(run.beats, whole))


def sweep_system(sweep: Sweep) -> MemorySystem:
    """The memory system of the adapters with the sweep's settings."""
    base = _profile(sweep.accelerator, adapters=True)
    sram = replace(base.sram, bwcap=sweep.sram_cap)
    ext = replace(base.ext, rlatency=sweep.ext_latency, bwcap=sweep.ext_cap)
    return replace(base, sram=sram, ext=ext).memory_system()


def score_sweep(sweep: Sweep, timing: TimingParameters = DEFAULT_TIMING) -> SweepScore:
    """Replay one inference under the sweep's settings."""
    names = sweep.network, sweep.accelerator
    return SweepScore(sweep, quick_replay(measured_program(*names), sweep_system(sweep), timing, measured_work(*names)).cycles)


def score_operator(single: SingleOperator, timing: TimingParameters = DEFAULT_TIMING) -> OperatorScore:
    """Replay one operator alone, with the assumptions of :mod:`validation.fvp.single`."""
    run = replay(single_program(single), profile(ADAPTERS_OFF).memory_system(), timing=timing)
    return OperatorScore(single, run.cycles, run.busy[Unit.MAC])


def _silent(_done: int, _total: int) -> None:
    """The progress of a caller who does not ask."""


def scorecard(progress: Progress = _silent, timing: TimingParameters = DEFAULT_TIMING) -> Scorecard:
    """Replay everything that the references hold with these timing parameters; a few seconds on one core."""
    total = sum(len(records()) for records in (points, whole_runs, u65_points, u85_points, old_points, sweeps, single_operators))
    done = 0

    def count(scores: Iterable[Any]) -> tuple[Any, ...]:
        nonlocal done
        rows = []
        for score in scores:
            rows.append(score)
            done += 1
            progress(done, total)
        return tuple(rows)

    return Scorecard(
        points=count(score_point(point, timing) for point in points()),
        whole_runs=count(score_whole_run(run, timing) for run in whole_runs()),
        u65=count(score_point(point, timing) for point in u65_points()),
        u85=count(score_point(point, timing) for point in u85_points()),
        old=count(score_parts(point, timing) for point in old_points()),
        sweeps=count(score_sweep(sweep, timing) for sweep in sweeps()),
        operators=count(score_operator(single, timing) for single in single_operators()),
    )


def _beats_json(beats: Iterable[BeatScore]) -> dict[str, Any]:
    return {b.port: {"ours": b.ours, "fvp": b.fvp, "error": b.error} for b in beats}


def _scored(record: Struct, score: Struct, *figures: str) -> dict[str, Any]:
    """A published record with figures of its score, and its beats if the score has any field of them."""
    plain: dict[str, Any] = to_builtins(record)
    beats = {"beats": _beats_json(score.beats)} if isinstance(score, (PointScore, WholeRunScore)) else {}
    return plain | {name: getattr(score, name) for name in figures} | beats


def _points_json(scores: Iterable[PointScore]) -> list[dict[str, Any]]:
    return [_scored(score.point, score, "cycles", "error", "vela_error") for score in scores]


def to_json(card: Scorecard) -> dict[str, Any]:
    """The scorecard as values that JSON can hold; errors are ratios."""
    return {
        "claim": CLAIM,
        "passed": card.passed,
        "bars": [to_builtins(bar) | {"passed": bar.passed, "verdict": bar.verdict} for bar in card.bars],
        "summaries": [to_builtins(s) | {"within": dict(zip(map(str, SHARES), s.within, strict=True))} for s in card.summaries],
        "points": _points_json(card.points),
        "whole_runs": [_scored(score.run, score, "active", "cycles", "error") for score in card.whole_runs],
        "u65": _points_json(card.u65),
        "u85": _points_json(card.u85),
        "old": _points_json(card.old),
        "sweeps": [_scored(s.sweep, s, "cycles", "error", "resolution") | {"cycles_on_grid": s.on_grid} for s in card.sweeps],
        "operators": [
            _scored(s.operator, s, "mac_cycles", "cycles", "error") | {"expected_cycles": s.operator.cycles} for s in card.operators
        ],
    }
