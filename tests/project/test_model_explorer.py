"""The adapter of examples/model_explorer: layers, cascades, cycles and SRAM of what is opened."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from asked_for import replayed
from command_line import call

from npu_model.errors import InputError

ROOT = Path(__file__).parents[2]
PACKAGE = "npu_testbed_model_explorer"


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "examples" / "model_explorer")
    yield import_module(f"{PACKAGE}.graph")
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture
def plan(tmp_path: Path) -> str:
    path = tmp_path / "plan.json"
    assert call("schedule", "zoo:tiny_conv", "--optimise", "Size", "-o", path, "--no-advice").status == 0
    return str(path)


def test_a_schedule_is_drawn_with_its_cascades_and_the_cycles_of_every_layer(package: Any, plan: str) -> None:
    found = package.drawing(plan)
    facts = {node.name: dict(node.facts) for node in found.nodes}
    cycles = sum(int(one["NPU cycles"].replace(",", "")) for one in facts.values())
    assert cycles == replayed(plan).replay.cycles
    assert any(node.group.startswith("cascade of layers") for node in found.nodes)
    assert all(any(key.startswith("in SRAM, ") for key in one) for one in facts.values())
    names = [node.name for node in found.nodes]
    assert all(names.index(read) < names.index(node.name) for node in found.nodes for read in node.reads)
    assert max(found.nodes, key=lambda node: int(facts[node.name]["NPU cycles"].replace(",", ""))).colour == "#d93025"


def test_a_compiled_file_is_drawn_too_and_anything_else_is_refused(package: Any, plan: str, tmp_path: Path) -> None:
    compiled, other = tmp_path / "network_vela.tflite", tmp_path / "other.json"
    assert call("export", plan, "-o", compiled).status == 0
    assert len(package.drawing(str(compiled)).nodes) >= 2
    other.write_text("{}")
    with pytest.raises(InputError):
        package.drawing(str(other))


def test_model_explorer_runs_the_adapter(package: Any, plan: str) -> None:
    manager = pytest.importorskip("model_explorer.extension_manager", reason="ai-edge-model-explorer is not installed")
    extensions = manager.ExtensionManager([PACKAGE])
    extensions.load_extensions()
    command = {"cmdId": "convert", "extensionId": "npu_testbed", "modelPath": plan, "settings": {}, "deleteAfterConversion": False}
    (graph,) = extensions.run_cmd(command)["graphs"]
    assert [node["id"] for node in graph["nodes"]] == [node.name for node in package.drawing(plan).nodes]
    assert graph["groupNodeAttributes"][""]["Model"] == "zoo:tiny_conv"
