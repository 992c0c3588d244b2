"""Tables of a replay for a terminal, and the same rows as JSON: layers, and where every unit's cycles went."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from npu_model.printable import printable
from sim import NetworkReplay
from sim.views.layers import LayerRow, layer_rows, total_row
from sim.views.stalls import stall_report
from validation.layout import grid

NAME_WIDTH = 40
"""Characters of a layer's name that a table shows; ``--json`` has it whole."""

_HEADERS = ("layer", "operator", "cycles", "%", "bound by", "AXI0 read", "AXI0 write", "AXI1 read", "MAC %")
_COMMANDS = "Bytes per layer leave out the fetch of the command stream, which the summary counts."


def shortened(name: str) -> str:
    """A layer's name for a table: up to the first ";", which joins the names of fused operators, and cut in its middle.

    >>> shortened("model/relu;model/conv")
    'model/relu'
    >>> shortened("a" * 30 + "b" * 30)
    'aaaaaaaaaaaaaaaaaa...bbbbbbbbbbbbbbbbbbb'
    """
    return printable(name.partition(";")[0], NAME_WIDTH)


def _operator(mnemonics: str) -> str:
    """The first of a layer's operators, and how many others it has."""
    first, *others = mnemonics.split("+")
    return f"{first} and {len(others)} more" if len(others) > 1 else mnemonics


def _cells(row: LayerRow) -> tuple[str, ...]:
    return (
        shortened(row.layer),
        _operator(row.operator),
        f"{row.cycles:,}",
        f"{100 * row.share:.1f}",
        row.binding,
        f"{row.axi0_read_bytes:,}",
        f"{row.axi0_write_bytes:,}",
        f"{row.axi1_read_bytes:,}",
        f"{100 * row.mac_utilisation:.1f}",
    )


def layers_text(replay: NetworkReplay) -> str:
    """The per-layer table with its totals."""
    rows = layer_rows(replay)
    cells = [_cells(row) for row in (*rows, total_row(rows, replay))]
    text = [header in {"layer", "operator", "bound by"} for header in _HEADERS]
    return f"{grid(_HEADERS, cells, text)}\n{_COMMANDS}"


def layers_json(replay: NetworkReplay) -> list[dict[str, Any]]:
    """The rows of the per-layer table."""
    return [asdict(row) for row in layer_rows(replay)]


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


def stalls_json(replay: NetworkReplay) -> list[dict[str, Any]]:
    """The rows of the stall report."""
    return [
        {
            "unit": stalls.unit.value,
            "busy": stalls.busy,
            "idle": stalls.idle,
            "waits": {cause.value: cycles for cause, cycles in stalls.waits},
        }
        for stalls in stall_report(replay)
    ]
