"""Vela's streams are checked: what reads or writes beyond a tensor, or reads what nobody wrote, is named and never timed."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from asked_for import system_said
from command_line import call, refusal
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scheduling import DEFAULT, model_bytes
from sliced_networks import sliced
from unit_networks import Reference, differing_bytes

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import (
    CORES,
    CompilerOptions,
    VelaResult,
    alternative,
    checked_network,
    compile_network,
    debug_database,
    import_network,
    legalised,
    mended_network,
    named_network,
    stream_check,
)
from cascader.frontends.vela.debug_database import read_tables
from cascader.frontends.vela.lift import lift
from cascader.frontends.vela.stream_check import Allocation, allocations, stray_accesses, stream_fault
from cascader.search.workers import workers
from npu_model.compiled.network import CompiledNetwork
from npu_model.compiled.unwritten import unwritten_reads
from npu_model.errors import InputError
from npu_model.program import FeatureMap, KernelOperation, Program, Tiles
from npu_testbed.comparisons.vela_points import on_cores, vela_points
from npu_testbed.replays.exports import export
from npu_testbed.replays.scheduling import read_schedule
from npu_testbed.replays.vela_runs import VelaFailure, VelaRun, VelaTask
from validation.builder import NetworkBuilder
from validation.vela.replays import score_vela

SYSTEM = system_said()
MODES: dict[str, dict[str, Any]] = {
    "legalised": {"legalise": True},
    "legalised by the Python core": {"legalise": True, "legacy": True},
    "Size": {"optimise": "Size"},
    "Performance": {"optimise": "Performance"},
    "Performance in little": {"optimise": "Performance", "arena_cache_size": 20000},
    "Size of the Python core": {"optimise": "Size", "legacy": True},
}


@cache
def image() -> bytes:
    return sliced(24, 3, 3, layers=2)


@cache
def compiled(mode: str = "legalised") -> VelaResult:
    return compile_network(image(), CompilerOptions(DEFAULT, **MODES[mode]))


def changed(network: CompiledNetwork, layer: str, change: Callable[[KernelOperation], KernelOperation]) -> CompiledNetwork:
    """The network with the kernels of one layer changed."""

    def step(program: Program) -> Program:
        operations = [
            change(op) if isinstance(op, KernelOperation) and program.name(index) == layer else op
            for index, op in enumerate(program.operations)
        ]
        assert operations != list(program.operations)
        return replace(program, operations=tuple(operations))

    return replace(network, steps=tuple(step(s) if isinstance(s, Program) else s for s in network.steps))


def taller(fm: FeatureMap, rows: int) -> FeatureMap:
    """The map with so many rows from the same first one, as if a slice were the whole image."""
    shape = replace(fm.shape, height=rows)
    return replace(fm, shape=shape, tiles=Tiles.single(shape, fm.tiles.bases[0]))


def reads_24_rows_of_a_slice(network: CompiledNetwork) -> CompiledNetwork:
    """The network with a fault that the C++ core was seen to make: a layer reads more rows of a slice than the slice has."""
    return changed(network, "conv2d_2", lambda op: replace(op, ifm=taller(op.ifm, 24)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "name", ["sliced", "cpu", "ds_cnn", "resnet8", "rnnoise_INT8", "deeplabv3_mnv3_256_i8", "yolo_fastest_192_face_i8"]
)
def test_a_right_stream_has_no_fault(name: str, mode: str) -> None:
    result = compiled(mode) if name == "sliced" else compile_network(model_bytes(name), CompilerOptions(DEFAULT, **MODES[mode]))
    network = named_network(result)
    assert stream_fault(network, result.database) == ""
    placed = allocations(read_tables(result.database))
    assert bool(placed) is (result.core == "C++"), "only that core says where its tensors lie"


def test_the_rows_that_a_layer_reads_beyond_its_slice_are_named() -> None:
    wrong = reads_24_rows_of_a_slice(named_network(compiled()))
    (clause,) = stray_accesses(wrong, read_tables(compiled().database))
    access = r"layer 'conv2d_2' \(CONV_2D, operation \d+\) reads bytes \d+ to (\d+) of the arena as its IFM"
    found = re.fullmatch(rf"{access}, but its tensor '.+' has \d+ to (\d+)", clause)
    assert found is not None
    assert int(found[1]) > int(found[2])
    assert stream_fault(wrong, compiled().database) == clause


def test_a_layer_that_writes_beyond_its_tensor_is_named() -> None:
    wrong = changed(named_network(compiled()), "conv2d_1", lambda op: replace(op, ofm=taller(op.ofm, 24)))
    assert "layer 'conv2d_1'" in stream_fault(wrong, compiled().database)
    assert "writes bytes" in stream_fault(wrong, compiled().database)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=6))
def test_the_tensors_that_are_alive_at_a_time_are_those_whose_times_hold_it(spans: list[tuple[int, int]]) -> None:
    placed = tuple(Allocation(str(number), 0, 16, first, last) for number, (first, last) in enumerate(spans))
    alive = stream_check._Alive(placed)
    for time in range(-1, 12):
        assert alive.at(time) == [tensor for tensor in placed if tensor.first <= time <= tensor.last]


def test_an_access_to_a_tensor_that_is_not_alive_is_a_fault() -> None:
    """The same addresses hold the tensor at other times."""
    result = compiled("Size")
    network, tables = named_network(result), read_tables(result.database)
    assert not list(stray_accesses(network, tables))
    late = {**tables, "tensors": tuple({**row, "start_time": "1000", "end_time": "1001"} for row in tables["tensors"])}
    stray = list(stray_accesses(network, late))
    assert len(stray) >= sum(len(program.kernels) for program in network.programs)
    assert all(clause.endswith("where no tensor lies") for clause in stray)


def test_without_velas_table_of_tensors_a_read_of_unwritten_bytes_is_found() -> None:
    right = named_network(compiled("legalised by the Python core"))
    wrong = reads_24_rows_of_a_slice(right)
    found = next(unwritten_reads(wrong))
    assert (found.layer, found.operand) == ("conv2d_2", "IFM")
    own = max(span.end for op in right.programs[0].kernels for span in op.ifm.byte_ranges() if span.start == found.reads.start)
    assert found.reads.start < own <= found.address < found.reads.end
    assert f"of which byte {found.address} was never written" in stream_fault(wrong)


def without(program: Program, operation: int) -> Program:
    kept = [index for index in range(len(program.operations)) if index != operation]
    return replace(
        program,
        operations=tuple(program.operations[index] for index in kept),
        words=tuple(program.words[index] for index in kept),
        names=tuple(program.names[index] for index in kept),
    )


@pytest.mark.parametrize("left_out", range(9))
def test_a_kernel_that_is_left_out_leaves_unwritten_what_its_readers_read(left_out: int) -> None:
    network = named_network(compiled())
    program = network.programs[0]
    kernels = [index for index, op in enumerate(program.operations) if isinstance(op, KernelOperation)]
    assert len(kernels) == 9
    assert not list(unwritten_reads(network))
    assert list(unwritten_reads(replace(network, steps=(without(program, kernels[left_out]),))))


def test_an_output_that_nobody_writes_is_named() -> None:
    network = named_network(compiled())
    program = network.programs[0]
    nothing = replace(program, operations=program.operations[-1:], words=program.words[-1:], names=program.names[-1:])
    (found,) = unwritten_reads(replace(network, steps=(nothing,)))
    assert "output 'stacked_1'" in found.text
    assert found.address == network.outputs[0].byte_range.start


def by_core(monkeypatch: pytest.MonkeyPatch, *cores: str) -> None:
    """As if these of Vela's cores read 24 rows of a slice."""

    def emitted(result: VelaResult) -> CompiledNetwork:
        network = named_network(result)
        return reads_24_rows_of_a_slice(network) if result.core in cores else network

    for module in (debug_database, stream_check):
        monkeypatch.setattr(module, "named_network", emitted)


