"""The result of a comparison with Vela's estimate: counts by column and by operator, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct, to_builtins

from validation.tables import Table
from validation.vela.estimate.compare import ColumnRow, EstimateComparison

_SHOWN = 20


class Tally(Struct, frozen=True):
    """Numbers of the values of a ``key`` (a column or an operator): those equal to Vela's, those within 1 of them, and all.

    ``held`` are those that are as near as they have to be.
    """

    key: str
    equal: int
    within_one: int
    held: int
    total: int


def tally(rows: Iterable[ColumnRow], key: Callable[[ColumnRow], str]) -> tuple[Tally, ...]:
    """Counts by ``key``, in the order in which keys appear."""
    groups: dict[str, list[ColumnRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return tuple(
        Tally(
            name,
            sum(row.is_equal for row in group),
            sum(row.is_within_one for row in group),
            sum(row.holds for row in group),
            len(group),
        )
        for name, group in groups.items()
    )


def deviations(comparisons: Sequence[EstimateComparison]) -> tuple[tuple[EstimateComparison, ColumnRow], ...]:
    """Every value that is farther from Vela's than allowed (cycles: 1, all else: 0) or is not reproduced."""
    return tuple((comparison, row) for comparison in comparisons for row in comparison.rows if not row.holds)


def passed(comparisons: Sequence[EstimateComparison]) -> bool:
    """Whether there are values and each is as near to Vela's as it has to be."""
    return any(comparison.rows for comparison in comparisons) and not deviations(comparisons)


def _tally_table(title: str, header: str, tallies: Sequence[Tally], notes: tuple[str, ...] = ()) -> Table:
    rows = tuple((t.key, str(t.equal), str(t.within_one), str(t.total)) for t in tallies)
    return Table(title, (header, "equal", "within 1", "total"), rows, notes)


def _deviation_table(found: Sequence[tuple[EstimateComparison, ColumnRow]]) -> Table:
    headers = ("network", "accelerator", "optimise", "operation", "operator", "column", "Vela", "ours")
    rows = tuple(
        (
            c.network,
            c.accelerator,
            c.optimise,
            row.name,
            row.operator,
            row.column,
            str(row.vela),
            "-" if row.ours is None else str(row.ours),
        )
        for c, row in found[:_SHOWN]
    )
    notes = (f"{len(found) - _SHOWN} more are left out.",) if len(found) > _SHOWN else ()
    return Table("Values that deviate", headers, rows, ('"-" stands for an operator that is not reproduced.', *notes))


def render(comparisons: Sequence[EstimateComparison]) -> list[Table]:
    """Counts by column and by operator, and the first deviations, if there are any."""
    rows = [row for comparison in comparisons for row in comparison.rows]
    versions = ", ".join(dict.fromkeys(comparison.vela_version for comparison in comparisons))
    verdict = "Every value holds" if passed(comparisons) else f"{len(deviations(comparisons))} of {len(rows)} values do not hold"
    tables = [
        _tally_table(
            f"The estimate of Vela {versions}, reproduced",
            "column",
            tally(rows, lambda row: row.column),
            (f"{verdict}: cycles have to be within 1 of Vela's, bytes and MACs equal.",),
        ),
        _tally_table("By operator", "operator", tally(rows, lambda row: row.operator)),
    ]
    found = deviations(comparisons)
    return [*tables, _deviation_table(found)] if found else tables


def to_json(comparisons: Sequence[EstimateComparison]) -> dict[str, Any]:
    """Counts by column and every deviation as values that JSON can hold."""
    rows = [row for comparison in comparisons for row in comparison.rows]
    return {
        "passed": passed(comparisons),
        "vela_versions": list(dict.fromkeys(comparison.vela_version for comparison in comparisons)),
        "columns": [to_builtins(entry) for entry in tally(rows, lambda row: row.column)],
        "operators": [to_builtins(entry) for entry in tally(rows, lambda row: row.operator)],
        "deviations": [
            {"network": comparison.network, "accelerator": comparison.accelerator, "optimise": comparison.optimise} | to_builtins(row)
            for comparison, row in deviations(comparisons)
        ],
    }
