"""Fully connected layers in our schedules: rounded once, as LiteRT does, found by name and not by shape."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from command_line import call
from msgspec.structs import replace
from scheduling import model_bytes

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.network.network import ethosu_part
from cascader.ethosu.schedule.file import from_json, to_json
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import CompilerOptions, VelaResult, compile_network, import_network, mended_network, named_network
from cascader.frontends.vela.mend import Mended
from npu_model.compiled.network import CompiledNetwork
from npu_model.program import KernelOperation, Rounding
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.proofs.verification import (
    LITERT,
    MENDED_STREAM,
    VELA_STREAM,
    OutputComparison,
    Verification,
    compare,
    functional_outputs,
    seeded_inputs,
)
from sim import replay_network
from validation.builder import NetworkBuilder
from validation.litert.judge import litert_installed, reference_outputs

needs_litert = pytest.mark.skipif(not litert_installed(), reason="LiteRT's reference kernels are not installed")


def dense_network(precision: str) -> bytes:
    """Two fully connected layers."""
    net = NetworkBuilder("dense", precision)
    hidden = net.fully_connected(net.input((1, 96)), 128, activation="RELU", name="hidden")
    return net.finish([net.fully_connected(hidden, 200, name="wide")])


def convolution_of_one_position() -> bytes:
    """A 1x1 convolution of one output position before a fully connected layer: two kernels of the same shape."""
    net = NetworkBuilder("twins")
    pooled = net.average_pool(net.conv2d(net.input((1, 8, 8, 3)), 32))
    convolved = net.conv2d(pooled, 32, (1, 1), name="convolved")
    return net.finish([net.fully_connected(net.reshape(convolved, (1, 32)), 32, name="dense")])


@cache
def compiled(name: str) -> tuple[bytes, VelaResult]:
    makers = {"twins": convolution_of_one_position}
    data = makers[name]() if name in makers else dense_network(name) if name in ("int8", "uint8", "int16") else model_bytes(name)
    return data, compile_network(data, CompilerOptions(legalise=True))


@cache
def mended(name: str) -> Mended:
    data, result = compiled(name)
    return mended_network(result, data)


def kernels(network: CompiledNetwork) -> list[tuple[str, KernelOperation]]:
    program = network.programs[0]
    return [(program.name(i), op) for i, op in enumerate(program.operations) if isinstance(op, KernelOperation)]


def differing(network: CompiledNetwork, data: bytes, count: int) -> int:
    """Bytes that differ from LiteRT in ``count`` inferences, every second of them on extreme values."""
    inputs = seeded_inputs(network, count, 4)
    return sum(row.differing for row in compare(LITERT, functional_outputs(network, inputs), reference_outputs(data, inputs)))


@needs_litert
@pytest.mark.parametrize(("name", "count"), [("int8", 20), ("uint8", 20), ("ds_cnn", 12), ("resnet8_i8", 12), ("rnnoise_INT8", 20)])
def test_a_fully_connected_layer_rounded_once_is_what_litert_computes(name: str, count: int) -> None:
    data, result = compiled(name)
    assert differing(named_network(result), data, count) > 0
    assert differing(mended(name).network, data, count) == 0


@needs_litert
def test_a_16_bit_fully_connected_layer_is_named_and_left_as_it_is() -> None:
    data, result = compiled("int16")
    assert (mended("int16").layers, mended("int16").unmended) == ((), ("hidden", "wide"))
    assert mended("int16").network == named_network(result)
    assert differing(named_network(result), data, 2) > 0


def test_a_convolution_of_one_position_keeps_its_two_roundings() -> None:
    rounding = {name: op.rounding for name, op in kernels(mended("twins").network)}
    assert mended("twins").layers == ("dense",)
    assert (rounding["convolved"], rounding["dense"]) == (Rounding.DOUBLE, Rounding.NATURAL)


@needs_litert
def test_a_convolution_rounded_once_would_differ_from_litert() -> None:
    data, result = compiled("twins")
    network = named_network(result)
    program = network.programs[0]
    operations = tuple(replace(op, rounding=Rounding.NATURAL) if isinstance(op, KernelOperation) else op for op in program.operations)
    assert differing(mended("twins").network, data, 40) == 0
    assert differing(replace(network, steps=(replace(program, operations=operations),)), data, 40) > 0


@pytest.mark.parametrize("name", ["ds_cnn", "rnnoise_INT8", "twins"])
def test_mending_changes_the_rounding_of_the_named_layers_and_nothing_else(name: str) -> None:
    _, result = compiled(name)
    changed = set()
    for (layer, ours), (_, velas) in zip(kernels(mended(name).network), kernels(named_network(result)), strict=True):
        assert replace(ours, rounding=velas.rounding) == velas
        if ours != velas:
            changed.add(layer)
    assert changed == set(mended(name).layers) != set()
    system = load_timing_adapter("u55_high_end")
    assert replay_network(mended(name).network, system).cycles == replay_network(named_network(result), system).cycles


@pytest.mark.parametrize("name", ["tiny_conv", "tiny_residual"])
def test_a_network_without_fully_connected_layers_is_left_as_it_is(name: str) -> None:
    _, result = compiled(name)
    assert mended(name) == Mended(named_network(result), ())


def test_without_a_debug_database_nothing_is_guessed() -> None:
    data, result = compiled("int8")
    assert mended_network(replace(result, database=""), data) == Mended(named_network(result), ())
    convolution = data, result.database.replace('"FullyConnected"', '"Conv2D"')
    assert mended_network(replace(result, database=convolution[1]), convolution[0]) == Mended(named_network(result), ())


def test_an_imported_network_is_mended_unless_that_is_declined() -> None:
    network, declined = import_network(compiled("ds_cnn")[0]), import_network(compiled("ds_cnn")[0], mend=False)
    assert (network.mended, declined.mended) == (("logits",), ())
    found = [payload.operation.rounding for part in network.graph.parts if (payload := ethosu_part(part)) and payload.layer == "logits"]
    assert found == [Rounding.NATURAL]
    plan = schedule_layer_by_layer(network, "ethos-u55-128")
    assert from_json(to_json(plan)).network.mended == ("logits",)
    assert lower(plan) != lower(schedule_layer_by_layer(declined, "ethos-u55-128"))


@needs_litert
def test_verify_passes_a_mended_schedule_and_not_velas_own_file(tmp_path: Path) -> None:
    plan, source, velas = tmp_path / "plan.json", tmp_path / "net.tflite", tmp_path / "net_vela.tflite"
    source.write_bytes(compiled("int8")[0])
    velas.write_bytes(compiled("int8")[1].compiled)
    written = json.loads(call("schedule", source, "-o", plan, "--no-cascade", "--json").output)
    assert written["mended"] == ["hidden", "wide"]
    ours, theirs = (call("verify", file, "--model", source, "--inferences", "8", "--json") for file in (plan, velas))
    assert (ours.status, theirs.status) == (0, 1)
    assert differences(ours.output) == {VELA_STREAM: True, MENDED_STREAM: False, LITERT: False}
    assert differences(theirs.output) == {VELA_STREAM: False, MENDED_STREAM: True, LITERT: True}
    assert "(hidden, wide)" in json.loads(ours.output)["remark"]
    assert "(hidden, wide)" in json.loads(theirs.output)["remark"]


def differences(output: str) -> dict[str, bool]:
    """Whether anything differs, by reference."""
    found: dict[str, bool] = {}
    for row in json.loads(output)["comparisons"]:
        found[row["reference"]] = found.get(row["reference"], False) or row["differing"] > 0
    return found


@needs_litert
def test_verify_names_the_16_bit_layers_that_cannot_be_mended(tmp_path: Path) -> None:
    plan, source = tmp_path / "plan.json", tmp_path / "net.tflite"
    source.write_bytes(compiled("int16")[0])
    assert call("schedule", source, "-o", plan, "--no-cascade").status == 0
    outcome = call("verify", plan, "--model", source)
    assert outcome.status == 1
    assert "multiplies by 16 bits in 2 fully connected layers (hidden, wide)" in outcome.output
    assert f"The first layer that differs from {LITERT} is 'hidden': " in outcome.output


@pytest.mark.parametrize(
    ("figures", "passed"),
    [
        ({VELA_STREAM: 0, MENDED_STREAM: 0, LITERT: 0}, True),
        ({VELA_STREAM: 3, MENDED_STREAM: 0, LITERT: 0}, True),
        ({VELA_STREAM: 0, MENDED_STREAM: 3, LITERT: 3}, False),
        ({VELA_STREAM: 3, MENDED_STREAM: 3, LITERT: 3}, False),
        ({VELA_STREAM: 0, LITERT: 1}, False),
        ({VELA_STREAM: 0, MENDED_STREAM: 3}, True),
        ({VELA_STREAM: 3, MENDED_STREAM: 0}, True),
        ({VELA_STREAM: 3, MENDED_STREAM: 3}, False),
        ({VELA_STREAM: 0}, True),
        ({VELA_STREAM: 1}, False),
    ],
)
def test_litert_decides_and_where_it_is_absent_one_of_velas_streams(figures: dict[str, int], *, passed: bool) -> None:
    rows = tuple(OutputComparison(name, "out", figure, 10) for name, figure in figures.items())
    layers = ("dense",) if MENDED_STREAM in figures else ()
    verification = Verification("m", 1, 0, rows, fully_connected=layers)
    assert verification.passed is passed
    explained = figures.get(MENDED_STREAM) == 0 < figures[VELA_STREAM] or (
        MENDED_STREAM in figures and figures.get(LITERT, 0) > 0 == figures[VELA_STREAM]
    )
    assert ("dense" in verification.remark) == explained
