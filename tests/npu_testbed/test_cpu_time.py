"""Operators on the CPU cost time: ranges by tables, summed with the NPU's, in the words and documents of every command."""

from __future__ import annotations

import json
import os
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from asked_for import simulate_vela
from command_line import call, refusal
from cpu_networks import cpu_split_network
from quick_comparisons import compare_quickly

from npu_model.errors import InputError
from npu_model.tflite.macs import MOST, operator_macs
from npu_model.tflite.model import TfliteOperator, TfliteTensor, read_tflite
from npu_testbed.cpu_time import DEFAULT_CPU, load_cpu_table
from npu_testbed.cpu_time.estimate import inference_of
from npu_testbed.cpu_time.table import SHIPPED, parse_cpu_table
from npu_testbed.replays.simulation import Simulation
from validation.zoo import build

EVERY = os.environ.get("NPU_TESTBED_ALL") == "1"

OWN = """
title = "a core"
clock_hz = 1_000_000
call = [10, 20]
invoke = [100, 200]
copy = [1, 2]
[operator.moves]
names = ["DEPTH_TO_SPACE"]
per = "output"
cycles = [3, 5]
[operator.other]
names = []
per = "byte"
cycles = [1, 1]
"""


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cpu") / "cpu_split.tflite"
    path.write_bytes(cpu_split_network())
    return path


@cache
def plain() -> Simulation:
    return simulate_vela("zoo:tiny_conv")


def shipped(name: str) -> str:
    return (resources.files("npu_testbed.cpu_time") / f"{name}.toml").read_text(encoding="utf-8")


def test_an_own_table_is_followed_to_the_cycle(split: Path, tmp_path: Path) -> None:
    table = tmp_path / "core.toml"
    table.write_text(OWN)
    document = json.loads(call("simulate", "vela", split, "--cpu", table, "--no-advice", "--json").output)
    found = document["inference"]
    # DEPTH_TO_SPACE of 16 x 16 x 16 values, between two jobs of the NPU; inputs and outputs have 16 x 16 x 8 and 32 x 32 x 8 bytes.
    (one,) = found["operators"]
    assert (one["operator"], one["counted"], one["count"]) == ("DEPTH_TO_SPACE", "output", 4096)
    assert one["cpu_cycles"] == {"low": 10 + 3 * 4096, "high": 20 + 5 * 4096}
    assert found["npu_calls_cpu_cycles"] == {"low": 200, "high": 400}
    assert found["copies_cpu_cycles"] == {"low": 2048 + 8192, "high": 2 * (2048 + 8192)}
    parts = [one["cpu_cycles"], found["npu_calls_cpu_cycles"], found["copies_cpu_cycles"]]
    for end in ("low", "high"):
        cpu = sum(part[end] for part in parts) / 1000
        assert found["milliseconds"][end] == pytest.approx(document["summary"]["milliseconds"] + cpu)


