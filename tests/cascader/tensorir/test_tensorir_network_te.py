"""Real networks as Tensor Expressions: exact numerics, and derived propagators that are the hand-written ones."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import tensorir_proofs  # noqa: F401  # skips this file where TVM is not installed
from cpu_networks import cpu_split_network
from network_te import NetworkTe, network_te
from reference_data import shared_data

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.network.network import ARENA, EthosuPart, Network
from cascader.ethosu.network.operators import elementwise_propagator, operand_propagator
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import import_network
from cascader.graph.propagator import Propagator
from cascader.plan.proposals import frontier
from cascader.plan.stripe_plans import StripeOptions, all_plans
from cascader.tensorir.apply import apply, uncascaded
from cascader.tensorir.prove import compile_schedule, prove
from cascader.tensorir.te_frontend import TeGraph, read_graph
from npu_model.accelerator import accelerator
from npu_model.errors import InputError
from npu_testbed.proofs.verification import functional_outputs, seeded_inputs
from validation.zoo import build, zoo_names

DEFAULT = "ethos-u55-128"
EVERYTHING = os.environ.get("NPU_TESTBED_ALL") == "1"
QUICK = ("tiny_conv", "tiny_residual", "super_resolution")
REAL = ("mobilenet_v1_1.0_224_nofc_u8", "mobilenet_v2_1.0_224_i8", "resnet8_i8", "vww_mnv1_0.25_96_i8")


def network_of(name: str) -> Network:
    data = build(name) if name in zoo_names() else (shared_data() / "models" / f"{name}.tflite").read_bytes()
    return import_network(data, DEFAULT)


def graph_of(network: Network) -> tuple[NetworkTe, TeGraph]:
    made = network_te(network, accelerator(DEFAULT))
    return made, read_graph(list(made.inputs.values()), list(made.outputs.values()), made.constants, [made.match])


def shaped(array: np.ndarray, tensor: Any) -> np.ndarray:
    """The array in the shape of a tensor expression."""
    return array.reshape([int(extent) for extent in tensor.shape])


def hand_written(part: EthosuPart) -> list[Propagator]:
    """Propagators of the operands in the arena, in order; one for a tensor that is both."""
    operation, found = part.operation, []
    if operation.ifm.region == ARENA:
        found.append(operand_propagator(operation, operation.ifm))
    if operation.ifm2 is not None and operation.ifm2.region == ARENA and part.ifm2 != part.ifm:
        found.append(elementwise_propagator(operation.ifm2, operation.ofm))
    return found


@pytest.mark.parametrize("name", [*zoo_names(), *REAL] if EVERYTHING else QUICK)
def test_every_kernel_is_one_part_whose_derived_propagators_are_the_hand_written_ones(name: str) -> None:
    network = network_of(name)
    made, graph = graph_of(network)
    kernels = [part for part in graph.affine.parts if part.name in made.parts]
    # TVM orders branches in its own way.
    assert sorted(made.parts[part.name][0] for part in kernels) == sorted(part.name for part in network.graph.parts)
    compared = 0
    for part in kernels:
        match = graph.match(part)
        assert isinstance(match.payload, EthosuPart)
        if any(stage.name.endswith("_reshaped") for stage in match.stages):
            # The operand is another tensor's shape: there is no hand-written form of it.
            continue
        derived = [operand.propagator for operand in part.operands if operand.tensor not in graph.constants]
        assert derived == hand_written(match.payload), part.name
        compared += len(derived)
    assert compared >= len(kernels) - 1


@pytest.mark.parametrize("name", [*QUICK[:2], *(("ds_cnn",) if EVERYTHING else ())])
def test_a_network_of_tensor_expressions_computes_the_bytes_of_its_program(name: str) -> None:
    network = network_of(name)
    made, graph = graph_of(network)
    program = lower(schedule_layer_by_layer(network, DEFAULT))
    inputs = seeded_inputs(program, 2, 0)
    compiled = compile_schedule(apply(graph, uncascaded(graph)))
    for arrays, expected in zip(inputs, functional_outputs(program, inputs), strict=True):
        given = {tensor.op.name: shaped(arrays[port], tensor) for port, tensor in made.inputs.items()}
        outputs, _ = compiled.run(given, graph.constants)
        for port, tensor in made.outputs.items():
            np.testing.assert_array_equal(outputs[tensor.op.name].ravel(), expected[port].ravel())


def test_an_operator_on_the_cpu_is_refused_by_name() -> None:
    network = import_network(cpu_split_network(), DEFAULT)
    with pytest.raises(InputError, match="on the CPU: kernels alone"):
        network_te(network, accelerator(DEFAULT))


@pytest.mark.parametrize("name", QUICK[:2])
def test_every_proposal_of_the_rfcs_planner_for_a_network_is_proven_in_tensorir(name: str) -> None:
    network = network_of(name)
    made, graph = graph_of(network)
    found = frontier(all_plans(graph.affine, StripeOptions(factors=3, stripes=24, group_length=4, mixed=2)))
    assert len(found) > 1
    program = lower(schedule_layer_by_layer(network, DEFAULT))
    (arrays,) = seeded_inputs(program, 1, 0)
    (expected,) = functional_outputs(program, [arrays])
    given = {tensor.op.name: shaped(arrays[port], tensor) for port, tensor in made.inputs.items()}
    wanted = {tensor.op.name: shaped(expected[port], tensor) for port, tensor in made.outputs.items()}
    for proposal in found:
        proof = prove(graph, proposal.plans, given, wanted)
        assert proof.equal
        assert proof.buffers == proof.claimed
        assert proof.work == proof.claimed_work
        assert proof.resident == proof.planned
        assert proof.failures() == ()
