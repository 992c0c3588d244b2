"""The zoo: its networks' bytes, topologies and liveliness, and what Vela and LiteRT make of them."""

from __future__ import annotations

import csv
import hashlib
import math
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cpu_networks import cpu_split_network, float_network
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_data import shared_data

from npu_model.errors import InputError
from npu_model.tflite.model import TfliteModel, read_tflite
from validation.builder import NetworkBuilder
from validation.builder.calibration import laplace, round_scale, uniform
from validation.zoo import build, zoo_names

SHA256 = {
    "mobilenet_v1": "96658f0bdb519dbc45999fba7a96eb23ef88a6bfd0cdb6214d069c860271a67c",
    "mobilenet_v2": "efe32976493efb339fdbc50d7f433f51ab29de3668917b6b2b9a047e66c24553",
    "ds_cnn": "647f01ec9fa0190b1e713ad0d19ad3eb19c9e6c9e94092eb609ad5df93455eb9",
    "resnet8": "403812f9c08840da32e5949a4f8c334b66d18bd507a2bbd6a01f575f6432eb81",
    "vgg": "5b84d752ce279b324b7d21160a23a2ed71f151d25a53738338ff49b2299165b3",
    "unet": "eb03c1e106830f5a001bd3687a3be3004aab613485883b3ea17f9f6ee87fc195",
    "super_resolution": "9a5523b676d52ae95a876f9d840814c35285dd3f6e67bcfeb2c9cbc317bce57a",
    "tiny_conv": "5dd5390076a6004918b9732978ef57af36084427fb1e5dee66dd4ff081a3a2b5",
    "tiny_residual": "b3a60c36780d52ef73c77429c8b9d968614d4221cb1da60b39f714d658e5e4eb",
}
LARGE = ("mobilenet_v1", "mobilenet_v2", "vgg", "unet", "super_resolution")
"""Networks of which a build takes seconds; like all others they have known digests."""
WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


@cache
def network(name: str) -> bytes:
    return build(name)


@cache
def parsed(name: str) -> TfliteModel:
    return read_tflite(network(name))


def macs(model: TfliteModel) -> int:
    """Every weight of a convolution meets each output position once."""
    total = 0
    for operator in model.operators:
        if operator.code in WEIGHTED:
            output = model.tensors[operator.outputs[0]].shape
            total += math.prod(output[:-1]) * math.prod(model.tensors[operator.inputs[1]].shape)
    return total


def parameters(model: TfliteModel) -> int:
    return sum(math.prod(model.tensors[i].shape) for operator in model.operators if operator.code in WEIGHTED for i in operator.inputs[1:])