WRONG = (
    r"Vela \d\.\d\.\d's C\+\+ core emits a wrong stream: layer 'conv2d_2' \(CONV_2D, operation \d+\) reads bytes \d+ to \d+ of the arena"
)


def test_the_first_core_whose_stream_is_right_legalises() -> None:
    found = legalised(image())
    assert (found.core, found.note) == ("C++", "")
    assert found.network() == import_network(image())


def test_where_the_default_core_is_wrong_the_other_legalises_and_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    by_core(monkeypatch, "C++")
    found = legalised(image())
    assert found.core == "Python"
    assert re.match(WRONG, found.note)
    assert found.note.endswith("its Python core legalised the network instead.")
    source, out = tmp_path / "image.tflite", tmp_path / "image.json"
    source.write_bytes(image())
    outcome = call("schedule", source, "--no-cascade", "-o", out)
    assert outcome.status == 0, outcome
    assert found.note in " ".join(outcome.output.split())
    tools = dict(read_schedule(out).provenance.tools)
    assert tools["ethos-u-vela"].endswith("(Python core)")
    assert tools["ethos-u-vela remark"] == found.note
    verified = call("verify", out, "--model", source)
    assert verified.status == 0, verified
    assert found.note in " ".join(verified.output.split())


def test_if_both_cores_are_wrong_both_are_named_and_no_schedule_is_blamed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    by_core(monkeypatch, *CORES)
    source = tmp_path / "image.tflite"
    source.write_bytes(image())
    sentence = refusal("schedule", source, "-o", tmp_path / "out.json")
    assert re.search(WRONG, sentence)
    assert re.search(r"its Python core cannot stand in: layer 'conv2d_2' .* never written", sentence)
    assert not (tmp_path / "out.json").exists()


