"""`npu-testbed compile` in the place of `vela`: the same options, files and columns, with the figures of the replay."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from asked_for import compile_model, schedule, simulate_vela
from command_line import call
from cpu_networks import cpu_split_network

from npu_model.compiled.network import CpuOperator, read_compiled
from npu_testbed.asked.making import fill
from npu_testbed.asked.parser import Parser
from npu_testbed.commands.compilation import Compile
from npu_testbed.compilation.compile_options import Target
from npu_testbed.compilation.compiler import network_name
from npu_testbed.compilation.traffic import KINDS, class_bytes
from npu_testbed.compilation.vela_options import VELA_OPTIONS
from npu_testbed.replays.exports import export
from npu_testbed.replays.simulation import simulate_schedule
from validation.zoo import build

QUICK = ("--disable-cascading", "--jobs", "1")


def vela(folder: Path, *words: str) -> str:
    """Run Vela in ``folder`` and return its output."""
    command = [sys.executable, "-m", "ethosu.vela", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders of what Vela and what we write for one network and the same options."""
    folder = tmp_path_factory.mktemp("both")
    (folder / "net.tflite").write_bytes(build("ds_cnn"))
    options = ["--accelerator-config", "ethos-u55-64", "--config", "Arm/vela.ini", "--system-config", "Ethos_U55_Deep_Embedded"]
    options += ["--memory-mode", "Shared_Sram", "--verbose-performance"]
    vela(folder, "net.tflite", "--output-dir", "vela", *options)
    outcome = call("compile", folder / "net.tflite", "--output-dir", folder / "ours", *options, *QUICK)
    assert outcome.status == 0, outcome
    return folder / "vela", folder / "ours"


def test_the_files_have_the_names_that_vela_gives_them(both: tuple[Path, Path]) -> None:
    theirs, ours = ({path.name for path in folder.iterdir()} for folder in both)
    assert theirs == ours


def test_the_reports_have_the_columns_of_vela_in_its_order(both: tuple[Path, Path]) -> None:
    for name in ("net_summary_Ethos_U55_Deep_Embedded.csv", "net_per-layer.csv"):
        theirs, ours = ((folder / name).read_text().splitlines()[0] for folder in both)
        assert theirs == ours


def test_what_does_not_depend_on_the_schedule_is_what_vela_says(both: tuple[Path, Path]) -> None:
    (theirs,), (ours,) = (table(folder / "net_summary_Ethos_U55_Deep_Embedded.csv") for folder in both)
    same = ("network", "accelerator_configuration", "system_config", "memory_mode", "core_clock", "arena_cache_size", "sram_bandwidth")
    same += ("off_chip_flash_bandwidth", "weights_storage_area", "feature_map_storage_area", "batch_size", "total_original_weights")
    assert [(key, theirs[key]) for key in same] == [(key, ours[key]) for key in same]
    # Vela buffers weights in slices, each of which is padded to 16 bytes.
    assert float(ours["total_npu_encoded_weights"]) == pytest.approx(float(theirs["total_npu_encoded_weights"]), rel=0.01)
    assert float(ours["off_chip_flash_memory_used"]) == pytest.approx(float(theirs["off_chip_flash_memory_used"]), rel=0.01)


def test_layers_have_the_names_and_operators_that_vela_gives_them(both: tuple[Path, Path]) -> None:
    theirs, ours = (table(folder / "net_per-layer.csv") for folder in both)
    known = {row["Name"]: row["Original Operator"] for row in theirs}
    assert next(row["Name"] for row in ours) == "stem"
    assert all(known[row["Name"]] == row["Original Operator"] for row in ours)


def test_the_summary_has_the_figures_of_the_replay(both: tuple[Path, Path]) -> None:
    (row,) = table(both[1] / "net_summary_Ethos_U55_Deep_Embedded.csv")
    replayed = json.loads(
        call(
            *("simulate", "vela", both[1] / "net_vela.tflite", "--json"),
            *("--system-config", "Ethos_U55_Deep_Embedded", "--memory-mode", "Shared_Sram"),
        ).output
    )["summary"]
    assert int(row["cycles_total"]) == replayed["cycles"]
    assert float(row["inference_time"]) == pytest.approx(replayed["cycles"] / 200e6)
    assert float(row["sram_memory_used"]) * 1024 == replayed["planned_bytes"]
    assert int(row["nn_macs"]) == replayed["macs"]
    assert sum(int(row[f"{kind}_total_bytes"]) for kind in KINDS) == 8 * sum(replayed["beats"].values())