def test_every_command_says_what_the_cpu_takes_and_all_say_the_same(split: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_quickly(monkeypatch)
    commands: list[tuple[Any, ...]] = [
        ("simulate", "vela", split, "--no-advice"),
        ("schedule", split, "-o", tmp_path / "s.json", "--effort", "quick", "--no-advice", "--jobs", 1),
        ("simulate", "schedule", tmp_path / "s.json", "--no-advice"),
        ("compile", split, "--output-dir", tmp_path / "out", "--jobs", 1),
        ("compare", split, "--no-advice", "--jobs", 1),
    ]
    found = []
    for command in commands:
        words = " ".join(call(*command).output.split())
        assert "operators on the CPU 0.0" in words, command
        assert "counted from instructions, not measured" in words, command
        document = json.loads(call(*command, "--json").output)
        found.append(document["networks"][0]["inference"] if "networks" in document else document["inference"])
    for one in found:
        assert one["operators"] == found[0]["operators"]
        assert one["npu_milliseconds"] < one["milliseconds"]["low"] < one["milliseconds"]["high"]


def test_without_an_operator_on_the_cpu_only_calls_and_copies_are_beside_the_npu() -> None:
    found = plain().inference
    assert not found.operators
    assert found.jobs == 1
    assert found.milliseconds[0] > found.npu_milliseconds
    assert "Inference" not in call("simulate", "vela", "zoo:tiny_conv", "--no-advice").output


def test_a_faster_core_is_never_slower_and_every_range_is_one() -> None:
    first, second = (load_cpu_table(name) for name in SHIPPED)
    assert first.kinds.keys() == second.kinds.keys()
    for slow, fast in [
        *((first.kinds[name].cycles, second.kinds[name].cycles) for name in first.kinds),
        *((first.kinds[name].wide, second.kinds[name].wide) for name in first.kinds),
        (first.call, second.call),
        (first.invoke, second.invoke),
        (first.copy, second.copy),
    ]:
        assert fast[0] <= slow[0] <= slow[1]
        assert fast[1] <= slow[1]
    assert all(kind.basis for table in (first, second) for kind in table.kinds.values())


def test_a_clock_of_the_core_alone_changes_the_time_of_the_core_alone() -> None:
    simulation = plain()
    table = parse_cpu_table(
        "own", shipped(DEFAULT_CPU).replace("# clock_hz = 160_000_000", f"clock_hz = {simulation.system.clock_hz // 4}")
    )
    slow = inference_of(simulation.network, simulation.replay.cycles, simulation.system.clock_hz, table)
    assert slow.npu_milliseconds == simulation.inference.npu_milliseconds
    own, other = (one.milliseconds[1] - one.npu_milliseconds for one in (slow, simulation.inference))
    assert own == pytest.approx(4 * other)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("copy = [1, 2]", "", "at its top where the key 'copy' is needed"),
        ("copy = [1, 2]", "copy = [2, 1]", "write [low, high]"),
        (
            "copy = [1, 2]",
            "copy = 3",
            "has 3 at copy where a list of 2 items is needed: write key = value lines, and cycles as [low, high]",
        ),
        ('per = "byte"', 'per = "bit"', "has 'bit' at operator.other.per where one of byte, output, input, mac is needed"),
        ("[operator.other]", "[operator.rest]", "has no [operator.other]"),
        ("names = []", "names = [3]", "has 3 at operator.other.names[0] where a text is needed"),
        ("clock_hz = 1_000_000", "clock_hz = 0", "has 0 at clock_hz where an integer from 1 to 1000000000000 or null is needed"),
        ("[operator.other]", '[operator.again]\nnames = ["DEPTH_TO_SPACE"]\nper = "byte"\ncycles = [1, 1]\n[operator.other]', "twice"),
        (
            "[operator.moves]",
            "[operator.moves]\nsize = 3",
            "has 'size' at operator.moves where one of the keys names, per, cycles,",
        ),
    ],
)
def test_a_table_that_is_wrong_is_refused_in_a_sentence(old: str, new: str, said: str) -> None:
    assert old in OWN
    with pytest.raises(InputError) as refused:
        parse_cpu_table("own", OWN.replace(old, new, 1))
    assert said in str(refused.value)


def test_an_unknown_core_is_refused_before_any_work() -> None:
    assert "m99" in refusal("simulate", "vela", "zoo:tiny_conv", "--cpu", "m99")


@pytest.mark.law
@pytest.mark.parametrize(
    "name", ["ds_cnn", "resnet8", pytest.param("mobilenet_v2", marks=pytest.mark.skipif(not EVERY, reason="takes 4 seconds"))]
)
def test_macs_by_shapes_are_those_of_velas_kernels(name: str) -> None:
    model = read_tflite(build(name))
    by_shapes = sum(operator_macs(one, model.tensors) for one in model.operators)
    replay = simulate_vela(f"zoo:{name}").replay
    kernels = [one.op for program in replay.replays for one in program.operations]
    assert by_shapes == sum(getattr(op, "macs", 0) for op in kernels if getattr(op, "weights", ()))


def test_shapes_that_no_operator_has_do_nothing_or_little() -> None:
    def tensor(*shape: int) -> TfliteTensor:
        return TfliteTensor("t", shape, "INT8", (), (), 0, is_variable=False, data=b"")

    tensors = [tensor(1 << 30, 1 << 30, 1 << 30), tensor(), tensor(4, 8)]
    assert operator_macs(TfliteOperator("CONV_2D", "", (2, 0), (0,)), tensors) == MOST
    assert operator_macs(TfliteOperator("FULLY_CONNECTED", "", (2, 1), (2,)), tensors) == 0
    assert operator_macs(TfliteOperator("BATCH_MATMUL", "", (2, 2), (2,)), tensors) == 4 * 8 * 8
    assert operator_macs(TfliteOperator("RELU", "", (2,), (2,)), tensors) == 0
