"""Runtimes: the bytes that are named are those that Arm's ready firmware takes, and the cycles are those that it counts."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from subprocess import run

import pytest
from asked_for import load_task
from command_line import call, refusal
from firmware_builds import need
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from npu_model.compiled.method_plan import MethodPlan, method_plan
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.memory.timing_adapter import profile
from npu_testbed.firmware import load_chip, run_firmware
from npu_testbed.models.sources import load_model
from npu_testbed.replays.exports import export
from npu_testbed.replays.scheduling import read_schedule
from npu_testbed.runtimes.own_share import own_share
from npu_testbed.runtimes.runtime_use import executorch, of_file, placements, tflm
from npu_testbed.runtimes.sizes import sizes_file
from sim import quick_cycles
from validation.builder import NetworkBuilder, TensorHandle

MEASURED = {
    "zoo:tiny_conv": 452,
    "portfolio:mnist": 452,
    "portfolio:cpu_first": 532,
    "portfolio:cpu_words": 548,
    "portfolio:cpu_twice": 772,
    "portfolio:gru_unrolled": 600,
    "portfolio:lstm_short": 724,
    "portfolio:siamese_batch": 532,
}
"""Bytes of the tensor arena beside the activations, as Arm's ready firmware printed them for networks that run layer by layer."""

METHOD = {"zoo:tiny_conv": 209, "portfolio:mnist": 209, "portfolio:siamese_batch": 278, "portfolio:gru_unrolled": 346}
"""Bytes of the method besides its planned memory, as the ready ExecuTorch firmware printed them for programs of one delegate."""

GOLDEN = Path(__file__).parents[1] / "golden"

ARENA = 0x200000
"""Bytes of the tensor arena of that firmware."""


def layer_by_layer(name: str) -> CompiledNetwork:
    task = load_task(name)
    return lower(schedule_layer_by_layer(task.network, task.accelerator))


@pytest.mark.parametrize("name", MEASURED)
def test_what_tflite_micro_took_of_its_arena_lies_in_the_range(name: str) -> None:
    share = own_share(layer_by_layer(name))
    assert share.least <= MEASURED[name] <= share.most - 12
    assert share.unmeasured == ()