def test_the_cycles_of_the_layers_are_those_of_the_network(both: tuple[Path, Path]) -> None:
    (row,) = table(both[1] / "net_summary_Ethos_U55_Deep_Embedded.csv")
    layers = table(both[1] / "net_per-layer.csv")
    assert sum(int(layer["Op Cycles"]) for layer in layers) == int(row["cycles_total"])
    assert sum(float(layer["Network% (MAC)"]) for layer in layers) == pytest.approx(100)
    assert max(float(layer["Peak% (Staging)"]) for layer in layers) <= 100


def test_a_compiled_file_is_the_export_of_the_schedule_with_the_same_options(tmp_path: Path) -> None:
    found = compile_model("zoo:tiny_residual", Target(aim="fewest-bytes"))
    plan = schedule("zoo:tiny_residual", "ethos-u55-128", optimise="Size", processes=1)
    assert found.files["tiny_residual_vela.tflite"] == export(plan, model=build("tiny_residual"))["network.tflite"]
    path = tmp_path / "t.tflite"
    path.write_bytes(found.files["tiny_residual_vela.tflite"])
    assert simulate_vela(str(path)).replay.cycles == simulate_schedule(plan).replay.cycles


def test_weights_that_are_staged_are_read_from_flash_once_and_written_to_sram() -> None:
    found = compile_model("zoo:tiny_residual")
    moved = class_bytes(found.simulation.replay)
    copied = sum(op.length for program in found.simulation.network.programs for op in program.transfers if not op.to_shram)
    assert copied > 0
    assert moved["sram"].weight_write == copied
    assert moved["off_chip_flash"].weight_read >= copied
    for one in moved.values():
        assert one.feature_map_read + one.feature_map_write + one.weight_read + one.weight_write <= one.total


def test_where_constants_share_the_srams_port_they_are_flash_to_the_reports(tmp_path: Path) -> None:
    words = ("compile", "zoo:tiny_conv", "--output-dir", tmp_path, "--memory-mode", "Sram_Only", *QUICK)
    assert call(*words).status == 0
    (row,) = table(tmp_path / "tiny_conv_summary_Ethos_U55_High_End_Embedded.csv")
    assert row["weights_storage_area"] == "On-chip Flash"
    assert float(row["on_chip_flash_memory_used"]) > 0
    assert float(row["on_chip_flash_bandwidth"]) == 0
    assert int(row["sram_weight_read_bytes"]) > 0


def test_operators_to_ignore_stay_on_the_cpu_in_the_file_and_in_the_table(tmp_path: Path) -> None:
    model = tmp_path / "split.tflite"
    model.write_bytes(cpu_split_network())
    assert call("compile", model, "--output-dir", tmp_path, "--ignore-ops", "RELU, ADD", *QUICK).status == 0
    steps = read_compiled((tmp_path / "split_vela.tflite").read_bytes()).steps
    on_cpu = [row for row in table(tmp_path / "split_per-layer.csv") if row["Target"] == "CPU"]
    assert len(on_cpu) == sum(isinstance(step, CpuOperator) for step in steps) >= 1
    assert {row["Original Operator"] for row in on_cpu} >= {"DepthToSpace"}


def test_every_option_of_vela_is_known(tmp_path: Path) -> None:
    theirs = set(re.findall(r"^ +(?:-h, )?(--[a-z0-9-]+)", vela(tmp_path, "--help"), re.MULTILINE)) - {"--help"}
    parser = Parser(prog="compile")
    fill(parser, Compile)
    assert theirs - set(parser._option_string_actions) == set()  # the same
    assert {option.name for option in VELA_OPTIONS} - theirs == set()


