"""Pages whose figures took hours to measure say in their first line of when, and of which commit, they are."""

from __future__ import annotations

import csv
import re
import subprocess
from pathlib import Path

import portfolio_page
import pytest
from msgspec.structs import fields

from cascader.draft.drafter import DraftOptions
from cascader.ethosu.options import CascadeOptions
from cascader.plan.plans import PlanOptions
from npu_testbed.documents.portfolio import BytesAndCycles, Ours, VelaFigures
from npu_testbed.portfolio.verdict import Check, Examined, Report
from validation.portfolio import NETWORKS

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


def test_the_portfolio_page_has_the_totals_of_its_table() -> None:
    page = portfolio_page.PAGE.read_text(encoding="utf-8")
    assert portfolio_page.with_totals(page, portfolio_page.rows()) == page


def test_the_table_has_every_network_of_the_portfolio_once_and_vela_is_ahead_nowhere() -> None:
    rows = portfolio_page.rows()
    assert tuple(rows[0]) == portfolio_page.COLUMNS
    named = [row["network"] for row in rows]
    assert len(set(named)) == len(named)
    assert set(named) <= {one.name for one in NETWORKS}
    compared = [row for row in rows if row["vela_size_bytes"]]
    assert [row["network"] for row in compared if int(row["our_bytes"]) > int(row["vela_size_bytes"])] == []
    assert {row["verified"] for row in rows} == {"exact", "differs, as named"}


def test_a_report_is_written_as_the_table_has_it() -> None:
    size, own = BytesAndCycles(2000, 30), BytesAndCycles(1000, 20)
    finding = Examined(
        *("some", "a group", "ethos-u55-128", "memories"),
        vela=VelaFigures(size, "C++", size, "C++", ("one core: no",)),
        ours=Ours(own, own, own, own),
        check=Check.EXACT,
    )
    header, row = portfolio_page.table(Report((finding,))).decode().splitlines()
    assert header == ",".join(portfolio_page.COLUMNS)
    assert row == "ethos-u55-128,a group,some,2000,30,2000,30,1000,20,20,exact,one core: no"


def test_the_list_of_switches_has_every_switch_of_the_search_once() -> None:
    with (ROOT / "validation" / "search_switches.csv").open(encoding="utf-8", newline="") as file:
        named = [row["switch"] for row in csv.DictReader(file)]
    inner = {"plans": PlanOptions, "drafts": DraftOptions}
    switches = {one.name for one in fields(CascadeOptions)} - set(inner)
    switches |= {f"{name}.{one.name}" for name, options in inner.items() for one in fields(options)}
    assert sorted(named) == sorted(switches)
