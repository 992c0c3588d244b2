"""Logs and tables that people have already: each kind is read as what it is, and our own replay in its form agrees with itself."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from asked_for import simulate_vela
from command_line import call, refusal
from hypothesis import given
from hypothesis import strategies as st

from npu_model.errors import InputError
from npu_testbed.measured.reading import Counters, column_map, read_measured
from npu_testbed.measured.rows import beside_measured
from npu_testbed.replays.simulation import Simulation
from npu_testbed.verbs import simulate_vela as outcome_of
from sim.views.layers import layer_rows
from validation.calibrate import read_measurements

MODEL = "zoo:tiny_conv"


@cache
def replayed() -> Simulation:
    return simulate_vela(MODEL)


def counts() -> Counter[str]:
    found: Counter[str] = Counter()
    for one in replayed().replay.replays:
        found.update(one.pmu())
    return found


def kit_log() -> str:
    """The evaluation kit's words, by its logging of a profile."""
    ours = counts()
    beats = "\n".join(f"INFO - NPU {name} beats: {ours[name]}" for name in ("AXI0_RD_DATA_BEAT_RECEIVED", "AXI1_RD_DATA_BEAT_RECEIVED"))
    return f"INFO - Profile for Inference:\n{beats}\nINFO - NPU ACTIVE cycles: {replayed().replay.cycles}\nINFO - NPU IDLE cycles: 500\n"


def executorch_log() -> str:
    return f"I [executorch:EthosUBackend.cpp] ETHOSU_PMU_NPU_ACTIVE : {replayed().replay.cycles}\n"


def layers_in(layer: str, cycles: str, separator: str = ",", decimals: str = "") -> str:
    rows = [separator.join((row.layer.replace(",", " "), f"{row.cycles}{decimals}", "x")) for row in layer_rows(replayed().replay)]
    return "\n".join([separator.join((layer, cycles, "other")), *rows]) + "\n"


@pytest.mark.parametrize("log", [kit_log, executorch_log])
def test_the_counters_of_a_log_stand_beside_those_of_the_replay(log: object, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(log())  # type: ignore[operator]
    measured = read_measured(path)
    assert isinstance(measured, Counters)
    beside = beside_measured(replayed().replay, measured)
    assert beside.counters
    assert all(theirs == ours for _, theirs, ours in beside.counters)
    text = call("simulate", "vela", MODEL, "--measured", path, "--no-advice").output
    assert "NPU_ACTIVE" in text
    assert outcome_of(MODEL, measured=path, no_advice=True).to_dict()["measured"]["counters"]


@pytest.mark.parametrize(
    "text",
    [
        layers_in("Name", "Op Cycles"),
        layers_in("event_name", "avg (cycles)", decimals=".0"),
        layers_in("event_name", "avg (cycles)", "\t", ".0"),
    ],
)
def test_tables_of_other_tools_are_read_by_their_own_columns(text: str, tmp_path: Path) -> None:
    (tmp_path / "table").write_text(text)
    beside = beside_measured(replayed().replay, read_measured(tmp_path / "table"))
    assert [row.difference for row in beside.rows] == [0] * len(layer_rows(replayed().replay))


def test_any_table_is_read_by_a_mapping(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text(layers_in("what", "npu_active"))
    assert "own.csv" in refusal("simulate", "vela", MODEL, "--measured", tmp_path / "own.csv")
    outcome = call(
        "simulate", "vela", MODEL, "--measured", tmp_path / "own.csv", "--columns", "cycles=npu_active,layer=what", "--no-advice"
    )
    assert (outcome.status, "0.00 %" in outcome.output) == (0, True)


@pytest.mark.parametrize(
    ("text", "words", "sentence"),
    [
        ("what,npu_active\nx,1\n", ("--columns", "layer=wat,cycles=npu_active"), "did you mean what?"),
        ("what,npu_active\npointwis,1\n", ("--columns", "layer=what,cycles=npu_active"), "did you mean pointwise?"),
        ("what,npu_active\nx,1\n", ("--columns", "layer=what"), "write layer=COLUMN,cycles=COLUMN"),
        ("what,npu_active\nx,many\n", ("--columns", "layer=what,cycles=npu_active"), "whole number"),
        ("INFO - NPU TOTAL cycles: 5\n", (), "no NPU_ACTIVE"),
        ("INFO - NPU ACTIVE cycles: 5\n", ("--measured-cycles", "5"), "leave it out"),
        ("xxxxED00xxxx", (), "ETDump"),
    ],
)
def test_what_cannot_be_matched_is_named(text: str, words: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "given").write_text(text)
    assert sentence in refusal("simulate", "vela", MODEL, "--measured", tmp_path / "given", *words)


def test_columns_without_a_measurement_are_refused() -> None:
    assert "give both" in refusal("simulate", "vela", MODEL, "--columns", "layer=a,cycles=b")


@given(st.text(alphabet="layercs=,ab ", max_size=30))
def test_a_mapping_is_two_columns_or_an_error(text: str) -> None:
    try:
        found = column_map(text)
    except InputError:
        return
    assert set(found) == {"layer", "cycles"}
    assert all(found.values())


def test_calibration_takes_the_log_of_a_run(tmp_path: Path) -> None:
    assert call("schedule", MODEL, "--no-cascade", "-o", tmp_path / "made.json").status == 0
    assert call("export", tmp_path / "made.json", "-o", tmp_path / "made.tflite").status == 0
    (tmp_path / "run.log").write_text(kit_log())
    (tmp_path / "chip.csv").write_text("model,log,timing_adapter\nmade.tflite,run.log,u55_high_end\n")
    (measurement,) = read_measurements(tmp_path / "chip.csv")
    assert measurement.active == replayed().replay.cycles
    assert dict(measurement.beats)["AXI1_RD_DATA_BEAT_RECEIVED"] == counts()["AXI1_RD_DATA_BEAT_RECEIVED"]
