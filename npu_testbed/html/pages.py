"""Reports on several schedules: a frontier, alone or with Vela's points, and one of its schedules in detail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npu_model.printable import printable
from npu_testbed.comparisons.comparison import Comparison
from npu_testbed.findings import Finding, findings
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.html.beside import answers_data
from npu_testbed.html.data import replay_data
from npu_testbed.html.document import html_report
from npu_testbed.html.graph import NAME
from npu_testbed.replays.simulation import Simulation, simulate_schedule
from npu_testbed.replays.vela_runs import VelaPoint
from npu_testbed.reports.headline import Rival
from npu_testbed.reports.macs import recomputed_share
from npu_testbed.searches.frontiers import Frontier
from npu_testbed.views.arena_map import arena_map
from npu_testbed.views.frontier_plot import KINDS, kind_of
from sim.views.recorder import DRAWN, EventRecorder


def frontier_data(frontier: Frontier, vela: Sequence[VelaPoint], command: str) -> dict[str, Any]:
    """Data of the page's frontier: its points, the facts of a clicked point, and the ``command`` that schedules the model."""
    return {
        "command": command,
        "kinds": list(KINDS),
        "bound": frontier.bounds.this_search,
        "points": [
            {
                "bytes": point.memory,
                "cycles": point.cycles,
                "jobs": point.jobs,
                "groups": point.groups,
                "staged": point.staged_bytes,
                "kind": kind_of(point),
                "again": recomputed_share(point.macs, point.recomputed_macs),
                "homes": [printable(name, NAME) for name in point.homes],
            }
            for point in frontier.points
        ],
        "vela": [
            {
                "name": f"{point.run.name}, {point.core} core",
                "bytes": point.memory,
                "cycles": point.cycles,
                "core": point.core,
                "swept": point.arena_cache_size is not None,
                "overflows": point.overflows,
            }
            for point in vela
        ],
    }


def _title(frontier: Frontier) -> str:
    return f"{frontier.model} on {frontier.accelerator}, {frontier.memory_system}"


def frontier_page(frontier: Frontier, vela: Sequence[VelaPoint], command: str, progress: Progress = silent) -> bytes:
    """A frontier with Vela's points, if there are any, and its fastest schedule in detail. ``command`` schedules the model."""
    plan, events = frontier.points[-1].schedule, EventRecorder(DRAWN)
    simulation = simulate_schedule(plan, listeners=[events], progress=progress)
    replay = replay_data(simulation, arena_map(plan, simulation.replay), events, findings(simulation, progress))
    return html_report(_title(frontier), {"frontier": frontier_data(frontier, vela, command), "replay": replay})


def comparison_page(
    comparison: Comparison, simulation: Simulation, events: EventRecorder, found: Sequence[Finding] | None, command: str
) -> bytes:
    """Our frontier and Vela's points, our answers to Vela, and the replay of the schedule that the comparison details."""
    areas = arena_map(comparison.chosen.schedule, simulation.replay)
    vela = comparison.performance
    budget = None if vela is None else vela.memory
    rival = None if vela is None else Rival(vela.run.name, vela.cycles, vela.memory)
    replay = replay_data(simulation, areas, events, found, budget, rival=rival)
    frontier = frontier_data(comparison.frontier, comparison.points, command)
    data = {"frontier": frontier, "answers": answers_data(comparison), "replay": replay, "budget": budget}
    return html_report(_title(comparison.frontier), data)
