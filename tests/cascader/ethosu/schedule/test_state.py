"""Networks that keep state between inferences: what it begins with, who keeps it, and that several inferences equal LiteRT's."""

from __future__ import annotations

from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from asked_for import schedule
from command_line import call
from hand_built import Graph
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.schedule.file import from_json, to_json
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import CompilerOptions, compile_network, import_network
from cascader.graph.cascader_graph import TensorKind
from npu_model.compiled.network import CompiledNetwork, CpuOperator, initial_byte, read_compiled
from npu_model.errors import InputError
from npu_model.export import export_tflite
from npu_model.program import DataType, KernelOperation
from npu_model.tflite.model import read_tflite
from npu_testbed.proofs.verification import functional_outputs, seeded_inputs
from sim.functional import NetworkState, run
from validation.litert.cpu_kernels import CpuKernels
from validation.litert.judge import litert_installed, reference_outputs

needs_litert = pytest.mark.skipif(not litert_installed(), reason="LiteRT's reference kernels are not installed")

INFERENCES = 6
LSTM = ("UNIDIRECTIONAL_SEQUENCE_LSTM",)


@cache
def lstm_model(batch: int = 1) -> bytes:
    graph = Graph()
    x = graph.tensor("x", (batch, 3, 8))
    return graph.finish([x], [graph.lstm(x, 8)])


@cache
def lstm_between() -> bytes:
    """An LSTM that can be left on the CPU, behind something for the NPU."""
    graph = Graph()
    x = graph.tensor("x", (1, 4, 4, 8))
    flat = graph.tensor("flat", (1, 16, 8), scale=0.2)
    graph.operator("RESHAPE", (graph.conv(x, 8, "c"), graph.constant("shape", (1, 16, 8))), (flat,), "ReshapeOptions", version=1)
    return graph.finish([x], [graph.lstm(flat, 8)])


@cache
def svdf_model() -> bytes:
    graph = Graph()
    x = graph.tensor("x", (1, 8))
    return graph.finish([x], [graph.dense(graph.svdf(graph.dense(x, 8, "before"), 8), 4, "after")])


@cache
def planned(batch: int = 1) -> Schedule:
    return schedule_layer_by_layer(import_network(lstm_model(batch)), "ethos-u55-128")


def compiled(model: bytes, *, legacy: bool = False, cpu_operators: tuple[str, ...] = ()) -> CompiledNetwork:
    return read_compiled(compile_network(model, CompilerOptions(optimise="Size", legacy=legacy, cpu_operators=cpu_operators)).compiled)


def ours(model: bytes, cpu_operators: tuple[str, ...] = ()) -> CompiledNetwork:
    return lower(schedule_layer_by_layer(import_network(model, cpu_operators=cpu_operators), "ethos-u55-128"))


def distances(network: CompiledNetwork, model: bytes) -> list[int]:
    """For each of several inferences in a row: the largest distance of an output value from LiteRT's."""
    inputs = seeded_inputs(network, INFERENCES, seed=2)
    with closing(CpuKernels(model)) as kernels:
        found = functional_outputs(network, inputs, kernels)
    pairs = zip(found, reference_outputs(model, inputs), strict=True)
    return [max(int(np.abs(a[name].astype(int) - b[name].astype(int)).max()) for name in a) for a, b in pairs]


# What it begins with.


@needs_litert
@pytest.mark.parametrize(("dtype", "zero_point"), [("int8", -7), ("uint8", 130), ("int16", 0)])
def test_a_variable_begins_with_what_litert_begins_with(dtype: str, zero_point: int) -> None:
    graph = Graph()
    x, y = (graph.tensor(name, (1, 4), dtype, 0.05, zero_point) for name in "xy")
    state = graph.tensor("state", (1, 4), dtype, 0.05, zero_point, variable=True)
    graph.operator("ADD", (x, state), (y,), "AddOptions", FusedActivationFunction=0)
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT's reference kernels are not installed")
    interpreter = litert.Interpreter(model_content=graph.finish([x], [y]))
    interpreter.allocate_tensors()
    type_of = {"int8": DataType(8, signed=True), "uint8": DataType(8, signed=False), "int16": DataType(16, signed=True)}[dtype]
    assert set(interpreter.get_tensor(state).tobytes()) == {initial_byte(type_of, zero_point)}


def test_a_compiled_network_and_its_schedule_know_their_states() -> None:
    model = lstm_model()
    for network in (compiled(model), compiled(model, legacy=True), lower(planned())):
        assert {(b.name, b.shape, str(b.dtype)) for b in network.variables} == {("h", (1, 8), "int8"), ("cell", (1, 8), "int16")}
        assert len(network.variables) == 2


# Several inferences in a row.


@needs_litert
@pytest.mark.parametrize("batch", [1, 2])
def test_an_lstm_on_the_npu_stays_within_one_step_of_litert_for_inference_after_inference(batch: int) -> None:
    model = lstm_model(batch)
    for network in (lower(planned(batch)), compiled(model), compiled(model, legacy=True)):
        assert max(distances(network, model)) <= 1


def test_an_lstms_state_goes_into_the_next_inference() -> None:
    network = lower(planned())
    inputs = seeded_inputs(network, INFERENCES, seed=2)
    kept = functional_outputs(network, inputs)
    fresh = [run(network, arrays) for arrays in inputs]
    far = [int(np.abs(a["lstm"].astype(int) - b["lstm"].astype(int)).max()) for a, b in zip(kept, fresh, strict=True)]
    assert far[0] == 0
    assert min(far[1:]) > 1


