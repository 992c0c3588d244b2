"""A sweep as tables, as CSV and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import convert
from msgspec.structs import asdict

from npu_model.printable import printable
from npu_testbed.comparisons.sweeps.points import macs_of, point_json
from npu_testbed.comparisons.sweeps.run import Result
from npu_testbed.documents.sweep import SweepDocument, SweepPointEntry
from npu_testbed.ground.csv_file import csv_file
from npu_testbed.reports.headline import kibibytes
from npu_testbed.reports.macs import recomputed_share
from validation.layout import filled
from validation.tables import Table

_COLUMNS = (
    "model",
    "accelerator",
    "memory system",
    "set",
    "budget bytes",
    "arena bytes",
    "with what is outside",
    "recomputed",
    "cycles",
    "ms",
)
_OPTIONAL = {"set": "", "with what is outside": "", "recomputed": "0"}
"""Columns that are left out if every point has only this value, or a dash."""


def _settings(result: Result) -> str:
    return ", ".join(f"{key} {value}" for key, value in result.point.names.settings)


def memory_name(result: Result) -> str:
    """The memory system with its settings."""
    return ", ".join(filter(None, (result.point.memory.name, _settings(result))))


def _cells(result: Result) -> tuple[str, ...]:
    point, answer = result.point, result.answer
    budget = "none" if point.budget is None else f"{point.budget:,}"
    named = (point.source.name, point.device, point.memory.name, _settings(result), budget)
    if answer.refused:
        return (*named, "-", "-", "-", "-", "-")
    outside = f"{answer.arena_bytes + answer.outside_bytes:,}" if answer.outside_bytes else ""
    again = recomputed_share(answer.macs, answer.recomputed_macs)
    return (*named, f"{answer.arena_bytes:,}", outside, again, f"{answer.cycles:,}", f"{result.milliseconds:.3f}")


_NAMED = ("model", "accelerator", "memory system")
"""Columns that a title states once if all points agree."""


def _table(title: str, results: Sequence[Result], whole: Sequence[Result], notes: tuple[str, ...] = ()) -> Table:
    """Some results of a sweep as rows, with the common values of the whole sweep in the title."""
    every = [dict(zip(_COLUMNS, _cells(result), strict=True)) for result in whole]
    common = [name for name in _NAMED if len({row[name] for row in every}) == 1]
    empty = {name for name, nothing in _OPTIONAL.items() if all(row[name] in (nothing, "-") for row in every)}
    shown = [index for index, name in enumerate(_COLUMNS) if name not in empty and name not in common]
    rows = tuple(tuple(cells[index] for index in shown) for cells in map(_cells, results))
    heading = f"{title}: {', '.join(every[0][name] for name in common)}" if common else title
    return Table(heading, tuple(_COLUMNS[index] for index in shown), rows, notes)


def all_table(results: Sequence[Result]) -> Table:
    """A row for each point; a note gives the reason for each point without a schedule."""
    reasons = dict.fromkeys(result.answer.refused for result in results if result.answer.refused)
    homes = dict.fromkeys(home for result in results for home in result.point.homes)
    outside = (f"Outside the arena: {', '.join(homes)}. Bytes of the arena count none of it.",) if homes else ()
    return _table("All points", results, results, (*outside, *reasons))


def _scheduled(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if not result.answer.refused]


def _slowness(result: Result) -> tuple[float, int, int]:
    return result.milliseconds, macs_of(result.point), result.answer.arena_bytes


def fastest_lines(results: Sequence[Result]) -> list[str]:
    """A sentence on the fastest point of each network; none for a network without a schedule."""
    fastest: dict[str, Result] = {}
    for result in sorted(_scheduled(results), key=_slowness):
        fastest.setdefault(result.point.source.name, result)
    return [
        filled(
            f"{printable(name)}: {one.milliseconds:.3g} ms in {kibibytes(one.answer.arena_bytes)} on {one.point.device} is the fastest of "
            f"{sum(other.point.source.name == name for other in results)} points."
        )
        for name, one in fastest.items()
    ]


def best_table(results: Sequence[Result]) -> Table:
    """The fastest schedule of each model within each budget. Ties go to fewer MACs and then to fewer bytes."""
    groups: dict[tuple[str, int | None], list[Result]] = {}
    for result in _scheduled(results):
        groups.setdefault((result.point.source.name, result.point.budget), []).append(result)
    chosen = [min(group, key=_slowness) for group in groups.values()]
    return _table("The fastest within each budget", chosen, results)


def enough(results: Sequence[Result], deadline: float) -> tuple[Result, ...]:
    """The points that meet a deadline in milliseconds, without dominated points.

    A point is dominated if another point of the same model and memory system meets the deadline with at most its MACs and at most its bytes
    of the arena.
    """
    meeting = [result for result in _scheduled(results) if result.milliseconds <= deadline]

    def needs(one: Result) -> tuple[int, int]:
        return macs_of(one.point), one.answer.arena_bytes

    def beaten(one: Result) -> bool:
        alike = [other for other in meeting if other.point.source == one.point.source and memory_name(other) == memory_name(one)]
        return any(needs(other) != needs(one) and all(a <= b for a, b in zip(needs(other), needs(one), strict=True)) for other in alike)

    return tuple({(one.point.source.name, memory_name(one), needs(one)): one for one in reversed(meeting) if not beaten(one)}.values())[
        ::-1
    ]


def deadline_table(results: Sequence[Result], deadline: float) -> Table:
    """The points that meet a deadline with the fewest MACs and bytes."""
    chosen = enough(results, deadline)
    missed = "" if chosen else f"No point takes {deadline:g} ms or less."
    title = f"What meets {deadline:g} ms"
    note = "No other point on the same memory system meets it with no more MACs and no more bytes."
    return _table(title, chosen, results, (missed or note,))


def sweep_text(results: Sequence[Result], deadline: float | None) -> str:
    """The fastest point of each network, and the tables for a terminal, the answer to the question first."""
    tables = ([] if deadline is None else [deadline_table(results, deadline)]) + [best_table(results), all_table(results)]
    shown = (table.text() if table.rows else "\n".join((table.title, "", *table.notes)) for table in tables)
    return "\n\n".join((*fastest_lines(results), *shown))


def sweep_json(results: Sequence[Result]) -> SweepDocument:
    """Every point with its answer."""
    times = [None if one.answer.refused else one.milliseconds for one in results]
    points = [point_json(one.point) | asdict(one.answer) | {"milliseconds": time} for one, time in zip(results, times, strict=True)]
    return SweepDocument(convert(points, tuple[SweepPointEntry, ...]))


_FIGURES = ("arena_bytes", "outside_bytes", "macs", "recomputed_macs", "cycles", "milliseconds", "axi0_bytes", "axi1_bytes")


def sweep_csv(results: Sequence[Result]) -> bytes:
    """A line for each point; the columns of settings have the settings' names."""
    keys = list(dict.fromkeys(key for result in results for key, _ in result.point.names.settings))
    head = ["model", "accelerator", "memory_system", "clock_hz", *keys, "budget_bytes"]
    rows: list[list[object]] = [[*head, "homes", "recompute", *_FIGURES, "schedule_sha256", "refused"]]
    for one in sweep_json(results).points:
        figures = [f"{found:.6f}" if isinstance(found, float) else found for found in (getattr(one, name) for name in _FIGURES)]
        row = [one.model, one.accelerator, one.memory_system.name, one.memory_system.clock_hz]
        row += [*(one.settings.get(key, "") for key in keys), _cell(one.budget_bytes), " ".join(one.homes), _cell(one.recompute)]
        rows.append([*row, *([""] * len(figures) if one.refused else figures), one.schedule_sha256, one.refused])
    return csv_file(rows)


def _cell(value: float | None) -> object:
    return "" if value is None else value
