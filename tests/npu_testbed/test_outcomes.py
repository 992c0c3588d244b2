"""Facts of all outcomes: one line for ``repr``, a verdict, and tables of their rows."""

from __future__ import annotations

import builtins
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import npu_testbed
from npu_model.errors import InputError

CLOCK = 500_000


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    npu_testbed.schedule("zoo:tiny_conv", effort="quick", no_advice=True).save(path)
    return path


def test_the_first_line_is_the_answer_and_the_repr(plan: Path, tmp_path: Path) -> None:
    outcomes = [
        npu_testbed.schedule("zoo:tiny_conv", effort="quick", no_advice=True),
        npu_testbed.simulate_schedule(plan),
        npu_testbed.compile("zoo:tiny_conv", effort="quick", output_dir=tmp_path),
    ]
    for found in outcomes:
        first = found.text().splitlines()[0]
        assert repr(found) == f"<{type(found).__name__}: {first}>"
        said = re.fullmatch(r"zoo:tiny_conv on ethos-u55-\d+: ([\d.]+) ms \(([\d,]+) cycles at 500 MHz\) in ([\d.]+) KiB of SRAM\.", first)
        assert said is not None, first
        assert int(said[2].replace(",", "")) == found.cycles
        assert float(said[1]) == pytest.approx(found.cycles / CLOCK, rel=0.005)
        assert 0 <= float(said[3]) * 1024 - found.arena_bytes < 103, "rounded up to a tenth of a KiB"


def test_the_ends_of_a_frontier_are_its_first_line() -> None:
    found = npu_testbed.frontier("zoo:tiny_conv", effort="quick")
    for point, word in ((found.points[0], "smallest"), (found.points[-1], "fastest")):
        assert f"{point.cycles / CLOCK:.3g} ms in {-(-point.memory * 10 // 1024) / 10:g} KiB (the {word})" in found.headline


def test_points_and_layers_are_tables(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = npu_testbed.frontier("zoo:tiny_conv", effort="quick").points
    assert points.to_dict()["memory_bytes"] == [point.memory for point in points]
    assert points.to_dict()["cycles"] == [point.cycles for point in points]
    assert list(points[:2].to_dict()) == list(points.to_dict())
    layers = npu_testbed.simulate_schedule(plan).layers
    assert layers.to_dict()["layer"] == [row.layer for row in layers]
    assert repr(layers).startswith(f"<{len(layers)} rows: layer, operator, cycles")
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=builtins.dict))
    assert layers.to_pandas() == layers.to_dict()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="A DataFrame needs pandas, which is not installed: `pip install pandas`, or take to_dict"):
        layers.to_pandas()


def test_a_verdict_is_a_fact_of_each_outcome(plan: Path) -> None:
    held = npu_testbed.check(plan, max_cycles=1)
    assert (held.passed, held.status) == (False, 1)
    assert (held.bars[0].limit, held.bars[0].is_met) == (1, False)
    verified = npu_testbed.verify(plan)
    assert (verified.passed, verified.status) == (True, 0)
    assert {row.differing for row in verified.comparisons} == {0}
    moved = npu_testbed.diff(plan, timing_adapter="u55_high_end,off")
    assert moved.before.replay.cycles > moved.after.replay.cycles
    assert npu_testbed.sweep("zoo:tiny_conv", effort="quick").points.to_dict()["milliseconds"][0] > 0
