"""Comma-separated values as files: texts come from models, so that they are made safe for a terminal that shows the file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from npu_model.printable import printable

_LONGEST = 2000
"""Characters of a cell: that of a refusal is a sentence."""


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters by which a spreadsheet takes a text for a formula, and runs it (OWASP, "CSV Injection")."""


def plain_text(text: str) -> str:
    r"""A text from a model as a cell: what cannot be printed as its escape, and no formula, as an apostrophe comes before one.

    >>> plain_text("=cmd|' /C calc'!A0"), plain_text("a\x1b[2K"), plain_text("conv=1")
    ("'=cmd|' /C calc'!A0", 'a\\x1b[2K', 'conv=1')
    """
    return printable(f"'{text}" if text.startswith(_FORMULA) else text, _LONGEST)


def csv_file(rows: Iterable[Sequence[object]]) -> bytes:
    r"""The bytes of a file with these rows, the header first; of a text what cannot be printed is there as its escape.

    >>> csv_file([["layer", "cycles"], ["a\x1b[2K, b", 7]])
    b'layer,cycles\n"a\\x1b[2K, b",7\n'
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([plain_text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return text.getvalue().encode("utf-8")
