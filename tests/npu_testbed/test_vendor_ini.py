"""A vendor's ``vela.ini``: names of its own, and an arena size, in every command that takes a memory mode."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from asked_for import compare, frontier, points, said_memory, schedule
from command_line import call, refusal
from msgspec.structs import replace
from quick_comparisons import compare_quickly
from reference_data import shared_data
from vendor_ini import board_ini

from npu_model.errors import InputError
from npu_testbed.asked.ask import OneSearch
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import memory_system
from npu_testbed.devices.settings import with_setting
from npu_testbed.replays.scheduling import read_schedule

GRANTED = 8192
MODEL = "zoo:tiny_residual"


@pytest.fixture
def ini(tmp_path: Path) -> Path:
    path = tmp_path / "board.ini"
    path.write_text(board_ini(GRANTED))
    return path


def words(ini: Path, mode: str) -> tuple[object, ...]:
    return "--config", ini, "--system-config", "My_Sys_Cfg", "--memory-mode", mode


def options(ini: Path, mode: str) -> OneSearch[Any]:
    return said_memory(None, "My_Sys_Cfg", mode, ini)


def test_the_memory_mode_bounds_the_arena_of_a_schedule_and_the_option_overrides_it(ini: Path, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    made = call("schedule", MODEL, "-o", file, *words(ini, "Small"), "--jobs", "1", "--no-advice")
    assert f"memory mode Small bounds the arena to {GRANTED:,} bytes; --arena-cache-size overrides it." in made.errors
    free = schedule(MODEL, ask=options(ini, "Any"), processes=1)
    assert read_schedule(file).arena_size <= GRANTED < free.arena_size
    overriding = schedule(MODEL, ask=options(ini, "Tiny"), budget=free.arena_size, processes=1)
    assert overriding.arena_size == free.arena_size
    refused = call("schedule", MODEL, "-o", file, *words(ini, "Tiny"), "--jobs", "1")
    assert refused.status == 2
    assert "16" in refused.errors


@pytest.mark.parametrize("command", ["schedule", "frontier", "compare", "compile"])
def test_an_arena_of_no_bytes_is_refused_by_name(command: str, ini: Path, tmp_path: Path) -> None:
    output = {"schedule": ("-o", tmp_path / "s.json"), "compile": ("--output-dir", tmp_path / "out")}.get(command, ())
    outcome = call(command, MODEL, *output, *words(ini, "Nothing"))
    assert outcome.status in (1, 2)
    assert "arena_cache_size=0 in [Memory_Mode.Nothing] is out of range" in outcome.errors


def test_no_point_of_a_frontier_and_none_of_a_comparison_needs_more_than_is_granted(ini: Path) -> None:
    memory = options(ini, "Small")
    points = frontier(MODEL, ask=memory, rungs=2, processes=1).points
    assert 0 < points[-1].memory <= GRANTED
    found = compare(MODEL, ask=memory, rungs=2, sweep=3, processes=1)
    assert max(point.memory for point in found.frontier.points) <= GRANTED
    assert max(row.arena_cache_size for row in found.sweep) <= GRANTED
    with pytest.raises(InputError, match=r"16 is below [0-9]+ bytes, which every schedule needs at once for the "):
        frontier(MODEL, ask=options(ini, "Tiny"), rungs=2, processes=1)


def test_a_sweep_asks_for_what_each_memory_mode_grants_unless_it_is_told_a_budget(ini: Path) -> None:
    said = {"config": ini, "system_config": ("My_Sys_Cfg",), "memory_mode": ("Any", "Small")}
    assert [point.budget for point in points([MODEL], **said)] == [None, GRANTED]
    assert [point.budget for point in points([MODEL], **said, arena_cache_size=(5000,))] == [5000, 5000]


def test_a_schedule_that_needs_more_than_is_granted_is_not_replayed_there_and_velas_is_said_to_exceed_it(ini: Path, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    assert call("schedule", MODEL, "-o", file, "--no-cascade", "--no-advice").status == 0
    need = read_schedule(file).arena_size
    sentence = refusal("simulate", "schedule", file, *words(ini, "Small"))
    assert f"needs an arena of {need} bytes, and memory mode Small grants arena_cache_size={GRANTED}" in sentence
    theirs = call("simulate", "vela", MODEL, *words(ini, "Tiny"), "--no-advice").output
    assert "16 bytes by the memory mode or --arena-cache-size: exceeded by" in theirs
    assert "--arena-cache-size 16 is below" in refusal("check", "zoo:tiny_conv", *words(ini, "Tiny"))


@pytest.mark.parametrize("size", ["8192", "8KiB", "8 KiB", "8kib"])
def test_sizes_are_bytes_or_in_kib_mib_and_gib(size: str, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    assert call("schedule", MODEL, "-o", file, "--arena-cache-size", size, "--jobs", "1", "--no-advice").status == 0
    assert read_schedule(file).arena_size <= 8192
    assert "give an integer" in refusal("schedule", MODEL, "-o", file, "--arena-cache-size", "8kB")


@pytest.mark.parametrize(
    "argv",
    [("simulate", "vela", MODEL), ("diff", MODEL, "--optimise", "Size,Performance"), ("check", "zoo:tiny_conv", "--max-bytes", "1MiB")],
)
def test_names_of_a_vendors_own_are_as_good_as_any(argv: tuple[str, ...], ini: Path) -> None:
    assert call(*argv, *words(ini, "Any")).status == 0


def test_every_configuration_of_a_chip_makers_file_is_read_or_refused_as_another_npus() -> None:
    file = shared_data() / "reports" / "alif_ensemble.ini"
    for system in ("RTSS_HP_SRAM_MRAM", "RTSS_HE_SRAM_MRAM", "RTSS_HP_DTCM_MRAM"):
        given = ("--config", file, "--system-config", system, "--memory-mode", "Shared_Sram")
        for command in (("simulate", "vela", "zoo:tiny_conv"), ("check", "zoo:tiny_conv", "--max-bytes", "1MiB")):
            assert call(*command, *given).status == 0
    foreign = ("--config", file, "--system-config", "Ethos_U85_SRAM_MRAM", "--memory-mode", "Shared_Sram")
    assert "is another NPU's, as ethos-u55-128 is an Ethos_U55" in refusal("simulate", "vela", "zoo:tiny_conv", *foreign)


def test_one_name_a_memory_whatever_the_system_was_read_from(ini: Path) -> None:
    adapter, board = load_timing_adapter("u55_high_end"), memory_system(options(ini, "Any"))
    for system in (adapter, board):
        for sram in ("Sram", "sram"):
            assert with_setting(system, (f"{sram}.read_latency", "77")).ports[0].read_latency == 77
        for flash in ("OffChipFlash", "offchipflash", "ext"):
            assert with_setting(system, (f"{flash}.read_latency", "77")).ports[1].read_latency == 77
    with pytest.raises(InputError, match="names a memory that My_Sys_Cfg, Any does not have: it has 'Sram' and 'OffChipFlash'"):
        with_setting(board, ("Dram.read_latency", "77"))


def test_a_setting_holds_in_schedule_frontier_and_compare_as_in_simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_quickly(monkeypatch)
    file = tmp_path / "s.json"
    setting = ("--set", "OffChipFlash.read_latency=4000")
    assert call("schedule", MODEL, "-o", file, *setting, "--no-cascade", "--no-advice").status == 0
    recorded = read_schedule(file).provenance.memory_system
    assert recorded is not None
    assert recorded.ports[1] == replace(load_timing_adapter("u55_high_end").ports[1], read_latency=4000)
    assert recorded.ports[1].cycles_per_word == Fraction(1)
    slow = json.loads(call("frontier", "zoo:tiny_conv", "--rungs", "1", "--json", *setting).output)["points"]
    plain = json.loads(call("frontier", "zoo:tiny_conv", "--rungs", "1", "--json").output)["points"]
    assert min(point["cycles"] for point in slow) > min(point["cycles"] for point in plain) + 4000
    theirs = json.loads(call("compare", "zoo:tiny_conv", "--json", *setting).output)["networks"][0]
    assert theirs["frontier"]["memory_system"]["name"] == "timing adapter u55_high_end, OffChipFlash.read_latency 4000"
