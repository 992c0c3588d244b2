"""A comparison with Vela as tables for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import convert, to_builtins

from npu_model.printable import printable
from npu_testbed.comparisons.answer import BestAnswer
from npu_testbed.comparisons.comparison import NOISE, Comparison, SweepRow, cycles_verdict
from npu_testbed.comparisons.robust import RobustAnswer
from npu_testbed.comparisons.verdicts import Shortfall, verdicts
from npu_testbed.devices.timing import timing_clause
from npu_testbed.documents.comparison import (
    ComparisonEntry,
    GapEntry,
    OurPointEntry,
    RobustEntry,
    VelaPointEntry,
    VerdictsEntry,
)
from npu_testbed.documents.document import extended
from npu_testbed.energy.ratio import caveat
from npu_testbed.replays.vela_runs import VelaPoint
from npu_testbed.reports.frontier import bounds_text, frontier_json
from npu_testbed.reports.headline import kibibytes, milliseconds
from npu_testbed.reports.inputs_outputs import inputs_outputs_json, inputs_outputs_text, io_bytes, network_and_system
from npu_testbed.reports.macs import recomputed_share
from validation.fvp.undecided import NAMES, undecided
from validation.layout import filled, grid

CAVEAT = (
    f"Cycles that differ by less than {NOISE:.0%} are called even: our search picks by the simulator that judges it, Vela does not. "
    "Vela's arena cache size is a target; a result that overflows it is marked. Bytes are the arena to set aside, ours and Vela's: "
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
        recomputed_share(ours.macs, ours.recomputed_macs),
        _ratio(answer.memory_ratio),
        _ratio(answer.cycles_ratio),
        cycles_verdict(answer.cycles_ratio),
    )


def _vela_cells(point: VelaPoint) -> tuple[str, ...]:
    return (f"{point.run.name}, {point.core} core", f"{point.memory:,}", f"{point.cycles:,}")


def _sweep_cells(row: SweepRow) -> tuple[str, ...]:
    vela, ours = row.vela, row.ours
    over = " overflows" if vela is not None and vela.overflows else ""
    return (
        f"{row.arena_cache_size:,}",
        "-" if vela is None else f"{vela.memory:,}{over}",
        "-" if vela is None else f"{vela.cycles:,}",
        "-" if ours is None else f"{ours.memory:,}",
        "-" if ours is None else f"{ours.cycles:,}",
        "-" if ours is None else recomputed_share(ours.macs, ours.recomputed_macs),
        _ratio(row.cycles_ratio),
        "-" if row.cycles_ratio is None else cycles_verdict(row.cycles_ratio),
    )


def comparison_headline(comparison: Comparison) -> str:
    """Our schedule next to Vela Performance and next to Vela Size, in one or two sentences."""
    frontier, chosen = comparison.frontier, comparison.chosen

    def figures(cycles: int, size: int) -> str:
        return f"{milliseconds(cycles, frontier.clock_hz)} in {kibibytes(size)}"

    ours = f"{printable(frontier.model)} on {frontier.accelerator}: {figures(chosen.cycles, chosen.memory)}"
    fast, small = comparison.performance, comparison.size
    said = f"{ours}; Vela Performance takes {figures(fast.cycles, fast.memory)}." if fast else f"{ours}."
    least = None if small is None else frontier.at_most(small.cycles)
    if small is None or least is None:
        return said
    return f"{said} No slower than Vela Size, it fits into {kibibytes(least.memory)}; Vela Size needs {kibibytes(small.memory)}."


def comparison_text(comparison: Comparison) -> str:
    """The headline, Vela's points, our answers with their ratios to the better of its cores, and both at the same arena sizes."""
    frontier = comparison.frontier
    plain = [point for point in comparison.points if point.arena_cache_size is None]
    sections = [
        filled(comparison_headline(comparison)),
        printable(f"{frontier.model} on {frontier.accelerator}, {frontier.memory_system}{timing_clause(frontier.timing)}", 400),
        *([_table(("Vela's schedules", "bytes", "cycles"), [_vela_cells(point) for point in plain])] if plain else []),
        *_answer_sections(comparison),
        *_energy_sections(comparison),
        *_sweep_sections(comparison),
        *_robust_sections(comparison),
        "\n".join(map(filled, _notes(comparison))),
    ]
    return "\n\n".join(sections)