@pytest.mark.parametrize("name", METHOD)
def test_what_executorch_took_of_its_pools_is_named(name: str, tmp_path: Path) -> None:
    network, system = layer_by_layer(name), profile("u55_high_end").memory_system()
    use = executorch(network, system, None)
    assert use.own is not None
    assert use.own.least <= METHOD[name] <= use.own.most
    text = sizes_file((use,), tmp_path / "sizes.h", "n").decode("ascii")
    ends = sum((one.size + 15) // 16 * 16 for one in dict.fromkeys((*network.inputs, *network.outputs)))
    assert f"kExecutorchScratchSize = {network.arena_size},\n    kExecutorchPlannedSize = {ends},\n" in text
    assert f"kExecutorchMethodSize = {ends + use.own.most}\n" in text


def test_a_deployed_method_takes_the_planned_bytes_that_its_file_says(tmp_path: Path) -> None:
    """The ready ExecuTorch firmware printed 6,240 planned bytes, a method of 934, and a peak of 4,608 temporary ones."""
    file = GOLDEN / "two_inputs_executorch.pte"
    call("export", file, "--sizes", tmp_path / "a.h", "-o", tmp_path / "a.tflite")
    sizes = {name: int(size) for name, size in re.findall(r"(k\w+) = (\d+)", (tmp_path / "a.h").read_text())}
    assert sizes["kExecutorchScratchSize"] == 4608
    assert sizes["kExecutorchPlannedSize"] == 6240
    assert sizes["kExecutorchMethodSize"] >= 6240 + 934
    assert "1,024 are allowed for each of 3 calls beside the delegate's" in (tmp_path / "a.h").read_text()


def test_a_plan_is_read_from_whole_files_alone() -> None:
    data = (GOLDEN / "two_inputs_executorch.pte").read_bytes()
    assert method_plan(data) == MethodPlan(planned=6240, calls=4)
    assert method_plan(data[64:]) is None
    assert all(found is None or found.planned >= 0 for found in map(method_plan, (data[:end] for end in range(0, len(data), 64))))


def test_an_operator_that_was_not_measured_is_named() -> None:
    network = layer_by_layer("portfolio:cpu_first")
    steps = tuple(replace(step, code="TILE", kernel=None) if hasattr(step, "code") else step for step in network.steps)
    assert own_share(replace(network, steps=steps)).unmeasured == ("TILE",)


def _gap(net: NetworkBuilder, filters: int, kernel: tuple[int, int], strides: tuple[int, int]) -> TensorHandle:
    """A transposed convolution behind larger layers, whose bytes are free by then."""
    x = net.conv2d(net.input((1, 32, 32, 4), "image"), 24, activation="RELU6")
    x = net.conv2d(x, 4, strides=(2, 2), activation="RELU6")
    return net.transpose_conv(net.conv2d(x, 20), filters, kernel, strides=strides)


_ON_THE_CPU: dict[str, tuple[Callable[[NetworkBuilder], TensorHandle], int]] = {
    "a transposed convolution first": (
        lambda net: net.conv2d(net.transpose_conv(net.input((1, 16, 16, 4), "image"), 24, (5, 5), strides=(4, 4)), 4),
        31956,
    ),
    "one between layers of the NPU": (
        lambda net: net.conv2d(net.transpose_conv(net.conv2d(net.input((1, 16, 16, 4), "image"), 4), 8, strides=(3, 3)), 4),
        5316,
    ),
    "one whose scratch lies in a gap of the plan": (lambda net: _gap(net, 8, (2, 2), (1, 3)), 708),
    "a depthwise convolution of 40 channels": (
        lambda net: net.depthwise(net.conv2d(net.input((1, 16, 16, 4), "image"), 40), (5, 5), strides=(4, 4)),
        12868,
    ),
}
"""Networks with an operator on the CPU, and the bytes of the tensor arena beside the file's plan, as the ready firmware printed them."""


@pytest.mark.parametrize("name", _ON_THE_CPU)
def test_kernels_on_the_cpu_take_what_is_named(name: str, tmp_path: Path) -> None:
    drawn, used = _ON_THE_CPU[name]
    net = NetworkBuilder("a")
    (tmp_path / "a.tflite").write_bytes(net.finish([drawn(net)]))
    share = own_share(layer_by_layer(str(tmp_path / "a.tflite")))
    assert share.least <= used <= share.most - 12
    assert share.most - share.least <= 160
    assert share.kernels > 0
    assert share.unmeasured == ()


@pytest.fixture(scope="module")
def homed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A schedule with its input and its output outside the arena, and what the command says of it."""
    path = tmp_path_factory.mktemp("homed") / "tiny.json"
    words = "schedule", "zoo:tiny_conv", "--home", "input=ext", "--home", "output=ext", "--no-advice", "--jobs", "1", "-o", path
    return path, " ".join(call(*words).output.split())


def test_tflite_micro_takes_inputs_and_outputs_into_its_arena_at_the_drivers_ports(homed: tuple[Path, str]) -> None:
    plan = read_schedule(homed[0])
    network = lower(plan)
    placed, _, own = of_file(network, plan)
    assert placed.planned == own.planned == plan.arena_size
    assert placed.placed == sum(size for _, size in own.outside) == 4096
    assert placed.own is not None
    assert placed.arena >= plan.arena_size + 4096 + placed.own.most > placed.least_arena
    compiled = read_compiled(next(iter(export(plan).values())))
    assert placed.cycles == quick_cycles(compiled, profile("u55_high_end").memory_system())
    assert dict(own.ports)[3] == 1
    assert dict(placed.ports)[3] == 0
    said = f"set aside {placed.arena:,} bytes and not {plan.arena_size:,}, and expect {placed.cycles:,} cycles and not {own.cycles:,}"
    assert said in homed[1]


def test_an_export_with_homes_warns_and_one_without_does_not(homed: tuple[Path, str], tmp_path: Path) -> None:
    assert "note: TFLite Micro plans the inputs and outputs" in call("export", homed[0], "-o", tmp_path / "a.tflite").errors
    assert "TFLite Micro" not in call("export", homed[0], "--format", "c", "-o", tmp_path / "a.c").errors
    plain = tmp_path / "plain.json"
    call("schedule", "zoo:tiny_conv", "--no-cascade", "--no-advice", "-o", plain)
    outcome = call("export", plain, "-o", tmp_path / "b.tflite")
    assert "TFLite Micro plans" not in outcome.errors
    assert "kTensorArenaSize" in outcome.output


def test_what_a_runtime_cannot_run_is_said() -> None:
    system = profile("u55_high_end").memory_system()
    assert "operators on the CPU" in executorch(layer_by_layer("portfolio:cpu_first"), system, None).refused
    assert "keeps no states" in executorch(layer_by_layer("portfolio:lstm_short"), system, None).refused
    assert "resource variables" in tflm(layer_by_layer("portfolio:stream_wake_word"), system, None).refused


def test_sizes_are_a_header_that_c_takes_or_a_fragment_of_kconfig(homed: tuple[Path, str], tmp_path: Path) -> None:
    plan = read_schedule(homed[0])
    placed = of_file(lower(plan), plan)[0]
    for name in ("sizes.h", "sizes.conf"):
        call("export", homed[0], "--sizes", tmp_path / name, "-o", tmp_path / "a.tflite")
    header, fragment = ((tmp_path / name).read_text() for name in ("sizes.h", "sizes.conf"))
    assert f"kTensorArenaSize = {placed.arena}," in header
    assert "kNpuRegion3Size = 2048" in header
    assert f"CONFIG_TENSOR_ARENA_SIZE={placed.arena}\n" in fragment
    assert all(line.startswith(("#", "CONFIG_")) for line in fragment.splitlines())
    need("cc", "gcc")
    (tmp_path / "use.c").write_text(
        '#include "sizes.h"\nstatic unsigned char arena[kTensorArenaSize];\nint main(void) { return arena[0]; }\n'
    )
    run(["cc", "-std=c99", "-Wall", "-Werror", "-o", tmp_path / "use", tmp_path / "use.c"], check=True, cwd=tmp_path)


def test_sizes_are_written_by_every_command_that_makes_a_file(tmp_path: Path) -> None:
    call("schedule", "zoo:tiny_conv", "--no-cascade", "--no-advice", "--sizes", tmp_path / "a.h", "-o", tmp_path / "a.json")
    call("compile", "zoo:tiny_conv", "--jobs", "1", "--sizes", tmp_path / "b.h", "--output-dir", tmp_path)
    for name in ("a.h", "b.h"):
        assert re.search(r"kTensorArenaSize = \d+,", (tmp_path / name).read_text())
    assert "ends with .h or .conf" in refusal("schedule", "zoo:tiny_conv", "--sizes", tmp_path / "a.txt", "-o", tmp_path / "c.json")


def test_a_document_has_what_each_runtime_sets_aside(tmp_path: Path) -> None:
    call("schedule", "zoo:tiny_conv", "--no-cascade", "--no-advice", "-o", tmp_path / "a.json")
    found = json.loads(call("export", tmp_path / "a.json", "-o", tmp_path / "a.tflite", "--json").output)["runtimes"]
    assert [one["runtime"] for one in found] == ["tflm", "executorch", "bare"]
    network = layer_by_layer("zoo:tiny_conv")
    system = profile("u55_high_end").memory_system()
    assert {one["npu_cycles"] for one in found} == {one.cycles for one in placements(network, system, quick_cycles(network, system))}


def ready_firmware() -> bytes:
    """Arm's firmware with TFLite Micro for the Corstone-300; skips where its wheel or QEMU is not installed."""
    need("qemu-system-arm", "qemu-system-arm")
    found = find_spec("mlia")
    folder = Path(next(iter(found.submodule_search_locations or []), "")) if found else Path()
    files = sorted(folder.glob("resources/backends/applications/*sse-300*tflm-ethos-U55*/*.axf"))
    if not files:
        pytest.skip("the package mlia-ethos-u, which has Arm's firmware for the FVP, is not installed")
    return files[0].read_bytes()


def with_arena(firmware: bytes, size: int) -> bytes:
    """The firmware with a tensor arena of so many bytes, at most 65,535: MOV.W r2, #0x200000 becomes MOVW r2, #size."""
    before = struct.pack("<HH", 0xF44F, 0x1200)
    assert firmware.count(before) == 1
    first, second = 0xF240 | (size >> 11 & 1) << 10 | size >> 12, (size >> 8 & 7) << 12 | 2 << 8 | size & 255
    return firmware.replace(before, struct.pack("<HH", first, second))


RUN = "zoo:tiny_conv", "portfolio:cpu_twice", "portfolio:gru_unrolled", "portfolio:lstm_short", "homed", "one between layers of the NPU"


@pytest.mark.parametrize("name", RUN)
def test_the_ready_firmware_takes_the_arena_refuses_less_and_counts_the_cycles(name: str, homed: tuple[Path, str], tmp_path: Path) -> None:
    firmware = ready_firmware()
    if name in _ON_THE_CPU:
        net = NetworkBuilder("a")
        (tmp_path / "a.tflite").write_bytes(net.finish([_ON_THE_CPU[name][0](net)]))
        name = str(tmp_path / "a.tflite")
    plan = read_schedule(homed[0]) if name == "homed" else None
    if plan is None:
        task = load_task(name)
        plan = schedule_layer_by_layer(task.network, task.accelerator, provenance=task.provenance)
    placed = of_file(lower(plan), plan)[0]
    model = None if name == "homed" else load_model(name).data
    data = next(iter(export(plan, model=model).values()))

    def printed(size: int) -> str:
        path = tmp_path / f"{size}.axf"
        path.write_bytes(firmware if size == ARENA else with_arena(firmware, size))
        files = ((0x90000000, data), (0x92000000, bytes(1 << 16)))
        return run_firmware(path, load_chip("corstone-300-m55"), Fraction(120), files).text

    whole = printed(ARENA)
    used = re.search(r"size used: (\d+)", whole)
    assert used is not None
    assert placed.least_arena <= int(used[1]) <= placed.arena
    assert f"NPU ACTIVE: {placed.cycles} cycles" in whole
    assert f"NPU ACTIVE: {placed.cycles} cycles" in printed(placed.arena)
    assert "tensor allocation failed" in printed(placed.least_arena - 16)


@pytest.mark.parametrize("command", ["schedule", "compile"])
def test_tflite_micros_own_bytes_are_part_of_the_arena_that_is_allowed(command: str, tmp_path: Path) -> None:
    output = ("--no-advice", "-o", tmp_path / "a.json") if command == "schedule" else ("--output-dir", tmp_path)
    words = command, "zoo:tiny_residual", "--accelerator-config", "ethos-u55-128", "--arena-cache-size", "16384", "--jobs", "1", "--json"
    found = json.loads(call(*words, "--runtime", "tflm", *output).output)["runtimes"][0]
    assert found["set_aside_bytes"] <= 16384
    assert found["file_bytes"] <= 16384 - found["own_bytes"]["most_bytes"]
    assert "leaves TFLite Micro no room" in refusal(*words[:4], "--arena-cache-size", "512", "--runtime", "tflm", *output)


def test_a_wrong_size_is_said_before_the_firmware_refuses_it(homed: tuple[Path, str], tmp_path: Path) -> None:
    call("export", homed[0], "-o", tmp_path / "a.tflite")
    plan = read_schedule(homed[0])
    placed, refused, own = of_file(lower(plan), plan)
    words = "check", homed[0], "--max-cycles", own.cycles, "--max-bytes"
    enough = call(*words, placed.arena, "--runtime", "tflm")
    assert enough.status == 0
    assert f"TFLite Micro bytes  {placed.arena:,}" in enough.output
    assert f"NPU cycles          {placed.cycles:,}" in enough.output
    assert call(*words, placed.arena - 1, "--runtime", "tflm").status == 1
    assert call(*words, plan.arena_size, "--runtime", "bare").status == 0
    assert refused.refused in refusal(*words, placed.arena, "--runtime", "executorch")


def test_an_answer_names_the_port_of_each_region(homed: tuple[Path, str], tmp_path: Path) -> None:
    assert re.search(r"TFLite Micro [\d,]+ [\d,]+ 1, 3, 4 0 ", homed[1])
    assert "set REGIONCFG to 3 for region 3" in homed[1]
    said = call("export", homed[0], "-o", tmp_path / "a.tflite").output
    assert "NPU cycles, with regions 1, 3, 4 at AXI0 and 0 at AXI1." in said
    assert "with regions 1 at AXI0 and 0, 3, 4 at AXI1." in call("export", homed[0], "--format", "c", "-o", tmp_path / "a.c").output


def test_no_file_is_compiled_that_is_worse_than_velas_under_tflite_micro(tmp_path: Path) -> None:
    words = "compile", "zoo:tiny_conv", "--home", "input=ext", "--effort", "quick", "--jobs", "1", "--output-dir", tmp_path / "out"
    said = refusal(*words)
    assert re.search(r"this file takes [\d,]+ cycles and Vela [\d,]+ under TFLite Micro", said)
    assert "give --runtime bare" in said
    assert list(tmp_path.iterdir()) == []
    call(*words, "--runtime", "bare")
    assert (tmp_path / "out" / "tiny_conv_vela.tflite").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("zoo:tiny_conv", "--home", "input=ext", "--runtime", "tflm"), "--home input=ext cannot be combined with --runtime tflm"),
        (("zoo:tiny_conv", "--spill", "ext", "--runtime", "executorch"), "--spill ext cannot be combined with --runtime executorch"),
        (("portfolio:cpu_first", "--runtime", "executorch"), "ExecuTorch cannot run this network: a delegate is one NPU program"),
    ],
)
def test_what_a_chosen_runtime_cannot_have_is_refused_and_nothing_is_written(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    assert says in refusal("schedule", *words, "--jobs", "1", "-o", tmp_path / "a.json")
    assert says in refusal("compile", *words, "--jobs", "1", "--output-dir", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
