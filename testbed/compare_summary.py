"""Comparisons with Vela over several networks: a row for each, and the geometric means of what was gained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, fsum, log

from testbed.compare import Answer, Comparison
from testbed.vela_points import VelaPoint
from validation.tables import Table


@dataclass(frozen=True, slots=True)
class Row:
    """One network: Vela's two strategies by the better core, and our four answers in the order of :func:`testbed.compare.answers`."""

    network: str
    size: VelaPoint
    performance: VelaPoint
    answers: tuple[Answer, ...]

    @classmethod
    def of(cls, comparison: Comparison) -> Row:
        """The row of a comparison."""
        return cls(comparison.frontier.model, comparison.size, comparison.performance, comparison.answers)


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean of one or more positive ratios.

    >>> geometric_mean([0.5, 2.0])
    1.0
    """
    return exp(fsum(map(log, ratios)) / len(ratios))


_HEADERS = (
    "network",
    "Vela Size: bytes / cycles",
    "Vela Performance: bytes / cycles",
    "ours at Size's cycles or fewer: bytes",
    "ours, smallest: bytes / cycles",
    "ours at Performance's cycles or fewer: bytes",
    "ours at Performance's bytes or fewer: cycles",
)


def _bytes(answer: Answer) -> str:
    if answer.ours is None or answer.memory_ratio is None:
        return "none found"
    return f"{answer.ours.memory:,} ({answer.memory_ratio:.2f})"


def _cycles(answer: Answer) -> str:
    if answer.ours is None or answer.cycles_ratio is None:
        return "none found"
    return f"{answer.ours.cycles:,} ({answer.cycles_ratio:.3f})"


def _cells(row: Row) -> tuple[str, ...]:
    at_size, smallest, at_cycles, at_bytes = row.answers
    least = "-" if smallest.ours is None else f"{smallest.ours.memory:,} / {smallest.ours.cycles:,}"
    return (
        row.network.removesuffix(".tflite"),
        f"{row.size.memory:,} / {row.size.cycles:,}",
        f"{row.performance.memory:,} / {row.performance.cycles:,}",
        _bytes(at_size),
        least,
        _bytes(at_cycles),
        _cycles(at_bytes),
    )


def _mean(name: str, ratios: Sequence[float | None]) -> str:
    """What the networks with an answer have in common; those without are counted."""
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        return f"{name}: no network has a point that meets the condition."
    missing = f"; {len(ratios) - len(known)} of {len(ratios)} networks have no such point" if len(known) < len(ratios) else ""
    return f"{name}: {geometric_mean(known):.3f} by geometric mean over {len(known)}, worst {max(known):.3f}{missing}."


def summary_table(rows: Sequence[Row]) -> Table:
    """All rows, in brackets the ratio to Vela's figure, and the geometric means."""
    notes = (
        _mean("Our bytes per byte of Vela Size at its cycles or fewer", [row.answers[0].memory_ratio for row in rows]),
        _mean("Our bytes per byte of Vela Performance at its cycles or fewer", [row.answers[2].memory_ratio for row in rows]),
        _mean("Our cycles per cycle of Vela Performance at its bytes or fewer", [row.answers[3].cycles_ratio for row in rows]),
    )
    return Table("Beside Vela", _HEADERS, tuple(_cells(row) for row in rows), notes)


SLOWEST = 1.01
"""Most cycles per cycle of Vela Performance in its bytes."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The rows of several networks on one accelerator."""

    accelerator: str
    rows: tuple[Row, ...]

    def lost(self) -> tuple[str, ...]:
        """Networks for which Vela's Size core needs less memory at its cycles, or its Performance core is faster in its bytes."""
        return tuple(row.network for row in self.rows if _is_lost(row))

    @property
    def passed(self) -> bool:
        """Whether no network is lost."""
        return not self.lost()

    def table(self) -> Table:
        """All rows, and which are lost."""
        table = summary_table(self.rows)
        lost = self.lost()
        verdict = f"Vela is ahead on {', '.join(lost)}." if lost else "Vela is ahead on none."
        return Table(f"{table.title}, {self.accelerator}", table.headers, table.rows, (*table.notes, verdict))

    def to_json(self) -> dict[str, object]:
        """Ratios by network; None where no point of ours meets the condition."""
        rows = {
            row.network: {answer.condition: {"bytes": answer.memory_ratio, "cycles": answer.cycles_ratio} for answer in row.answers}
            for row in self.rows
        }
        return {"accelerator": self.accelerator, "networks": rows, "lost": list(self.lost())}


def _is_lost(row: Row) -> bool:
    at_size, _, _, at_bytes = row.answers
    smaller = at_size.memory_ratio is not None and at_size.memory_ratio <= 1
    faster = at_bytes.cycles_ratio is not None and at_bytes.cycles_ratio <= SLOWEST
    return not (smaller and faster)
