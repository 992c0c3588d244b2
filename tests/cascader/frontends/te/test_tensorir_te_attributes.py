"""Drawn attributes of Ethos-U operators: each is honoured, so that the stream's bytes are the host's, or refused in a sentence."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import tensorir_only  # noqa: F401  # skips this file where TVM is not installed
from hypothesis import given, settings
from hypothesis import strategies as st
from te_operators import Constants, image

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends import te as npu
from cascader.frontends.te.graph import graph_of
from cascader.frontends.te.host import host_outputs
from cascader.frontends.te.network import import_graph
from npu_model.errors import InputError
from npu_testbed.proofs.verification import functional_outputs, seeded_inputs

DEFAULT = "ethos-u55-128"
TYPES = ("int8", "uint8", "int16", "int32")
FORMS = ("ifm_scale", "ifm_zero_point", "ofm_scale", "ofm_zero_point", "activation", "rounding_mode", "clip_min", "clip_max")
WINDOWS = ("strides", "padding", "upscale")
OWN: dict[str, tuple[str, ...]] = {
    "ethosu_conv2d": (*WINDOWS, "dilation", "weight_zero_point"),
    "ethosu_depthwise_conv2d": (*WINDOWS, "dilation", "weight_zero_point", "ofm_dtype"),
    "ethosu_pooling": (*WINDOWS, "ofm_dtype"),
    "ethosu_identity": (),
    "ethosu_binary_elementwise": ("ifm2_scale", "ifm2_zero_point", "reversed_operands", "ofm_dtype"),
    "ethosu_unary_elementwise": ("ofm_dtype",),
}


def pair(most: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(1, most), st.integers(1, most))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "activation": st.sampled_from(("NONE", "NONE", "CLIP", "LUT", "TANH")),
    "rounding_mode": st.sampled_from(("TFL", "TRUNCATE", "NATURAL")),
    "clip_min": st.integers(-140, 20),
    "clip_max": st.integers(-10, 300),
    "upscale": st.sampled_from(("NONE", "NONE", "NEAREST", "ZEROS")),
    "strides": pair(4),
    "dilation": pair(3),
    "padding": st.tuples(*[st.integers(0, 3)] * 4),
    "weight_zero_point": st.integers(-4, 4),
    "ofm_dtype": st.sampled_from(TYPES),
    "reversed_operands": st.booleans(),
} | dict.fromkeys(("ifm_zero_point", "ifm2_zero_point", "ofm_zero_point"), st.integers(-9, 130))
SCALES = st.sampled_from((0.01, 0.25, 0.5, 0.7, 1.0, 3.3))


@st.composite
def drawn(draw: st.DrawFn) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    """An operator, the type of its operands, what it is made of beside them, and its attributes."""
    op = draw(st.sampled_from(tuple(OWN)))
    dtype = draw(st.sampled_from(("int8", "int8", "uint8", "int16", "int32")))
    made: dict[str, Any] = {"shape": (1, *draw(pair(7)), draw(st.integers(1, 20))), "table": False}
    known = [name for name in (*FORMS, *OWN[op]) if not name.endswith("scale") and (op != "ethosu_identity" or "clip" not in name)]
    attributes = {name: draw(VALUES[name]) for name in draw(st.lists(st.sampled_from(known), unique=True, max_size=5))}
    if attributes.get("activation") != "CLIP" and draw(st.integers(0, 4)):
        attributes = {name: value for name, value in attributes.items() if not name.startswith("clip")}
    if draw(st.booleans()):
        attributes |= {"ifm_scale": draw(SCALES), "ofm_scale": draw(SCALES)}
        attributes |= {"ifm2_scale": draw(SCALES)} if "ifm2_scale" in OWN[op] else {}
    if op == "ethosu_pooling":
        attributes |= {"pooling_type": draw(st.sampled_from(("AVG", "AVG", "MAX", "SUM"))), "pool_shape": draw(pair(3))}
    if op == "ethosu_binary_elementwise":
        attributes["operator_type"] = draw(st.sampled_from(("ADD", "SUB", "MUL", "MIN", "MAX", "SHR", "SHL")))
        made["second"] = tuple(draw(st.sampled_from((1, extent))) for extent in made["shape"])
    if op == "ethosu_unary_elementwise":
        attributes["operator_type"] = draw(st.sampled_from(("ABS", "CLZ")))
    made |= {"channels": draw(st.integers(1, 20)), "kernel": draw(pair(4)), "table": attributes.get("activation") == "LUT"}
    return op, dtype, made, attributes


def network_of(op: str, dtype: str, made: dict[str, Any], attributes: dict[str, Any]) -> Any:
    """A graph of one operator; InputError where an attribute is refused."""
    constants, x = Constants(7), image(made["shape"], "image", dtype)
    lut = (constants.integers((256,), attributes.get("ofm_dtype", dtype), "table"),) if made["table"] else ()
    function = getattr(npu, op)
    if op in ("ethosu_conv2d", "ethosu_depthwise_conv2d"):
        deep = op == "ethosu_conv2d"
        channels = made["channels"] if deep else made["shape"][3]
        weight = constants.integers((channels, *made["kernel"], made["shape"][3] if deep else 1), "int8", "weight")
        y = function(x, weight, constants.records(channels, "records"), *lut, name="result", **attributes)
    elif op == "ethosu_binary_elementwise":
        inside = {"SHR": (0, 31), "SHL": (0, 8)}.get(attributes["operator_type"])
        shape = made["second"]
        second = constants.of(constants.random.integers(*inside, shape).astype(dtype), "b") if inside else image(shape, "b", dtype)
        y = function(x, second, *lut, name="result", **attributes)
        return graph_of([x] if inside else [x, second], y, constants.values)
    else:
        y = function(x, *lut, name="result", **attributes)
    return graph_of(x, y, constants.values)


def wide_sum(attributes: dict[str, Any], array: np.ndarray) -> bool:
    """Whether a sum of full 32-bit values may leave 32 bits, where what the NPU does is not public."""
    return array.dtype == np.int32 and attributes.get("operator_type") in ("ADD", "SUB")


def test_drawn_attributes_are_honoured_to_the_byte_or_refused_in_a_sentence() -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=120, deadline=None)
    @given(drawn())
    def holds(example: tuple[str, str, dict[str, Any], dict[str, Any]]) -> None:
        op, dtype, made, attributes = example
        try:
            graph = network_of(op, dtype, made, attributes)
            network = lower(schedule_layer_by_layer(import_graph(graph, DEFAULT), DEFAULT))
        except InputError as refused:
            sentence = str(refused)
            seen["refused"] += 1
            if sentence.count(". ") or not sentence.endswith(".") or ("ethosu_" not in sentence and "'result'" not in sentence):
                raise AssertionError(sentence) from refused
            return
        inputs = [
            {name: array // 2 if wide_sum(attributes, array) else array for name, array in one.items()}
            for one in seeded_inputs(network, 1, 0)
        ]
        (found,), (expected,) = functional_outputs(network, inputs), host_outputs(graph, inputs)
        assert np.array_equal(found["result"], expected["result"])
        seen[op] += 1

    holds()
    assert set(seen) >= set(OWN)
