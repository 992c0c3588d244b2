"""A table of text cells with a title and notes: what every scorecard renders to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import wrap
from typing import TypeVar

from msgspec import Struct

from npu_model.printable import printable
from validation.layout import filled, grid

T = TypeVar("T")

_CELL, _NOTE = 400, 4000
"""Characters of a cell and of a note that are shown."""

_WIDTH = 120
"""Characters of a line of a page's prose; the lines of its tables are as wide as their cells."""


def prose(text: str, indent: str = "") -> list[str]:
    """The lines of a paragraph of a Markdown page, ``indent`` before each but the first."""
    return wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def items(texts: Sequence[str]) -> list[str]:
    """The lines of a list of a Markdown page."""
    return [line for text in texts for line in prose(f"- {text}", "  ")]


class Table(Struct, frozen=True):
    """``rows`` hold one text cell per header; cells that are numbers are aligned to the right."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, title: str, values: Iterable[T], columns: Mapping[str, Callable[[T], object]], notes: tuple[str, ...] = ()) -> Table:
        """A table with a row for each value. A column has its header, and the function that gives its cell for a value."""
        return cls(title, tuple(columns), tuple(tuple(str(cell(value)) for cell in columns.values()) for value in values), notes)

    @property
    def _numeric(self) -> tuple[bool, ...]:
        """Whether each column holds nothing but numbers."""
        return tuple(all(_is_number(row[column]) for row in self.rows) for column in range(len(self.headers)))

    def text(self) -> str:
        """The table for a terminal, with its title and notes."""
        rows = [[printable(cell, _CELL) for cell in row] for row in self.rows]
        cells = grid(self.headers, rows, [not numeric for numeric in self._numeric])
        notes = (filled(printable(note, _NOTE)) for note in self.notes)
        return "\n".join([printable(self.title, _CELL), "", cells, *notes])

    def markdown(self) -> str:
        """The table as a section of a Markdown page, each note a paragraph."""
        rule = tuple("--:" if numeric else "---" for numeric in self._numeric)
        rows = (tuple(_in_markdown(cell) for cell in row) for row in self.rows)
        lines = [f"| {' | '.join(cells)} |" for cells in (self.headers, rule, *rows)]
        return "\n".join([f"## {self.title}", "", *lines, *(line for note in self.notes for line in ("", *prose(note)))]) + "\n"


def _in_markdown(cell: str) -> str:
    """A cell in a Markdown table, where a bar would begin the next one and a tag would be HTML."""
    return printable(cell, _CELL).replace("|", "\\|").replace("<", "&lt;")


def _is_number(cell: str) -> bool:
    return not cell or cell == "-" or cell[0] in "+-0123456789"


def percent(ratio: float | None) -> str:
    """A signed ratio in per cent with two decimals; "-" for None, no sign for a number that rounds to zero."""
    if ratio is None:
        return "-"
    text = f"{100 * ratio:+.2f} %"
    return "0.00 %" if text in ("+0.00 %", "-0.00 %") else text


def share(ratio: float) -> str:
    """An unsigned ratio in per cent with two decimals."""
    return f"{100 * ratio:.2f} %"