def _answer_sections(comparison: Comparison) -> list[str]:
    """Our answers. If Vela has no schedule for Size or for Performance, the whole frontier follows."""
    headers = ("ours", "bytes", "cycles", "recomputed", "bytes / Vela's", "cycles / Vela's", "faster")
    found = [_table(headers, [_answer_cells(answer) for answer in comparison.answers])] if comparison.answers else []
    if comparison.size is None or comparison.performance is None:
        points = comparison.frontier.points
        rows: list[tuple[str, ...]] = [
            (f"{point.memory:,}", f"{point.cycles:,}", recomputed_share(point.macs, point.recomputed_macs)) for point in points
        ]
        found.append(_table(("our frontier: bytes", "cycles", "recomputed"), rows, left=0))
    return found


def _sweep_sections(comparison: Comparison) -> list[str]:
    headers = ("arena cache size", "Vela: bytes", "cycles", "ours: bytes", "cycles", "recomputed", "ours / Vela", "faster")
    return [_table(headers, [_sweep_cells(row) for row in comparison.sweep], left=0)] if comparison.sweep else []


def _notes(comparison: Comparison) -> list[str]:
    bounds = bounds_text(comparison.frontier).splitlines()
    return [CAVEAT, ends_line(comparison), *convention(comparison), *bounds, *failure_lines(comparison)]


def convention(comparison: Comparison) -> list[str]:
    """A sentence on where Vela's inputs and outputs are, if ours have homes."""
    if not comparison.separate_io_regions:
        return []
    whole = io_bytes(network_and_system(comparison.frontier)[0])
    said = (
        f"Vela's schedules are those of --separate-io-regions, which its C++ core alone has: its bytes count none of the {whole:,} "
        "of inputs and outputs, ours those that have no home."
    )
    return [said]


def ends_line(comparison: Comparison) -> str:
    """A sentence on the bytes of inputs and outputs, and both ways to count ours."""
    network, system = network_and_system(comparison.frontier)
    smallest = comparison.frontier.points[0].memory
    return f"At our smallest: {inputs_outputs_text(network, system, smallest)}."


def _energy_sections(comparison: Comparison) -> list[str]:
    """The ratios of energies, if requested."""
    if comparison.energy is None:
        return []
    rows: list[tuple[str, ...]] = [
        (answer.condition, _ratio(ratio)) for answer, ratio in zip(comparison.answers, comparison.energy.ratios, strict=True)
    ]
    table = _table((f"ours, energy by {printable(comparison.energy.table)}", "energy / Vela's"), rows)
    return [f"{table}\n{filled(caveat(comparison.energy.table))}"]


def _robust_sections(comparison: Comparison) -> list[str]:
    """The ranges and verdicts under other timings, with the tried changes, if requested."""
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


def robust_json(answers: Sequence[RobustAnswer | None]) -> RobustEntry:
    """The answers under other timings, as a document has them."""
    return convert({"changes": [change.name for change in undecided()], "answers": answers}, RobustEntry, from_attributes=True)


def _failures(comparison: Comparison) -> list[str]:
    return [f"{failure.run.name}, {failure.run.core} core: {printable(failure.reason, 1000)}" for failure in comparison.failures]


def failure_lines(comparison: Comparison) -> list[str]:
    """One line for each core and reason of failure, with the runs that failed."""
    runs: dict[tuple[str, str], list[str]] = {}
    for failure in comparison.failures:
        runs.setdefault((failure.run.core, failure.reason), []).append(failure.run.name)
    return [f"{', '.join(names)}, {core} core: {printable(reason, 1000)}" for (core, reason), names in runs.items()]


def _gap(gap: Shortfall) -> GapEntry:
    closest = None if gap.closest is None else to_builtins(extended(OurPointEntry, gap.closest))
    return GapEntry(to_builtins(extended(VelaPointEntry, gap.vela)), closest)


def _verdicts(comparison: Comparison) -> VerdictsEntry:
    judged = verdicts(comparison)
    slower = tuple(row.arena_cache_size for row in judged.slower)
    return extended(VerdictsEntry, judged, slower_at=slower, gaps=tuple(map(_gap, judged.gaps)))


def comparison_json(comparison: Comparison) -> ComparisonEntry:
    """The comparison as documents have it: bytes and cycles of every schedule, ratios, and the verdicts."""
    network, system = network_and_system(comparison.frontier)
    return extended(
        ComparisonEntry,
        comparison,
        frontier=frontier_json(comparison.frontier),
        inputs_outputs=inputs_outputs_json(network, system),
        noise=NOISE,
        vela_failures=_failures(comparison),
        verdicts=_verdicts(comparison),
    )
