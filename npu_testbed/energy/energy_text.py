"""Two energies side by side, as a text and as JSON: only ratios and shares."""

from __future__ import annotations

from npu_model.printable import printable
from npu_testbed.documents.differences import EnergyRatioEntry, EnergySharesEntry
from npu_testbed.energy.ratio import Energy, energy_ratio
from npu_testbed.energy.table import ILLUSTRATIVE
from validation.layout import filled, grid

UNIT = "Figures of a table say nothing of joules: only their ratio is shown."
MADE_UP = "The table illustrative is of no device: give one of your own."


def caveat(table: str) -> str:
    """The sentence that says how the ratios of a table must not be read."""
    return f"{UNIT} {MADE_UP}" if table == ILLUSTRATIVE else UNIT


def _parts(before: Energy, after: Energy) -> list[str]:
    return [part for part in dict.fromkeys((*before.parts, *after.parts)) if before.parts.get(part) or after.parts.get(part)]


def energy_text(table: str, before: Energy, after: Energy) -> str:
    """The ratio of the whole and of each part, with the shares on both sides."""
    rows = []
    for part in _parts(before, after):
        first, last = before.parts.get(part, 0), after.parts.get(part, 0)
        ratio = f"{float(last / first):.3f}" if first else "-"
        rows.append((part, f"{before.share(part):.1%}", f"{after.share(part):.1%}", ratio))
    rows.append(("whole", "100.0%", "100.0%", f"{energy_ratio(after, before):.3f}"))
    headers = (f"energy by {printable(table)}", "share before", "share after", "after / before")
    return f"{grid(headers, rows, (True, False, False, False))}\n{filled(caveat(table))}"


def energy_json(table: str, before: Energy, after: Energy) -> EnergyRatioEntry:
    """The same as values that JSON can hold."""
    parts = tuple(EnergySharesEntry(part, before.share(part), after.share(part)) for part in _parts(before, after))
    return EnergyRatioEntry(table, energy_ratio(after, before), parts)
