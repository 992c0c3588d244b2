"""Comma-separated values as files: texts come from models, so that they are made safe for a terminal that shows the file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from npu_model.printable import printable

_LONGEST = 2000
"""Characters of a cell: that of a refusal is a sentence."""


def csv_file(rows: Iterable[Sequence[object]]) -> bytes:
    r"""The bytes of a file with these rows, the header first; of a text what cannot be printed is there as its escape.

    >>> csv_file([["layer", "cycles"], ["a\x1b[2K, b", 7]])
    b'layer,cycles\n"a\\x1b[2K, b",7\n'
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([printable(cell, _LONGEST) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return text.getvalue().encode("utf-8")
