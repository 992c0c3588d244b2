"""Pages whose figures took hours to measure say in their first line of when, and of which commit, they are."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import portfolio_page
import pytest

ROOT = Path(__file__).parents[2]
MEASURED = ("memory.md", "performance.md", "portfolio.md", "tensorir.md")
"""Pages with figures that neither `tox` nor an environment of it measures again."""

FIRST_LINE = re.compile(r"# [^\n]+\n\nFigures of (\d{4}-\d\d-\d\d), commit ([0-9a-f]{7,40})\.\n")


@pytest.mark.parametrize("name", MEASURED)
def test_a_page_of_figures_says_of_when_they_are(name: str) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    found = FIRST_LINE.match(text)
    assert found is not None, f"docs/{name}: 'Figures of DATE, commit HASH.' below its title"
    shown = subprocess.run(
        ["git", "log", "-1", "--format=%ad", "--date=short", found[2]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if shown.returncode:
        pytest.skip("this is no clone with its history")
    assert shown.stdout.strip() == found[1]


def test_sections_of_the_portfolio_take_the_places_of_those_that_the_page_has() -> None:
    old = portfolio_page.PAGE.read_text(encoding="utf-8")
    device = portfolio_page.CONFIGURATIONS[1]
    new = portfolio_page.with_new(old, f"# Portfolio\n\n## {device}, elsewhere\n\nIts table.\n", "2000-01-01, commit 0123456")
    assert new.startswith("# Portfolio\n\nFigures of 2000-01-01, commit 0123456.\n")
    assert f"\n\n## {device}, elsewhere\n\nIts table.\n\n## " in new
    before, after = portfolio_page.sections(old), portfolio_page.sections(new)
    assert list(before) == list(after) == ["", *portfolio_page.CONFIGURATIONS, "What"]
    assert {name for name in before if before[name] != after[name]} == {"", device}
