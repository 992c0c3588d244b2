"""The frontier as a picture: our staircase of SRAM and cycles, the lower bound, and Vela's points if there are any."""

from __future__ import annotations

from collections.abc import Sequence

from npu_testbed.comparisons.comparison import Comparison
from npu_testbed.replays.vela_runs import VelaPoint
from npu_testbed.reports.macs import recomputed_share
from npu_testbed.searches.frontiers import Frontier, FrontierPoint
from npu_testbed.views.svg import PlotAxis, axes, document, element, path_of, text, title, with_air

WIDTH, HEIGHT = 960, 600
LEFT, RIGHT, TOP, BOTTOM = 90, 930, 92, 530
ROW = 20
KIB = 1024

OURS, SIZE, PERFORMANCE, SWEEP, BOUND = "#0072b2", "#d55e00", "#cc3377", "#e69f00", "#666666"
"""Colours of Okabe and Ito's palette (the third darker), which colour-blind readers tell apart."""

AGAIN = "#009e73"
"""The colour of a point that recomputes MACs."""

KINDS = ("all in the arena, nothing recomputed", "recomputed MACs", "tensors outside the arena", "both")
"""Marks of our points by their price: green with recomputed MACs, hollow with tensors outside the arena."""


def kind_of(point: FrontierPoint) -> int:
    """The index of a point in :data:`KINDS`: by recomputed MACs, and by tensors outside the arena."""
    return (1 if point.recomputed_macs else 0) + (2 if point.homes else 0)


def _dot(kind: int, cx: float, cy: float, words: str = "") -> str:
    color = AGAIN if kind & 1 else OURS
    inside = (title(words),) if words else ()
    return element("circle", *inside, cx=cx, cy=cy, r=3.6, fill="white" if kind & 2 else color, stroke=color, stroke_width=1.4)


def _words(point: FrontierPoint) -> str:
    again = f", {recomputed_share(point.macs, point.recomputed_macs)} MACs recomputed" if point.recomputed_macs else ""
    return (
        f"{point.memory:,} bytes, {point.cycles:,} cycles{again}{', outside the arena: ' + ', '.join(point.homes) if point.homes else ''}"
    )


def _staircase(frontier: Frontier, x: PlotAxis, y: PlotAxis) -> list[str]:
    """A line from each point to the right, because its schedule also fits a larger memory, until the next faster point."""
    corners: list[tuple[float, float]] = []
    for point in frontier.points:
        if corners:
            corners.append((x.at(point.memory), corners[-1][1]))
        corners.append((x.at(point.memory), y.at(point.cycles)))
    corners.append((x.end, corners[-1][1]))
    line = element("path", d=path_of(corners), stroke=OURS, fill="none", stroke_width=2.2, stroke_linejoin="round")
    dots = [_dot(kind_of(point), x.at(point.memory), y.at(point.cycles), _words(point)) for point in frontier.points]
    return [line, *dots]


def _bound(frontier: Frontier, x: PlotAxis, y: PlotAxis) -> list[str]:
    position = x.at(frontier.bounds.this_search)
    return [element("path", d=path_of([(position, y.start), (position, y.end)]), stroke=BOUND, stroke_dasharray="6 4", stroke_width=1.4)]


def _color(point: VelaPoint) -> str:
    if point.arena_cache_size is not None:
        return SWEEP
    return SIZE if point.optimise == "Size" else PERFORMANCE


def _mark(point: VelaPoint, x: PlotAxis, y: PlotAxis) -> str:
    """A square for the C++ core, a triangle for the Python core; smaller in the sweep, hollow if it overflows its size."""
    at, to, radius = x.at(point.memory), y.at(point.cycles), 4.5 if point.arena_cache_size is not None else 7.0
    if point.core == "C++":
        corners = [(at - radius, to - radius), (at + radius, to - radius), (at + radius, to + radius), (at - radius, to + radius)]
    else:
        corners = [(at, to - 1.2 * radius), (at + 1.1 * radius, to + 0.9 * radius), (at - 1.1 * radius, to + 0.9 * radius)]
    words = f"{point.run.name}, {point.core} core: {point.memory:,} bytes, {point.cycles:,} cycles"
    color = _color(point)
    return element(
        "path", title(words), d=path_of(corners) + "Z", fill="white" if point.overflows else color, stroke=color, stroke_width=1.4
    )


