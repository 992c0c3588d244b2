"""A lone activation is stored over its operand, as an elementwise operator is: it makes each element from the one at its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scheduling import DEFAULT

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.network import EthosuPart, Network
from cascader.ethosu.network.overwriting import overwritable_operands
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import CompilerOptions, compile_network, named_network
from cascader.frontends.vela.lift import lift
from npu_model.compiled.network import CpuOperator
from npu_model.errors import InputError
from npu_model.program import Kernel, OperationKind, Padding, PoolKind, Upscale
from sim.functional import FilterCache, run
from sim.hazards import network_hazards
from validation.builder import NetworkBuilder, TensorHandle

Apply = Callable[[NetworkBuilder, TensorHandle], TensorHandle]

ACTIVATIONS: dict[str, Apply] = {
    "RELU": lambda net, x: net.unary("RELU", x),
    "RELU6": lambda net, x: net.unary("RELU6", x),
    "LOGISTIC": lambda net, x: net.logistic(x),
    "LEAKY_RELU": lambda net, x: net.leaky_relu(x),
    "TANH": lambda net, x: net.tanh(x),
    "RELU_N1_TO_1": lambda net, x: net.unary("RELU_N1_TO_1", x),
}


def lifted(net: NetworkBuilder, *results: TensorHandle) -> Network:
    return lift(named_network(compile_network(net.finish(list(results)), CompilerOptions(DEFAULT, legalise=True))))


def apart(network: Network) -> Schedule:
    return schedule_layer_by_layer(network, DEFAULT, in_place=False)


def depth_to_space(_index: int, _: CpuOperator, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """DEPTH_TO_SPACE of blocks of 2 x 2, by its definition."""
    height, width, depth = inputs[0].shape[-3:]
    blocks = inputs[0].reshape(height, width, 2, 2, depth // 4)
    return [np.ascontiguousarray(blocks.transpose(0, 2, 1, 3, 4).reshape(1, 2 * height, 2 * width, depth // 4))]


def require_exact(made: Schedule) -> None:
    """No race, no byte read that was not written, and the bytes of a run that stores nothing in place."""
    check_schedule(made)
    emitted = lower(made)
    assert not network_hazards(emitted)
    rng = np.random.default_rng(1)
    inputs = [rng.integers(b.dtype.minimum, b.dtype.maximum + 1, b.shape).astype(str(b.dtype)) for b in emitted.inputs]
    found, wanted = (
        run(network, inputs, filters=FilterCache(), on_cpu=depth_to_space) for network in (emitted, lower(apart(made.network)))
    )
    assert {name: values.tobytes() for name, values in found.items()} == {name: values.tobytes() for name, values in wanted.items()}


@settings(max_examples=25)
@given(st.sampled_from(sorted(ACTIVATIONS)), st.sampled_from(["int8", "uint8", "int16"]), st.tuples(*[st.integers(1, 20)] * 3), st.data())
def test_an_activation_that_is_the_whole_network_needs_its_tensor_once(
    kind: str, precision: str, shape: tuple[int, int, int], data: st.DataObject
) -> None:
    net = NetworkBuilder("lone", precision)
    network = lifted(net, ACTIVATIONS[kind](net, net.input((1, *shape), "x")))
    size = shape[0] * shape[1] * shape[2] * (2 if precision == "int16" else 1)
    made = schedule_layer_by_layer(network, DEFAULT)
    assert made.arena_size == -(-size // 16) * 16
    assert apart(network).arena_size == 2 * made.arena_size
    require_exact(made)
    # Moved by less than its size the result would overwrite elements that are not read yet.
    (buffer,) = made.buffers
    if buffer.size > 16:
        shift = 16 * data.draw(st.integers(1, (buffer.size - 1) // 16))
        first, second = (replace(buffer, tensors=(name,)) for name in buffer.tensors)
        moved = replace(second, address=first.address + shift)
        with pytest.raises(InputError, match="while reading it: give its output other bytes"):
            check_schedule(replace(made, buffers=(first, moved), arena_size=made.arena_size + shift))


@pytest.mark.parametrize("kind", sorted(ACTIVATIONS))
@pytest.mark.parametrize("between", [False, True], ids=["after", "between"])
def test_an_activation_next_to_an_operator_on_the_cpu_needs_its_tensor_once(kind: str, between: bool) -> None:  # noqa: FBT001  # pytest passes it
    net = NetworkBuilder("mixed")
    x = ACTIVATIONS[kind](net, net.depth_to_space(net.input((1, 6, 10, 16), "x")))
    network = lifted(net, net.depth_to_space(x) if between else x)
    made = schedule_layer_by_layer(network, DEFAULT)
    # What an operator on the CPU reads and writes lies there at once.
    assert made.arena_size == 2 * 6 * 10 * 16
    require_exact(made)


def test_an_operand_that_another_part_reads_later_is_not_overwritten() -> None:
    net = NetworkBuilder("shared")
    x = net.input((1, 8, 8, 16), "x")
    made = schedule_layer_by_layer(lifted(net, net.add(net.logistic(x, name="gate"), x, name="sum")), DEFAULT)
    assert all(buffer.tensors[:2] != ("x", "gate") for buffer in made.buffers)
    require_exact(made)


def test_a_window_a_stride_a_border_or_an_upscaler_keeps_operand_and_result_apart() -> None:
    net = NetworkBuilder("lone")
    (part,) = lifted(net, net.unary("RELU", net.input((1, 8, 8, 16), "x"))).graph.parts
    payload = part.payload
    assert isinstance(payload, EthosuPart)
    assert payload.operation.kind is OperationKind.POOL
    assert overwritable_operands(part) == (payload.ifm,)
    wider = (
        {"kernel": Kernel(3, 3), "padding": Padding(1, 1, 1, 1)},
        {"kernel": Kernel(1, 2)},
        {"kernel": Kernel(stride_y=2)},
        {"padding": Padding(bottom=1)},
        {"upscale": Upscale.NEAREST},
        {"pool": PoolKind.REDUCE_SUM},
        {"kind": OperationKind.DEPTHWISE, "pool": None},
    )
    for fields in wider:
        assert overwritable_operands(replace(part, payload=replace(payload, operation=payload.operation.having(**fields)))) == ()
