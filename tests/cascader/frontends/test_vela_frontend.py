"""Vela as compiler and legaliser: what it is asked, what it may do to us, and the graph that is read back from it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from cpu_networks import cpu_split_network, float_network
from msgspec.structs import replace
from reference_data import shared_data

from cascader.ethosu.network.network import CpuPart, EthosuPart
from cascader.frontends.children import run_child
from cascader.frontends.vela import CompilerOptions, VelaResult, compile_network, direct, import_network, named_network
from cascader.frontends.vela import compiler as compiler_module
from cascader.frontends.vela.lift import AddressMap, lift, unique
from cascader.graph.cascader_graph import TensorKind
from npu_model.compiled.network import CpuOperator, read_compiled
from npu_model.errors import InputError
from npu_model.program import KernelOperation, Program
from validation.zoo import build


def model(name: str) -> bytes:
    return (shared_data() / "models" / f"{name}.tflite").read_bytes()


@cache
def legalised(name: str, accelerator: str = "ethos-u55-128") -> VelaResult:
    return compile_network(build(name), CompilerOptions(accelerator, legalise=True))


def test_a_network_cut_off_at_any_percent_is_one_sentence() -> None:
    data = build("tiny_residual")
    for percent in range(100):
        with pytest.raises(InputError) as caught:
            compile_network(data[: len(data) * percent // 100])
        assert "\n" not in str(caught.value)


def test_a_floating_point_network_is_refused_by_tensor_and_type() -> None:
    with pytest.raises(InputError, match="has type FLOAT32: the NPU works on INT8, UINT8 and INT16; quantise"):
        compile_network(float_network())


def test_a_compiled_network_is_not_compiled_again() -> None:
    with pytest.raises(InputError, match="compiled for an Ethos-U already"):
        compile_network(legalised("tiny_conv").compiled)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"accelerator": "ethos-u55-512"}, "Accelerator 'ethos-u55-512' is unknown"),
        ({"optimise": "Speed"}, "--optimise 'Speed' is unknown: choose Performance or Size"),
        ({"arena_cache_size": 0}, "--arena-cache-size 0 is below 1"),
        ({"system_config": "Ethos_U65_High_End"}, "another NPU's, as ethos-u55-128 is an Ethos_U55"),
    ],
)
def test_an_unknown_option_is_refused_before_vela_starts(
    options: dict[str, object], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("Vela was started"))
    with pytest.raises(InputError, match=sentence):
        compile_network(build("tiny_conv"), CompilerOptions(**options))  # type: ignore[arg-type]  # parametrised keywords


def test_an_unknown_system_config_is_what_vela_says_in_one_sentence() -> None:
    with pytest.raises(InputError, match="Vela cannot compile the network") as caught:
        compile_network(build("tiny_conv"), CompilerOptions(system_config="Ethos_U55_Nowhere"))
    assert "Ethos_U55_Nowhere" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("launch", "sentence"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed with signal 11"),
        ("import time; time.sleep(60)", "did not finish within 0.5 s"),
        ("raise SystemExit(0)", "wrote no compiled network"),
    ],
)
def test_a_compiler_that_crashes_or_hangs_or_writes_nothing_ends_as_one_sentence(
    launch: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler_module, "_LAUNCH", launch)
    monkeypatch.setattr(direct, "_LAUNCH", launch)
    with pytest.raises(InputError, match=sentence):
        compile_network(build("tiny_conv"), timeout=0.5)


def test_a_network_of_cpu_operators_alone_is_refused() -> None:
    with pytest.raises(InputError, match=r"operators on the CPU|wrote no compiled network"):
        compile_network(build("tiny_conv"), CompilerOptions(cpu_operators=("CONV_2D", "DEPTHWISE_CONV_2D")))


@pytest.mark.usefixtures("every_vela_runs")
def test_the_same_network_compiles_to_the_same_bytes_and_names() -> None:
    assert compile_network(build("tiny_residual"), CompilerOptions(legalise=True)) == legalised("tiny_residual")


def test_size_takes_no_more_sram_than_performance() -> None:
    size, performance = (compile_network(build("resnet8"), CompilerOptions(optimise=o)).summary for o in ("Size", "Performance"))
    assert 0 < size.sram_memory_used <= performance.sram_memory_used
    assert size.cycles_total >= performance.cycles_total > 0


def test_every_kernel_is_named_after_its_output_tensor_in_the_network() -> None:
    program = named_network(legalised("tiny_residual")).programs[0]
    kernels = [name for op, name in zip(program.operations, program.names, strict=True) if isinstance(op, KernelOperation)]
    assert kernels == ["stem", "depthwise", "conv", "add", "pool"]
    assert program.names[-1] == ""


def test_stripes_and_transfers_of_a_cascade_carry_their_layers_names() -> None:
    program = named_network(compile_network(build("resnet8"), CompilerOptions(optimise="Size"))).programs[0]
    assert all(program.names[:-1])
    assert max(Counter(program.names).values()) > 2


def test_the_older_core_compiles_too() -> None:
    program = named_network(compile_network(build("tiny_conv"), CompilerOptions(legacy=True))).programs[0]
    assert len(program.kernels) >= 3


def test_a_legalised_network_has_one_part_per_operator_and_a_tensor_between_each_two() -> None:
    graph = lift(named_network(legalised("tiny_residual"))).graph
    assert [part.name for part in graph.parts] == ["stem", "depthwise", "conv", "add", "pool"]
    assert [tensor.name for tensor in graph.tensors] == ["image", "stem", "depthwise", "conv", "add", "pool"]
    assert graph.parts[3].inputs == ("stem", "conv")
    assert graph.tensor("image").kind is TensorKind.INPUT
    assert graph.tensor("pool").kind is TensorKind.OUTPUT


def test_the_kernels_of_one_layer_are_numbered() -> None:
    graph = lift(named_network(legalised("ds_cnn"))).graph
    softmax = [part.name for part in graph.parts if part.name.startswith("probabilities#")]
    assert softmax == [f"probabilities#{number}" for number in range(1, len(softmax) + 1)]
    assert len(softmax) > 20


def test_a_concatenation_is_one_tensor_that_its_pieces_write() -> None:
    graph = lift(named_network(legalised("unet"))).graph
    pieces = [tensor.name for tensor in graph.tensors if len(graph.producers(tensor.name)) > 1]
    assert pieces
    for name in pieces:
        assert len(graph.consumers(name)) >= 1
        assert graph.tensor(name).size >= sum(graph.tensor(name).shape) // 3


def test_a_cascaded_compilation_is_no_layer_graph() -> None:
    with pytest.raises(InputError, match="compile with the legalising options"):
        lift(read_compiled(compile_network(build("resnet8")).compiled))


def test_a_cpu_operator_splits_the_network_and_its_tensors_stay_in_the_arena() -> None:
    network = import_network(cpu_split_network())
    kinds = [type(network.graph.parts[network.graph.index(segment.parts[0])].payload) for segment in network.segments]
    assert kinds == [EthosuPart, CpuPart, EthosuPart]
    (first, cpu, last) = network.segments
    assert {port.tensor for port in cpu.inputs} <= {port.tensor for port in first.outputs}
    assert {port.tensor for port in last.inputs} == {port.tensor for port in cpu.outputs}
    assert all(network.graph.tensor(port.tensor).size >= port.size for port in cpu.inputs + cpu.outputs)


def test_constants_are_only_what_kernels_use() -> None:
    network = import_network(build("ds_cnn"))
    compiled = read_compiled(legalised("ds_cnn").compiled)
    assert len(network.constants) % 16 == 0
    assert len(network.constants) <= compiled.programs[0].region(0).size
    wasteful = replace(compiled, steps=tuple(_with_unused_constants(step) for step in compiled.steps))
    assert lift(wasteful).constants == lift(compiled).constants


def _with_unused_constants(program: Program | CpuOperator) -> Program:
    assert isinstance(program, Program)
    constants, *others = program.regions
    content = constants.content.ljust(-(-constants.size // 16) * 16, b"\0") + bytes(range(64))
    return replace(program, regions=(replace(constants, size=len(content), content=content), *others))


def test_touching_ranges_stay_apart_and_overlapping_ones_join() -> None:
    assert AddressMap.of([(0, 16), (16, 32)]).extents == ((0, 16), (16, 32))
    assert AddressMap.of([(0, 17), (16, 32)]).extents == ((0, 32),)
    assert AddressMap.of([(40, 60), (0, 32), (64, 80)]).extents == ((0, 32), (32, 60), (64, 80))


def test_an_address_outside_every_tensor_is_refused() -> None:
    tensors = AddressMap.of([(0, 16), (32, 48)])
    assert [tensors.find(address) for address in (0, 15, 32, 47)] == [0, 0, 1, 1]
    for address in (16, 31, 48):
        with pytest.raises(InputError, match=f"Arena address {address} belongs to no tensor"):
            tensors.find(address)


def test_numbered_names_never_clash_with_given_ones() -> None:
    assert unique(["a", "a", "a#1"]) == ("a#2", "a#3", "a#1")


def test_what_is_to_be_done_meanwhile_is_done_while_the_compiler_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os, time\nwhile not os.path.exists('done'): time.sleep(0.01)\nprint('seen')"]
    process = run_child(command, folder=tmp_path, timeout=60, meanwhile=(tmp_path / "done").touch)
    assert (process.returncode, process.stdout) == (0, "seen\n")


def test_a_child_ends_when_what_is_done_meanwhile_fails(tmp_path: Path) -> None:
    def fails() -> None:
        raise KeyError("meanwhile")

    start = time.monotonic()
    with pytest.raises(KeyError, match="meanwhile"):
        run_child([sys.executable, "-c", "import time; time.sleep(60)"], folder=tmp_path, timeout=60, meanwhile=fails)
    assert time.monotonic() - start < 30
