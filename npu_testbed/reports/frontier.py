"""A frontier as a table for a terminal and as JSON."""

from __future__ import annotations

from npu_model.printable import printable
from npu_testbed.devices.timing import timing_clause, timing_json
from npu_testbed.documents.document import extended
from npu_testbed.documents.frontier import FrontierEntry
from npu_testbed.documents.units import MemorySystemEntry
from npu_testbed.ground.versions import legaliser_remark
from npu_testbed.reports.headline import cycles_in, deadline_sentence, kibibytes, milliseconds
from npu_testbed.reports.macs import recomputed_share
from npu_testbed.searches.frontiers import Frontier, FrontierPoint
from validation.layout import filled, grid

_HEADERS = ("bytes", "cycles", "ms", "stripe jobs", "groups", "staged bytes", "recomputed", "expected - replay")


def _cells(point: FrontierPoint, clock_hz: int) -> tuple[str, ...]:
    return (
        f"{point.memory:,}",
        f"{point.cycles:,}",
        f"{point.cycles / clock_hz * 1000:.3f}",
        f"{point.jobs:,}",
        f"{point.groups:,}",
        f"{point.staged_bytes:,}",
        recomputed_share(point.macs, point.recomputed_macs),
        f"{point.estimate_error:+.1%}",
    )


def bounds_text(frontier: Frontier) -> str:
    """Two sentences on the proven least memory, and one on the legaliser if it was not Vela's default core."""
    bounds = frontier.bounds
    return (
        f"Lower bounds: {bounds.any_schedule:,} bytes for any schedule (the network's inputs, or outputs, lie in the arena all at once); "
        f"{bounds.this_search:,} bytes for all groups and stripes that the search plans with, even if buffers could be packed perfectly."
    ) + (f"\n{remark}" if (remark := legaliser_remark(frontier.tools)) else "")


def frontier_headline(frontier: Frontier) -> str:
    """A frontier in one line: its smallest schedule and its fastest one."""
    ends = list(dict.fromkeys((frontier.points[0], frontier.points[-1])))
    said = [f"{milliseconds(point.cycles, frontier.clock_hz)} in {kibibytes(point.memory)}" for point in ends]
    choice = said[0] if len(said) == 1 else f"{said[0]} (the smallest) to {said[1]} (the fastest)"
    return f"{printable(frontier.model)} on {frontier.accelerator}: {choice}."


def frontier_text(frontier: Frontier) -> str:
    """The table of points, with the terms of the search and the lower bounds."""
    cells = [_cells(point, frontier.clock_hz) for point in frontier.points]
    table = grid(_HEADERS, cells, (False,) * len(_HEADERS))
    head = printable(f"{frontier.model} on {frontier.accelerator}, {frontier.memory_system}{timing_clause(frontier.timing)}", 400)
    note = (
        f"{len(frontier.points)} Pareto points of {frontier.candidates} schedules, of which {frontier.replayed} were replayed; "
        "bytes are the arena to set aside."
    )
    said = "\n".join(filled(line) for line in (note, *bounds_text(frontier).splitlines()))
    return f"{head}\n\n{table}\n\n{said}"


def frontier_json(frontier: Frontier) -> FrontierEntry:
    """The frontier for documents."""
    system = MemorySystemEntry(frontier.memory_system, frontier.memory_system_sha256, frontier.clock_hz)
    return extended(FrontierEntry, frontier, memory_system=system, timing=timing_json(frontier.timing), tools=dict(frontier.tools))


def frontier_deadline(frontier: Frontier, deadline: float) -> str:
    """The smallest schedule of a frontier that meets a time of one inference, in a sentence."""
    point = frontier.at_most(cycles_in(deadline, frontier.clock_hz))
    if point is None:
        fastest = frontier.points[-1]
        return f"No schedule that was found meets the deadline. {deadline_sentence(fastest.cycles, frontier.clock_hz, deadline)}"
    return f"{point.memory:,} bytes are enough. {deadline_sentence(point.cycles, frontier.clock_hz, deadline)}"