def litert_run(data: bytes, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Every activation of one inference of the reference kernels on seeded noise, by tensor name."""
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT (ai-edge-litert) is not installed")
    interpreter = litert.Interpreter(
        model_content=data, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF, experimental_preserve_all_tensors=True
    )
    interpreter.allocate_tensors()
    generator = np.random.default_rng(seed)
    for entry in interpreter.get_input_details():
        dtype = entry["dtype"]
        if dtype == np.float32:
            values = generator.uniform(-1, 1, entry["shape"]).astype(dtype)
        else:
            values = generator.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, entry["shape"], dtype=dtype, endpoint=True)
        interpreter.set_tensor(entry["index"], values)
    interpreter.invoke()
    model = read_tflite(data)
    return {t.name: interpreter.get_tensor(i) for i, t in enumerate(model.tensors) if not t.data}


def vela_summary(data: bytes, folder: Path, name: str) -> tuple[dict[str, str], str]:
    """Vela's summary row and printed report for ethos-u55-128."""
    pytest.importorskip("ethosu.vela", reason="Vela (ethos-u-vela) is not installed")
    (folder / f"{name}.tflite").write_bytes(data)
    command = [sys.executable, "-m", "ethosu.vela", f"{name}.tflite", "--accelerator-config", "ethos-u55-128"]
    run = subprocess.run([*command, "--output-dir", "out"], cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    (summary,) = (folder / "out").glob("*_summary_*.csv")
    with summary.open(newline="") as file:
        return next(csv.DictReader(file)), run.stdout


@pytest.mark.parametrize("name", zoo_names())
def test_a_network_has_the_same_bytes_in_every_build(name: str) -> None:
    assert name in LARGE or build(name) == network(name)
    assert hashlib.sha256(network(name)).hexdigest() == SHA256[name]


@pytest.mark.parametrize(
    ("name", "expected_macs", "expected_parameters"),
    [
        # Parameters: those of the Keras models, with the four of a batch normalisation folded into one bias.
        ("mobilenet_v1", 568_740_352, 4_253_864 - 3 * 10_944),
        ("mobilenet_v2", 300_774_272, 3_538_984 - 3 * 17_056),
        ("ds_cnn", 2_656_768, None),  # the MLPerf Tiny network
        ("resnet8", 12_501_632, None),  # the MLPerf Tiny network
    ],
)
def test_a_standard_topology_has_its_published_macs_and_parameters(name: str, expected_macs: int, expected_parameters: int | None) -> None:
    assert macs(parsed(name)) == expected_macs
    assert expected_parameters in (None, parameters(parsed(name)))


@pytest.mark.parametrize(
    ("name", "reference"),
    [("ds_cnn", "ds_cnn_kws_i8"), ("resnet8", "resnet8_i8")],
)
def test_a_benchmark_network_has_the_operators_and_weight_shapes_of_the_trained_one(name: str, reference: str) -> None:
    trained = read_tflite((shared_data() / "models" / f"{reference}.tflite").read_bytes())

    def layers(model: TfliteModel) -> Counter[tuple[str, tuple[int, ...], tuple[int, ...]]]:
        return Counter(
            (o.code, model.tensors[o.outputs[0]].shape, model.tensors[o.inputs[1]].shape if o.code in WEIGHTED else ())
            for o in model.operators
        )

    assert layers(parsed(name)) == layers(trained)


def test_mobilenet_v2_has_the_inverted_residuals_of_the_trained_one() -> None:
    trained = read_tflite((shared_data() / "models" / "mobilenet_v2_1.0_224_i8.tflite").read_bytes())

    def body(model: TfliteModel) -> list[tuple[str, tuple[int, ...]]]:
        wanted = ("CONV_2D", "DEPTHWISE_CONV_2D", "ADD")
        return [(o.code, model.tensors[o.outputs[0]].shape) for o in model.operators if o.code in wanted]

    assert body(parsed("mobilenet_v2")) == body(trained)[:-1]  # the trained one has its classifier as a convolution


@pytest.mark.parametrize("name", zoo_names())
def test_quantisation_follows_the_int8_specification(name: str) -> None:
    model = parsed(name)
    for operator in model.operators:
        if operator.code not in WEIGHTED:
            continue
        x, weights, bias = (model.tensors[i] for i in operator.inputs)
        channels = model.tensors[operator.outputs[0]].shape[-1]
        assert (x.dtype, weights.dtype, bias.dtype) == ("INT8", "INT8", "INT32")
        assert len(weights.scales) == (1 if operator.code == "FULLY_CONNECTED" else channels)
        assert not any(weights.zero_points + bias.zero_points)
        assert bias.scales == tuple(float(np.float32(x.scales[0] * scale)) for scale in weights.scales)
        assert min(np.frombuffer(weights.data, np.int8)) >= -127
        assert len(bias.data) == 4 * channels


def test_a_relu6_output_starts_at_the_lowest_integer_and_ends_at_six() -> None:
    model = parsed("mobilenet_v1")
    outputs = [model.tensors[o.outputs[0]] for o in model.operators if o.code == "DEPTHWISE_CONV_2D"]
    assert {(t.zero_points, round(t.scales[0] * 255, 2)) for t in outputs} == {((-128,), 6.0)}


@pytest.mark.parametrize("name", zoo_names())
def test_every_constant_starts_on_sixteen_bytes(name: str) -> None:
    data = network(name)
    for tensor in parsed(name).tensors:
        if len(tensor.data) > 64:  # longer ones occur once
            assert data.find(tensor.data) % 16 == 0


@pytest.mark.parametrize("name", zoo_names())
def test_no_layer_collapses_or_saturates_in_litert(name: str) -> None:
    first, second = litert_run(network(name), seed=1), litert_run(network(name), seed=2)
    for tensor, values in first.items():
        if tensor == "probabilities":
            continue
        distinct = len(np.unique(values))
        assert distinct >= min(64, values.size // 3), tensor
        assert np.mean(values == 127) < 0.05, tensor
        # A ReLU's zeros and a signed layer's extremes: at most about half are at the bottom.
        assert np.mean(values == -128) < 0.6, tensor
        assert np.mean(values != second[tensor]) > 0.5, tensor


@pytest.mark.parametrize("name", ["mobilenet_v1", "mobilenet_v2", "vgg", "ds_cnn", "resnet8"])
def test_a_classifier_gives_several_probabilities_that_depend_on_the_picture(name: str) -> None:
    first, second = (litert_run(network(name), seed)["probabilities"] for seed in (1, 2))
    assert len(np.unique(first)) >= 6
    assert np.any(first != second)


@pytest.mark.parametrize("name", zoo_names())
def test_vela_puts_every_operator_on_the_npu_and_compresses_the_weights_as_trained_ones(name: str, tmp_path: Path) -> None:
    row, report = vela_summary(network(name), tmp_path, name)
    assert "CPU operators = 0 (0.0%)" in report
    ratio = float(row["total_npu_encoded_weights"]) / float(row["total_original_weights"])
    # The tiny ones have less weight than the stream's own overhead and padding.
    assert 0.61 < ratio < (1.1 if name.startswith("tiny") else 0.95)


def test_depth_to_space_stays_on_the_cpu_between_two_npu_subgraphs(tmp_path: Path) -> None:
    _, report = vela_summary(cpu_split_network(), tmp_path, "split")
    assert "CPU operators = 1 " in report
    compiled = read_tflite(next((tmp_path / "out").glob("*_vela.tflite")).read_bytes())
    assert [o.custom_code or o.code for o in compiled.operators] == ["ethos-u", "DEPTH_TO_SPACE", "ethos-u"]
    assert len(np.unique(litert_run(cpu_split_network(), 1)["after"])) > 100


def test_no_operator_of_a_float_network_runs_on_the_npu(tmp_path: Path) -> None:
    _, report = vela_summary(float_network(), tmp_path, "float")
    assert "NPU operators = 0 " in report
    assert len(np.unique(litert_run(float_network(), 1)["full"])) > 1000


def every_operator(precision: str, seed: int = 0) -> bytes:
    """A network with each operator of the builder once or more (but DEPTH_TO_SPACE)."""
    net = NetworkBuilder("every_operator", precision, seed)
    x = net.conv2d(net.input((1, 17, 19, 3)), 16, strides=(2, 1), activation="RELU")
    left = net.depthwise(x, (3, 5), dilation=(2, 1), activation="RELU6")
    right = net.conv2d(net.pad(x, 1, 0, 2, 1), 16, (2, 4), padding="VALID", activation="RELU6")
    x = net.max_pool(net.concat([left, right]), (3, 3), strides=(1, 1), padding="SAME")
    x = net.depthwise(net.average_pool(x, (2, 3), strides=(2, 2), padding="SAME"), multiplier=2)
    x = net.resize_nearest(x, 2)
    x = net.add(net.multiply(x, net.logistic(x)), x, activation="RELU", name="last_image")
    pooled = net.average_pool(x)
    flat = net.reshape(pooled, (1, pooled.shape[3]))
    return net.finish([net.softmax(net.fully_connected(flat, 20, spread="LOGITS"), name="probabilities"), x])


@pytest.mark.parametrize("precision", ["int8", "int16", "uint8", "float32"])
def test_every_operator_runs_in_every_precision(precision: str) -> None:
    data = every_operator(precision)
    dtype = {"int8": "INT8", "int16": "INT16", "uint8": "UINT8", "float32": "FLOAT32"}[precision]
    assert {t.dtype for t in read_tflite(data).tensors if not t.data} == {dtype}
    outputs = litert_run(data, 1)
    assert outputs["last_image"].shape == (1, 10, 20, 64)
    assert len(np.unique(outputs["last_image"])) > 60
    assert len(np.unique(outputs["probabilities"])) >= 8


def test_int8_and_float_networks_compute_the_same_function() -> None:
    real, quantised = litert_run(every_operator("float32"), 1), every_operator("int8")
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT (ai-edge-litert) is not installed")
    interpreter = litert.Interpreter(model_content=quantised, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    model = read_tflite(quantised)
    source, target = (model.tensors[i] for i in (model.inputs[0], model.outputs[1]))
    x = np.clip(np.rint(real[source.name] / source.scales[0]) + source.zero_points[0], -128, 127)
    interpreter.set_tensor(model.inputs[0], x.astype(np.int8))
    interpreter.invoke()
    got = (interpreter.get_tensor(model.outputs[1]).astype(float) - target.zero_points[0]) * target.scales[0]
    difference = np.abs(got - real["last_image"])
    assert difference.mean() < 0.05 * real["last_image"].std()


def test_another_seed_gives_other_weights_of_the_same_topology() -> None:
    first, second = (read_tflite(every_operator("int8", seed)) for seed in (0, 1))
    assert [t.shape for t in first.tensors] == [t.shape for t in second.tensors]
    assert all(a.data != b.data for a, b in zip(first.tensors, second.tensors, strict=True) if a.name.endswith("/weights"))


@settings(max_examples=40, deadline=None)
@given(
    size=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    depth=st.integers(1, 9),
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    spacing=st.integers(1, 3),
    padding=st.sampled_from(["SAME", "VALID"]),
    kind=st.sampled_from(["conv2d", "depthwise", "max_pool", "average_pool"]),
)
def test_a_one_layer_network_has_the_output_shape_that_litert_infers(
    size: tuple[int, int], depth: int, kernel: tuple[int, int], strides: tuple[int, int], spacing: int, padding: str, kind: str
) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT (ai-edge-litert) is not installed")
    net = NetworkBuilder("one_layer")
    x = net.input((1, *size, depth))
    dilation = (spacing, spacing) if strides == (1, 1) else (1, 1)  # LiteRT has no strided dilation
    try:
        if kind == "conv2d":
            output = net.conv2d(x, 5, kernel, strides=strides, dilation=dilation, padding=padding)
        elif kind == "depthwise":
            output = net.depthwise(x, kernel, strides=strides, dilation=dilation, padding=padding)
        else:
            output = getattr(net, kind)(x, kernel, strides=strides, padding=padding)
    except InputError as error:
        assert padding == "VALID"
        assert "covers" in str(error)  # noqa: PT017 - fitting kernels must not raise, others may only raise this
        return
    interpreter = litert.Interpreter(model_content=net.finish([output]), experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    (entry,) = interpreter.get_output_details()
    interpreter.invoke()
    assert tuple(interpreter.get_tensor(entry["index"]).shape) == output.shape


def test_an_unknown_network_is_answered_with_the_known_names() -> None:
    with pytest.raises(InputError, match=r"no network 'mobilenet_v9'.*mobilenet_v1.*tiny_residual"):
        build("mobilenet_v9")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda net, _: net.input(()), "empty"),
        (lambda net, _: net.input((1, 0, 4)), "at least 1"),
        (lambda net, x: net.conv2d(x, 0), "0 filters"),
        (lambda net, x: net.conv2d(x, 8, (0, 3)), "Kernel of conv2d_1"),
        (lambda net, x: net.conv2d(x, 8, (9, 9), padding="VALID"), "covers 9 elements but its input has 8"),
        (lambda net, x: net.conv2d(x, 8, padding="FULL"), "SAME, VALID"),
        (lambda net, x: net.conv2d(x, 8, activation="GELU"), "NONE, RELU, RELU6"),
        (lambda net, x: net.depthwise(x, multiplier=0), "multiplier 0"),
        (lambda net, x: net.fully_connected(x, 8), "batch, features"),
        (lambda net, x: net.add(x, net.max_pool(x)), "one shape"),
        (lambda net, x: net.add(x, x, activation="TANH"), "NONE, RELU, RELU6"),
        (lambda net, x: net.concat([x, net.conv2d(x, 4)]), "differ in size or scale"),
        (lambda net, _: net.concat([]), "differ in size or scale"),
        (lambda net, x: net.resize_nearest(x, 0), "factor 0"),
        (lambda net, x: net.depth_to_space(x, 3), "multiple of 9"),
        (lambda net, x: net.pad(x, -1, 0, 0, 0), "at least 0"),
        (lambda net, x: net.reshape(x, (3, 3)), "256 elements"),
        (lambda net, x: net.conv2d(net.reshape(x, (1, 256)), 4), "four dimensions"),
        (lambda net, x: net.conv2d(x, 4, name="x"), "taken"),
        (lambda net, _: net.finish([]), "no output"),
        (lambda net, _: net.finish([NetworkBuilder("other").input((1, 4))]), "not an activation"),
        (lambda _, __: NetworkBuilder("n", "int4"), "int8, int16, uint8, float32"),
    ],
)
def test_arguments_that_make_no_network_are_refused_in_one_sentence(make: Any, message: str) -> None:
    net = NetworkBuilder("refused")
    x = net.input((1, 8, 8, 4), "x")
    with pytest.raises(InputError, match=message) as caught:
        make(net, x)
    assert str(caught.value).count(". ") == 0


def test_weights_are_laplace_integers_of_a_promised_stream() -> None:
    values = laplace("weights", 100_000, 228)
    assert values[:8].tolist() == [-4, 16, 2, 9, 1, -11, 8, -1]
    decay = 228 / 256
    # Of P(k) proportional to decay**abs(k): the share of zeros, and the mean magnitude.
    assert np.mean(values == 0) == pytest.approx((1 - decay) / (1 + decay), rel=0.05)
    assert np.abs(values.astype(int)).mean() == pytest.approx(2 * decay / (1 - decay**2), rel=0.02)
    assert abs(values.astype(int).mean()) < 0.1


@given(low=st.integers(-(10**6), 10**6), span=st.integers(0, 2**31 - 2), key=st.text(max_size=5))
def test_uniform_integers_stay_in_their_range(low: int, span: int, key: str) -> None:
    values = uniform(key, 50, low, low + span)
    assert values.min() >= low
    assert values.max() <= low + span


@given(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9))
def test_the_product_of_two_scales_is_exact_in_float32(a: float, b: float) -> None:
    product = round_scale(a) * round_scale(b)
    assert float(np.float32(product)) == product
    assert round_scale(a) == pytest.approx(a, rel=2**-11)
