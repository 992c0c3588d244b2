"""Comma-separated values as files. Texts from models are made safe for a terminal that shows the file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from npu_model.printable import printable

_LONGEST = 2000
"""Largest number of characters in a cell; a refusal is a whole sentence."""


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters that make a spreadsheet run a text as a formula (OWASP, "CSV Injection")."""


def plain_text(text: str) -> str:
    r"""A text from a model as a cell: unprintable characters become escapes, and an apostrophe before a formula disables it.

    >>> plain_text("=cmd|' /C calc'!A0"), plain_text("a\x1b[2K"), plain_text("conv=1")
    ("'=cmd|' /C calc'!A0", 'a\\x1b[2K', 'conv=1')
    """
    return printable(f"'{text}" if text.startswith(_FORMULA) else text, _LONGEST)


def csv_file(rows: Iterable[Sequence[object]]) -> bytes:
    r"""The bytes of a file with these rows, the header first. Unprintable characters become escapes.

    >>> csv_file([["layer", "cycles"], ["a\x1b[2K, b", 7]])
    b'layer,cycles\n"a\\x1b[2K, b",7\n'
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([plain_text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return text.getvalue().encode("utf-8")