def test_a_network_that_the_python_core_does_not_legalise_names_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_check, "stream_fault", lambda _, database: "layer x reads" if "perf_debug" in database else "layer y reads")
    with pytest.raises(InputError, match=r"wrong stream: layer x reads; its Python core cannot stand in: layer y reads; change"):
        legalised(model_bytes("rnnoise_INT8"))


@pytest.mark.parametrize("name", ["sliced", "resnet8", "ds_cnn", "ds_cnn_s_i16", "kws_micronet_m", "yolo_fastest_192_face_i8"])
def test_what_the_python_core_legalises_gives_the_bytes_of_litert(name: str) -> None:
    """But for 16-bit fully connected layers, whose numbers no core has; the one here comes out right."""
    model = image() if name == "sliced" else model_bytes(name)
    result = compile_network(model, CompilerOptions(DEFAULT, legalise=True, legacy=True))
    mended = mended_network(result, model)
    plan = schedule_layer_by_layer(lift(mended.network), DEFAULT)
    for seed, extreme in ((0, False), (1, True)):
        assert differing_bytes(lower(plan), Reference(model), seed, extreme=extreme) == 0
    assert [part.name for part in plan.network.graph.parts] != [], "layers have their names"
    assert all(program.name(0) for program in mended.network.programs)


def test_a_core_whose_stream_is_wrong_is_left_out_of_velas_figures_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    by_core(monkeypatch, "C++")
    task = VelaTask(image(), DEFAULT, "Ethos_U55_High_End_Embedded", "Shared_Sram", None, SYSTEM)
    with workers(1) as executor:
        points, failures = vela_points(task, on_cores(task, "Performance"), executor)
    assert [point.run.core for point in points] == ["Python"]
    (failure,) = failures
    assert isinstance(failure, VelaFailure)
    assert failure.run == VelaRun("C++", "Performance")
    assert re.match(WRONG, failure.reason)


def test_wrong_streams_are_not_timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    by_core(monkeypatch, "C++")
    source = tmp_path / "image.tflite"
    source.write_bytes(image())
    assert re.search(WRONG, refusal("simulate", "vela", source))
    with pytest.raises(InputError, match=WRONG):
        score_vela("image", image(), SYSTEM)


def test_a_compiled_file_whose_stream_is_wrong_is_not_timed(tmp_path: Path) -> None:
    network = named_network(compiled())
    program = network.programs[0]
    kernels = [index for index, op in enumerate(program.operations) if isinstance(op, KernelOperation)]
    path = tmp_path / "wrong_vela.tflite"
    path.write_bytes(export(replace(network, steps=(without(program, kernels[0]),)))["network.tflite"])
    sentence = refusal("simulate", "vela", path)
    assert "wrong_vela.tflite holds a wrong stream: operation 0 (CONV_2D) reads bytes" in sentence
    path.write_bytes(export(network)["network.tflite"])
    assert call("simulate", "vela", path).status == 0
    assert checked_network(compiled(), image()) == network


def test_a_stream_of_fewer_weights_than_a_kernel_needs_is_not_taken() -> None:
    net = NetworkBuilder("averages")
    x = net.conv2d(net.input((1, 8, 32, 3), "image"), 16, activation="RELU")
    model = net.finish([net.conv2d(net.average_pool(x, (1, 4), strides=(1, 4)), 8, (1, 1))])
    with pytest.raises(InputError, match=r"Python core emits a wrong stream: a weight stream of \d+ bytes holds \d+ weights"):
        checked_network(compile_network(model, CompilerOptions(DEFAULT, legalise=True, legacy=True)), model)
    first = legalised(model, DEFAULT)
    assert first.core == CORES[0]
    assert alternative(model, first, DEFAULT) is None
