"""Networks with operators on the CPU: our schedules and Vela's streams of them equal LiteRT's reference kernels, byte for byte."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from command_line import call, refusal
from cpu_networks import cpu_split_network
from hand_built import SCALE, Graph
from msgspec.structs import replace

import validation.litert.cpu_kernels
import validation.litert.operator_process
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import CompilerOptions, compile_network, import_network
from npu_model.compiled.network import CompiledNetwork, CpuOperator, read_compiled
from npu_model.errors import InputError
from npu_testbed.proofs.verification import functional_outputs, seeded_inputs
from sim.functional import run
from validation.builder import NetworkBuilder
from validation.litert.cpu_kernels import CpuKernels
from validation.litert.judge import litert_installed, reference_outputs

needs_litert = pytest.mark.skipif(not litert_installed(), reason="LiteRT's reference kernels are not installed")

INFERENCES = 4


def built_with_zoo() -> bytes:
    """Convolutions, a padding and a pool, any of which can be left on the CPU."""
    net = NetworkBuilder("any_on_cpu")
    x = net.conv2d(net.input((1, 8, 8, 8), "image"), 16, activation="RELU", name="first")
    z = net.pad(net.add(x, net.depthwise(x, (3, 3), name="deep"), name="sum"), 1, 1, 2, 0, name="pad")
    y = net.max_pool(net.conv2d(z, 8, name="second"), (2, 2), name="pool")
    return net.finish([net.softmax(net.fully_connected(net.reshape(y, (1, 200), name="flat"), 10, name="dense"), name="soft")])


def before() -> bytes:
    graph = Graph()
    x = graph.tensor("x", (1, 4, 4, 16))
    y = graph.tensor("y", (1, 8, 8, 4))
    graph.operator("DEPTH_TO_SPACE", (x,), (y,), "DepthToSpaceOptions", version=1, BlockSize=2)
    return graph.finish([x], [graph.conv(y, 8, "c")])


def after() -> bytes:
    """Three outputs: values and indices by a constant count, the indices as 64-bit integers."""
    graph = Graph()
    x = graph.tensor("x", (1, 8, 8, 4))
    c = graph.conv(x, 8, "c")
    values, places = graph.tensor("values", (1, 8, 8, 3), scale=4 * SCALE), graph.tensor("places", (1, 8, 8, 3), "int32", None)
    graph.operator("TOPK_V2", (c, graph.constant("k", 3)), (values, places), "TopKV2Options")
    wide = graph.tensor("wide", (1, 8, 8, 3), "int64")
    graph.operator("CAST", (places,), (wide,), "CastOptions", version=1, InDataType=2, OutDataType=4)
    return graph.finish([x], [values, wide, c])


def beside() -> bytes:
    """A branch on the CPU with an input of its own, which the NPU's branch waits for."""
    graph = Graph()
    x, z = graph.tensor("x", (1, 8, 8, 4)), graph.tensor("z", (1, 4, 4, 32), scale=4 * SCALE)
    wide = graph.tensor("wide", (1, 8, 8, 8), scale=4 * SCALE)
    graph.operator("DEPTH_TO_SPACE", (z,), (wide,), "DepthToSpaceOptions", version=1, BlockSize=2)
    c = graph.conv(x, 8, "c")
    total = graph.tensor("total", (1, 8, 8, 8), scale=8 * SCALE)
    graph.operator("ADD", (c, wide), (total,), "AddOptions", FusedActivationFunction=0)
    return graph.finish([x, z], [total, wide])


def several_operands() -> bytes:
    """A selection from a result of the NPU by indices from outside."""
    graph = Graph()
    x, index = graph.tensor("x", (1, 8, 8, 4)), graph.tensor("index", (2,), "int32", None)
    c = graph.conv(x, 8, "c")
    rows = graph.tensor("rows", (1, 2, 8, 8), scale=4 * SCALE)
    graph.operator("GATHER", (c, index), (rows,), "GatherOptions", Axis=1)
    return graph.finish([x, index], [graph.conv(rows, 8, "d")])


def float_borders() -> bytes:
    graph = Graph()
    x, q = graph.tensor("x", (1, 8, 8, 4), "float32"), graph.tensor("q", (1, 8, 8, 4))
    graph.operator("QUANTIZE", (x,), (q,), "QuantizeOptions", version=1)
    c = graph.conv(q, 8, "c")
    f = graph.tensor("f", (1, 8, 8, 8), "float32")
    graph.operator("DEQUANTIZE", (c,), (f,), "DequantizeOptions")
    return graph.finish([x], [f])


