"""Tables of a replay for a terminal, and the same rows as JSON: layers, and the cycles of every unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import to_builtins

from npu_model.printable import printable
from npu_testbed.documents.replay import StallEntry
from npu_testbed.ground.csv_file import csv_file
from npu_testbed.replays.layer_names import first_operator, short_layers
from npu_testbed.replays.recurrent import recurrent_layers, steps_text, with_gates
from sim import NetworkReplay
from sim.views.layers import LayerRow, joined_row, layer_rows, total_row
from sim.views.stalls import stall_report
from validation.layout import filled, grid

_HEADERS = ("layer", "operator", "cycles", "%", "bound by", "AXI0 read", "AXI0 write", "AXI1 read", "AXI1 write", "MAC %")
_AXI1_WRITE = _HEADERS.index("AXI1 write")
_COMMANDS = "Bytes per layer leave out the fetch of the command stream, which the summary counts."
_AHEAD = "MAC % is of the cycles by which a layer delays the end. Above 100, it began to multiply before the previous layer was done."


def shown_rows(replay: NetworkReplay) -> tuple[LayerRow, ...]:
    """The rows of the table of layers: one for each layer, and for each gate of a recurrent one."""
    return with_gates(layer_rows(replay), recurrent_layers(replay))


def _cells(row: LayerRow, name: str) -> tuple[str, ...]:
    return (
        name,
        first_operator(row.operator),
        f"{row.cycles:,}",
        f"{100 * row.share:.1f}",
        row.binding,
        f"{row.axi0_read_bytes:,}",
        f"{row.axi0_write_bytes:,}",
        f"{row.axi1_read_bytes:,}",
        f"{row.axi1_write_bytes:,}",
        f"{100 * row.mac_utilisation:.1f}",
    )


def _share(percent: float) -> str:
    return f"{percent:g} %"


def _used(rows: Sequence[LayerRow]) -> float:
    """The part of the MAC array that layers use together."""
    cycles = sum(row.cycles for row in rows)
    return sum(row.mac_utilisation * row.cycles for row in rows) / cycles if cycles else 0.0


def folded(rows: Sequence[LayerRow], min_percent: float) -> tuple[LayerRow, ...]:
    """The rows from ``min_percent`` of the cycles on, and one row for two or more other layers together."""
    small = [row for row in rows if 100 * row.share < min_percent]
    if len(small) < 2:
        return tuple(rows)
    cycles = sum(row.cycles for row in small)
    offered = sum(row.cycles for row in rows)
    share, used = cycles / offered if offered else 0.0, _used(small)
    together = joined_row(f"{len(small)} layers below {_share(min_percent)}", small, share, used)
    return (*(row for row in rows if 100 * row.share >= min_percent), together)


def _together(name: str, rows: Sequence[LayerRow], offered: int) -> tuple[str, ...]:
    """The cells for a group of layers in a table of sums: number, cycles, share and MAC use."""
    cycles = sum(row.cycles for row in rows)
    used = _used(rows)
    return name, f"{len(rows)}", f"{cycles:,}", f"{100 * cycles / offered if offered else 0:.1f}", f"{100 * used:.1f}"


def _sums(title: str, rows: Sequence[LayerRow], key: Callable[[LayerRow], str]) -> str:
    """A table of sums of layers with a common value, the most cycles first."""
    alike: dict[str, list[LayerRow]] = {}
    for row in rows:
        alike.setdefault(key(row), []).append(row)
    ordered = sorted(alike.items(), key=lambda one: -sum(row.cycles for row in one[1]))
    offered = sum(row.cycles for row in rows)
    cells = [_together(name, some, offered) for name, some in ordered]
    return grid((title, "layers", "cycles", "%", "MAC %"), cells, (True, False, False, False, False))


def rolled_up(rows: Sequence[LayerRow]) -> str:
    """The layers summed by bound and by operator, for networks with only small layers."""
    return f"{_sums('bound by', rows, lambda row: row.binding)}\n\n{_sums('operator', rows, lambda row: first_operator(row.operator))}"


def _mostly_folded(rows: Sequence[LayerRow], min_percent: float) -> bool:
    """Whether the layers below ``min_percent`` take more than half of the cycles."""
    small = sum(row.cycles for row in rows if 100 * row.share < min_percent)
    return 2 * small > sum(row.cycles for row in rows)


def notes(rows: Sequence[LayerRow]) -> tuple[str, ...]:
    """Sentences that stand below a table of some layers."""
    return (_COMMANDS, _AHEAD) if any(row.mac_utilisation > 1 for row in rows) else (_COMMANDS,)


def layers_text(replay: NetworkReplay, min_percent: float = 0.0) -> str:
    """The per-layer table with its totals; small layers share one row, and a recurrent layer has one row for each gate.

    Small layers are those below ``min_percent`` of the cycles. Writes through AXI1 have a column if there are any. If the shared row has
    most of the cycles, sums of all layers follow.
    """
    rows = shown_rows(replay)
    shown = (*folded(rows, min_percent), total_row(rows, replay))
    short = short_layers(replay)
    cells = [_cells(row, short.get(row.layer, row.layer)) for row in shown]
    columns = [column for column in range(len(_HEADERS)) if column != _AXI1_WRITE or any(row.axi1_write_bytes for row in shown)]
    headers = tuple(_HEADERS[column] for column in columns)
    left = [header in {"layer", "operator", "bound by"} for header in headers]
    table = grid(headers, [tuple(row[column] for column in columns) for row in cells], left)
    steps = (steps_text(one, short[one.layer]) for one in recurrent_layers(replay))
    text = "\n".join([table, *map(filled, (*notes(shown), *steps))])
    return f"{text}\n\n{rolled_up(rows)}" if _mostly_folded(rows, min_percent) else text


def layers_csv(replay: NetworkReplay) -> bytes:
    """All rows of the per-layer table as comma-separated values, under the names of the ``--json`` keys."""
    rows = [list((to_builtins(row) | {"layer": printable(row.layer)}).values()) for row in layer_rows(replay)]
    return csv_file([LayerRow.__struct_fields__, *rows])


def stalls_text(replay: NetworkReplay) -> str:
    """Every unit's cycles: busy, waiting by cause, idle."""
    cells = [
        (
            stalls.unit.value,
            f"{stalls.busy:,}",
            f"{stalls.waiting:,}",
            f"{stalls.idle:,}",
            ", ".join(f"{cause.value} {cycles:,}" for cause, cycles in stalls.waits),
        )
        for stalls in stall_report(replay)
    ]
    return grid(("unit", "busy", "waiting", "idle", "waited for"), cells, (True, False, False, False, True))


def stalls_json(replay: NetworkReplay) -> tuple[StallEntry, ...]:
    """The rows of the stall report."""
    return tuple(
        StallEntry(stalls.unit.value, stalls.busy, stalls.idle, {cause.value: cycles for cause, cycles in stalls.waits})
        for stalls in stall_report(replay)
    )
