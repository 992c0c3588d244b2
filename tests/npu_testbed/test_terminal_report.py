"""The terminal report: layers folded, colours where a terminal has them, advice unless it is not wanted, rows as CSV."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from command_line import call, refusal
from quick_comparisons import compare_quickly

from npu_testbed.ground.output import Output
from npu_testbed.ground.terminal import spans
from npu_testbed.reports.tables import notes
from sim.views.layers import LayerRow

ESCAPE = "\x1b"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


REPORT = """\
layer    bound by        AXI0 read
-------  -------------  ----------
DMA      MAC array               1
weights  weights (AXI1           2
         read)

1. It saves 5 cycles (3%)."""


def shown(monkeypatch: pytest.MonkeyPatch, **environment: str) -> str:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", **environment}.items():
        monkeypatch.setenv(name, value)
    screen = Screen()
    Output(screen).write_coloured(REPORT, spans(REPORT))
    return screen.getvalue()


def test_what_binds_a_layer_is_in_colour_and_its_name_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch)
    assert ESCAPE not in text.partition("DMA")[0]
    assert f"{ESCAPE}[32mMAC array" in text
    assert f"{ESCAPE}[31mweights (AXI1" in text
    assert f"{ESCAPE}[31mread)" in text
    assert "\nDMA  " in text
    assert re.sub(r"\x1b\[[\d;]*m", "", text) == REPORT


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_is_respected(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    assert shown(monkeypatch, **environment) == REPORT


def test_a_name_with_control_codes_colours_nothing() -> None:
    screen = Screen()
    Output(screen).write_coloured(f"{ESCAPE}[31mred\n", [])
    assert screen.getvalue() == "\\x1b[31mred\n"


def test_paragraphs_of_a_narrow_terminal_are_coloured_too() -> None:
    text = "conv\n  operator CONV_2D; bound by MAC array; AXI0 read 1"
    assert [text[start:end] for start, end, colour in spans(text) if colour == "green"] == ["MAC array"]


def test_layers_below_a_part_of_the_cycles_are_one_row_whose_cycles_count() -> None:
    whole, cut = (call("simulate", "vela", "zoo:resnet8", "--no-advice", "--min-percent", part).output for part in (0, 5))
    folded = re.search(r"^(\d+) layers below 5 % +([\d,]+)", cut, re.MULTILINE)
    assert folded is not None
    _, _, layers, *_ = whole.split("\n\n")
    rows = layers.count("\n")
    assert cut.split("\n\n")[2].count("\n") == rows - int(folded[1]) + 1
    assert "below" not in whole


@pytest.mark.parametrize(("used", "said"), [(0.5, False), (1.0, False), (1.008, True)])
def test_a_layer_that_multiplies_before_the_one_before_is_done_is_explained(used: float, said: bool) -> None:  # noqa: FBT001  # a row of a table
    row = LayerRow("conv", "CONV_2D", 100, 1.0, "MAC array", 8, 8, 0, used, 1, 0)
    assert any("MAC %" in note for note in notes((row,))) == said


def test_a_single_small_layer_is_not_folded() -> None:
    assert "below" not in call("simulate", "vela", "zoo:tiny_conv", "--no-advice").output


@pytest.mark.parametrize("width", [80, 110, 200])
def test_a_report_fits_its_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    output = call("simulate", "vela", "portfolio:pytorch_nchw").output
    assert max(map(len, output.splitlines())) <= width
    assert "feeding NHWC saves" in " ".join(output.split())


def test_advice_is_left_out_where_it_is_not_wanted(tmp_path: Path) -> None:
    words = "with that one thing changed"
    assert words in call("simulate", "vela", "portfolio:pytorch_nchw").output
    assert words not in call("simulate", "vela", "portfolio:pytorch_nchw", "--no-advice").output
    plan = tmp_path / "s.json"
    assert words in call("schedule", "portfolio:pytorch_nchw", "--no-cascade", "-o", plan).output
    assert words not in call("schedule", "portfolio:pytorch_nchw", "--no-cascade", "-o", plan, "--no-advice").output


def test_every_layer_is_in_the_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    output = call("simulate", "vela", "zoo:resnet8", "--no-advice", "--csv", path).output
    rows = list(csv.DictReader(path.read_text().splitlines()))
    total = re.search(r"^total +([\d,]+)", output, re.MULTILINE)
    assert total is not None
    assert sum(int(row["cycles"]) for row in rows) == int(total[1].replace(",", ""))


def test_a_comparison_shows_the_layers_of_our_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_quickly(monkeypatch)
    path = tmp_path / "t.csv"
    output = call("compare", "zoo:tiny_conv", "--jobs", 1, "--csv", path).output
    assert re.search(r"^Ours in [\d,]+ bytes, layer by layer:$", output, re.MULTILINE)
    assert path.read_text().startswith("layer,operator,cycles,")


def test_a_section_of_a_page_asks_for_no_advice_that_it_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError

    compare_quickly(monkeypatch)
    monkeypatch.setattr("npu_testbed.findings.findings", asked)
    assert call("compare", "zoo:tiny_conv", "--jobs", 1, "--markdown").status == 0


def test_options_that_would_do_nothing_are_refused(tmp_path: Path) -> None:
    assert "drop one of them" in refusal("simulate", "vela", "zoo:tiny_conv", "--json", "--min-percent", 2)
    assert "drop one of them" in refusal("schedule", "zoo:tiny_conv", "-o", tmp_path / "s.json", "--json", "--min-percent", 2)
    assert "one by one" in refusal("compare", "zoo:tiny_conv", "zoo:resnet8", "--no-advice")
    assert "from 0 to 100" in refusal("simulate", "vela", "zoo:tiny_conv", "--min-percent", 101)
