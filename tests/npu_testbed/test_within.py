"""Tests of ``--within``: every command that makes one schedule takes the smallest arena that costs at most so many per cent."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from command_line import call, refusal

import npu_testbed

MODEL = "zoo:tiny_conv"


def test_a_schedule_names_the_fastest_one_beside_it(tmp_path: Path) -> None:
    words = "schedule", MODEL, "--no-advice", "--jobs", "1", "-o", tmp_path / "s.json"
    fastest, within = (json.loads(call(*words, *more, "--json").output) for more in ((), ("--within", "20")))
    assert "fastest" not in fastest
    assert within["fastest"] == {"arena_bytes": fastest["arena_bytes"], "cycles": fastest["cycles"]}
    assert within["arena_bytes"] < fastest["arena_bytes"]
    assert fastest["cycles"] < within["cycles"] <= fastest["cycles"] * 1.2
    assert f"The fastest schedule takes {fastest['cycles']:,} cycles" in call(*words, "--within", "20").output


def test_python_takes_per_cent_as_a_number_or_a_text() -> None:
    sizes = {npu_testbed.schedule(MODEL, no_advice=True, jobs=1, within=value).arena_bytes for value in (20.0, "20")}
    assert len(sizes) == 1


def test_a_compilation_is_never_slower_than_velas(tmp_path: Path) -> None:
    words = "compile", MODEL, "--accelerator-config", "ethos-u55-128", "--jobs", "1", "--json", "--output-dir", tmp_path
    plain, within = (json.loads(call(*words, *more).output)["promise"] for more in ((), ("--within", "1000")))
    assert within["written"] == "ours"
    assert within["ours"]["cycles"] <= within["vela"]["cycles"]
    assert within["ours"]["bytes"] <= plain["ours"]["bytes"]
    assert "at no more than 1000 % over the fewest cycles, and no slower than Vela" in within["promise"]


def test_a_frontier_names_its_smallest_point_within_the_tolerance() -> None:
    found = npu_testbed.frontier(MODEL, jobs=1)
    fastest = found.points[-1]
    least = min((one for one in found.points if one.cycles <= fastest.cycles * Fraction(6, 5)), key=lambda one: one.memory)
    said = call("frontier", MODEL, "--jobs", "1", "--within", "20").output
    assert f"Within 20 % of the fewest cycles: {least.cycles:,} cycles in {least.memory:,} bytes." in " ".join(said.split())


def test_a_larger_budget_of_a_sweep_keeps_the_tolerance() -> None:
    sweep = npu_testbed.sweep(MODEL, arena_cache_size=["6000", "10000", "none"], within=20, jobs=1)
    exact = npu_testbed.sweep(MODEL, arena_cache_size=["6000", "10000", "none"], jobs=1)
    for near, fast in zip(sweep.results, exact.results, strict=True):
        assert near.answer.arena_bytes <= fast.answer.arena_bytes
        assert near.answer.cycles <= fast.answer.cycles * Fraction(6, 5)
    assert {point["within_percent"] for point in sweep.to_dict()["points"]} == {20.0}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("schedule", MODEL, "--optimise", "Size", "-o", "s.json"), "--within 5 cannot be combined with --optimise Size"),
        (("sweep", MODEL, "--optimise", "Size"), "--within 5 cannot be combined with --optimise Size"),
        (("schedule", MODEL, "--no-cascade", "-o", "s.json"), "cannot be combined with --no-cascade"),
        (("schedule", MODEL, "--stripes", "-o", "s.json"), "cannot be combined with --stripes"),
        (("compile", MODEL, "--fewest-bytes"), "--within cannot be combined with --fewest-bytes"),
        (("compile", MODEL, "--disable-cascading"), "--within cannot be combined with --disable-cascading"),
    ],
)
def test_what_knows_no_tolerance_is_refused(words: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in refusal(*words, "--within", "5")


@pytest.mark.parametrize("text", ["-1", "nan", "1e3", "1001", "", "1.2.3"])
def test_a_tolerance_is_a_percentage(text: str) -> None:
    assert "give" in refusal("schedule", MODEL, f"--within={text}", "-o", "s.json")