def floats_inside() -> bytes:
    """Two programs of the NPU round an operator that computes with floats, whose two operands are one tensor."""
    graph = Graph()
    x = graph.tensor("x", (1, 8, 8, 4))
    c = graph.conv(x, 4, "c")
    f, g, q = graph.tensor("f", (1, 8, 8, 4), "float32"), graph.tensor("g", (1, 8, 8, 4), "float32"), graph.tensor("q", (1, 8, 8, 4))
    graph.operator("DEQUANTIZE", (c,), (f,), "DequantizeOptions")
    graph.operator("MUL", (f, f), (g,), "MulOptions", version=1, FusedActivationFunction=0)
    graph.operator("QUANTIZE", (g,), (q,), "QuantizeOptions", version=1)
    return graph.finish([x], [graph.conv(q, 8, "d")])


def folded() -> bytes:
    """A table that a QUANTIZE brings to another scale, and rows of it by indices from outside: Vela works the table out beforehand."""
    graph = Graph()
    index, table = graph.tensor("index", (8,), "int32", None), np.arange(-128, 128).reshape(4, 8, 8)
    known = graph.tensor("known", table.shape, "int8", 0.0437, 1, table)
    quantised, rows = graph.tensor("quantised", table.shape), graph.tensor("rows", (1, 8, 8, 8))
    graph.operator("QUANTIZE", (known,), (quantised,), "QuantizeOptions", version=1)
    flat = graph.tensor("flat", (8, 8, 8))
    graph.operator("GATHER", (quantised, index), (flat,), "GatherOptions", Axis=0)
    graph.operator("RESHAPE", (flat, graph.constant("shape", (1, 8, 8, 8))), (rows,), "ReshapeOptions", version=1)
    return graph.finish([index], [graph.conv(rows, 8, "c")])


CASES = {
    "before": (before, ()),
    "in the middle": (cpu_split_network, ()),
    "after, two outputs": (after, ()),
    "beside": (beside, ()),
    "several operands": (several_operands, ()),
    "an operand worked out beforehand": (folded, ()),
    "float borders": (float_borders, ()),
    "floats inside": (floats_inside, ()),
    "constants with scales": (built_with_zoo, ("DEPTHWISE_CONV_2D",)),
    "first and inside": (built_with_zoo, ("CONV_2D", "PAD")),
    "joined operands": (built_with_zoo, ("ADD", "RESHAPE", "MAX_POOL_2D")),
    "last": (built_with_zoo, ("FULLY_CONNECTED", "SOFTMAX")),
}


@cache
def model(name: str) -> bytes:
    return CASES[name][0]()


@cache
def networks(name: str) -> dict[str, CompiledNetwork]:
    """Our layers one by one, and Vela's stream, which cascades and reuses addresses."""
    left = CASES[name][1]
    compiled = compile_network(model(name), CompilerOptions(optimise="Size", cpu_operators=left, debug_database=False)).compiled
    ours = schedule_layer_by_layer(import_network(model(name), cpu_operators=left), "ethos-u55-128")
    return {"ours": lower(ours), "vela": read_compiled(compiled)}


def on_cpu(network: CompiledNetwork) -> list[str]:
    return [step.code for step in network.steps if isinstance(step, CpuOperator)]


def differing(network: CompiledNetwork, data: bytes, kernels: CpuKernels) -> int:
    inputs = seeded_inputs(network, INFERENCES, seed=3)
    found, expected = functional_outputs(network, inputs, kernels), reference_outputs(data, inputs)
    assert all(a.keys() == b.keys() for a, b in zip(found, expected, strict=True))
    pairs = [(a[name].tobytes(), b[name].tobytes()) for a, b in zip(found, expected, strict=True) for name in a]
    assert all(len(a) == len(b) for a, b in pairs)
    return sum(x != y for a, b in pairs for x, y in zip(a, b, strict=True))


@needs_litert
@pytest.mark.parametrize("name", CASES)
def test_a_network_with_cpu_operators_equals_the_reference_kernels(name: str) -> None:
    with closing(CpuKernels(model(name))) as kernels:
        for network in networks(name).values():
            assert on_cpu(network)
            assert set(CASES[name][1]) <= set(on_cpu(network))
            assert network.programs
            assert differing(network, model(name), kernels) == 0


@needs_litert
def test_the_comparison_sees_a_byte_that_a_cpu_operator_changes() -> None:
    network = networks("before")["ours"]
    (inputs,) = seeded_inputs(network, 1, seed=3)
    with closing(CpuKernels(model("before"))) as kernels:
        executor = kernels.executor(network)
        right = run(network, inputs, on_cpu=executor)
        wrong = run(network, inputs, on_cpu=lambda *step: [array ^ 0x40 for array in executor(*step)])
    assert np.count_nonzero(right["c"] != wrong["c"])


