"""Tables fit the terminal that they are printed on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import call
from hypothesis import given
from hypothesis import strategies as st
from tabulate import tabulate

from validation.layout import WIDTH, grid, width
from validation.tables import Table

HEADERS = ("layer", "bound by", "AXI0 read", "cycles")
ROWS = [(f"model/block_{i}/expand/BatchNormalisation", "weights (AXI1 read)", f"{i * 1204224:,}", f"{i:,}") for i in (1, 20, 300)]
TEXT = (True, True, False, False)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "resnet8.json"
    assert call("schedule", "zoo:resnet8", "--no-cascade", "-o", path).status == 0
    return path


@pytest.mark.parametrize("limit", range(20, 100))
def test_a_table_is_no_wider_than_the_terminal_and_loses_no_number(limit: int) -> None:
    text = grid(HEADERS, ROWS, TEXT, limit)
    assert max(map(len, text.splitlines())) <= limit
    assert re.findall(r"\d+(?:,\d{3})+", text) == ["1,204,224", "24,084,480", "361,267,200"]


def test_a_table_that_fits_is_as_wide_as_its_cells() -> None:
    assert grid(HEADERS, ROWS, TEXT, 200) == grid(HEADERS, ROWS, TEXT, 1000)
    assert ROWS[0][0] in grid(HEADERS, ROWS, TEXT, 200)


def test_a_ratio_in_a_header_is_broken_before_its_stroke() -> None:
    text = grid(("ours", "bytes / Vela's"), [("smallest", "0.433")], (True, False), 20)
    assert [line.split() for line in text.splitlines()[:2]] == [["ours", "bytes"], ["/", "Vela's"]]
    assert text.isascii()


def test_a_long_name_keeps_what_tells_it_apart() -> None:
    rows = [(f"functional_1/{kind}_1_1/Relu", "MAC array", "1,204,224") for kind in ("pointwise", "depthwise")]
    text = grid(("layer", "bound by", "cycles"), rows, (True, True, False), 48)
    assert [line.split()[0] for line in text.splitlines()[-2:]] == ["pointwise_1_1", "depthwise_1_1"]


@pytest.mark.parametrize("limit", [20, 24, 30, 200])
def test_a_table_without_rows_has_its_headers(limit: int) -> None:
    assert grid(("layer", "cycles"), [], (True, False), limit).split()[:2] == ["layer", "cycles"]
    words = grid(("layer or kernel", "bound by"), [], (True, True), limit).split()
    assert {"layer", "or", "kernel", "bound", "by"} <= set(words)


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_the_tables_of_a_replay_fit_the_columns_of_the_environment(columns: int, plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    tables = call("simulate", "schedule", plan, "--stalls").output.split("\n\n")[1:]
    assert len(tables) >= 2
    note = "Bytes per layer leave out the fetch of the command stream, which the summary counts."
    assert max(len(line) for table in tables for line in table.splitlines() if line != note) <= columns


def test_a_scorecard_fits_the_columns_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(len, Table("A card", HEADERS, tuple(ROWS)).text().splitlines())) <= 50


@pytest.mark.parametrize(("columns", "expected"), [("80", 80), ("1", 20), ("0", WIDTH), ("-5", WIDTH), ("wide", WIDTH), ("", WIDTH)])
def test_without_a_terminal_the_width_is_fixed_unless_columns_says_otherwise(
    columns: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert width() == expected


_CELLS = st.lists(st.sampled_from(["", "a", "bc d", "1,000", "-0.5", "wide text"]), min_size=1, max_size=3).map(
    lambda lines: "\n".join(lines).strip()
)


@given(st.data(), st.lists(st.booleans(), min_size=1, max_size=4), st.integers(0, 4))
def test_a_table_that_fits_is_laid_out_as_tabulate_does(data: st.DataObject, left: list[bool], count: int) -> None:
    row = st.lists(_CELLS, min_size=len(left), max_size=len(left))
    headers, rows = data.draw(row), data.draw(st.lists(row, min_size=count, max_size=count))
    align = ["left" if text else "right" for text in left] if rows else None
    assert grid(headers, rows, left, 1000) == tabulate(rows, headers, disable_numparse=True, colalign=align)
