"""The one-page summary of a check, for a terminal or, as Markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from npu_model.printable import printable
from npu_testbed.differences.bars import Bar, Baseline, layer_cycles
from npu_testbed.differences.difference_tables import side_text
from npu_testbed.replays.layer_names import all_shortened, shortened
from npu_testbed.replays.simulation import Simulation
from npu_testbed.reports.inputs_outputs import inputs_outputs_text
from validation.layout import filled, grid

_BARS = ("figure", "now", "limit", "of", "left", "verdict")
_LAYERS = ("layer", "baseline", "now", "difference")
_ESCAPED = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>|#"})


def _bar_rows(bars: Sequence[Bar]) -> list[tuple[str, ...]]:
    return [
        (bar.what, f"{bar.value:,}", f"{bar.limit:,}", bar.source, f"{bar.limit - bar.value:,}", "met" if bar.is_met else "MISSED")
        for bar in bars
    ]


def moved_since(baseline: Baseline, simulation: Simulation) -> list[tuple[str, int | None, int | None]]:
    """The layers whose cycles differ from the baseline's, the largest difference first; None where a side lacks the layer."""
    now = dict(layer_cycles(simulation))
    names = dict.fromkeys((*baseline.layers, *now))
    found = [(name, baseline.layers.get(name), now.get(name)) for name in names if baseline.layers.get(name) != now.get(name)]
    return sorted(found, key=lambda row: -abs((row[2] or 0) - (row[1] or 0)))


def _layer_rows(baseline: Baseline, simulation: Simulation) -> tuple[list[tuple[str, ...]], str]:
    moved = moved_since(baseline, simulation)
    names = all_shortened([name for name, _, _ in moved])
    rows: list[tuple[str, ...]] = [
        (
            name,
            "-" if before is None else f"{before:,}",
            "-" if after is None else f"{after:,}",
            f"{(after or 0) - (before or 0):+,}",
        )
        for name, (_, before, after) in zip(names, moved, strict=False)
    ]
    rest = len(moved) - len(rows)
    if baseline.layers.keys().isdisjoint(name for name, _ in layer_cycles(simulation)):
        return rows, "None of the baseline's layers is among these by name: it may be of another network."
    return rows, f"{rest} more layers differ." if rest else "" if rows else "Every layer takes the cycles of the baseline."


def verdict(bars: Sequence[Bar]) -> str:
    """One sentence."""
    missed = sum(not bar.is_met for bar in bars)
    if not bars:
        return "No bar is set."
    if missed:
        return f"{missed} of {len(bars)} bars {'is' if missed == 1 else 'are'} missed."
    return f"{'Both' if len(bars) == 2 else f'All {len(bars)}'} bars are met." if len(bars) > 1 else "The bar is met."


def _figures(simulation: Simulation) -> str:
    figures = f"{simulation.replay.cycles:,} NPU cycles, {simulation.planned_bytes:,} bytes of {simulation.memory_name}"
    return f"{figures}; {inputs_outputs_text(simulation.network, simulation.system, simulation.planned_bytes)}"


def check_text(simulation: Simulation, bars: Sequence[Bar], baseline: Baseline | None) -> str:
    """The figures, the bars and the layers that moved."""
    sections = [f"{filled(side_text(simulation))}\n{filled(_figures(simulation))}"]
    if bars:
        sections.append(grid(_BARS, _bar_rows(bars), (True, False, False, True, False, True)))
    if baseline is not None:
        rows, rest = _layer_rows(baseline, simulation)
        table = [grid(_LAYERS, rows, (True, False, False, False))] if rows else []
        sections.append("\n".join([*table, *filter(None, [rest])]))
    return "\n\n".join([*sections, verdict(bars)])


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], texts: Sequence[int]) -> str:
    lines = [headers, ["---" if column in texts else "---:" for column in range(len(headers))]]
    lines += [[printable(cell).translate(_ESCAPED) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def check_markdown(simulation: Simulation, bars: Sequence[Bar], baseline: Baseline | None) -> str:
    """The same as Markdown, on one page."""
    facts = f"{side_text(simulation).translate(_ESCAPED)}: {_figures(simulation)}."
    sections = [f"### {shortened(simulation.model).translate(_ESCAPED)}: {verdict(bars)}", facts]
    if bars:
        sections.append(_table(_BARS, _bar_rows(bars), (0, 3, 5)))
    if baseline is not None:
        rows, rest = _layer_rows(baseline, simulation)
        sections += [_table(_LAYERS, rows, (0,))] if rows else []
        sections += [rest] if rest else []
    return "\n\n".join(sections)


def update_text(path: str, simulation: Simulation, baseline: Baseline | None) -> str:
    """A sentence on a rewritten baseline, with its old figures."""
    name = printable(path)
    if baseline is None:
        return f"Baseline {name} was written: there was none of this accelerator and memory system."
    cycles, arena = simulation.replay.cycles, simulation.planned_bytes
    return (
        f"Baseline {name} was written anew: {baseline.cycles:,} to {cycles:,} NPU cycles, "
        f"{baseline.arena_bytes:,} to {arena:,} bytes of {simulation.memory_name}."
    )
