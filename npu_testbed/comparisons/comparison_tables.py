"""A comparison with Vela as tables for a terminal and as JSON."""

from __future__ import annotations

from typing import Any

from npu_model.printable import printable
from npu_testbed.comparisons.answer import BestAnswer
from npu_testbed.comparisons.comparison import NOISE, Comparison, SweepRow, cycles_verdict
from npu_testbed.comparisons.vela_runs import VelaPoint
from npu_testbed.comparisons.verdicts import verdicts
from npu_testbed.energy.energy_text import caveat
from npu_testbed.frontiers import FrontierPoint
from npu_testbed.reports.ends import ends_json, ends_of, ends_text, io_bytes
from npu_testbed.reports.frontier import bounds_text, frontier_json
from npu_testbed.reports.macs import share_again
from npu_testbed.timing import timing_clause
from validation.fvp.undecided import NAMES, undecided
from validation.layout import filled, grid

CAVEAT = (
    f"Cycles that differ by less than {NOISE:.0%} are called even: our search picks by the simulator that judges it, Vela does not. "
    "Vela's arena cache size is a wish, and what overflows it is marked. Bytes are the arena to set aside, ours and Vela's: "
    "from its base to its end, tensors of CPU operators included, rounded up to 16."
)


def _table(headers: tuple[str, ...], rows: list[tuple[str, ...]], left: int = 1) -> str:
    return grid(headers, rows, [column < left for column in range(len(headers))])


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _answer_cells(answer: BestAnswer) -> tuple[str, ...]:
    ours = answer.ours
    if ours is None:
        return (answer.condition, "none", "none", "-", "-", "-", "-")
    assert answer.cycles_ratio is not None  # noqa: S101  # there is a point of ours
    return (
        answer.condition,
        f"{ours.memory:,}",
        f"{ours.cycles:,}",
        share_again(ours.macs, ours.macs_again),
        _ratio(answer.memory_ratio),
        _ratio(answer.cycles_ratio),
        cycles_verdict(answer.cycles_ratio),
    )


def _vela_cells(point: VelaPoint) -> tuple[str, ...]:
    return (f"{point.run.name}, {point.run.core} core", f"{point.memory:,}", f"{point.cycles:,}")


def _sweep_cells(row: SweepRow) -> tuple[str, ...]:
    vela, ours = row.vela, row.ours
    over = " overflows" if vela is not None and vela.overflows else ""
    return (
        f"{row.arena_cache_size:,}",
        "-" if vela is None else f"{vela.memory:,}{over}",
        "-" if vela is None else f"{vela.cycles:,}",
        "-" if ours is None else f"{ours.memory:,}",
        "-" if ours is None else f"{ours.cycles:,}",
        "-" if ours is None else share_again(ours.macs, ours.macs_again),
        _ratio(row.cycles_ratio),
        "-" if row.cycles_ratio is None else cycles_verdict(row.cycles_ratio),
    )


def comparison_text(comparison: Comparison) -> str:
    """Vela's points, our answers with their ratios to the better of its cores, and both at the same arena sizes."""
    frontier = comparison.frontier
    plain = [point for point in comparison.points if point.run.arena_cache_size is None]
    sections = [
        printable(f"{frontier.model} on {frontier.accelerator}, {frontier.memory_system}{timing_clause(frontier.timing)}", 400),
        _table(("Vela's schedules", "bytes", "cycles"), [_vela_cells(point) for point in plain]),
        _table(
            ("ours", "bytes", "cycles", "MACs again", "bytes / Vela's", "cycles / Vela's", "faster"),
            [_answer_cells(answer) for answer in comparison.answers],
        ),
        *_energy_sections(comparison),
        _table(
            ("arena cache size", "Vela: bytes", "cycles", "ours: bytes", "cycles", "MACs again", "ours / Vela", "faster"),
            [_sweep_cells(row) for row in comparison.sweep],
            left=0,
        ),
        *_robust_sections(comparison),
        "\n".join(map(filled, _notes(comparison))),
    ]
    return "\n\n".join(sections)


def _notes(comparison: Comparison) -> list[str]:
    bounds = bounds_text(comparison.frontier).splitlines()
    return [CAVEAT, ends_line(comparison), *convention(comparison), *bounds, *_failures(comparison)]


def convention(comparison: Comparison) -> list[str]:
    """A sentence on where Vela's inputs and outputs are, where ours has homes for some."""
    if not comparison.separate_io_regions:
        return []
    whole = io_bytes(ends_of(comparison.frontier)[0])
    said = (
        f"Vela's schedules are those of --separate-io-regions, which its C++ core alone has: its bytes count none of the {whole:,} "
        "of inputs and outputs, ours those that have no home."
    )
    return [said]


def ends_line(comparison: Comparison) -> str:
    """The bytes of inputs and outputs, and both ways to count ours, in a sentence."""
    network, system = ends_of(comparison.frontier)
    smallest = comparison.frontier.points[0].memory
    return f"Ends: {ends_text(network, system, smallest)}, at our smallest."


