"""The option --home and the memory mode Dedicated_Sram: what is asked for is what is scheduled, replayed and written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from command_line import call

NAME = "zoo:tiny_residual"
EVERY = os.environ.get("NPU_TESTBED_ALL") == "1"

SOC = """\
[System_Config.Ethos_U55_Dram]
core_clock=500e6
axi0_port=Sram
axi1_port=Dram
Sram_clock_scale=1.0
Sram_burst_length=32
Sram_read_latency=32
Sram_write_latency=32
Dram_clock_scale=0.5
Dram_burst_length=128
Dram_read_latency=500
Dram_write_latency=250
[Memory_Mode.Dedicated_Sram]
const_mem_area=Axi1
arena_mem_area=Axi1
cache_mem_area=Axi0
arena_cache_size=393216
[Memory_Mode.Shared_Sram]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0
"""


def scheduled(path: Path, *options: object) -> dict[str, Any]:
    words = ("schedule", NAME, "--effort", "quick", "--no-advice", "--jobs", "1", "-o", path, *options, "--json")
    found: dict[str, Any] = json.loads(call(*words).output)
    return found


@pytest.fixture(scope="module")
def homed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    path = tmp_path_factory.mktemp("homes") / "homed.json"
    return path, scheduled(path, "--optimise", "Size", "--home", "input=ext", "--home", "output=axi0")


def test_homes_are_scheduled_replayed_and_verified(homed: tuple[Path, dict[str, object]], tmp_path: Path) -> None:
    path, found = homed
    plain = scheduled(tmp_path / "plain.json", "--optimise", "Size")
    ends = found["inputs_outputs"]
    assert isinstance(ends, dict)
    assert [(home["region"], home["port"]) for home in ends["homes"]] == [(3, 1), (4, 0)]
    assert ends["outside_bytes"] >= ends["io_bytes"] > 0
    assert found["arena_bytes"] < plain["arena_bytes"]  # type: ignore[operator]  # integers
    replayed = json.loads(call("simulate", "schedule", path, "--json").output)
    assert (replayed["summary"]["cycles"], replayed["summary"]["peak_bytes"]) == (found["cycles"], found["arena_bytes"])
    assert replayed["inputs_outputs"] == ends
    # Another memory system has the homes behind the ports that the schedule says.
    other = json.loads(call("simulate", "schedule", path, "--timing-adapter", "off", "--json").output)
    assert other["inputs_outputs"] == ends
    assert "0 of" in call("verify", path).output


def test_an_exported_file_replays_alike_where_its_homes_are_said(homed: tuple[Path, dict[str, object]], tmp_path: Path) -> None:
    path, found = homed
    call("export", path, "-o", tmp_path / "net.tflite")
    words = ("simulate", "vela", tmp_path / "net.tflite", "--no-advice", "--json")
    there = json.loads(call(*words, "--home", "input=ext").output)
    assert there["summary"]["cycles"] == found["cycles"]
    assert json.loads(call(*words).output)["summary"]["cycles"] <= there["summary"]["cycles"]


def test_a_file_of_homes_is_as_good_as_options(homed: tuple[Path, dict[str, object]], tmp_path: Path) -> None:
    (tmp_path / "homes.toml").write_text('input = "ext"\noutput = "axi0"\n')
    again = scheduled(tmp_path / "again.json", "--optimise", "Size", "--home", tmp_path / "homes.toml")
    assert (tmp_path / "again.json").read_bytes() == homed[0].read_bytes()
    assert again["inputs_outputs"] == homed[1]["inputs_outputs"]
    (tmp_path / "homes.toml").write_text("input = 3\n")
    outcome = call("schedule", NAME, "--home", tmp_path / "homes.toml", "-o", tmp_path / "no.json")
    assert outcome.status == 2
    assert "gives 'input' no memory's name" in outcome.errors
    assert not (tmp_path / "no.json").exists()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("schedule", NAME, "--home", "input=flash", "-o", "no.json"), "choose sram (axi0) or ext (axi1)"),
        (("schedule", NAME, "--home", "nothing=ext", "-o", "no.json"), "which the network does not have"),
        (("compare", NAME, "--home", "input=flash"), "choose sram (axi0) or ext (axi1)"),
        (("sweep", NAME, "--home", "input=flash"), "choose sram (axi0) or ext (axi1)"),
        (("compile", NAME, "--home", "nothing=ext"), "which the network does not have"),
        (("compile", NAME, "--home", "input=ext", "--debug-force-legacy-core"), "keeps inputs and outputs in its arena"),
        (("check", "homed", "--home", "input=ext", "--max-bytes", "1"), "--home cannot change it"),
        (("check", "homed", "--no-recompute", "--max-bytes", "1"), "--no-recompute cannot change it"),
        (("validate", "portfolio", "mnist", "--home", "input=flash"), "choose sram (axi0) or ext (axi1)"),
        (("simulate", "vela", NAME, "--home", "input=ext"), "lies in the arena of the compiled file: compile with --separate-io-regions"),
        (("export", "homed", "--format", "raw", "-o", "no.npz"), "three base addresses"),
        (("export", "homed", "--format", "c", "--cop-format", "COP2", "-o", "no.c"), "formats tflite and raw"),
        (("export", "homed", "--format", "c", "--fast-scratch", "-o", "no.c"), "--fast-scratch is of format tflite alone"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(
    command: tuple[str, ...], says: str, homed: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    words = [homed[0] if word == "homed" else tmp_path / word if word.startswith("no.") else word for word in command]
    outcome = call(*words)
    assert outcome.status == 2
    assert says in outcome.errors
    assert not list(tmp_path.iterdir())


def test_velas_separate_regions_take_the_memories_that_are_said() -> None:
    words = ("simulate", "vela", NAME, "--separate-io-regions", "--no-advice", "--json")
    near, far = (json.loads(call(*words, *homes).output) for homes in ((), ("--home", "input=ext")))
    assert [home["port"] for home in near["inputs_outputs"]["homes"]] == [0, 0]
    assert [home["port"] for home in far["inputs_outputs"]["homes"]] == [1, 0]
    assert near["summary"]["cycles"] < far["summary"]["cycles"]


def test_dedicated_sram_is_a_fast_scratch_beside_an_outer_arena(tmp_path: Path) -> None:
    (tmp_path / "soc.ini").write_text(SOC)
    memory = ("--config", tmp_path / "soc.ini", "--system-config", "Ethos_U55_Dram", "--memory-mode", "Dedicated_Sram")
    found = scheduled(tmp_path / "plan.json", *memory)
    ends = found["inputs_outputs"]
    assert isinstance(ends, dict)
    assert [home["port"] for home in ends["homes"]] == [1, 1]
    call("export", tmp_path / "plan.json", "-o", tmp_path / "net.tflite")
    call("export", tmp_path / "plan.json", "--fast-scratch", "-o", tmp_path / "asked.tflite")
    assert (tmp_path / "asked.tflite").read_bytes() == (tmp_path / "net.tflite").read_bytes()
    replayed = json.loads(call("simulate", "vela", tmp_path / "net.tflite", *memory, "--no-advice", "--json").output)
    assert replayed["summary"]["cycles"] == found["cycles"]
    assert replayed["summary"]["peak_bytes"] == found["arena_bytes"]
    assert "0 of" in call("verify", tmp_path / "net.tflite", "--model", NAME).output


def test_only_firmware_that_keeps_region_1_in_the_fast_memory_has_the_arena_there_in_dedicated_sram(tmp_path: Path) -> None:
    (tmp_path / "soc.ini").write_text(SOC)
    system = ("--config", tmp_path / "soc.ini", "--system-config", "Ethos_U55_Dram", "--memory-mode")
    found = scheduled(tmp_path / "plan.json", *system, "Dedicated_Sram")
    outcome = call("export", tmp_path / "plan.json", "--no-fast-scratch", "-o", tmp_path / "net.tflite")
    assert "firmware must keep that in the fast memory" in outcome.errors
    words = ("simulate", "vela", tmp_path / "net.tflite", "--no-advice", "--json", *system)
    stock, own = (
        json.loads(call(*words, mode, *homes).output)["summary"]["cycles"]
        for mode, homes in (("Dedicated_Sram", ()), ("Shared_Sram", ("--home", "input=Dram", "--home", "output=Dram")))
    )
    assert own == found["cycles"] < stock


def test_words_that_addresses_in_the_outer_arena_need_are_said(tmp_path: Path) -> None:
    (tmp_path / "soc.ini").write_text(SOC)
    memory = ("--config", tmp_path / "soc.ini", "--system-config", "Ethos_U55_Dram", "--memory-mode", "Dedicated_Sram")
    for name, more in (("zoo:tiny_residual", True), ("zoo:ds_cnn", False), ("zoo:tiny_conv", False)):
        plan, exported = tmp_path / "plan.json", tmp_path / "net.tflite"
        words = ("--effort", "quick", "--no-advice", "--jobs", "1", "--json", "-o", plan)
        planned = json.loads(call("schedule", name, *memory, *words).output)["cycles"]
        said = call("export", plan, "-o", exported).errors
        taken = json.loads(call("simulate", "vela", exported, *memory, "--no-advice", "--json").output)["summary"]["cycles"]
        assert ("its cycles may differ by the fetch of these words" in said) == more
        assert more or taken == planned, "without more words the file takes the cycles planned"


def test_an_end_in_the_fast_memory_has_no_place_in_a_file_of_dedicated_sram(tmp_path: Path) -> None:
    (tmp_path / "soc.ini").write_text(SOC)
    memory = ("--config", tmp_path / "soc.ini", "--system-config", "Ethos_U55_Dram", "--memory-mode", "Dedicated_Sram")
    scheduled(tmp_path / "plan.json", *memory, "--home", "input=Sram")
    outcome = call("export", tmp_path / "plan.json", "-o", tmp_path / "net.tflite")
    assert outcome.status == 2
    assert "lives in Sram, where the fast scratch is" in outcome.errors
    assert not (tmp_path / "net.tflite").exists()
    assert call("export", tmp_path / "plan.json", "--no-fast-scratch", "-o", tmp_path / "net.tflite").status == 0


def test_a_schedule_in_one_arena_has_no_fast_scratch_to_write(tmp_path: Path) -> None:
    call("schedule", NAME, "--no-cascade", "-o", tmp_path / "plan.json")
    outcome = call("export", tmp_path / "plan.json", "--fast-scratch", "-o", tmp_path / "net.tflite")
    assert outcome.status == 2
    assert "where no runtime of Dedicated_Sram looks for it" in outcome.errors
    assert not (tmp_path / "net.tflite").exists()


@pytest.mark.law
@pytest.mark.parametrize(
    ("model", "room"),
    [
        ("portfolio:residual_uint8", 3072),
        pytest.param("zoo:resnet8", 4096, marks=pytest.mark.skipif(not EVERY, reason="takes 15 seconds: set NPU_TESTBED_ALL=1 to run it")),
    ],
)
def test_what_does_not_fit_is_spilled_to_a_memory_that_is_offered(model: str, room: int, tmp_path: Path) -> None:
    words = ("schedule", model, "--home", "input=ext", "--home", "output=ext", "--effort", "quick", "--no-advice", "--jobs", "1")
    budget = ("--arena-cache-size", room)
    refused = call(*words, *budget, "-o", tmp_path / "no.json")
    assert (refused.status, "allow that much" in refused.errors) == (2, True)
    left = json.loads(call(*words, *budget, "--spill", "ext", "-o", tmp_path / "left.json", "--json").output)
    assert left["arena_bytes"] <= room
    assert left["inputs_outputs"]["outside_bytes"] > 2 * left["inputs_outputs"]["io_bytes"], (
        "kernels work on a tensor between layers outside"
    )
    outcome = call(*words, "--optimise", "Size", "--spill", "ext", "-o", tmp_path / "spilled.json", "--json")
    found = json.loads(outcome.output)
    assert found["arena_bytes"] < left["arena_bytes"]
    assert found["carried_bytes"] > 0
    replayed = json.loads(call("simulate", "schedule", tmp_path / "spilled.json", "--json").output)
    assert replayed["summary"]["cycles"] == found["cycles"]
    assert replayed["summary"]["peak_bytes"] == replayed["summary"]["planned_bytes"] == found["arena_bytes"]
    assert replayed["carried_bytes"] == found["carried_bytes"]
    assert replayed["summary"]["macs"] == found["macs"], "the DMA that carries does no multiply-accumulates"
    assert "bytes out of the arena" in call("simulate", "schedule", tmp_path / "spilled.json").output
    verified = json.loads(call("verify", tmp_path / "spilled.json", "--json").output)
    assert not verified["hazards"]


def test_forms_that_hold_nothing_in_the_arena_are_searched_too(tmp_path: Path) -> None:
    options = ("--home", "input=ext", "--home", "output=ext", "--spill", "ext", "--arena-cache-size", 1408)
    assert 0 < scheduled(tmp_path / "s.json", *options)["arena_bytes"] <= 1408


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--spill", "sram"), "names no memory of timing adapter u55_high_end that takes tensors from the arena: choose ext"),
        (("--spill", "tape"), "choose ext"),
        (("--spill", "ext", "--no-cascade"), "--spill ext cannot be combined with --no-cascade"),
    ],
)
def test_a_spill_goes_to_a_memory_that_takes_it(options: tuple[str, ...], says: str, tmp_path: Path) -> None:
    outcome = call("schedule", NAME, *options, "-o", tmp_path / "no.json")
    assert outcome.status == 2
    assert says in outcome.errors
    assert not list(tmp_path.iterdir())


def test_a_replay_of_a_compiled_file_says_which_memory_is_taken_for_ends_of_which_no_home_is_given(tmp_path: Path) -> None:
    plan, file = tmp_path / "plan.json", tmp_path / "net_vela.tflite"
    call("schedule", NAME, "--home", "input=ext", "--effort", "quick", "--no-advice", "--jobs", "1", "-o", plan)
    call("export", plan, "-o", file)
    silent = call("simulate", "vela", file, "--no-advice", "--home", "input=ext")
    told = call("simulate", "vela", file, "--no-advice")
    assert silent.errors == ""
    assert "note: a compiled file does not say where" in told.errors
    assert told.output != silent.output
