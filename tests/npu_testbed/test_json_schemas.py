"""Every ``--json`` document is as its published schema says, whose version changes with it, and one key has one unit."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from command_line import call
from cpu_networks import cpu_split_network
from fvp_cards import show, small_card
from fvp_stand_in import stand_in
from quick_comparisons import compare_quickly

from cascader.frontends.vela import compile_network
from npu_testbed.documents import json_schema, schema_names, schema_version
from validation.zoo import build

jsonschema = pytest.importorskip("jsonschema", reason="the package jsonschema is not installed")

DIGESTS = Path(__file__).parents[1] / "json_schema_digests.json"
"""SHA-256 of every published version of every schema: one that is published is not changed, a changed one has a new version."""


def digests() -> dict[str, dict[str, str]]:
    return json.loads(DIGESTS.read_text())  # type: ignore[no-any-return]  # objects of objects of text


def in_order(schema: Any) -> Any:
    """A schema whose lists, such as `required` and `enum`, are sorted: their order means nothing."""
    if isinstance(schema, dict):
        return {key: in_order(value) for key, value in schema.items()}
    return sorted(map(in_order, schema), key=json.dumps) if isinstance(schema, list) else schema


@pytest.mark.parametrize("command", schema_names())
def test_a_schema_that_changes_has_a_new_version(command: str) -> None:
    schema, version = json_schema(command), schema_version(command)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema"]["const"] == version
    text = json.dumps(in_order(schema), sort_keys=True)
    recorded = digests().get(command, {})
    assert max(map(int, recorded)) == version
    assert recorded[str(version)] == sha256(text.encode()).hexdigest(), "raise the version in npu_testbed.documents, and record its digest"


def keys(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in schema.get("properties", {}).items():
        if "description" in value:
            yield key, value["description"]
        yield from keys(value)
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from keys(inner)


def test_a_key_means_the_same_in_every_document() -> None:
    meanings: dict[str, str] = {}
    for command in schema_names():
        for key, meaning in keys(json_schema(command)):
            assert meanings.setdefault(key, meaning) == meaning, key


def require_valid(command: str, *argv: object) -> dict[str, Any]:
    outcome = call(*command.split(), *argv, "--json")
    assert outcome.status in (0, 1), outcome
    document: dict[str, Any] = json.loads(outcome.output)
    name = document["command"]
    jsonschema.Draft202012Validator(json_schema(name)).validate(document)
    assert document["schema"] == schema_version(name)
    return document


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "s.json"
    document = require_valid("schedule", "zoo:tiny_residual", "--no-cascade", "-o", path)
    replayed = require_valid("simulate schedule", path)
    assert document["cycles"] == replayed["summary"]["cycles"]
    assert document["arena_bytes"] == replayed["summary"]["planned_bytes"]
    return path


def test_utilisation_is_a_fraction_in_layers_and_in_the_summary(plan: Path) -> None:
    document = require_valid("simulate schedule", plan)
    cycles = document["summary"]["cycles"]
    used = sum(layer["mac_utilisation"] * layer["cycles"] for layer in document["layers"])
    assert used / cycles == pytest.approx(document["summary"]["mac_utilisation"])
    assert sum(layer["share"] for layer in document["layers"]) == pytest.approx(1)


def test_documents_of_one_schedule_are_as_published(plan: Path, tmp_path: Path) -> None:
    split = tmp_path / "split.tflite"
    split.write_bytes(cpu_split_network())
    require_valid("simulate schedule", plan, "--stalls")
    require_valid("simulate vela", "zoo:tiny_residual", "--stalls")
    for words in (("simulate vela", split), ("schedule", split, "-o", tmp_path / "split.json")):
        document = require_valid(*words, "--show-cpu-operations")
        (on_cpu,) = document["cpu_operations"]
        assert (on_cpu["operator"], on_cpu["inputs"], on_cpu["outputs"]) == ("DEPTH_TO_SPACE", ["before"], ["on_cpu"])
        assert on_cpu["reason"] == "the NPU has no operator DEPTH_TO_SPACE"
        assert on_cpu["remedy"]
        assert "cpu_operations" not in require_valid(*words)
    assert "groups" in require_valid("schedule", "zoo:tiny_conv", "--stripes", "-o", tmp_path / "stripes.json")
    require_valid("export", plan, "-o", tmp_path / "n.c", "--format", "c")
    require_valid("compile", split, "--output-dir", tmp_path / "out", "--disable-cascading", "--show-cpu-operations")


def test_differences_and_checks_are_as_published(plan: Path) -> None:
    require_valid("diff", plan, "zoo:tiny_residual")
    require_valid("check", plan, "--max-cycles", 1, "--max-bytes", 1 << 20)


def test_a_verification_is_as_published(plan: Path) -> None:
    require_valid("verify", plan)


def test_a_frontier_is_as_published_on_standard_output_and_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    printed = require_valid("frontier", "zoo:tiny_residual", "--rungs", 2, "--jobs", 1, "-o", path)
    assert json.loads(path.read_text()) == printed


def test_a_comparison_is_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    compare_quickly(monkeypatch, sweep=2)
    require_valid("compare", "zoo:tiny_conv", "--jobs", 1)


@pytest.mark.parametrize("command", ["validate vela", "validate all"])
def test_validations_of_a_network_are_as_published(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    show(monkeypatch, small_card())
    require_valid(command, "zoo:tiny_residual")


def test_the_validation_against_litert_is_as_published() -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT's reference kernels are not installed")
    require_valid("validate litert", "zoo:tiny_residual")


def test_the_validation_against_the_fvp_is_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    show(monkeypatch, small_card())
    require_valid("validate fvp")


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for an FVP is a script with a #! line")
def test_a_live_run_of_an_fvp_is_as_published(tmp_path: Path) -> None:
    fvp, firmware = stand_in(tmp_path)
    document = require_valid("validate fvp", "--live", "zoo:tiny_conv", "--fvp", fvp, "--firmware", firmware, "--no-trace")
    assert document["command"] == "validate fvp --live"


def test_comparisons_of_several_networks_beside_vela_are_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    compare_quickly(monkeypatch, sweep=2)
    document = require_valid("validate vela", "zoo:tiny_conv", "--compare", "--jobs", 1, "--optimise", "Size")
    assert document["comparisons"][0]["networks"]


def test_the_portfolio_is_as_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_quickly(monkeypatch, sweep=2)
    listed = require_valid("validate portfolio", "--list")
    assert listed["command"] == "validate portfolio --list"
    assert "uint8_hard_swish" in {one["name"] for one in listed["networks"]}
    assert require_valid("validate portfolio", "uint8_hard_swish", "--no-verify", "--jobs", 1, "--results", tmp_path)["networks"][0]["ours"]


def test_every_document_has_a_command_of_its_own_and_a_recorded_version() -> None:
    names = [json_schema(name)["properties"]["command"]["const"] for name in schema_names()]
    assert names == sorted(set(digests()))


def test_calibrations_are_as_published(tmp_path: Path) -> None:
    pytest.importorskip("scipy", reason="the extra 'calibrate' is not installed")
    lines = ["model,NPU_ACTIVE,timing_adapter,network"]
    for name, cycles in (("tiny_conv", 15000), ("tiny_residual", 30000)):
        (tmp_path / f"{name}_vela.tflite").write_bytes(compile_network(build(name)).compiled)
        lines += [f"{name}_vela.tflite,{cycles + more},{adapter},{name}" for adapter, more in (("off", 0), ("u55_high_end", 1000))]
    table, profile = tmp_path / "chip.csv", tmp_path / "p.toml"
    table.write_text("\n".join(lines) + "\n")
    require_valid("calibrate fit", table, "-o", profile, "--parameter", "kernel_start_cycles")
    require_valid("calibrate check", profile, table)