def _energy_sections(comparison: Comparison) -> list[str]:
    """The ratios of energies; nothing if they were not asked for."""
    if comparison.energy is None:
        return []
    rows: list[tuple[str, ...]] = [
        (answer.condition, _ratio(ratio)) for answer, ratio in zip(comparison.answers, comparison.energy.ratios, strict=True)
    ]
    table = _table((f"ours, energy by {printable(comparison.energy.table)}", "energy / Vela's"), rows)
    return [f"{table}\n{filled(caveat(comparison.energy.table))}"]


def _energy_json(comparison: Comparison) -> dict[str, Any]:
    """The same as values that JSON can hold."""
    if comparison.energy is None:
        return {}
    return {"energy": {"table": comparison.energy.table, "ratios": list(comparison.energy.ratios)}}


def _robust_sections(comparison: Comparison) -> list[str]:
    """The ranges and verdicts under other timings, with the changes that were tried; nothing if they were not asked for."""
    if comparison.robust is None:
        return []
    headers = ("ours under other timings", "cycles / Vela's", "least", "most", "needed", "verdict")
    rows = [
        (a.condition, "-", "-", "-", "-", "-")
        if r is None
        else (a.condition, _ratio(r.ratio), _ratio(r.low), _ratio(r.high), "-" if r.bound is None else f"{r.bound:g}", r.verdict)
        for a, r in zip(comparison.answers, comparison.robust, strict=True)
    ]
    changes = undecided()
    tried = (
        f"Both sides were replayed under {len(changes)} changes of the timing model that public data cannot exclude: "
        f"{'; '.join(NAMES)}; and {len(changes) - len(NAMES)} pairs of these."
    )
    return [grid(headers, rows, (True, False, False, False, False, True)), filled(tried)]


def _robust_json(comparison: Comparison) -> dict[str, Any]:
    """The same as values that JSON can hold."""
    if comparison.robust is None:
        return {}
    found = [
        None
        if one is None
        else {
            "ratio": one.ratio,
            "low": one.low,
            "high": one.high,
            "bound": one.bound,
            "depends_on": list(one.against),
            "holds_at": one.holds_at,
            "instead_of": None if one.instead_of is None else {"bytes": one.instead_of.memory, "cycles": one.instead_of.cycles},
        }
        for one in comparison.robust
    ]
    return {"robust": {"changes": [change.name for change in undecided()], "answers": found}}


def _failures(comparison: Comparison) -> list[str]:
    return [f"{failure.run.name}, {failure.run.core} core: {printable(failure.reason, 1000)}" for failure in comparison.failures]


def _vela_json(point: VelaPoint | None) -> dict[str, Any] | None:
    if point is None:
        return None
    return {
        "core": point.run.core,
        "optimise": point.run.optimise,
        "arena_cache_size": point.run.arena_cache_size,
        "memory_bytes": point.memory,
        "cycles": point.cycles,
        "overflows": point.overflows,
    }


def _ours_json(point: FrontierPoint | None) -> dict[str, Any] | None:
    return (
        None
        if point is None
        else {"memory_bytes": point.memory, "cycles": point.cycles, "macs_again": point.macs_again, "schedule_sha256": point.digest}
    )


def _verdicts_json(comparison: Comparison) -> dict[str, Any]:
    judged = verdicts(comparison)
    return {
        "more_bytes": judged.more_bytes,
        "more_cycles": judged.more_cycles,
        "slower_at": [row.arena_cache_size for row in judged.slower],
        "gaps": [{"vela": _vela_json(gap.vela), "closest": _ours_json(gap.closest)} for gap in judged.gaps],
        "passed": judged.passed,
    }


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as values that JSON can hold: bytes and cycles of every schedule, ratios, and the verdicts."""
    network, system = ends_of(comparison.frontier)
    return {
        "frontier": frontier_json(comparison.frontier),
        "ends": ends_json(network, system),
        "separate_io_regions": comparison.separate_io_regions,
        "noise": NOISE,
        "vela": [_vela_json(point) for point in comparison.points],
        "vela_failures": _failures(comparison),
        "vela_size": _vela_json(comparison.size),
        "vela_performance": _vela_json(comparison.performance),
        "answers": [
            {
                "condition": answer.condition,
                "ours": _ours_json(answer.ours),
                "memory_ratio": answer.memory_ratio,
                "cycles_ratio": answer.cycles_ratio,
            }
            for answer in comparison.answers
        ],
        "sweep": [
            {
                "arena_cache_size": row.arena_cache_size,
                "vela": _vela_json(row.vela),
                "ours": _ours_json(row.ours),
                "cycles_ratio": row.cycles_ratio,
            }
            for row in comparison.sweep
        ],
        "verdicts": _verdicts_json(comparison),
        **_robust_json(comparison),
        **_energy_json(comparison),
    }