def test_a_cascaded_schedule_computes_velas_lstm_for_inference_after_inference(tmp_path: Path) -> None:
    path = tmp_path / "lstm.tflite"
    path.write_bytes(lstm_model())
    network = lower(schedule(str(path), processes=1))
    inputs = seeded_inputs(network, INFERENCES, seed=4)
    pairs = zip(functional_outputs(network, inputs), functional_outputs(compiled(lstm_model()), inputs), strict=True)
    assert all(a["lstm"].tobytes() == b["lstm"].tobytes() for a, b in pairs)


def test_a_state_that_nobody_keeps_is_read_before_it_is_written() -> None:
    network = replace(lower(planned()), variables=())
    with pytest.raises(InputError, match="never written"):
        functional_outputs(network, seeded_inputs(network, 1, seed=0))


def test_only_the_state_goes_into_the_next_inference() -> None:
    network = lower(planned())
    (inputs,) = seeded_inputs(network, 1, seed=0)
    state = NetworkState(network)
    run(network, inputs, state=state)
    (program,) = network.programs
    last = max(index for index, op in enumerate(program.operations) if isinstance(op, KernelOperation))
    kept = [index for index in range(len(program.operations)) if index != last]
    operations, words = (tuple(values[index] for index in kept) for values in (program.operations, program.words))
    partial = replace(network, steps=(replace(program, operations=operations, words=words, names=()),))
    with pytest.raises(InputError, match=r"Output 'lstm' reads byte .* never written"):
        run(partial, inputs, state=state)


# States of operators on the CPU.


@needs_litert
@pytest.mark.parametrize("legacy", [False, True], ids=["outside the arena", "in the arena"])
def test_an_svdf_on_the_cpu_keeps_its_state(legacy: bool) -> None:  # noqa: FBT001  # a case of pytest's
    network = compiled(svdf_model(), legacy=legacy)
    assert [step.code for step in network.steps if isinstance(step, CpuOperator)] == ["SVDF"]
    assert [binding.name for binding in network.variables] == (["state"] if legacy else [])
    assert distances(network, svdf_model()) == [0] * INFERENCES


@needs_litert
def test_a_schedule_with_an_svdf_on_the_cpu_equals_litert_for_inference_after_inference() -> None:
    network = ours(svdf_model())
    assert distances(network, svdf_model()) == [0] * INFERENCES
    (inputs,) = seeded_inputs(network, 1, seed=1)
    with closing(CpuKernels(svdf_model())) as kernels:
        first, second, third = (out["after"].tobytes() for out in functional_outputs(network, [inputs] * 3, kernels))
        again = functional_outputs(network, [inputs], kernels)[0]["after"].tobytes()
    assert len({first, second, third}) > 1
    assert again == first


@needs_litert
def test_an_lstm_on_the_cpu_equals_litert_for_inference_after_inference() -> None:
    for network in (ours(lstm_between(), LSTM), compiled(lstm_between(), cpu_operators=LSTM)):
        assert LSTM[0] in [step.code for step in network.steps if isinstance(step, CpuOperator)]
        assert distances(network, lstm_between()) == [0] * INFERENCES


# Files.


def test_a_schedule_file_keeps_the_states() -> None:
    again = from_json(to_json(planned()))
    assert again == planned()
    assert {port.name for port in again.network.variables} == {"h", "cell"}


def test_a_schedule_whose_state_lies_in_a_tensor_that_keeps_nothing_is_refused() -> None:
    plan = planned()
    (x,) = plan.network.inputs
    assert plan.network.graph.tensor(x.tensor).kind is TensorKind.INPUT
    wrong = replace(plan, network=replace(plan.network, variables=(x,)))
    with pytest.raises(InputError, match="Port 'x' keeps state in tensor 'x', which keeps nothing"):
        from_json(to_json(wrong))


@pytest.mark.parametrize("with_model", [True, False])
def test_an_exported_file_has_the_states_as_variable_tensors(with_model: bool) -> None:  # noqa: FBT001  # a case of pytest's
    network = lower(planned())
    data = export_tflite(network, lstm_model() if with_model else None)
    assert {tensor.name for tensor in read_tflite(data).tensors if tensor.is_variable} == {"h", "cell"}
    again = read_compiled(data)
    assert set(again.variables) == set(network.variables)
    inputs = seeded_inputs(network, 3, seed=5)
    pairs = zip(functional_outputs(network, inputs), functional_outputs(again, inputs), strict=True)
    assert all(a["lstm"].tobytes() == b["lstm"].tobytes() for a, b in pairs)


@needs_litert
@pytest.mark.parametrize(("model", "left"), [(svdf_model, ()), (lstm_between, LSTM)])
def test_an_exported_file_leaves_a_cpu_operators_state_to_the_runtime(model: object, left: tuple[str, ...]) -> None:
    data = model()  # type: ignore[operator]
    network = ours(data, left)
    again = read_compiled(export_tflite(network, data))
    assert {tensor.name for tensor in read_tflite(export_tflite(network, data)).tensors if tensor.is_variable} <= {"state", "h", "cell"}
    assert again.variables == ()
    assert distances(again, data) == [0] * INFERENCES


@needs_litert
def test_verify_runs_several_inferences_in_a_row(tmp_path: Path) -> None:
    source, target = tmp_path / "net.tflite", tmp_path / "net_vela.tflite"
    source.write_bytes(svdf_model())
    target.write_bytes(compile_network(svdf_model()).compiled)
    outcome = call("verify", target, "--model", source, "--inferences", 5)
    assert outcome.status == 0, outcome
    source.write_bytes(lstm_model())
    target.write_bytes(compile_network(lstm_model()).compiled)
    outcome = call("verify", target, "--model", source, "--inferences", 5)
    assert outcome.status == 1, outcome
    assert "how Vela computes this network, not how it was scheduled" in " ".join(outcome.output.split())
