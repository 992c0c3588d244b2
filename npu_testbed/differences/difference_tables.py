"""A comparison of two replays as a table, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from npu_model.printable import printable
from npu_testbed.devices.memory_options import memory_system_json
from npu_testbed.devices.timing import timing_clause, timing_json
from npu_testbed.differences.layers import Moved, beside
from npu_testbed.documents.differences import DiffDocument, EnergyRatioEntry, MovedEntry, SideEntry
from npu_testbed.replays.layer_names import all_shortened
from npu_testbed.replays.simulation import Simulation
from validation.layout import filled, grid

SHOWN = 12
"""Layers that a report shows; it folds the others."""

_CHANGE = 400
"""Characters of a change that a table shows."""


def _signed(difference: int) -> str:
    return f"{difference:+,}" if difference else "0"


def _percent(difference: int, before: int) -> str:
    return f"{100 * difference / before:+.1f}" if before and difference else "-" if not before else "0.0"


def moved_layers(before: Simulation, after: Simulation) -> list[Moved]:
    """The layers that are different, the largest difference of cycles first."""
    moved = [one for one in beside(before.replay, after.replay) if one.is_moved]
    return sorted(moved, key=lambda one: -abs(one.difference))


def _layer_cells(one: Moved, name: str) -> tuple[str, ...]:
    cycles = [f"{side.cycles:,}" if side else "-" for side in (one.before, one.after)]
    changes = "; ".join(one.changes) or "no change of its own"
    return name, *cycles, _signed(one.difference), printable(changes, _CHANGE)


def totals(before: Simulation, after: Simulation) -> list[tuple[str, int, int]]:
    """Totals of both sides, each as its name, before and after. Ports without traffic on either side are left out."""
    memories = " or ".join(dict.fromkeys((before.memory_name, after.memory_name)))
    pairs = [("NPU cycles", before.replay.cycles, after.replay.cycles), (f"{memories} bytes", before.planned_bytes, after.planned_bytes)]
    sides = [(side.replay.beats, side.device.port_bytes_per_cycle) for side in (before, after)]
    for port in ("axi0_read", "axi0_write", "axi1_read", "axi1_write"):
        first, last = (getattr(beats, port) * word for beats, word in sides)
        if first or last:
            pairs.append((f"{port.replace('axi', 'AXI').replace('_', ' ')} bytes", first, last))
    return pairs


def _total_rows(before: Simulation, after: Simulation) -> list[tuple[str, ...]]:
    return [
        (name, f"{first:,}", f"{last:,}", _signed(last - first), _percent(last - first, first))
        for name, first, last in totals(before, after)
    ]


def side_text(side: Simulation) -> str:
    """One line about a side."""
    return printable(f"{side.model} on {side.device.name}, {side.system.name}{timing_clause(side.timing)}, by {side.planner}", 300)


TOTAL_HEADERS = ("whole", "before", "after", "difference", "%")
LAYER_HEADERS = ("layer", "cycles before", "after", "difference", "what is different")


def folded(moved: Sequence[Moved], shown: int | None) -> tuple[list[tuple[str, ...]], str]:
    """The rows of a table of layers, and a line about the omitted rows ("" if none is)."""
    names = all_shortened([one.label for one in moved])
    rows = [_layer_cells(one, name) for one, name in zip(moved[:shown], names, strict=False)]
    rest = moved[len(rows) :]
    if not rest:
        return rows, ""
    return rows, f"{len(rest)} more layers differ by {_signed(sum(one.difference for one in rest))} cycles in all."


def diff_text(before: Simulation, after: Simulation, shown: int | None = SHOWN) -> str:
    """Both sides, their totals and the layers that are different; ``shown`` None shows all of them."""
    rows, rest = folded(moved_layers(before, after), shown)
    sides = (("before", before), ("after", after))
    sections = ["\n".join(filled(f"{name:<8}{side_text(side)}", " " * 8) for name, side in sides)]
    sections.append(grid(TOTAL_HEADERS, _total_rows(before, after), (True, False, False, False, False)))
    if rows:
        table = grid(LAYER_HEADERS, rows, (True, False, False, False, True))
        sections.append(f"{table}\n{rest} `--all` shows them." if rest else table)
    else:
        sections.append("No layer is different.")
    return "\n\n".join(sections)


def side_json(side: Simulation) -> SideEntry:
    """A side and its totals, as a document has them."""
    return SideEntry(
        model=side.model,
        planner=side.planner,
        accelerator=side.device.name,
        memory_system=memory_system_json(side.system),
        timing=timing_json(side.timing),
        cycles=side.replay.cycles,
        arena_bytes=side.planned_bytes,
    )


def _moved(one: Moved) -> MovedEntry:
    return MovedEntry(
        layer=one.label,
        cycles_before=one.before.cycles if one.before else None,
        cycles_after=one.after.cycles if one.after else None,
        changes=tuple(one.changes),
    )


def diff_json(before: Simulation, after: Simulation, energy: EnergyRatioEntry | UnsetType = UNSET) -> DiffDocument:
    """Both sides, and every layer that is different."""
    return DiffDocument(side_json(before), side_json(after), tuple(map(_moved, moved_layers(before, after))), energy)