@needs_litert
def test_all_operators_and_inferences_share_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: Counter[str] = Counter()
    original = validation.litert.operator_process.subprocess.Popen

    def counted(command: list[str], **options: object) -> object:
        started[command[2]] += 1
        return original(command, **options)

    monkeypatch.setattr(validation.litert.operator_process.subprocess, "Popen", counted)
    kernels = CpuKernels(model("floats inside"))
    with closing(kernels):
        for network in networks("floats inside").values():
            functional_outputs(network, seeded_inputs(network, 2, seed=0), kernels)
        child = kernels._child
        assert child is not None
        assert child.poll() is None
    assert started["validation.litert.cpu_kernels_child"] == 1
    assert child.poll() is not None


@needs_litert
@pytest.mark.parametrize("name", ["in the middle", "floats inside", "an operand worked out beforehand"])
def test_verify_passes_on_a_cascaded_schedule_and_on_velas_file(name: str, tmp_path: Path) -> None:
    source, plan, compiled = tmp_path / "net.tflite", tmp_path / "net.json", tmp_path / "net_vela.tflite"
    source.write_bytes(model(name))
    compiled.write_bytes(compile_network(model(name)).compiled)
    assert call("schedule", source, "-o", plan).status == 0
    for file in (plan, compiled):
        outcome = call("verify", file, "--model", source, "--inferences", 3)
        assert outcome.status == 0, outcome
        assert "LiteRT's reference kernels  0 of" in outcome.output


def test_without_litert_the_operators_that_cannot_be_executed_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, compiled = tmp_path / "net.tflite", tmp_path / "net_vela.tflite"
    source.write_bytes(model("float borders"))
    compiled.write_bytes(compile_network(model("float borders")).compiled)
    monkeypatch.setattr(validation.litert.cpu_kernels, "litert_installed", lambda: False)
    sentence = refusal("verify", compiled, "--model", source)
    assert "2 operators on the CPU" in sentence
    assert "QUANTIZE (q), DEQUANTIZE (f): pip install 'npu-testbed[numerics]'" in sentence


def test_without_litert_a_network_whose_cpu_operators_are_copies_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph()
    x = graph.tensor("x", (1, 8, 8, 4))
    flat = graph.tensor("flat", (1, 512), scale=4 * SCALE)
    graph.operator("RESHAPE", (graph.conv(x, 8, "c"), graph.constant("shape", (1, 512))), (flat,), "ReshapeOptions", version=1)
    network = lower(schedule_layer_by_layer(import_network(graph.finish([x], [flat]), cpu_operators=("RESHAPE",)), "ethos-u55-128"))
    monkeypatch.setattr(validation.litert.cpu_kernels, "litert_installed", lambda: False)
    validation.litert.cpu_kernels.require_kernels(network)
    assert on_cpu(network) == ["RESHAPE"]
    (arrays,) = functional_outputs(network, seeded_inputs(network, 1, seed=0))
    assert arrays["flat"].shape == (1, 512)


@needs_litert
def test_another_model_or_an_output_of_another_size_is_refused() -> None:
    network = networks("in the middle")["ours"]
    inputs = seeded_inputs(network, 1, seed=0)
    with closing(CpuKernels(model("before"))) as kernels, pytest.raises(InputError, match="no DEPTH_TO_SPACE with output 'on_cpu'"):
        functional_outputs(network, inputs, kernels)
    with pytest.raises(InputError, match=r"DEPTH_TO_SPACE \(output 'on_cpu'\) gives 1 bytes on the CPU where the network has room for"):
        run(network, inputs[0], on_cpu=lambda *_: [np.zeros(1, np.int8)])


@needs_litert
def test_a_kernel_that_litert_refuses_or_that_reads_unwritten_bytes_is_named() -> None:
    network = networks("in the middle")["ours"]
    (index,) = (number for number, step in enumerate(network.steps) if isinstance(step, CpuOperator))
    step = network.steps[index]
    assert isinstance(step, CpuOperator)
    (inputs,) = seeded_inputs(network, 1, seed=0)
    with closing(CpuKernels(model("in the middle"))) as kernels:
        executor = kernels.executor(network)
        with pytest.raises(InputError, match=r"LiteRT cannot run DEPTH_TO_SPACE \(output 'on_cpu'\) on the CPU, it says "):
            executor(index, step, (np.zeros(3, np.int8),))
        first = replace(network, steps=(step, *network.steps[:index], *network.steps[index + 1 :]))
        with pytest.raises(InputError, match=r"DEPTH_TO_SPACE on the CPU, input .* never written"):
            run(first, inputs, on_cpu=kernels.executor(first))


def test_a_float_operator_in_front_does_not_hide_that_nothing_is_left_for_the_npu() -> None:
    graph = Graph()
    x, y = graph.tensor("x", (1, 8), "float32"), graph.tensor("y", (1, 8), "float32")
    graph.operator("EXP", (x,), (y,), "ExpOptions", version=1)
    with pytest.raises(InputError, match=r"Tensor 'x' has type FLOAT32: .* of which all 1 operators compute with floats"):
        compile_network(graph.finish([x], [y]))
