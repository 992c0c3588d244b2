"""The measured part of docs/python.md: ``PYTHONPATH=.:tests python tests/python_page.py`` writes it anew."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

from examples.one_import import main

PAGE = Path(__file__).parents[1] / "docs" / "python.md"
OPEN = "<!-- measured: one import -->\n```text\n"


def printed() -> str:
    """Output of the example."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
    return output.getvalue()


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(OPEN)
    PAGE.write_text(f"{before}{OPEN}{printed()}```{rest.partition('```')[2]}", encoding="utf-8")
