"""The tables of docs/portfolio.md measured and written anew: ``PYTHONPATH=.:tests python tests/portfolio_page.py RESULTS [CONFIG ...]``.

All networks are examined on each configuration (all four without any) but those whose findings the folder RESULTS keeps. The sections of
these configurations take the place of those that the page has, and its first line says of which commit they are.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from npu_testbed.portfolio import examine_all
from npu_testbed.portfolio.tables import page

PAGE = Path(__file__).parents[1] / "docs" / "portfolio.md"
CONFIGURATIONS = ("ethos-u55-128", "ethos-u55-64", "ethos-u55-32", "ethos-u55-256")
"""Configurations in the order of the page's sections."""

_HEADING = re.compile(r"^(?=## )", re.MULTILINE)
_FIGURES = re.compile(r"^Figures of .*$", re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """The sections of a page by the first word of their headings, in their order; what stands before the first one is that of "".

    >>> sections("# A page\\n\\n## one, two\\n\\ntext\\n## three\\n")
    {'': '# A page\\n\\n', 'one': '## one, two\\n\\ntext\\n', 'three': '## three\\n'}
    """
    first, *others = _HEADING.split(text)
    return {"": first} | {re.split(r"[\s,]", one)[1]: one for one in others}


def with_new(old: str, new: str, figures: str) -> str:
    """A page with the sections of a new one in the places of its own, and the line that says of when its figures are."""
    found = sections(old) | {name: text.rstrip() + "\n\n" for name, text in sections(new).items() if name}
    order = sorted(found, key=lambda name: (name != "", (*CONFIGURATIONS, name).index(name)))
    text = "".join(found[name] for name in order).rstrip() + "\n"
    return _FIGURES.sub(f"Figures of {figures}.", text, count=1)


def of_this_commit() -> str:
    """The date and the name of the commit that is checked out."""
    asked = ["git", "log", "-1", "--format=%ad, commit %h", "--date=short"]
    return subprocess.run(asked, cwd=PAGE.parent, capture_output=True, text=True, check=True).stdout.strip()


def main(results: str, *configurations: str) -> None:
    """Measure, and write the page."""
    report = examine_all(accelerators=configurations or CONFIGURATIONS, results=Path(results), progress=print)
    old = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_new(old, page(report), of_this_commit()), encoding="utf-8")
    sys.stdout.write(f"{sum(one.passed for one in report.findings)} of {len(report.findings)} pass.\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
