"""Tensor Expressions for a device of a user's own: planned, proven by a run, and written as a plan, C or TensorIR."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tensorir_only  # noqa: F401  # skips this file where TVM is not installed
from command_line import call

import npu_testbed
from cascader.tensorir.device import own_device
from npu_model.errors import InputError
from npu_testbed.documents import json_schema, schema_version

DEVICE = """
name = "vector-dsp"
work_per_cycle = 4
memory = 8192

[work]
squash = 24

[search]
factors = 6
"""

HOME = """
work_per_cycle = 4
memory = 4096

[home]
tensors = ["input", "output"]
bytes_per_cycle = 0.5
"""

GRAPH = """
from examples.generic_device import filter_bank

def make_graph():
    return filter_bank()
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, Path]:
    (tmp_path / "bank.py").write_text(GRAPH)
    (tmp_path / "dsp.toml").write_text(DEVICE)
    return f"{tmp_path / 'bank.py'}:make_graph", tmp_path / "dsp.toml"


def test_the_plan_is_that_of_the_example_which_needs_no_file(files: tuple[str, Path]) -> None:
    made = npu_testbed.schedule(files[0], device=files[1])
    assert (made.memory_bytes, made.cycles) == (6712, 81840)
    assert made.proof.failures() == ()
    assert {buffer.tensor: buffer.size for plan in made.proposal.plans for buffer in plan.buffers} == {
        "bank": 512,
        "squashed": 960,
        "mixed": 120,
    }


def test_a_plan_is_written_as_a_document_of_its_published_structure(files: tuple[str, Path], tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="the package jsonschema is not installed")
    outcome = call("schedule", files[0], "--device", files[1], "-o", tmp_path / "plan.json", "--json")
    assert outcome.status == 0
    document = json.loads(outcome.output)
    assert json.loads((tmp_path / "plan.json").read_text()) == document
    jsonschema.Draft202012Validator(json_schema("schedule --device")).validate(document)
    assert document["schema"] == schema_version("schedule --device")


def test_c_and_tensorir_are_written(files: tuple[str, Path], tmp_path: Path) -> None:
    npu_testbed.schedule(files[0], device=files[1], output=tmp_path / "bank.c")
    assert "int bank_run(const float *samples, float *halved, void *arena, size_t arena_size)" in (tmp_path / "bank.h").read_text()
    npu_testbed.schedule(files[0], device=files[1], output=tmp_path / "tir.py")
    script = (tmp_path / "tir.py").read_text()
    assert 'scope="global.sram"' in script
    tables: dict[str, dict[str, list[int]]] = {}
    exec(script[script.index("TABLES = ") :], tables)  # the test's own text
    assert len(tables["TABLES"]["stripe_boxes"]) == 512


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler is installed")
def test_the_c_computes_what_the_expressions_compute(files: tuple[str, Path], tmp_path: Path) -> None:
    made = npu_testbed.schedule(files[0], device=files[1], output=tmp_path / "bank.c")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", tmp_path / "bank.so", tmp_path / "bank.c", "-lm"], check=True)
    library = ctypes.CDLL(str(tmp_path / "bank.so"))
    samples = np.random.default_rng(0).standard_normal((256, 1)).astype(np.float32)
    result, arena = np.zeros((128, 8), np.float32), np.zeros(8192, np.uint8)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (samples, result, arena)]
    assert library.bank_run(*pointers, ctypes.c_size_t(arena.size)) == 0
    assert np.allclose(result, made.proof.outputs["halved"], atol=1e-6)


def test_tensors_at_home_elsewhere_are_copied_by_stripes_and_take_none_of_the_memory(files: tuple[str, Path], tmp_path: Path) -> None:
    (tmp_path / "dsp.toml").write_text(HOME)
    made = npu_testbed.schedule(files[0], device=files[1])
    assert made.memory_bytes <= 4096
    assert {"samples", "halved"} <= {buffer.tensor for plan in made.proposal.plans for buffer in plan.buffers}
    assert made.proof.failures() == ()


def test_a_budget_that_cannot_be_met_names_the_smallest_that_can(files: tuple[str, Path]) -> None:
    with pytest.raises(InputError, match="No plan fits into 1000 bytes of vector-dsp: the smallest plan found takes 6712"):
        npu_testbed.schedule(files[0], device=files[1], arena_cache_size=1000)


def test_options_and_models_of_the_npu_are_refused_by_name(files: tuple[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--effort cannot be combined with --device, which plans for your own device"):
        npu_testbed.schedule(files[0], device=files[1], effort="quick")
    with pytest.raises(InputError, match="--accelerator-config cannot be combined with --device, which plans"):
        npu_testbed.schedule(files[0], device=files[1], accelerator_config="ethos-u55-64")
    with pytest.raises(InputError, match="a device of your own takes Tensor Expressions"):
        npu_testbed.schedule("zoo:tiny_conv", device=files[1])
    with pytest.raises(InputError, match=r"has none of the endings \.json, \.c, \.py"):
        npu_testbed.schedule(files[0], device=files[1], output=tmp_path / "x.tflite")
    assert not (tmp_path / "x.tflite").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("memory = 3", r"Device 'd' has \['memory'\] at its top where the key 'work_per_cycle' is needed: write name, work_per_cycle"),
        ("work_per_cycle = 1", r"Device 'd' has \['work_per_cycle'\] at its top where the key 'memory' is needed"),
        ("work_per_cycle = 0\nmemory = 3", "Device 'd' has 0 at work_per_cycle where a number above 0 is needed"),
        (
            "work_per_cycle = 1\nmemory = 3\nspeed = 2",
            "Device 'd' has 'speed' at its top where one of the keys work_per_cycle",
        ),
        (
            "work_per_cycle = 1\nmemory = 3\n[search]\nfactor = 2",
            r"Device 'd' has 'factor' \(did you mean factors\?\) at search where one of",
        ),
        ("work_per_cycle = 1\nmemory = 3\n[search]\nrolling = 2", "Device 'd' has 2 at search.rolling where true or false is needed"),
        ("work_per_cycle = 1\nmemory = 3\n[search]\nfactors = 0", "factors 0 .* each must be 1 or more"),
        ("work_per_cycle = 1\nmemory = 3\n[home]\ntensors = ['input']", "one of home.tensors and home.bytes_per_cycle: give both"),
        ("work_per_cycle = 1\nmemory = 3\nwork = 4", "Device 'd' has 4 at work where a table is needed"),
        ("=", "Device 'd' is not TOML"),
    ],
)
def test_a_device_that_is_wrong_is_told_so_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        own_device(text, "d")
