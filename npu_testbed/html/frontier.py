"""A frontier as data, with Vela's points and the lower bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npu_model.printable import printable
from npu_testbed.html.graph import NAME
from npu_testbed.replays.vela_runs import VelaPoint
from npu_testbed.reports.macs import recomputed_share
from npu_testbed.searches.frontiers import Frontier
from npu_testbed.views.frontier_plot import KINDS, kind_of


def frontier_data(frontier: Frontier, vela: Sequence[VelaPoint] = ()) -> dict[str, Any]:
    """Data of the page's frontier: its points, and the facts of a clicked point."""
    return {
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
                "name": f"{point.run.name}, {point.run.core} core",
                "bytes": point.memory,
                "cycles": point.cycles,
                "core": point.run.core,
                "swept": point.run.arena_cache_size is not None,
                "overflows": point.overflows,
            }
            for point in vela
        ],
    }
