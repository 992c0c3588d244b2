"""When the DMA and the convolutions of a tiled Program were at work: spans by job, heard during the replay, and their picture."""

from __future__ import annotations

from collections.abc import Sequence

from npu_model.program import Program
from npu_testbed.views.svg import FAINT, INK, PlotAxis, document, element, path_of, text, title
from sim.events import Busy, Event, Unit

LANES = {"load": "DMA: load", "convolve": "NPU: convolve", "store": "DMA: store"}
COLORS = {"load": ("#6baed6", "#3182bd"), "convolve": ("#74c476", "#31a354"), "store": ("#fdae6b", "#e6550d")}
"""Two shades by turns, so that neighbouring jobs can be told apart."""

WIDTH, LEFT, RIGHT = 1180, 130, 1150
LANE, GAP, TOP = 24, 6, 40
PANEL = len(LANES) * (LANE + GAP) + 58
MEGA = 1e6
LABEL_PIXELS = 26
"""Least width of a bar that has its job's number on it."""


class Spans:
    """A listener: the first and the last cycle at which each named step kept its unit busy.

    Steps are ``load n``, ``convolve n`` and ``store n``; a transfer counts while the DMA is at it, a convolution from
    its first fetch to its last write.
    """

    def __init__(self, heading: str) -> None:
        self.heading = heading
        self.spans: dict[tuple[str, int], tuple[int, int]] = {}
        self.cycles = 0
        self._names: tuple[str, ...] = ()

    def on_start(self, program: Program) -> None:
        """A Program begins."""
        self._names = program.names

    def on_event(self, event: Event) -> None:
        """Widen the span of the event's step."""
        self.cycles = max(self.cycles, event.end)
        kind, _, number = self._names[event.operation].partition(" ")
        if isinstance(event, Busy) and kind in LANES and event.unit is not Unit.CC:
            first, last = self.spans.get((kind, int(number)), (event.start, event.end))
            self.spans[kind, int(number)] = (min(first, event.start), max(last, event.end))


def _panel(spans: Spans, until: int, top: float, heading: str) -> list[str]:
    """The lanes of one replay up to cycle ``until``."""
    x = PlotAxis(0, until, LEFT, RIGHT, unit=MEGA)
    parts = [text(LEFT, top - 10, heading, size=14)]
    bottom = top + len(LANES) * (LANE + GAP)
    for position, label in x.ticks(10):
        parts.append(element("path", d=path_of([(position, top), (position, bottom)]), stroke=FAINT))
        parts.append(text(position, bottom + 15, label, size=11, anchor="middle"))
    for lane, (kind, name) in enumerate(LANES.items()):
        y = top + lane * (LANE + GAP)
        parts.append(text(LEFT - 8, y + 16, name, size=12, anchor="end"))
        for (own, number), (start, end) in sorted(spans.spans.items()):
            if own == kind and start < until:
                left, right = x.at(start), x.at(min(end, until))
                bar = {"x": left, "y": y, "width": max(right - left, 0.6), "height": LANE, "fill": COLORS[kind][number % 2]}
                parts.append(element("rect", title(f"{kind} {number}: cycles {start:,} to {end:,}"), **bar))
                if right - left > LABEL_PIXELS:
                    color = "white" if number % 2 else INK
                    parts.append(text((left + right) / 2, y + 16, str(number), size=11, anchor="middle", color=color))
    return parts


ENLARGED = 6
"""Jobs that the last panel shows."""


def picture(timelines: Sequence[Spans]) -> str:
    """All replays on one scale, and the first jobs of the last one enlarged, as SVG."""
    longest = max(spans.cycles for spans in timelines)
    body: list[str] = []
    for number, spans in enumerate(timelines):
        body += _panel(spans, longest, TOP + number * PANEL, f"{spans.heading}: {spans.cycles:,} cycles")
    last = timelines[-1]
    top = TOP + len(timelines) * PANEL
    until = max(end for (_, number), (_, end) in last.spans.items() if number < ENLARGED)
    jobs = 1 + max(number for _, number in last.spans)
    body += _panel(last, until, top, f"{last.heading}: the first {ENLARGED} of {jobs} jobs, enlarged")
    height = top + PANEL
    body.append(text((LEFT + RIGHT) / 2, height - 8, "million NPU cycles", size=13, anchor="middle", color=INK))
    return document(WIDTH, height, body)
