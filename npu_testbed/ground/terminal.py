"""Colour on a terminal, for the unit or memory that binds each layer and for the savings of findings. Elsewhere text is plain."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from npu_testbed.ground.output import Output, Span

_COLOURS = (
    (r"MAC array|output unit", "green"),
    (r"weights|DMA", "red"),
    (r"input load|write-back", "yellow"),
    (r"\S", "magenta"),
)
"""Colours of the bounds of layers: green for work, red for constants, yellow for the arena, magenta for the order of work."""

_RULE = r"-+(?:  -+)*"
_COLUMN = "bound"
_RECORD = r"(?<=bound by )[^\s;][^;\n]*"
_SAVING = r"(?:saves|falls by) [\d,]+(?: cycles)? \([\d.]+%\)"


def _colour(cell: str) -> str:
    return next(colour for pattern, colour in _COLOURS if re.search(pattern, cell))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Every line with the position of its first character."""
    position = 0
    for line in text.splitlines(keepends=True):
        yield position, line.rstrip("\n")
        position += len(line)


def _bound_column(text: str) -> Iterator[Span]:
    """The cells of the column "bound by" of every table in the text; a cell of two lines is of one colour."""
    heading: list[str] = []
    column: slice | None = None
    colour = ""
    for position, line in _lines(text):
        if re.fullmatch(_RULE, line):
            spans = [slice(*match.span()) for match in re.finditer("-+", line)]
            column = next((one for one in spans if any(above[one].startswith(_COLUMN) for above in heading)), None)
        elif not line:
            heading, column = [], None
        elif column is None:
            heading.append(line)
        elif cell := line[column].strip():
            goes_on = line[:1] == " " and colour
            colour = colour if goes_on else _colour(cell)
            yield position + column.start, position + column.start + len(line[column].rstrip()), colour


def spans(text: str) -> list[Span]:
    r"""Stretches of a report and their colours: the bound of each layer, and the saving of each finding.

    >>> spans("layer  bound by\n-----  ---------\nconv   MAC array")
    [(40, 49, 'green')]
    """
    found = list(_bound_column(text))
    found += [(match.start(), match.end(), _colour(match[0])) for match in re.finditer(_RECORD, text)]
    return sorted([*found, *((match.start(), match.end(), "bold") for match in re.finditer(_SAVING, text))])


def show(text: str) -> None:
    """Print a report, in colour on a colour terminal unless ``NO_COLOR`` is set."""
    if isinstance(sys.stdout, Output):
        sys.stdout.write_coloured(f"{text}\n", spans(text))
    elif sys.stdout is not None:
        # It is None if it was closed before the command began.
        sys.stdout.write(f"{text}\n")
