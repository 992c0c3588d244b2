"""The content of a report on one replay, as values that JSON can hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from npu_model.printable import printable
from npu_testbed.findings import Finding
from npu_testbed.html.beside import measured_data
from npu_testbed.html.graph import NAME, graph_data
from npu_testbed.html.headline import headline_data
from npu_testbed.html.recorder import TimelineEvents
from npu_testbed.html.timeline import timeline_data
from npu_testbed.measured import Beside
from npu_testbed.replays.layer_names import all_shortened, first_operator, short_layers
from npu_testbed.replays.recurrent import recurrent_layers, steps_text
from npu_testbed.replays.simulation import Simulation
from npu_testbed.reports.cpu_operators import cpu_reasons
from npu_testbed.reports.findings import nothing_found
from npu_testbed.reports.headline import Rival
from npu_testbed.reports.summary import summary_lines
from npu_testbed.reports.tables import shown_rows
from npu_testbed.views.arena_map import ArenaMap
from sim.views.layers import LayerRow, layer_rows


def report_title(simulation: Simulation) -> str:
    """The heading of a report on one replay."""
    return f"{simulation.model} on {simulation.device.name}, {simulation.system.name}, by {simulation.planner}"


def map_data(arena: ArenaMap, budget: int | None) -> dict[str, Any]:
    """The areas of an arena with their slabs as (start, end, low, high)."""
    areas = [
        {
            "name": printable(area.name, NAME),
            "short": short,
            "kind": area.kind.value,
            "slabs": [[s.start, s.end, s.low, s.high] for s in area.slabs],
        }
        for area, short in zip(arena.areas, all_shortened([area.name for area in arena.areas]), strict=True)
    ]
    return {"cycles": arena.cycles, "bytes": arena.arena_size, "budget": budget, "areas": areas}


def replay_data(  # noqa: PLR0913  # a replay, and what a report shows next to it
    simulation: Simulation,
    arena: ArenaMap,
    recorder: TimelineEvents,
    found: Sequence[Finding] | None,
    budget: int | None = None,
    beside: Beside | None = None,
    rival: Rival | None = None,
) -> dict[str, Any]:
    """A replay's headline, summary, layers, findings (None if not requested), map, timeline and network.

    ``beside`` is a measurement, and ``rival`` is Vela's schedule; None if unknown.
    """
    short, granted = short_layers(simulation.replay), simulation.granted_bytes
    # A limit far above the arena would leave the map only a strip. So it is drawn only if it is exceeded.
    exceeded = granted if granted is not None and granted < simulation.planned_bytes else None

    def rows(found: Sequence[LayerRow]) -> list[dict[str, Any]]:
        return [
            to_builtins(row) | {"layer": printable(row.layer, NAME), "short": short[row.layer], "operator": first_operator(row.operator)}
            for row in found
        ]

    return {
        "headline": headline_data(simulation, budget, rival),
        "clock_hz": simulation.system.clock_hz,
        "facts": [
            *([name, printable(value, 400)] for name, value in summary_lines(simulation)),
            *([f"On the CPU: {who}", why] for who, why in cpu_reasons(simulation.network)),
        ],
        "layers": rows(layer_rows(simulation.replay)),
        "rows": rows(shown_rows(simulation.replay)),
        "steps": [steps_text(one, short[one.layer]) for one in recurrent_layers(simulation.replay)],
        "hazards": [printable(one.text, 1000) for one in simulation.hazards],
        "measured": None if beside is None else measured_data(beside),
        "findings": None if found is None else [one.text for one in found],
        "bounds": nothing_found(simulation) if found is not None and not found else "",
        "map": map_data(arena, exceeded if budget is None else budget),
        "timeline": timeline_data(simulation, recorder),
        "graph": graph_data(simulation),
    }
