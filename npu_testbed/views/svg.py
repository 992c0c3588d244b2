"""SVG text: elements, axes with ticks, and a plotting area that maps values to pixels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, floor, log, log10, sqrt
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct

from npu_model.printable import printable

FONT = "font-family: 'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif"
INK, FAINT = "#222222", "#dddddd"


def element(tag: str, content: str = "", **attributes: object) -> str:
    """One element; underscores in the names of attributes become hyphens, numbers get two decimals at most.

    >>> element("circle", cx=1.0, cy=2.345, fill_opacity=0.5)
    '<circle cx="1" cy="2.35" fill-opacity="0.5"/>'
    """
    plain = " ".join(f"{name.replace('_', '-')}={quoteattr(_text(value))}" for name, value in attributes.items())
    opening = f"<{tag} {plain}" if plain else f"<{tag}"
    return f"{opening}>{content}</{tag}>" if content else f"{opening}/>"


def _text(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def text(x: float, y: float, words: str, *, size: int = 13, anchor: str = "start", color: str = INK, **attributes: object) -> str:
    """A line of text with its baseline at ``y``."""
    return element("text", escape(printable(words)), x=float(x), y=float(y), font_size=size, text_anchor=anchor, fill=color, **attributes)


def title(words: str) -> str:
    """The text that a viewer shows when the pointer rests on the enclosing element."""
    return f"<title>{escape(printable(words, 1000))}</title>"


def path_of(points: Iterable[tuple[float, float]]) -> str:
    """The commands of a path through ``points``."""
    return "M" + "L".join(f"{_text(float(x))} {_text(float(y))}" for x, y in points)


def document(width: int, height: int, body: Sequence[str]) -> str:
    """A whole SVG file on a white ground."""
    ground = element("rect", width=width, height=height, fill="white")
    inside = "\n".join((ground, *body))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'style="{FONT}">\n{inside}\n</svg>\n'
    )


def linear_ticks(low: float, high: float, most: int = 8) -> tuple[float, ...]:
    """Round values inside a range, 1, 2 or 5 times a power of ten apart.

    >>> linear_ticks(0, 10, 6)
    (0.0, 2.0, 4.0, 6.0, 8.0, 10.0)
    """
    span = max(high - low, 1e-9)
    power = 10.0 ** floor(log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if span / (power * factor) <= most)
    return tuple(step * i for i in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1))


def log_ticks(low: float, high: float, most: int = 8) -> tuple[float, ...]:
    """Round values inside a positive range for a logarithmic axis: few multiples of powers of ten, or linear ones in a short range.

    >>> log_ticks(90, 1200)
    (100, 150.0, 200, 300, 500, 700, 1000)
    """
    for factors in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        powers = range(floor(log10(low)), ceil(log10(high)) + 1)
        values = tuple(factor * 10**power for power in powers for factor in factors if low <= factor * 10**power <= high)
        if len(values) <= most:
            return values if len(values) > 3 else linear_ticks(low, high, most)
    return linear_ticks(low, high, most)


def with_air(values: Sequence[float]) -> tuple[float, float]:
    """The range of values above 0, with some air on both sides of a logarithmic axis."""
    low, high = min(values), max(values)
    air = max(sqrt(high / low), 1.2) ** 0.16
    return low / air, high * air


class PlotAxis(Struct, frozen=True):
    """Values ``low`` to ``high`` on pixels ``start`` to ``end``; ``unit`` divides them for the labels."""

    low: float
    high: float
    start: float
    end: float
    unit: float = 1.0
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """The pixel of a value."""
        value, low, high = (log(value), log(self.low), log(self.high)) if self.logarithmic else (value, self.low, self.high)
        share = (value - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 8) -> list[tuple[float, str]]:
        """Pixels and labels."""
        low, high = self.low / self.unit, self.high / self.unit
        values = log_ticks(low, high, most) if self.logarithmic else linear_ticks(low, high, most)
        return [(self.at(value * self.unit), f"{value:,.10g}") for value in values]


def axes(x: PlotAxis, y: PlotAxis, x_label: str, y_label: str) -> list[str]:
    """The frame of a plotting area with grid lines, tick labels and the names of both axes."""
    parts = []
    for position, label in x.ticks(10):
        parts.append(element("path", d=path_of([(position, y.start), (position, y.end)]), stroke=FAINT))
        parts.append(text(position, y.start + 20, label, anchor="middle"))
    for position, label in y.ticks():
        parts.append(element("path", d=path_of([(x.start, position), (x.end, position)]), stroke=FAINT))
        parts.append(text(x.start - 8, position + 4.5, label, anchor="end"))
    frame = [(x.start, y.end), (x.start, y.start), (x.end, y.start)]
    parts.append(element("path", d=path_of(frame), stroke=INK, fill="none"))
    parts.append(text((x.start + x.end) / 2, y.start + 46, x_label, size=14, anchor="middle"))
    middle = (y.start + y.end) / 2
    parts.append(text(0, 0, y_label, size=14, anchor="middle", transform=f"translate({_text(x.start - 62)} {_text(middle)}) rotate(-90)"))
    return parts
