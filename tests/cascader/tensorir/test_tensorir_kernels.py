"""Every kernel in TensorIR gives the bytes of the functional executor, and what cannot be expressed is refused by name."""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest
from msgspec.structs import replace

pytest.importorskip("ai_edge_litert", reason="LiteRT's schema, of which the networks of one operator are made, is not installed")

import tensorir_proofs  # noqa: F401  # skips this file where TVM is not installed
from test_columns import one_group
from test_functional_operators import CASES

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.network import EthosuPart
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import import_network
from cascader.tensorir.compat import load
from cascader.tensorir.kernel_elementwise import leading_zeros
from cascader.tensorir.numerics import LaneValue, OutputUnit
from cascader.tensorir.schedule_run import compile_schedule
from cascader.tensorir.writer import Writer
from npu_model.errors import InputError
from npu_model.program import Activation, ActivationKind, KernelOperation, Rounding, Scale
from npu_testbed.proofs.verification import functional_outputs, seeded_inputs
from sim.functional.elementwise import leading_zeros as reference_leading_zeros
from sim.functional.rescale import rescale

EVERYTHING = os.environ.get("NPU_TESTBED_ALL") == "1"
SOME = (
    "convolution uint8",
    "dilated depthwise int16",
    "padded average int8",
    "softmax int8",
    "exponential int16",
    "transposed convolution",
)
"""One network for each way of writing a kernel; the others take the same ways with other numbers."""


def plan_of(name: str) -> Schedule:
    return schedule_layer_by_layer(import_network(CASES[name], "ethos-u55-128"), "ethos-u55-128")


@pytest.mark.parametrize("name", CASES if EVERYTHING else SOME)
def test_an_operator_in_tensorir_equals_the_functional_executor(name: str) -> None:
    plan = plan_of(name)
    compiled, network = compile_schedule(plan), lower(plan)
    inputs = seeded_inputs(network, 2, 0)
    for arrays, expected in zip(inputs, functional_outputs(network, inputs), strict=True):
        for run in (compiled.run_in_arena(arrays), compiled.run_in_buffers(arrays)):
            assert all(run.outputs[port].tobytes() == expected[port].tobytes() for port in expected)
            assert run.macs == compiled.source.macs


def test_stripes_of_columns_in_buffers_that_roll_along_the_width_equal_the_functional_executor() -> None:
    plan = one_group(2)
    assert any(buffer.rows is not None for buffer in plan.buffers)
    compiled, network = compile_schedule(plan), lower(plan)
    (arrays,) = seeded_inputs(network, 1, 0)
    (expected,) = functional_outputs(network, [arrays])
    run = compiled.run_in_arena(arrays)
    assert all(run.outputs[port].tobytes() == expected[port].tobytes() for port in expected)
    assert (run.macs, run.damaged) == (compiled.source.macs, 0)


def on_int64(function: object, values: np.ndarray) -> np.ndarray:
    """The results of ``function(writer, value)`` compiled and run on each of the values."""
    writer = Writer()
    source, target = (writer.tensor(name, "int64", (len(values),)) for name in ("source", "target"))
    with writer.loop("i", len(values)) as i:
        writer.store(target, i, function(writer, source[i]))  # type: ignore[operator]  # any function will do
    tvm = load().tvm
    library = tvm.compile(tvm.ir.IRModule({tvm.ir.GlobalVar("run"): writer.function(public="run")}), target="llvm")
    result = tvm.runtime.tensor(np.zeros(len(values), np.int64))
    library["run"](tvm.runtime.tensor(values), result)
    return np.asarray(result.numpy())


@cache
def an_operation() -> KernelOperation:
    (part, *_) = plan_of("convolution int8").network.graph.parts
    assert isinstance(part.payload, EthosuPart)
    return part.payload.operation


def output_unit(writer: Writer, rounding: Rounding) -> OutputUnit:
    return OutputUnit(writer, replace(an_operation(), rounding=rounding), "Part 'p'")


def corners() -> np.ndarray:
    """Values around every power of two up to 31 bits, both signs, and some between."""
    near = [sign * (1 << bit) + step for bit in range(31) for sign in (1, -1) for step in (-1, 0, 1)]
    between = np.random.default_rng(5).integers(-(1 << 31), 1 << 31, 400).tolist()
    return np.array(sorted({*near, *between, -(1 << 31), (1 << 31) - 1}), np.int64)


@pytest.mark.parametrize("rounding", [Rounding.DOUBLE, Rounding.TRUNCATE, Rounding.NATURAL])
def test_rescaling_is_that_of_the_executor_for_every_rounding_around_all_powers_of_two(rounding: Rounding) -> None:
    values = corners()
    for scale, shift in ((1, 0), (1, 1), (1 << 30, 31), (1518500250, 37), ((1 << 31) - 1, 62)):
        factor = Scale(scale, shift)
        found = on_int64(lambda w, v, f=factor: output_unit(w, rounding).rescaled(LaneValue(v, 1 << 31), f).expression, values)
        np.testing.assert_array_equal(found, rescale(values, scale, shift, rounding))


def test_leading_zeros_are_those_of_the_executor() -> None:
    values = corners()
    np.testing.assert_array_equal(on_int64(leading_zeros, values), reference_leading_zeros(values))


def test_a_product_that_may_leave_64_bits_is_refused() -> None:
    writer = Writer()
    with pytest.raises(InputError, match="TensorIR computes in 64 bits"):
        output_unit(writer, Rounding.NATURAL).rescaled(LaneValue(writer.constant(0), 1 << 40), Scale(1 << 31, 30))


def damaged(plan: Schedule, **fields: object) -> Schedule:
    """The schedule with fields of its first kernel replaced."""
    first, *others = plan.network.graph.parts
    assert isinstance(first.payload, EthosuPart)
    part = replace(first, payload=replace(first.payload, operation=replace(first.payload.operation, **fields)))
    graph = replace(plan.network.graph, parts=(part, *others))
    return replace(plan, network=replace(plan.network, graph=graph))


def test_a_native_activation_is_refused_by_name() -> None:
    plan = damaged(plan_of("convolution int8"), activation=Activation(ActivationKind.TANH, -128, 127))
    with pytest.raises(InputError, match="uses the native TANH"):
        compile_schedule(plan)


def test_a_table_that_is_not_loaded_is_refused_by_name() -> None:
    plan = damaged(plan_of("convolution int8"), activation=Activation(ActivationKind.LUT, -128, 127))
    with pytest.raises(InputError, match="look-up table that it does not load"):
        compile_schedule(plan)


def test_feature_maps_of_several_tiles_are_refused_by_name() -> None:
    plan = plan_of("convolution int8")
    (part, *_) = plan.network.graph.parts
    assert isinstance(part.payload, EthosuPart)
    ifm = part.payload.operation.ifm
    with pytest.raises(InputError, match="several tiles"):
        compile_schedule(damaged(plan, ifm=replace(ifm, tiles=replace(ifm.tiles, height0=1))))