@pytest.mark.parametrize("option", VELA_OPTIONS, ids=lambda option: option.name)
def test_an_option_of_vela_without_a_meaning_is_noted_or_refused_in_a_sentence(option: object, tmp_path: Path) -> None:
    assert isinstance(option, type(VELA_OPTIONS[0]))
    given = [option.name, "other"] if option.takes_value else [option.name]
    target = tmp_path / "out"
    outcome = call("compile", "zoo:tiny_conv" if not option.refused else "no.tflite", *given, "--output-dir", target, *QUICK)
    assert outcome.errors.count("\n") == 1
    assert option.reason in outcome.errors
    assert (outcome.status, target.exists()) == ((2, False) if option.refused else (0, True))


def test_an_option_that_vela_answers_without_a_model_is_refused_without_one() -> None:
    outcome = call("compile", "--api-version")
    assert outcome.status == 2
    assert "--api-version is an option of Vela's that has no meaning here" in outcome.errors


def test_the_value_of_an_option_that_changes_nothing_is_taken_without_a_word(tmp_path: Path) -> None:
    words = ("--output-format", "tflite", "--cop-format", "COP1", "--cpu-tensor-alignment", "16")
    outcome = call("compile", "zoo:tiny_conv", *words, "--output-dir", tmp_path / "a" / "b", *QUICK)
    assert (outcome.status, outcome.errors) == (0, "")


def test_a_bound_that_cannot_be_met_is_refused_and_leaves_no_folder(tmp_path: Path) -> None:
    outcome = call("compile", "zoo:tiny_conv", "--arena-cache-size", "16", "--output-dir", tmp_path / "out", *QUICK)
    assert outcome.status == 2
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = call("compile", "no.tflite", "--output-dir", tmp_path / "file" / "out")
    assert outcome.status == 1
    assert "is not a directory: choose another place." in outcome.errors


def test_the_schedule_beside_the_file_replays_to_the_same_cycles(tmp_path: Path) -> None:
    document = json.loads(call("compile", "zoo:tiny_conv", "--enable-debug-db", "--output-dir", tmp_path, "--json", *QUICK).output)
    assert document["accelerator"] == "ethos-u55-256"
    assert sorted(Path(path).name for path in document["files"]) == sorted(path.name for path in tmp_path.iterdir())
    replayed = json.loads(call("simulate", "schedule", tmp_path / "tiny_conv_schedule.json", "--json").output)
    assert replayed["summary"] == document["summary"]


def test_a_network_is_compiled_for_the_timing_that_is_given(tmp_path: Path) -> None:
    profile = tmp_path / "slow.toml"
    profile.write_text("schema = 1\n[timing]\nkernel_start_cycles = 500\n", encoding="utf-8")
    words = ("compile", "zoo:tiny_conv", "--output-dir", tmp_path / "out", "--json")
    own, late = (json.loads(call(*words, *more).output) for more in ((), ("--timing-profile", profile)))
    assert (own["timing"], late["timing"]) == ({}, {"kernel_start_cycles": 500})
    assert own["summary"]["cycles"] < late["summary"]["cycles"]


def test_configurations_are_listed_as_vela_lists_them() -> None:
    assert call("compile", "--list-config-files").output == "Arm/vela.ini\n"
    assert "  Ethos_U55_Deep_Embedded\n" in call("compile", "--list-configs", "Arm/vela.ini").output


@pytest.mark.parametrize(("model", "name"), [("a.b.tflite", "a.b"), ("zoo:ds_cnn", "ds_cnn"), ("portfolio:x/y", "x_y"), ("n.TFLITE", "n")])
def test_files_are_named_after_the_network(model: str, name: str) -> None:
    assert network_name(model) == name


PAGE = Path(__file__).parents[2] / "docs" / "replace-vela.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(shutil.which("cmake") is None, reason="CMake is not installed")
def test_the_pages_cmake_project_compiles_a_network(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(blocks("cmake")[0])
    (tmp_path / "network.tflite").write_bytes(build("tiny_conv"))
    tool = tmp_path / "npu-testbed"
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m npu_testbed "$@"\n')
    tool.chmod(0o755)
    environment = os.environ | {"PYTHONPATH": str(PAGE.parents[1]), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for words in (("-S", tmp_path, "-B", tmp_path / "b"), ("--build", tmp_path / "b")):
        subprocess.run(["cmake", *map(str, words)], env=environment, check=True, capture_output=True)
    assert (tmp_path / "b" / "network_vela.tflite").is_file()
