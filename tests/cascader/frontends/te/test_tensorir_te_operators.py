"""Ethos-U operators as Tensor Expressions: the NPU's bytes are TVM's, and every Propagator is that of the kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorir_only  # noqa: F401  # skips this file where TVM is not installed
from te_operators import Constants, elementwise, filters, image, pools, two_convolutions

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.network.operators import operand_propagator, scale_propagator, weight_propagator
from cascader.ethosu.network.propagators import affine_graph
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends import te as npu
from cascader.frontends.te.graph import Graph, digest, graph_of, operators_of
from cascader.frontends.te.host import host_outputs
from cascader.frontends.te.network import import_graph
from cascader.tensorir.apply import apply, uncascaded
from cascader.tensorir.compat import load
from cascader.tensorir.prove import compile_schedule
from npu_model.errors import InputError
from npu_testbed.proofs.verification import functional_outputs, seeded_inputs

DEFAULT = "ethos-u55-128"


@pytest.mark.parametrize("make", [two_convolutions, filters, pools, elementwise])
def test_the_stream_of_every_operator_computes_the_bytes_of_its_expression(make: Callable[[], Graph]) -> None:
    graph = make()
    network = lower(schedule_layer_by_layer(import_graph(graph, DEFAULT), DEFAULT))
    inputs = seeded_inputs(network, 2, 0)
    outputs = functional_outputs(network, inputs)
    for found, expected in zip(outputs, host_outputs(graph, inputs), strict=True):
        assert {name: int((array != expected[name]).sum()) for name, array in found.items()} == dict.fromkeys(found, 0)
    # A constant output would be equal whatever is computed.
    assert all(np.unique(array).size > 3 for array in outputs[0].values())


@pytest.mark.parametrize("make", [two_convolutions, filters])
def test_derived_propagators_of_all_operands_are_the_hand_written_ones(make: Callable[[], Graph]) -> None:
    graph = make()
    kernels, read = import_graph(graph, DEFAULT).kernels, operators_of(graph)
    for part in read.affine.parts:
        operation, tensors = kernels[part.name].operation, read.match(part).payload.tensors
        derived = {operand.tensor: operand.propagator for operand in part.operands}
        assert derived[tensors["ifm"]] == operand_propagator(operation, operation.ifm)
        assert derived[tensors["weight"]] == weight_propagator(operation)
        assert derived[tensors["scale_bias"]] == scale_propagator()


def test_the_network_asks_for_the_stripes_that_the_expressions_ask_for() -> None:
    graph = two_convolutions()
    stored = affine_graph(import_graph(graph, DEFAULT)).parts[1]
    assert stored.work == operators_of(graph).affine.parts[1].work
    read = operators_of(graph).affine.parts[1]
    propagator = next(operand.propagator for operand in read.operands if operand.tensor == "first")
    # The RFC's own matrix of a convolution, from its expression.
    assert propagator.matrix == ((1, 0, 0, 0, 0), (0, 1, 0, 0, 0), (0, 0, 1, 0, 0), (0, 0, 0, 0, 32), (0, 0, 0, 0, 1))


def test_the_scheduler_s_own_writer_compiles_the_same_numbers() -> None:
    graph = two_convolutions()
    read = operators_of(graph)
    inputs = {"image": np.random.default_rng(5).integers(-128, 128, (1, 26, 26, 3), np.int8)}
    found, _ = compile_schedule(apply(read, uncascaded(read))).run(inputs, read.constants)
    assert np.array_equal(found["second"], host_outputs(graph, [inputs])[0]["second"])


def test_a_stage_that_computes_something_else_than_it_says_is_refused() -> None:
    made, x = Constants(), image((1, 4, 4, 3))
    honest = made.conv2d(x, 4, (1, 1), "honest")
    attrs = dict(honest.op.attrs)
    forged = load().te.compute(honest.shape, honest, name="forged", attrs=attrs)
    with pytest.raises(InputError, match=r"'forged' .*ethosu_conv2d.*write it with that function"):
        import_graph(graph_of(x, forged, made.values))


@pytest.mark.parametrize(("op", "missing"), [("concatenate", "axis"), ("strided_slice", "begin")])
def test_a_move_that_does_not_say_where_is_refused(op: str, missing: str) -> None:
    te, x = load().te, image((1, 4, 4, 16))
    moved = te.compute((1, 4, 4, 16), x, name="moved", attrs={"op": op})
    with pytest.raises(InputError, match=f"Stage 'moved' does not say the {missing} of {op}: write it with that function"):
        operators_of(npu.graph_of([x], [moved], {}))


def test_a_stage_of_no_operator_is_refused_by_name() -> None:
    x = image((1, 4, 4, 3))
    other = load().te.compute((1, 4, 4, 3), x, name="other")
    with pytest.raises(InputError, match=r"'other' is not an operator of the Ethos-U: write it with the functions .* --device"):
        import_graph(graph_of(x, other))


def test_an_extent_that_is_a_variable_is_refused_by_its_name() -> None:
    rows = load().te.var("rows")
    with pytest.raises(InputError, match=r"^'image' has the extent 'rows', which is not a number: give fixed shapes\.$"):
        npu.ethosu_identity(image((1, rows, 8, 4)))


def bricked(layout: str) -> Graph:
    """Operators of every kind, whose tensors between each other are in a layout."""
    made, x = Constants(5), image((1, 9, 7, 5))
    both = {"ifm_layout": layout, "ofm_layout": layout}
    weight = made.integers((20, 3, 3, 1), "int8", "depthwise_weight")
    first = made.conv2d(x, 20, (3, 3), "first", padding=(1, 1, 1, 1), ofm_layout=layout)
    deep = npu.ethosu_depthwise_conv2d(first, weight, made.records(20, "deep_records"), name="deep", padding=(1, 1, 1, 1), **both)
    total = npu.ethosu_binary_elementwise(
        deep, first, operator_type="MAX", ifm_channels=20, ifm2_channels=20, ifm2_layout=layout, name="total", **both
    )
    largest = npu.ethosu_unary_elementwise(total, operator_type="ABS", ofm_channels=20, name="largest", **both)
    pooled = npu.ethosu_pooling(largest, pooling_type="MAX", pool_shape=(2, 2), ofm_channels=20, ifm_layout=layout, name="pooled")
    return graph_of(x, pooled, made.values)


def test_a_network_written_in_bricks_is_the_network_written_as_images() -> None:
    graph = bricked("NHCWB16")
    network = import_graph(graph, DEFAULT)
    assert network == import_graph(bricked("NHWC"), DEFAULT)
    lowered = lower(schedule_layer_by_layer(network, DEFAULT))
    inputs = seeded_inputs(lowered, 1, 0)
    (found,), (expected,) = functional_outputs(lowered, inputs), host_outputs(graph, inputs)
    assert np.array_equal(found["pooled"], expected["pooled"])


def test_bricks_are_neither_reshaped_nor_given_to_users() -> None:
    made, x = Constants(), image((1, 4, 4, 20))
    bricks = made.conv2d(x, 20, (1, 1), "conv", ofm_layout="NHCWB16")
    with pytest.raises(InputError, match=r"Output 'conv_nhcwb16' is in layout NHCWB16: inputs and outputs are NHWC"):
        import_graph(graph_of(x, bricks, made.values))
    flat = npu.ethosu_identity(npu.reshape(bricks, (1, 4, 8, 16), name="flat"), name="again")
    with pytest.raises(InputError, match=r"reshape 'flat' reads 'conv_nhcwb16' in another layout: write and read a tensor in one layout"):
        import_graph(graph_of(x, flat, made.values))


def test_the_digest_is_of_what_is_computed() -> None:
    assert digest(operators_of(two_convolutions())) == digest(operators_of(two_convolutions()))
    graph = two_convolutions()
    weight = next(iter(graph.constants))
    changed = graph_of(graph.inputs, graph.outputs, {**graph.constants, weight: graph.constants[weight] // 2})
    assert digest(operators_of(graph)) != digest(operators_of(changed))


def conv(**given: object) -> object:
    made, x = Constants(), image((1, 6, 6, 3))
    return made.conv2d(x, 4, (3, 3), "conv", **given)


def pool(**given: object) -> object:
    return npu.ethosu_pooling(image((1, 6, 6, 3)), **{"pooling_type": "AVG", "pool_shape": (2, 2)} | given)


def add(**given: object) -> object:
    return npu.ethosu_binary_elementwise(image((1, 6, 6, 3), "a"), image((1, 6, 6, 3), "b"), **{"operator_type": "ADD"} | given)


def wide_add(**given: object) -> object:
    wide = [image((1, 6, 6, 3), name, "int32") for name in "ab"]
    return npu.ethosu_binary_elementwise(*wide, **{"operator_type": "ADD"} | given)


REFUSED = [
    (conv, {"stride": (2, 2)}, r"ethosu_conv2d has no attribute 'stride' \(did you mean strides\?\)"),
    (conv, {"strides": (4, 4)}, r"ethosu_conv2d has strides \(4, 4\): the NPU steps over 3 at most"),
    (conv, {"strides": 2}, r"ethosu_conv2d has strides 2: it is 2 integers"),
    (conv, {"dilation": (3, 3)}, r"dilation \(3, 3\): 1 and 2 are possible"),
    (conv, {"padding": (0, 0, 0)}, r"padding \(0, 0, 0\): it is 4 integers"),
    (conv, {"padding": (3, 0, 0, 0)}, r"padding \(3, 0, 0, 0\): a window of 3 would lie in it alone"),
    (conv, {"activation": "TANH"}, r"activation 'TANH': .*give their table as lut"),
    (conv, {"activation": "LUT"}, r"activation 'LUT': the table is missing; give lut"),
    (conv, {"clip_min": -3}, r"clip_min -3: activation is NONE"),
    (conv, {"activation": "CLIP", "clip_min": 9, "clip_max": -9}, r"clip_min 9: clip_max is -9"),
    (conv, {"rounding_mode": "UP"}, r"rounding_mode 'UP': TFL or TRUNCATE or NATURAL is possible"),
    (
        conv,
        {"ifm_layout": "NHCWB16"},
        r"'conv_ifm_nhwc' reads shape \(1, 6, 6, 3\) as 3 channels in layout NHCWB16: .*with ofm_layout NHCWB16",
    ),
    (conv, {"ofm_layout": "NCHW"}, r"ofm_layout 'NCHW': NHWC or NHCWB16 is possible"),
    (pool, {"ifm_layout": "NHCWB16"}, r"ifm_layout 'NHCWB16': how many of the channels are none is not said by ethosu_pooling"),
    (conv, {"ofm_channels": 5}, r"ofm_channels 5: the operands have 4"),
    (conv, {"kernel_shape": (2, 2)}, r"kernel_shape \(2, 2\): the operands have \(3, 3\)"),
    (conv, {"ifm_zero_point": 200}, r"ifm_zero_point 200: int8 holds -128 to 127"),
    (conv, {"upscale": "CUBIC"}, r"upscale 'CUBIC': NONE or NEAREST or ZEROS"),
    (pool, {"pooling_type": "MIN"}, r"pooling_type 'MIN': AVG or MAX or SUM"),
    (pool, {"ifm_scale": 0.5}, r"ofm_scale 0\.0: ifm_scale is given; give all of them or none"),
    (pool, {"pooling_type": "MAX", "ifm_scale": 0.5, "ofm_scale": 0.7}, r"ofm_scale 0\.7: ifm_scale is 0\.5, and pooling_type MAX"),
    (pool, {"pooling_type": "SUM"}, r"ethosu_pooling has ifm of type int8: int16, int32 are possible"),
    (pool, {"padding": (1, 1, 1, 1), "rounding_mode": "TRUNCATE"}, r"rounding_mode 'TRUNCATE': pooling_type AVG with padding rounds"),
    (add, {"operator_type": "DIV"}, r"operator_type 'DIV': choose ADD, SUB, MUL, MIN, MAX, SHR, SHL"),
    (add, {"operator_type": "SHR"}, r"has ifm of type int8: int32 are possible"),
    (add, {"rescale_scale": 7}, r"rescale_scale 7: use_rescale is False"),
    (add, {"use_rescale": True}, r"rescale_scale 0: 32 bits hold a scale above 0"),
    (add, {"operator_type": "MIN", "ifm_scale": 1, "ifm2_scale": 1, "ofm_scale": 2}, r"ofm_scale 2\.0: MIN never rescales"),
    (add, {"ifm2_channels": 4}, r"ifm2_channels 4: the operands have 3"),
    (add, {"reversed_operands": "no"}, r"reversed_operands 'no': it is True or False"),
    (wide_add, {"ifm_zero_point": 1}, r"ifm_zero_point 1: whether the NPU subtracts it from 32-bit operands is not public"),
]


@pytest.mark.parametrize(("make", "given", "sentence"), REFUSED, ids=[f"{make.__name__}-{next(iter(given))}" for make, given, _ in REFUSED])
def test_an_attribute_that_the_npu_does_not_have_is_refused_by_name(
    make: Callable[..., object], given: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence) as raised:
        make(**given)
    assert str(raised.value).count(". ") == 0
    assert str(raised.value).endswith(".")
