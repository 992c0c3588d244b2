"""A sweep as a picture: a plot of milliseconds over bytes of the arena for each network, a line for each accelerator and memory system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npu_testbed.comparisons.sweeps.run import Result
from npu_testbed.comparisons.sweeps.sweep_tables import memory_name
from npu_testbed.views.svg import PlotAxis, axes, document, element, path_of, text, title, with_air

WIDTH, LEFT, RIGHT, TOP = 1040, 90, 1010, 50
PLOT, SEVERAL, LINE = 440, 280, 20
"""Heights of the plot of one network, of each of several, and of a line of the legend."""

AROUND = 100
"""Pixels of a plot's heading and of the labels of its axis."""

KIB = 1024

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc3377", "#e69f00", "#56b4e9", "#666666")
"""Colours of Okabe and Ito's palette, by accelerator; memory systems differ in their dashes."""

DASHES = ("none", "8 4", "2 3", "10 3 2 3", "5 2", "1 2")


Look = tuple[str, str]
"""Colour and dashes of a line."""


def _looks(known: Sequence[Result]) -> dict[tuple[str, str], Look]:
    """The style of each accelerator and memory system, the same in every plot."""
    lines = dict.fromkeys((one.point.device, memory_name(one)) for one in known)
    devices, memories = (list(dict.fromkeys(names)) for names in zip(*lines, strict=True))
    return {
        (device, memory): (COLOURS[devices.index(device) % len(COLOURS)], DASHES[memories.index(memory) % len(DASHES)])
        for device, memory in lines
    }


def _legend(looks: Mapping[tuple[str, str], Look]) -> list[str]:
    parts = []
    for number, ((device, memory), (colour, dash)) in enumerate(looks.items()):
        height = TOP + LINE * number
        parts.append(
            element("path", d=path_of([(LEFT, height), (LEFT + 40, height)]), stroke=colour, stroke_width=2, stroke_dasharray=dash)
        )
        parts.append(text(LEFT + 50, height + 4.5, f"{device}, {memory}"))
    return parts


def _plot(known: Sequence[Result], looks: Mapping[tuple[str, str], Look], top: float, height: float) -> list[str]:
    """The plot of a network's points, ``height`` pixels from ``top`` on."""
    x = PlotAxis(*with_air([one.answer.arena_bytes for one in known]), LEFT, RIGHT, unit=KIB, logarithmic=True)
    y = PlotAxis(*with_air([one.milliseconds for one in known]), top + height, top, logarithmic=True)
    body = axes(x, y, "arena [KiB], logarithmic", "milliseconds, logarithmic")
    for (device, memory), (colour, dash) in looks.items():
        own = [one for one in known if (one.point.device, memory_name(one)) == (device, memory)]
        ordered = sorted(own, key=lambda one: (one.answer.arena_bytes, one.milliseconds))
        places = [(x.at(one.answer.arena_bytes), y.at(one.milliseconds)) for one in ordered]
        if places:
            body.append(element("path", d=path_of(places), stroke=colour, fill="none", stroke_width=2, stroke_dasharray=dash))
        for one, (at, to) in zip(ordered, places, strict=True):
            words = f"{device}, {memory}: {one.answer.arena_bytes:,} bytes, {one.milliseconds:.3f} ms"
            body.append(element("circle", title(words), cx=at, cy=to, r=4.0, fill=colour))
    return body


def sweep_svg(results: Sequence[Result]) -> str:
    """The picture of all points with a schedule, one network below the other. Without such points, an empty picture that says so."""
    known = [result for result in results if not result.answer.refused]
    if not known:
        return document(WIDTH, 80, [text(LEFT, 40, "No point of this sweep has a schedule.", size=17)])
    looks = _looks(known)
    models: dict[str, list[Result]] = {}
    for result in known:
        models.setdefault(result.point.source.name, []).append(result)
    height = PLOT if len(models) == 1 else SEVERAL
    # The first heading stands above the legend.
    body, top = _legend(looks), float(TOP + LINE * len(looks))
    for number, (name, own) in enumerate(models.items()):
        body.append(text(LEFT, 32 if not number else top - 14, f"{name}: one inference" if len(models) == 1 else name, size=17))
        body += _plot(own, looks, top, height)
        top += height + AROUND
    return document(WIDTH, round(top - AROUND + 70), body)