def _legend(frontier: Frontier, vela: Sequence[VelaPoint]) -> list[str]:
    """Names of the series in rows above the plot: ours, the kinds of our points if there are several, and Vela's."""
    parts: list[str] = []
    parts.append(element("path", d=path_of([(LEFT, 62), (LEFT + 26, 62)]), stroke=OURS, stroke_width=2.2))
    parts.append(element("circle", cx=float(LEFT + 13), cy=62.0, r=3.6, fill=OURS))
    parts.append(text(LEFT + 34, 66.5, "npu-testbed, every point replayed"))
    parts.append(element("path", d=path_of([(LEFT + 300, 62), (LEFT + 326, 62)]), stroke=BOUND, stroke_dasharray="6 4", stroke_width=1.4))
    parts.append(text(LEFT + 334, 66.5, "lower bound of the kinds of schedules searched"))
    height = 88
    if kinds := _kinds(frontier):
        position = LEFT
        for number in kinds:
            parts.append(_dot(number, float(position + 13), height - 4.0))
            parts.append(text(position + 34, height, KINDS[number]))
            position += 52 + int(6.8 * len(KINDS[number]))
        height += ROW
    if vela:
        entries = [("Vela Size", SIZE), ("Vela Performance", PERFORMANCE), ("Vela at other arena sizes", SWEEP)]
        position = LEFT
        for name, color in entries:
            parts.append(element("rect", x=position + 7, y=height - 10, width=11, height=11, fill=color))
            parts.append(text(position + 34, height, name))
            position += 52 + int(6.8 * len(name))
        note = "square: C++ core, triangle: Python core, hollow: overflows"
        parts.append(text(RIGHT, height, note, size=11, anchor="end", color=BOUND))
    return parts


def _kinds(frontier: Frontier) -> list[int]:
    """The kinds of points that a legend distinguishes; empty if all points are of the usual kind."""
    kinds = sorted({kind_of(point) for point in frontier.points})
    return [] if kinds == [0] else kinds


def _plot(frontier: Frontier, vela: Sequence[VelaPoint]) -> str:
    bytes_range = with_air([p.memory for p in frontier.points] + [p.memory for p in vela] + [max(1, frontier.bounds.this_search)])
    cycles_range = with_air([p.cycles for p in frontier.points] + [p.cycles for p in vela])
    top = TOP + ROW * (bool(vela) + bool(_kinds(frontier)))
    unit, name = (1e6, "million") if cycles_range[1] >= 2e6 else (1e3, "thousand")
    x = PlotAxis(*bytes_range, LEFT, RIGHT, unit=KIB, logarithmic=True)
    y = PlotAxis(*cycles_range, BOTTOM, top, unit=unit, logarithmic=True)
    heading = f"{frontier.model} on {frontier.accelerator}, {frontier.memory_system}"
    body = [
        text(LEFT, 34, heading, size=17),
        *_legend(frontier, vela),
        *axes(x, y, "arena [KiB], logarithmic", f"NPU cycles [{name}], logarithmic"),
        *_bound(frontier, x, y),
        *_staircase(frontier, x, y),
        *(_mark(point, x, y) for point in sorted(vela, key=lambda p: p.arena_cache_size is None)),
    ]
    return document(WIDTH, HEIGHT, body)


def frontier_svg(frontier: Frontier) -> str:
    """Our frontier alone."""
    return _plot(frontier, ())


def comparison_svg(comparison: Comparison) -> str:
    """Our frontier with Vela Size, Vela Performance and Vela's sweep."""
    return _plot(comparison.frontier, comparison.points)
