"""The arena as a picture: every tensor's live bytes and every staged copy as a named area, addresses over cycles."""

from __future__ import annotations

from npu_testbed.replays.layer_names import all_shortened, shortened
from npu_testbed.views.arena_map import Area, AreaKind, ArenaMap
from npu_testbed.views.svg import INK, PlotAxis, axes, document, element, path_of, text, title

WIDTH, HEIGHT = 1180, 680
LEFT, RIGHT, TOP, BOTTOM = 90, 1150, 84, 610
KIB = 1024

LIMIT = "#b00020"
"""Colour of the line at the arena's end."""

COLORS = {
    AreaKind.INPUT: ("#bdbdbd",),
    AreaKind.OUTPUT: ("#8c8c8c",),
    AreaKind.TENSOR: ("#a6cee3", "#b9d9a7", "#c7c3e6", "#9fd8cb", "#8fb8de"),
    AreaKind.ROLLING: ("#6baed6", "#74b566", "#9a8fce", "#4fb3a1", "#5b8fc4"),
    AreaKind.STAGED: ("#f5a55a",),
}
"""Fills by kind. Tensors take turns, so that neighbours differ; only weights are orange."""

CHARACTER = 6.4
"""Average width of a character in a label of size 11, in pixels."""


def _outline(area: Area, x: PlotAxis, y: PlotAxis) -> str:
    """A polygon for each stretch of time without a gap: along the upper edge, and back along the lower edge."""
    paths: list[str] = []
    upper: list[tuple[float, float]] = []
    lower: list[tuple[float, float]] = []
    end = -1
    for slab in area.slabs:
        if slab.start != end and upper:
            paths.append(path_of([*upper, *reversed(lower)]) + "Z")
            upper, lower = [], []
        upper += [(x.at(slab.start), y.at(slab.high)), (x.at(slab.end), y.at(slab.high))]
        lower += [(x.at(slab.start), y.at(slab.low)), (x.at(slab.end), y.at(slab.low))]
        end = slab.end
    paths.append(path_of([*upper, *reversed(lower)]) + "Z")
    return "".join(paths)


def _largest(area: Area, x: PlotAxis, y: PlotAxis) -> tuple[float, float, float, float]:
    """The pixels (left, right, top, bottom) of the slab with the most room for a label."""
    boxes = [(x.at(s.start), x.at(s.end), y.at(s.high), y.at(s.low)) for s in area.slabs]
    return max(boxes, key=lambda box: min(box[1] - box[0], 240) * min(box[3] - box[2], 40))


def _spellings(name: str, short: str) -> list[str]:
    """Spellings of a name, from long to short: whole, without the model's name, as in tables, and the beginning of that.

    >>> _spellings("net/block_1/expand/Relu6;net/block_1/expand/Conv2D", "block_1/expand")
    ['net/block_1/expand/Relu6', 'block_1/expand/Relu6', 'block_1/expand', 'block_1']
    """
    head = name.partition(";")[0]
    ways = (shortened(head), shortened(head.partition("/")[2]), short, short.partition("/")[0])
    return [way for way in dict.fromkeys(ways) if way]


def _label(area: Area, short: str, x: PlotAxis, y: PlotAxis) -> str:
    """The area's name where it fits, horizontally or vertically. Otherwise none; a viewer shows the name as a tooltip."""
    left, right, top, bottom = _largest(area, x, y)
    width, height = right - left, bottom - top
    across, up = (left + right) / 2, (top + bottom) / 2
    for words in _spellings(area.name, short):
        length = CHARACTER * len(words)
        if length <= width - 4 and height >= 13:
            return text(across, up + 4, words, size=11, anchor="middle")
        if length <= height - 4 and width >= 13:
            return text(0, 0, words, size=11, anchor="middle", transform=f"translate({across + 4:.2f} {up:.2f}) rotate(-90)")
    return ""


def _area(area: Area, number: int, x: PlotAxis, y: PlotAxis) -> str:
    fills = COLORS[area.kind]
    high = max(slab.high - slab.low for slab in area.slabs)
    words = f"{area.name}: {area.kind.value}, up to {high:,} bytes, cycles {area.slabs[0].start:,} to {area.slabs[-1].end:,}"
    return element(
        "path",
        title(words),
        d=_outline(area, x, y),
        fill=fills[number % len(fills)],
        stroke="#444444",
        stroke_width=0.5,
        stroke_linejoin="round",
    )


def _legend() -> list[str]:
    parts, position = [], float(LEFT)
    for kind in AreaKind:
        for index, color in enumerate(COLORS[kind][:2]):
            parts.append(element("rect", x=position + 9 * index, y=50, width=13, height=13, fill=color, stroke="#444444", stroke_width=0.5))
        position += 28
        parts.append(text(position, 61, kind.value, size=12))
        position += 22 + 6.9 * len(kind.value)
    return parts


def sram_map_svg(arena: ArenaMap) -> str:
    """The picture: cycles to the right, addresses upwards, the end of the arena as a line."""
    x = PlotAxis(0, max(arena.cycles, 1), LEFT, RIGHT, unit=1000)
    y = PlotAxis(0, max(arena.arena_size, 1) * 1.04, BOTTOM, TOP, unit=KIB)
    end = y.at(arena.arena_size)
    shorts = all_shortened([area.name for area in arena.areas])
    body = [
        text(LEFT, 32, f"{arena.model} on {arena.accelerator}: {arena.cycles:,} cycles in an arena of {arena.arena_size:,} bytes", size=17),
        *_legend(),
        *axes(x, y, "NPU cycles [thousand]", "address in the arena [KiB]"),
        *(_area(area, number, x, y) for number, area in enumerate(arena.areas)),
        *filter(None, (_label(area, short, x, y) for area, short in zip(arena.areas, shorts, strict=True))),
        element("path", d=path_of([(LEFT, end), (RIGHT, end)]), stroke=LIMIT, stroke_width=1.6, stroke_dasharray="8 4"),
        text(RIGHT, end - 5, f"end of the arena: {arena.arena_size:,} bytes", size=12, anchor="end", color=LIMIT),
        element("path", d=path_of([(LEFT, BOTTOM), (RIGHT, BOTTOM)]), stroke=INK),
    ]
    return document(WIDTH, HEIGHT, body)
