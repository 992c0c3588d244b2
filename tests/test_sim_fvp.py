"""The replay against the counters of the Corstone FVPs, on the very streams that were measured."""

from __future__ import annotations

import csv
from functools import cache

import pytest
from reference_data import shared_data

from npu_model.compiled import read_compiled
from npu_model.timing_adapter import profile
from sim import Replay, operation_beats, replay

PROFILES = {"on": "u55_high_end", "off": "off"}
MEAN_BAR, WORST_BAR = 0.025, 0.06


def rows(adapters: str) -> list[dict[str, str]]:
    with (shared_data() / "fvp" / "u55_calibration.csv").open(encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["timing_adapters"] == adapters]


@cache
def run(stream: str, adapters: str) -> Replay:
    (program,) = read_compiled((shared_data() / "fvp" / stream).read_bytes()).programs
    return replay(program, profile(PROFILES[adapters]).memory_system())


@pytest.mark.parametrize("adapters", ["on", "off"])
def test_npu_active_is_within_the_bars(adapters: str) -> None:
    errors = [abs(run(row["stream"], adapters).cycles / int(row["npu_active_cycles"]) - 1) for row in rows(adapters)]
    assert len(errors) == 12
    assert sum(errors) / len(errors) <= MEAN_BAR
    assert max(errors) <= WORST_BAR


def test_data_beats_of_every_port_equal_the_fvp_s_counters() -> None:
    measured = [(int(row["axi0_rd_beats"]), int(row["axi0_wr_beats"]), int(row["axi1_rd_beats"])) for row in rows("on")]
    runs = [run(row["stream"], "on") for row in rows("on")]
    assert len(measured) == 12
    assert [(one.beats.axi0_read, one.beats.axi0_write, one.beats.axi1_read) for one in runs] == measured


def test_adapters_change_the_cycles_but_not_the_beats() -> None:
    for row in rows("on"):
        on, off = run(row["stream"], "on"), run(row["stream"], "off")
        assert on.beats == off.beats
        assert on.cycles >= off.cycles


def test_beats_of_the_ports_are_those_of_the_operations_and_of_the_command_fetch() -> None:
    for row in rows("on"):
        one = run(row["stream"], "on")
        counted = [operation_beats(op.op, one.accelerator, one.system) for op in one.operations]
        assert one.beats.axi0_read == sum(beats.axi0_read for beats in counted)
        assert one.beats.axi0_write == sum(beats.axi0_write for beats in counted)
        assert one.beats.axi1_read == sum(beats.axi1_read for beats in counted) + (sum(one.program.words) + 1) // 2
