"""Tables of text laid out for a terminal: at full width if that fits, else narrower, else a paragraph per row."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate, zip_longest
from textwrap import fill, wrap

from npu_model.printable import printable
from validation.short_names import name_end, short_names

WIDTH = 132
"""Characters of a line where no terminal says otherwise: the wide mode of the VT100, which the tables of a replay fit."""

_LEAST = 20
"""A narrower terminal is taken for one of this width."""

_GAP = 2
"""Spaces between columns."""

_PADDING = 2
"""Characters by which a column is wider than its header at least."""

_TIE = "\N{NO-BREAK SPACE}"
"""A space at which no line is broken."""

_TEXT = 16
"""Characters that a column of text keeps."""


def width() -> int:
    """Characters of a line: the environment's COLUMNS, else the width of the terminal on standard output, else :data:`WIDTH`."""
    with suppress(ValueError):
        if (asked := int(os.environ.get("COLUMNS", ""))) > 0:
            return max(asked, _LEAST)
    # Standard output may be closed, or a test may have replaced it.
    with suppress(OSError, ValueError, AttributeError):
        if sys.stdout.isatty():
            return max(os.get_terminal_size(sys.stdout.fileno()).columns, _LEAST)
    return WIDTH


def filled(sentence: str, indent: str = "") -> str:
    """A sentence in lines of at most :func:`width` characters, ``indent`` before each but the first; words longer than that stay whole."""
    return fill(sentence, width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def grid(headers: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[bool], limit: int | None = None) -> str:
    """The table in lines of at most ``limit`` characters (None: :func:`width`); ``left`` says which columns hold text.

    If it does not fit, headers and text are broken at spaces, and long names are cut in their middle. Numbers stay whole. If that is not
    enough, the columns are divided into parts that each begin with the first column, or every row becomes a paragraph.

    >>> print(grid(("layer", "AXI0 read"), [("conv", "1,204,224")], (True, False), 18))
    layer         AXI0
                  read
    -------  ---------
    conv     1,204,224
    """
    limit = width() if limit is None else limit
    room = limit - _GAP * (len(headers) - 1)
    if sum(max([len(header) + _PADDING, *map(len, cells)]) for header, *cells in zip(headers, *rows, strict=True)) <= room:
        return _tabulated(headers, rows, left)
    whole, least = _widths(headers, rows, left)
    if sum(least) <= room:
        widths = _narrowed(whole, least, room)
        named = [_broken(header, size - _PADDING) for header, size in zip(headers, widths, strict=True)]
        columns = (_narrow([row[place] for row in rows], size) for place, size in enumerate(widths))
        return _tabulated(named, list(zip(*columns, strict=True)), left)
    count = max(_fitting(whole, limit), _fitting(least, limit) and 2)
    if count < 2 or count == len(headers):
        return _records(headers, rows, limit)
    parts = (tuple(range(count)), (0, *range(count, len(headers))))
    return "\n\n".join(
        grid(_of(headers, part), [_of(row, part) for row in rows], [left[column] for column in part], limit) for part in parts
    )


def _of(row: Sequence[str], part: Sequence[int]) -> tuple[str, ...]:
    return tuple(row[column] for column in part)


def _fitting(widths: Sequence[int], limit: int) -> int:
    """The number of columns, from the first on, that fit; 0 if it is not two."""
    ends = accumulate(size + _GAP for size in widths)
    count = sum(end - _GAP <= limit for end in ends)
    return count if count > 1 else 0


def _tabulated(headers: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[bool]) -> str:
    """The table, broken nowhere, with cells of one or more lines: as tabulate makes it, whose import takes a fortieth of a second."""
    table = [[header.split("\n") for header in headers], *([cell.strip().split("\n") for cell in row] for row in rows)]
    sizes = [max(map(len, lines)) for lines in table[0]]
    widths = [max(size + _PADDING, *(len(line) for row in table[1:] for line in row[at]), 0) for at, size in enumerate(sizes)]
    sides = [str.ljust if text or not rows else str.rjust for text in left]
    gap = " " * _GAP

    def lines(row: Sequence[Sequence[str]]) -> list[str]:
        filled_up = zip_longest(*row, fillvalue="")
        return [gap.join(side(cell, size) for side, cell, size in zip(sides, line, widths, strict=True)).rstrip() for line in filled_up]

    under = gap.join("-" * size for size in widths)
    return "\n".join([*lines(table[0]), under, *(line for row in table[1:] for line in lines(row))])


def _widths(headers: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[bool]) -> tuple[list[int], list[int]]:
    """Widths of the columns with headers broken at spaces and cells whole, and with text as narrow as it may be."""
    words = [max(map(len, _joined(header).split(" ")), default=0) + _PADDING for header in headers]
    cells = [max(map(len, column), default=0) for column in zip(*rows, strict=True)] or [0] * len(headers)
    whole = [max(word, cell) for word, cell in zip(words, cells, strict=True)]
    least = [max(word, min(cell, _TEXT) if text else cell) for word, cell, text in zip(words, cells, left, strict=True)]
    return whole, least


def _narrowed(whole: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that take ``room`` characters: the widest columns of text are narrowed first."""
    widths = list(whole)
    while sum(widths) > room:
        widest = max((column for column in range(len(widths)) if widths[column] > least[column]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _narrow(column: Sequence[str], size: int) -> list[str]:
    """The cells of a column in lines of at most ``size`` characters; names in it that are cut can be told apart."""
    lines = [_broken(cell, size) for cell in column]
    single = [place for place, cell in enumerate(column) if " " not in cell]
    for place, name in zip(single, short_names([column[place] for place in single], size), strict=True):
        lines[place] = name
    return lines


def _broken(cell: str, size: int) -> str:
    """A cell in lines of at most ``size`` characters."""
    lines = wrap(_joined(cell), size, break_long_words=False, break_on_hyphens=False)
    return "\n".join(name_end(line.replace(_TIE, " "), size) for line in lines)


def _joined(cell: str) -> str:
    """A cell in which no line may end after a stroke: "bytes / Vela's" has two lines, not three."""
    return cell.replace(" / ", f" /{_TIE}")


def _records(headers: Sequence[str], rows: Sequence[Sequence[str]], limit: int) -> str:
    """A paragraph per row: its first cell, and under it the others, each with its header."""
    paragraphs = []
    for first, *others in rows:
        said = "; ".join(f"{header} {cell}" for header, cell in zip(headers[1:], others, strict=True) if cell)
        lines = [printable(first, limit), fill(said, limit, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)]
        paragraphs.append("\n".join(line for line in lines if line))
    return "\n".join(paragraphs)
