"""A sweep of one network as a picture: milliseconds over bytes of the arena, a line for each accelerator and memory system."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from npu_testbed.sweeps.report import memory_name
from npu_testbed.sweeps.run import Result
from npu_testbed.views.svg import Axis, axes, document, element, path_of, text, title

WIDTH, LEFT, RIGHT, TOP = 1040, 90, 1010, 60
PLOT, LINE = 440, 20
KIB = 1024

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc3377", "#e69f00", "#56b4e9", "#666666")
"""Colours of Okabe and Ito's palette, by accelerator; memory systems differ in their dashes."""

DASHES = ("none", "8 4", "2 3", "10 3 2 3", "5 2", "1 2")


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    air = max(sqrt(high / low), 1.2) ** 0.16
    return low / air, high * air


def sweep_svg(results: Sequence[Result]) -> str:
    """The picture of all points that have a schedule; of none an empty one that says so."""
    known = [result for result in results if not result.answer.refused]
    if not known:
        return document(WIDTH, 80, [text(LEFT, 40, "No point of this sweep has a schedule.", size=17)])
    lines: dict[tuple[str, str], list[Result]] = {}
    for result in known:
        lines.setdefault((result.point.accelerator, memory_name(result)), []).append(result)
    devices = list(dict.fromkeys(device for device, _ in lines))
    memories = list(dict.fromkeys(memory for _, memory in lines))
    top = TOP + LINE * len(lines)
    x = Axis(*_range([r.answer.arena_bytes for r in known]), LEFT, RIGHT, unit=KIB, logarithmic=True)
    y = Axis(*_range([r.milliseconds for r in known]), top + PLOT, top, logarithmic=True)
    body = [text(LEFT, 32, f"{known[0].point.model.name}: one inference", size=17)]
    body += axes(x, y, "arena [KiB], logarithmic", "milliseconds, logarithmic")
    for number, ((device, memory), group) in enumerate(lines.items()):
        colour = COLOURS[devices.index(device) % len(COLOURS)]
        dash = DASHES[memories.index(memory) % len(DASHES)]
        ordered = sorted(group, key=lambda one: (one.answer.arena_bytes, one.milliseconds))
        places = [(x.at(one.answer.arena_bytes), y.at(one.milliseconds)) for one in ordered]
        body.append(element("path", d=path_of(places), stroke=colour, fill="none", stroke_width=2, stroke_dasharray=dash))
        for one, (at, to) in zip(ordered, places, strict=True):
            words = f"{device}, {memory}: {one.answer.arena_bytes:,} bytes, {one.milliseconds:.3f} ms"
            body.append(element("circle", title(words), cx=at, cy=to, r=4.0, fill=colour))
        height = 50 + LINE * number
        body.append(element("path", d=path_of([(LEFT, height), (LEFT + 40, height)]), stroke=colour, stroke_width=2, stroke_dasharray=dash))
        body.append(text(LEFT + 50, height + 4.5, f"{device}, {memory}"))
    return document(WIDTH, top + PLOT + 70, body)
