"""The replay of the very streams that the Corstone FVPs were measured with; test_validation_fvp.py has it beside their counters."""

from __future__ import annotations

import csv
from itertools import pairwise

import pytest
from msgspec.structs import replace
from reference_data import shared_data

from npu_model.compiled.network import read_compiled
from npu_model.memory.timing_adapter import profile
from npu_model.program import Program
from sim import QuickReplay, operation_beats, quick_replay, replay

PROFILES = {"on": "u55_high_end", "off": "off"}


def rows(adapters: str) -> list[dict[str, str]]:
    with (shared_data() / "fvp" / "u55_calibration.csv").open(encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["timing_adapters"] == adapters]


def program_of(stream: str) -> Program:
    (program,) = read_compiled((shared_data() / "fvp" / stream).read_bytes()).programs
    return program


def quick(stream: str, adapters: str) -> QuickReplay:
    return quick_replay(program_of(stream), profile(PROFILES[adapters]).memory_system())


def test_adapters_change_the_cycles_but_not_the_beats() -> None:
    for row in rows("on"):
        on, off = quick(row["stream"], "on"), quick(row["stream"], "off")
        assert on.beats == off.beats
        assert on.cycles >= off.cycles


def test_beats_of_the_ports_are_those_of_the_operations_and_of_the_command_fetch() -> None:
    some = rows("on")[::3]
    assert len(some) == 4
    for row in some:
        one = replay(program_of(row["stream"]), profile(PROFILES["on"]).memory_system())
        counted = [operation_beats(op.op, one.accelerator, one.system) for op in one.operations]
        assert one.beats.axi0_read == sum(beats.axi0_read for beats in counted)
        assert one.beats.axi0_write == sum(beats.axi0_write for beats in counted)
        assert one.beats.axi1_read == sum(beats.axi1_read for beats in counted) + (sum(one.program.words) + 1) // 2


def sweep(stream: str, **changes: list[int]) -> list[int]:
    """Cycles of a measured stream as one parameter of the external memory's adapter improves."""
    (program,) = read_compiled((shared_data() / "fvp" / "streams" / stream).read_bytes()).programs
    base = profile(PROFILES["on"])
    ((name, values),) = changes.items()
    return [replay(program, replace(base, ext=replace(base.ext, **{name: value})).memory_system()).cycles for value in values]


@pytest.mark.parametrize("changes", [{"rlatency": [128, 64, 32, 16, 0]}, {"bwcap": [25, 50, 100, 200, 0]}, {"maxr": [1, 2, 4, 8, 0]}])
def test_a_better_flash_slows_a_measured_network_by_a_ten_thousandth_at_most(changes: dict[str, list[int]]) -> None:
    """The worst found is 29 of 405,239 cycles: four outstanding reads, and not two, on keyword spotting (see test_replay_properties.py)."""
    for stream in ("rnnoise_INT8.ethos-u55-256.vela500.tflite", "kws_micronet_m.ethos-u55-128.vela500.tflite"):
        cycles = sweep(stream, **changes)
        assert all(better <= 1.0001 * worse for worse, better in pairwise(cycles))
        assert cycles[-1] <= cycles[0]
