"""The plugin of plugins/mlia: its profiles, and what Arm's MLIA answers with it, where MLIA is installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cpu_networks import cpu_split_network

import npu_testbed
from npu_model.accelerator import accelerator_names
from npu_testbed.devices.chips import chip_names, load_chip

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugins" / "mlia"
MODEL = ROOT / "examples" / "keyword_spotter.tflite"
BACKEND = "npu-testbed"


def profiles() -> dict[str, Any]:
    return {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in (PLUGIN / "target_profiles").glob("*.toml")}


def test_every_chip_and_every_u55_has_a_profile_which_names_its_macs() -> None:
    found = profiles()
    u55 = [name for name in accelerator_names() if name.startswith("ethos-u55-")]
    assert {one["config"].get("chip") for one in found.values()} - {None} == set(chip_names())
    assert {one["config"].get("accelerator_config") for one in found.values()} - {None} == set(u55)
    for name, one in found.items():
        chip = one["config"].get("chip")
        accelerator = load_chip(chip).accelerator if chip else one["config"]["accelerator_config"]
        assert accelerator == f"ethos-u55-{one['components'][0]['variant']}"
        assert (one["profile_name"], one["target_type"]) == (name, BACKEND)


@pytest.fixture(scope="module")
def mlia() -> None:
    pytest.importorskip("mlia", reason="mlia is not installed: `tox -e mlia`")
    pytest.importorskip("npu_testbed_mlia", reason="plugins/mlia is not installed: `tox -e mlia`")


def run(folder: Path, *argv: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mlia.cli.main", *map(str, argv)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


def checked(folder: Path, *argv: object) -> dict[str, Any]:
    """The results of ``mlia check`` by their kind; its document is as MLIA's own schema says."""
    done = run(folder, "check", *argv, "--json", "--noninteractive", "--output-dir", folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    from mlia.core.output_validation import validate_standardized_output  # noqa: PLC0415  # MLIA may be missing

    validate_standardized_output(document)
    return {one["kind"]: one for one in document["results"]} | {"document": document}


def metrics(result: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value") for one in result["metrics"]}


@pytest.mark.usefixtures("mlia")
def test_mlia_lists_the_backend_and_every_profile(tmp_path: Path) -> None:
    assert re.search(rf"{BACKEND} +yes", run(tmp_path, "backend", "list").stdout)
    listed = run(tmp_path, "target", "list").stdout
    assert all(name in listed for name in profiles())


@pytest.mark.usefixtures("mlia")
def test_mlia_answers_with_the_replay_of_velas_schedule(tmp_path: Path) -> None:
    found = checked(tmp_path, MODEL, "--performance", "--target-profile", "npu-testbed-u55-64", "--backend", BACKEND)
    replayed = npu_testbed.simulate_vela(MODEL, accelerator_config="ethos-u55-64")
    result = found["performance"]
    assert metrics(result)["npu_total_cycles"] == replayed.cycles
    assert metrics(result)["arena_bytes"] == replayed.arena_bytes
    assert [one["metrics"][0]["value"] for one in result["breakdowns"]] == [layer.cycles for layer in replayed.layers]
    assert [one["message"] for one in result.get("advice", [])] == [one.text for one in replayed.findings or []]
    assert result["mode"] == "simulated"


@pytest.mark.usefixtures("mlia")
def test_mlia_answers_with_the_cascaders_schedule_on_a_chip(tmp_path: Path) -> None:
    limit, model = 13000, tmp_path / "split.tflite"
    model.write_bytes(cpu_split_network())
    options = (f"--{BACKEND}.scheduler", "cascader", f"--{BACKEND}.arena-cache-size", limit)
    found = checked(tmp_path, model, "--performance", "-t", "npu-testbed-alif-e7-he", "-b", BACKEND, *options)
    made = npu_testbed.schedule(model, chip="alif-e7-he", arena_cache_size=limit, no_advice=True)
    assert metrics(found["performance"])["npu_total_cycles"] == made.cycles
    assert metrics(found["performance"])["arena_bytes"] == made.arena_bytes <= limit
    assert found["document"]["target"]["configuration"]["clock_hz"] == made.simulation.system.clock_hz


@pytest.mark.usefixtures("mlia")
def test_the_profile_of_the_page_is_read_with_its_options(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    text = re.search(r"<!-- file: board.toml -->\n```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert text
    (tmp_path / "board.toml").write_text(text[1], encoding="utf-8")
    (tmp_path / "split.tflite").write_bytes(cpu_split_network())
    found = checked(tmp_path, tmp_path / "split.tflite", "--performance", "-t", tmp_path / "board.toml")
    assert found["document"]["backends"][0]["configuration"]["arena_cache_size"] == 16000
    assert metrics(found["performance"])["arena_bytes"] <= 16000
    (tmp_path / "other.toml").write_text(text[1].replace("arena_cache_size", "arena_size"), encoding="utf-8")
    refused = run(tmp_path, "check", MODEL, "--performance", "-t", "other.toml")
    assert "Error: Backend npu-testbed has no option 'arena_size'" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.usefixtures("mlia")
def test_operators_on_the_cpu_are_checks_that_fail_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "split.tflite").write_bytes(cpu_split_network())
    result = checked(tmp_path, tmp_path / "split.tflite", "--compatibility", "-t", "npu-testbed-u55-128")["compatibility"]
    assert result["status"] == "partial"
    assert [one["status"] for one in result["checks"]] == ["fail"]
    assert [one["name"] for one in result["entities"] if one["placement"] == "CPU"] == ["DEPTH_TO_SPACE on_cpu"]
    result = checked(tmp_path, MODEL, "--compatibility", "-t", "npu-testbed-u55-128")["compatibility"]
    assert metrics(result)["accelerator_operator_percentage"] == 100
    assert [one["status"] for one in result["checks"]] == ["pass"]


@pytest.mark.usefixtures("mlia")
def test_what_cannot_be_replayed_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "noise.tflite").write_bytes(b"noise")
    for model, said in (("noise.tflite", "is not a .tflite model"), ("missing.tflite", "cannot be read")):
        done = run(tmp_path, "check", model, "--performance", "-t", "npu-testbed-u55-128", "--output-dir", tmp_path)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert said in done.stderr
        assert "Error: " in done.stderr
