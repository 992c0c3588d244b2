"""Models of several subgraphs: branches of control flow and signatures are kept as they are, or refused in one sentence."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tflite
from command_line import call, refusal
from hand_built import SCALE, Graph
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.schedule.file import from_json, to_json
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import compile_network, import_network
from npu_model.compiled.network import OFFLINE_ALLOCATION, CpuOperator, read_compiled
from npu_model.errors import InputError
from npu_model.export import export_c, export_tflite
from npu_model.tflite.model import read_tflite
from npu_model.tflite.record_reader import read_records
from npu_model.tflite.records import SignatureRecord, SubgraphRecord
from npu_model.tflite.writer import write_tflite
from npu_testbed.proofs.verification import functional_outputs, seeded_inputs
from validation.litert.cpu_kernels import CpuKernels
from validation.litert.judge import litert_installed, reference_outputs

needs_litert = pytest.mark.skipif(not litert_installed(), reason="LiteRT's reference kernels are not installed")

SHAPE = (1, 8, 8, 8)


def subgraph(graph: Graph, inputs: list[int], outputs: list[int], name: str) -> SubgraphRecord:
    (record,) = graph.model(inputs, outputs, name).subgraphs
    return record


def gathered(name: str, rows: list[int], *, variable: bool = False) -> SubgraphRecord:
    """A branch that Vela leaves on the CPU: the image with its rows in another order."""
    graph = Graph()
    a, b = (graph.tensor(tensor, SHAPE, scale=4 * SCALE, variable=variable and tensor == "b") for tensor in "ab")
    graph.operator("GATHER", (a, graph.constant("rows", rows)), (b,), "GatherOptions", Axis=1)
    return subgraph(graph, [a], [b], name)


def convolved(name: str) -> SubgraphRecord:
    """A branch for the NPU."""
    graph = Graph()
    a = graph.tensor("a", SHAPE)
    return subgraph(graph, [a], [graph.conv(a, 8, "b")], name)


def with_branches(*branches: SubgraphRecord) -> bytes:
    """Two convolutions round an IF, whose condition is whether an input is above 0."""
    graph = Graph()
    x, n, condition = graph.tensor("x", (1, 8, 8, 4)), graph.tensor("n", (1,), "int32", None), graph.tensor("condition", (1,), "bool")
    graph.operator("GREATER", (n, graph.constant("zero", [0])), (condition,), "GreaterOptions", version=1)
    z = graph.tensor("z", SHAPE, scale=4 * SCALE)
    graph.operator("IF", (condition, graph.conv(x, 8, "y")), (z,), "IfOptions", version=1, ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    return write_tflite(replace(graph.model([x, n], [graph.conv(z, 8, "w")]), others=branches))


def with_signatures(other: SubgraphRecord) -> bytes:
    """A convolution, and another subgraph, each with a signature."""
    graph = Graph()
    x = graph.tensor("x", (1, 8, 8, 4))
    model = graph.model([x], [graph.conv(x, 8, "y")])
    first = SignatureRecord("first", (("image", x),), (("result", model.outputs[0]),))
    second = SignatureRecord("second", (("image", other.inputs[0]),), (("result", other.outputs[0]),), subgraph=1)
    return write_tflite(replace(model, others=(other,), signatures=(first, second)))


BACKWARDS, TWICE = list(range(8))[::-1], [0, 0, 1, 1, 2, 2, 3, 3]


@cache
def branched() -> bytes:
    return with_branches(gathered("then", TWICE), gathered("else", BACKWARDS))


@cache
def signed() -> bytes:
    return with_signatures(gathered("second", BACKWARDS))


@cache
def planned(make: Callable[[], bytes]) -> Schedule:
    return schedule_layer_by_layer(import_network(make()), "ethos-u55-128")


# The records.


@pytest.mark.parametrize("make", [branched, signed])
def test_a_model_written_from_its_records_has_all_its_subgraphs_and_signatures(make: Callable[[], bytes]) -> None:
    records = read_records(make())
    assert len(records.others) == len(read_tflite(make()).others) > 0
    assert read_records(write_tflite(records)) == records
    assert all(tensor.data for graph in records.others for tensor in graph.tensors if tensor.name == "rows")
    assert [signature.subgraph for signature in records.signatures] == ([0, 1] if make is signed else [])


@needs_litert
def test_litert_runs_both_signatures_of_a_written_model() -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT's reference kernels are not installed")
    interpreter = litert.Interpreter(model_content=write_tflite(read_records(signed())))
    image = np.arange(512, dtype=np.int16).astype(np.int8).reshape(SHAPE)
    found = interpreter.get_signature_runner("second")(image=image)["result"]
    np.testing.assert_array_equal(found, image[:, BACKWARDS])


def test_a_subgraph_number_outside_the_file_is_named() -> None:
    records = read_records(branched())
    with pytest.raises(InputError, match="runs subgraph 2 but the file has 0 to 1: the file is damaged"):
        read_records(write_tflite(replace(records, others=records.others[:1])))


# What is kept.


@needs_litert
def test_both_branches_run_in_our_schedule_and_in_velas_stream() -> None:
    model = branched()
    for network in (lower(planned(branched)), read_compiled(compile_network(model).compiled)):
        assert [step.code for step in network.steps if isinstance(step, CpuOperator)] == ["GREATER", "IF"]
        assert network.others == 2
        inputs = seeded_inputs(network, 6, seed=1)
        assert {int(arrays["n"][0]) for arrays in inputs} == {0, 1}
        with closing(CpuKernels(model)) as kernels:
            found = functional_outputs(network, inputs, kernels)
        pairs = zip(found, reference_outputs(model, inputs), strict=True)
        assert all(a["w"].tobytes() == b["w"].tobytes() for a, b in pairs)


@pytest.mark.parametrize("make", [branched, signed])
def test_an_exported_file_has_the_other_subgraphs_and_signatures_of_the_model(make: Callable[[], bytes]) -> None:
    model, network = make(), lower(planned(make))
    exported = export_tflite(network, model)
    before, after = read_records(model), read_records(exported)
    assert after.others == before.others
    assert {(s.key, s.subgraph, s.inputs) for s in after.signatures if s.subgraph} == {
        (s.key, s.subgraph, s.inputs) for s in before.signatures if s.subgraph
    }
    assert len(after.signatures) == len(before.signatures)
    again = read_compiled(exported)
    assert (again.others, [getattr(step, "code", "npu") for step in again.steps]) == (
        network.others,
        [getattr(step, "code", "npu") for step in network.steps],
    )


@pytest.mark.parametrize("make", [branched, signed])
def test_the_memory_plan_covers_all_subgraphs_as_velas_does(make: Callable[[], bytes]) -> None:
    for data in (export_tflite(lower(planned(make)), make()), compile_network(make()).compiled):
        model = read_tflite(data)
        plan = struct.unpack(f"<{len(model.metadata[OFFLINE_ALLOCATION]) // 4}i", model.metadata[OFFLINE_ALLOCATION])
        tensors = len(model.tensors) + sum(len(graph.tensors) for graph in model.others)
        assert plan[:3] == (0, 1 + len(model.others), tensors)
        assert len(plan) == 3 + tensors


@needs_litert
def test_an_exported_file_with_branches_computes_what_the_model_does() -> None:
    model = branched()
    exported = export_tflite(lower(planned(branched)), model)
    network = read_compiled(exported)
    inputs = seeded_inputs(network, 4, seed=2)
    with closing(CpuKernels(exported)) as kernels:
        found = functional_outputs(network, inputs, kernels)
    pairs = zip(found, reference_outputs(model, inputs), strict=True)
    assert all(a["w"].tobytes() == b["w"].tobytes() for a, b in pairs)


def test_a_schedule_file_remembers_that_there_are_other_subgraphs() -> None:
    again = from_json(to_json(planned(signed)))
    assert again == planned(signed)
    assert lower(again).others == 1


@needs_litert
@pytest.mark.parametrize("make", [branched, signed])
def test_the_whole_way_by_the_command_line(make: Callable[[], bytes], tmp_path: Path) -> None:
    model, plan, out = tmp_path / "net.tflite", tmp_path / "net.json", tmp_path / "net_npu.tflite"
    model.write_bytes(make())
    assert call("schedule", model, "-o", plan).status == 0
    simulated = call("simulate", "schedule", plan)
    assert simulated.status == 0
    others = len(read_tflite(make()).others)
    assert f"{others} beside the first, on the CPU alone: not simulated" in simulated.output
    assert call("verify", plan, "--model", model, "--inferences", 4).status == 0
    assert call("export", plan, "--model", model, "-o", out).status == 0
    assert len(read_tflite(out.read_bytes()).others) == others
    assert call("verify", out, "--model", model).status == 0


# What is refused.


def test_subgraphs_that_would_be_lost_are_missed_by_name() -> None:
    network = lower(planned(signed))
    with pytest.raises(InputError, match=r"subgraphs besides the first \(1\), which only the model holds .* give that model"):
        export_tflite(network)
    with pytest.raises(InputError, match=r"subgraphs on the CPU beside the first \(1\): the C format has no kernels"):
        export_c(network, "net")
    records = read_records(signed())
    alone = write_tflite(replace(records, others=(), signatures=records.signatures[:1]))
    with pytest.raises(InputError, match="has 1 subgraphs besides the first but the model 0"):
        export_tflite(network, alone)


@pytest.mark.parametrize(
    "model",
    [with_signatures(convolved("second")), with_branches(gathered("then", TWICE), convolved("else"))],
    ids=["a signature", "a branch"],
)
def test_npu_programs_in_another_subgraph_are_refused_by_every_command(model: bytes, tmp_path: Path) -> None:
    source, compiled, out = tmp_path / "net.tflite", tmp_path / "net_vela.tflite", tmp_path / "out.json"
    source.write_bytes(model)
    compiled.write_bytes(compile_network(model).compiled)
    for command in (
        ("schedule", source, "-o", out),
        ("simulate", "vela", source),
        ("simulate", "vela", compiled),
        ("inspect", compiled),
        ("verify", compiled, "--model", source),
        ("export", compiled, "--model", source, "-o", tmp_path / "out.tflite"),
    ):
        sentence = refusal(*command)
        assert "has NPU programs (1): only those of subgraph 0 are scheduled and simulated; make each signature or branch" in sentence
        assert "('second') of 2" in sentence or "('else') of 3" in sentence
    assert not out.exists()


def test_state_in_a_branch_is_refused() -> None:
    model = with_branches(gathered("then", TWICE), gathered("else", BACKWARDS, variable=True))
    network = lower(planned(branched))
    with closing(CpuKernels(model)) as kernels, pytest.raises(InputError, match="Subgraph 'else' keeps state in 'b'"):
        functional_outputs(network, seeded_inputs(network, 1, seed=0), kernels)


def test_state_in_a_resource_is_refused() -> None:
    records = read_records(compile_network(branched()).compiled)
    tensors = tuple(replace(tensor, dtype=tflite.TensorType.RESOURCE) if tensor.name == "n" else tensor for tensor in records.tensors)
    with pytest.raises(InputError, match="Tensor 'n' has type RESOURCE: of what a runtime keeps outside all tensors"):
        read_compiled(write_tflite(replace(records, tensors=tensors)))


def test_subgraphs_of_equal_weights_share_their_buffers() -> None:
    branch = convolved("then")
    data = write_tflite(replace(read_records(signed()), others=(branch,) * 8, signatures=()))
    weights = next(tensor.data for tensor in branch.tensors if tensor.name == "b/w")
    assert data.count(weights) == 1
    others = read_records(data).others
    assert len(others) == 8
    assert set(others) == {others[0]}
