"""Homes in the commands that compare, sweep, compile and check: what they say is what `schedule` and `simulate` say of the same homes."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from asked_for import examine
from command_line import call
from cpu_networks import cpu_split_network
from quick_comparisons import compare_quickly

from npu_model.compiled.network import read_compiled
from npu_testbed.differences.bars import read_baseline
from validation.portfolio import build

NAME = "zoo:tiny_conv"
FIGURES = ("cycles", "planned_bytes", "peak_bytes")
HOMES = ("--home", "input=ext", "--home", "output=ext")


def document(*words: object) -> dict[str, Any]:
    outcome = call(*words, "--json")
    assert not outcome.errors or outcome.status == 0, outcome.errors
    found: dict[str, Any] = json.loads(outcome.output)
    return found


@pytest.fixture(scope="module")
def compared() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        compare_quickly(patch)
        network: dict[str, Any] = document("compare", NAME, *HOMES, "--jobs", "1", "--no-advice")["networks"][0]
    return network


@pytest.mark.parametrize("strategy", ["Size", "Performance"])
def test_beside_homes_vela_is_what_its_own_separate_regions_replay(compared: dict[str, Any], strategy: str) -> None:
    words = ("simulate", "vela", NAME, "--optimise", strategy, "--separate-io-regions", *HOMES, "--no-advice")
    alone = document(*words)["summary"]
    beside = compared[f"vela_{strategy.lower()}"]
    assert compared["separate_io_regions"] is True
    assert {point["core"] for point in compared["vela"]} == {"C++"}
    assert (beside["memory_bytes"], beside["cycles"]) == (alone["planned_bytes"], alone["cycles"])


def test_a_comparison_counts_both_ways(compared: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    compare_quickly(monkeypatch)
    ends = compared["inputs_outputs"]
    assert [home["port"] for home in ends["homes"]] == [1, 1]
    assert ends["io_bytes"] == ends["outside_bytes"] > 0
    plain = document("compare", NAME, "--jobs", "1", "--no-advice")["networks"][0]
    assert plain["separate_io_regions"] is False
    assert plain["inputs_outputs"]["homes"] == []
    assert plain["inputs_outputs"]["io_bytes"] == ends["io_bytes"]
    assert compared["frontier"]["points"][0]["memory_bytes"] < plain["frontier"]["points"][0]["memory_bytes"]


@pytest.mark.parametrize("model", [build("drawn_94107"), cpu_split_network()], ids=["drawn_94107", "cpu_split"])
def test_a_file_of_several_npu_operators_replays_and_computes_as_its_schedule(model: bytes, tmp_path: Path) -> None:
    source, plan, exported = (tmp_path / name for name in ("net.tflite", "plan.json", "net_vela.tflite"))
    source.write_bytes(model)
    call("schedule", source, *HOMES, "--effort", "quick", "--no-advice", "--jobs", "1", "-o", plan)
    call("export", plan, "--model", source, "-o", exported)
    assert len(read_compiled(exported.read_bytes()).programs) > 1
    planned, replayed = document("simulate", "schedule", plan), document("simulate", "vela", exported, *HOMES, "--no-advice")
    assert replayed["inputs_outputs"] == planned["inputs_outputs"]
    assert [replayed["summary"][key] for key in FIGURES] == [planned["summary"][key] for key in FIGURES]
    assert re.search(r"LiteRT's reference kernels +0 of", call("verify", exported, "--model", source).output)


def test_velas_points_stand_beside_a_frontier_with_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_quickly(monkeypatch)
    outcome = call("frontier", "zoo:tiny_conv", *HOMES, "--with-vela", "--plot", tmp_path / "f.svg", "--jobs", "1")
    assert outcome.status == 0
    assert "--separate-io-regions" in outcome.output
    assert "Vela Size, C++ core" in (tmp_path / "f.svg").read_text()


def test_a_sweep_answers_as_schedule_does(tmp_path: Path) -> None:
    options = ("--effort", "quick", "--optimise", "Size", *HOMES, "--no-recompute")
    (point,) = document("sweep", NAME, *options, "--results", tmp_path / "kept", "--jobs", "1")["points"]
    alone = document("schedule", NAME, *options, "-o", tmp_path / "plan.json", "--no-advice", "--jobs", "1")
    assert (point["arena_bytes"], point["cycles"]) == (alone["arena_bytes"], alone["cycles"])
    assert point["outside_bytes"] == alone["inputs_outputs"]["outside_bytes"] > 0
    assert (point["macs"], point["recomputed_macs"]) == (alone["macs"], 0)
    assert (point["homes"], point["recompute"]) == (["input=ext", "output=ext"], 1.0)
    # Another home is another question, which what was kept does not answer.
    (other,) = document("sweep", NAME, *options[:-5], "--results", tmp_path / "kept", "--jobs", "1")["points"]
    assert other["arena_bytes"] > point["arena_bytes"]
    text = call("sweep", NAME, *options, "--results", tmp_path / "kept", "--csv", tmp_path / "f.csv").output
    assert "Outside the arena: input=ext, output=ext." in text
    assert "input=ext output=ext" in (tmp_path / "f.csv").read_text()


def test_what_is_compiled_replays_where_its_homes_are(tmp_path: Path) -> None:
    common = (NAME, "--accelerator-config", "ethos-u55-128", "--effort", "quick", "--optimise", "Size", *HOMES)
    made = document("compile", *common, "--output-dir", tmp_path, "--fewest-bytes")
    assert made["promise"]["written"] == "ours"
    words = ("simulate", "vela", tmp_path / "tiny_conv_vela.tflite", "--no-advice", *HOMES)
    replayed = document(*words)
    assert replayed["summary"]["cycles"] == made["promise"]["ours"]["cycles"] == made["summary"]["cycles"]
    assert replayed["inputs_outputs"] == made["inputs_outputs"]
    assert "0 of" in call("verify", tmp_path / "tiny_conv_vela.tflite", "--model", NAME).output


def test_a_baseline_of_other_homes_is_none(tmp_path: Path) -> None:
    common = ("--effort", "quick", "--accelerator-config", "ethos-u55-128")
    near, far = ("--home", "input=sram"), ()
    baseline = tmp_path / "baseline.json"
    held = document("check", NAME, *common, *near)
    baseline.write_text(json.dumps(held))
    assert held["inputs_outputs"]["outside_bytes"] > 0
    before = tmp_path / "before.json"
    before.write_text(json.dumps({"ends" if key == "inputs_outputs" else key: value for key, value in held.items()} | {"schema": 2}))
    assert read_baseline(str(before)) == read_baseline(str(baseline))
    same = call("check", NAME, *common, *near, "--against", baseline)
    assert same.status == 0
    other = call("check", NAME, *common, *far, "--against", baseline)
    assert other.status == 2
    assert "outside the arena" in other.errors
    # One of an earlier version says nothing of homes.
    baseline.write_text(json.dumps(held | {"schema": 1}))
    assert call("check", NAME, *common, *far, "--against", baseline, "--tolerance", "900").status == 0


def test_the_portfolio_takes_a_networks_own_homes_and_verifies_what_it_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    compare_quickly(monkeypatch)
    finding = examine("camera_and_pose", recompute=Fraction(1))
    assert finding.ours is not None
    # The pose stays in the arena.
    assert finding.ours.outside_bytes == 72 * 96 * 3
    assert finding.ours.recomputed_macs == 0
    assert finding.check.value == "exact", finding.remark


def test_the_list_names_the_homes_of_networks_that_have_some() -> None:
    networks = {one["name"]: one["homes"] for one in document("validate", "portfolio", "--list")["networks"]}
    assert networks["frame_and_last_one"] == ["now=axi1", "output=axi1"]
    assert networks["mnist"] == []
