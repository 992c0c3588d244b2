"""Single operators: what the functional run makes of Vela's stream equals LiteRT's reference kernels, byte for byte."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT's reference kernels are not installed")

from unit_networks import Reference, Tensor, compiled_network, differing_bytes, unit_network

from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.program import ActivationKind, ElementwiseKind, PoolKind, ScaledOperand, Upscale
from sim.functional import run

ZERO = {"int8": (4, -7, 11), "uint8": (130, 100, 128), "int16": (0, 0, 0)}
"""Zero points of first input, second input and output."""
UNIT = {"int8": 1.0, "uint8": 1.0, "int16": 1 / 200}
"""Factors of the scales by type, so that values of every type span about the same range."""
SHAPE = (1, 6, 7, 20)
CASES: dict[str, bytes] = {}


def integers(shape: tuple[int, ...], low: int, high: int) -> np.ndarray:
    return np.random.default_rng(len(CASES)).integers(low, high, shape)


def convolution(
    dtype: str = "int8",
    kernel: int = 3,
    dilation: int = 1,
    stride: int = 1,
    channels: tuple[int, int] = (8, 16),
    *,
    depthwise: bool = False,
) -> bytes:
    """SAME padding on 13 x 11 elements; per-channel weight scales but for uint8."""
    inputs, outputs = channels
    scale = 0.02 * UNIT[dtype]
    scales = tuple(0.001 + 0.0001 * i for i in range(outputs)) if dtype != "uint8" else (0.003,)
    shape = (1, kernel, kernel, outputs) if depthwise else (outputs, kernel, kernel, inputs)
    weights = Tensor(shape, "uint8" if dtype == "uint8" else "int8", scales, 128 if dtype == "uint8" else 0, axis=3 if depthwise else 0)
    low = 0 if dtype == "uint8" else -127
    weights = Tensor(weights.shape, weights.dtype, weights.scale, weights.zero_point, integers(shape, low, low + 255), weights.axis)
    biases = tuple(float(np.float32(scale) * np.float32(s)) for s in scales)
    bias = Tensor((outputs,), "int64" if dtype == "int16" else "int32", biases, 0, integers((outputs,), -3000, 3000))
    result = Tensor((1, -(-13 // stride), -(-11 // stride), outputs), dtype, 0.05 * UNIT[dtype], ZERO[dtype][2])
    name = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
    steps = {"strideH": stride, "strideW": stride, "dilationHFactor": dilation, "dilationWFactor": dilation}
    more = {"depthMultiplier": 1} if depthwise else {}
    operands = [Tensor((1, 13, 11, inputs), dtype, scale, ZERO[dtype][0]), weights, bias]
    return unit_network("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", operands, result, name, padding=0, **steps, **more)


def binary(
    code: str, dtype: str, scales: tuple[float, float, float], shapes: tuple[tuple[int, ...], tuple[int, ...]] = (SHAPE, SHAPE)
) -> bytes:
    operands = [Tensor(shapes[i], dtype, scales[i] * UNIT[dtype], ZERO[dtype][i]) for i in (0, 1)]
    result = Tensor(SHAPE, dtype, scales[2] * UNIT[dtype], ZERO[dtype][2])
    return unit_network(code, operands, result, {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}[code])


def unary(code: str, dtype: str, options: str = "", scales: tuple[float, float] = (0.05, 0.05), **fields: object) -> bytes:
    source = Tensor(SHAPE, dtype, scales[0] * UNIT[dtype], ZERO[dtype][0])
    zero = ZERO[dtype][0] if scales[0] == scales[1] else ZERO[dtype][1]
    return unit_network(code, [source], Tensor(SHAPE, dtype, scales[1] * UNIT[dtype], zero), options, **fields)


def pool(code: str, dtype: str, size: int, stride: int) -> bytes:
    """SAME padding on 12 x 12 elements."""
    extent = -(-12 // stride)
    maps = [Tensor((1, side, side, 20), dtype, 0.05, ZERO[dtype][0]) for side in (12, extent)]
    window = {"strideH": stride, "strideW": stride, "filterHeight": size, "filterWidth": size}
    return unit_network(code, maps[:1], maps[1], "Pool2DOptions", padding=0, **window)


def resized(code: str, options: str, **fields: object) -> bytes:
    size = Tensor((2,), "int32", data=[12, 14])
    return unit_network(code, [Tensor(SHAPE, zero_point=4), size], Tensor((1, 12, 14, 20), zero_point=4), options, **fields)


def transposed_convolution() -> bytes:
    weights = Tensor((16, 3, 3, 8), "int8", 0.003, 0, integers((16, 3, 3, 8), -127, 128))
    operands = [Tensor((4,), "int32", data=[1, 12, 12, 16]), weights, Tensor((1, 6, 6, 8), "int8", 0.02, -5)]
    return unit_network("TRANSPOSE_CONV", operands, Tensor((1, 12, 12, 16), zero_point=3), "TransposeConvOptions", strideH=2, strideW=2)


for kind in ("int8", "uint8", "int16"):
    CASES[f"convolution {kind}"] = convolution(kind)
    CASES[f"dilated depthwise {kind}"] = convolution(kind, dilation=2, channels=(8, 8), depthwise=True)
    CASES[f"add, A scaled, {kind}"] = binary("ADD", kind, (0.03, 0.07, 0.1))
    CASES[f"subtract, B scaled, {kind}"] = binary("SUB", kind, (0.07, 0.031, 0.1))
    CASES[f"padded average {kind}"] = pool("AVERAGE_POOL_2D", kind, 3, 1)
    CASES[f"softmax {kind}"] = unit_network(
        "SOFTMAX",
        [Tensor((1, 5, 20), kind, 0.06 * UNIT[kind], ZERO[kind][0])],
        Tensor((1, 5, 20), kind, 2**-15 if kind == "int16" else 2**-8, {"int8": -128, "uint8": 0, "int16": 0}[kind]),
        "SoftmaxOptions",
        beta=1.0,
    )
CASES["convolution of stride 3"] = convolution(stride=3)
CASES["convolution of 9 x 9 taps, dilated"] = convolution(kernel=9, dilation=2, channels=(5, 3))
CASES["convolution of many channels"] = convolution(kernel=1, channels=(70, 40))
CASES["transposed convolution"] = transposed_convolution()
CASES["add, equal scales"] = binary("ADD", "int8", (0.0625, 0.0625, 0.125))
CASES["add, first operand broadcast"] = binary("ADD", "int8", (0.03, 0.07, 0.1), ((1, 1, 7, 1), SHAPE))
CASES["subtract, first operand broadcast"] = binary("SUB", "int8", (0.03, 0.07, 0.1), ((1, 1, 1, 20), SHAPE))
CASES["multiply int16"] = binary("MUL", "int16", (0.03, 0.07, 0.2))
CASES["absolute int8"] = unary("ABS", "int8", "AbsOptions")
CASES["absolute int16, rescaled"] = unary("ABS", "int16", "AbsOptions", (0.05, 0.04))
CASES["leaky ReLU int16"] = unary("LEAKY_RELU", "int16", "LeakyReluOptions", alpha=0.3)
CASES["exponential int16"] = unary("EXP", "int16", "ExpOptions", (0.05, 0.02))
CASES["quantise int8"] = unary("QUANTIZE", "int8", "QuantizeOptions", (0.05, 0.04))
CASES["padded maximum"] = pool("MAX_POOL_2D", "int8", 3, 2)
CASES["nearest resize"] = resized("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")
CASES["bilinear resize"] = resized("RESIZE_BILINEAR", "ResizeBilinearOptions")
BOTH_CORES = ("padded average int8", "bilinear resize", "add, A scaled, int8", "exponential int16", "transposed convolution")


def compiled(name: str, *, legacy: bool = False) -> CompiledNetwork:
    return compiled_network(CASES[name], legacy=legacy)


@pytest.mark.parametrize(("name", "legacy"), [*((name, False) for name in CASES), *((name, True) for name in BOTH_CORES)])
def test_an_operator_equals_the_reference_kernel(name: str, *, legacy: bool) -> None:
    network, reference = compiled(name, legacy=legacy), Reference(CASES[name])
    assert [differing_bytes(network, reference, seed, extreme=seed == 3) for seed in range(4)] == [0] * 4


def test_the_units_exercise_what_they_are_named_for() -> None:
    def kernels(name: str) -> tuple[object, ...]:
        return compiled(name).programs[0].kernels

    assert kernels("transposed convolution")[0].upscale is Upscale.ZEROS
    assert kernels("dilated depthwise int8")[0].kernel.dilation_y == 2
    assert kernels("add, A scaled, int8")[0].scaled_operand is ScaledOperand.A
    assert kernels("subtract, B scaled, int8")[0].scaled_operand is ScaledOperand.B
    assert kernels("add, equal scales")[0].scaled_operand is ScaledOperand.BOTH
    assert kernels("subtract, first operand broadcast")[0].broadcast.swap
    assert kernels("exponential int16")[0].activation.kind is ActivationKind.LUT
    assert kernels("leaky ReLU int16")[0].elementwise is ElementwiseKind.LRELU
    assert any(op.pool is PoolKind.REDUCE_SUM for op in kernels("softmax int16"))


@pytest.mark.parametrize("scale", [2**-15, 2**-12, 2**-11, 0.0001, 0.00071, 0.01])
@pytest.mark.parametrize("code", ["LOGISTIC", "TANH"])
def test_the_native_functions_equal_the_reference_kernels_on_every_input(code: str, scale: float) -> None:
    shape = (1, 64, 64, 16)
    model = unit_network(code, [Tensor(shape, "int16", scale)], Tensor(shape, "int16", 2**-15))
    values = np.arange(-(2**15), 2**15).astype(np.int16).reshape(shape)
    network = compiled_network(model)
    native = {"LOGISTIC": ActivationKind.SIGMOID, "TANH": ActivationKind.TANH}[code]
    assert [op.activation.kind for op in network.programs[0].kernels] == [native]
    (expected,), (found,) = Reference(model).run({"tensor0": values}).values(), run(network, [values]).values()
    np.testing.assert_array_equal(found, expected)


def test_an_operator_on_the_cpu_is_refused_by_name() -> None:
    network = compiled("absolute int8")
    left = type(network)((*network.steps, cpu_operator(network)), network.arena_size, network.inputs, network.outputs)
    with pytest.raises(InputError, match="runs CUMSUM on the CPU"):
        run(left, [np.zeros(SHAPE, np.int8)])


def cpu_operator(network: CompiledNetwork) -> object:
    from npu_model.compiled.network import CpuOperator  # noqa: PLC0415  # this test alone makes one

    return CpuOperator("CUMSUM", network.outputs, network.outputs)


def test_inputs_of_another_type_count_or_name_are_refused() -> None:
    network = compiled("absolute int8")
    with pytest.raises(InputError, match="is given as float64"):
        run(network, [np.zeros(SHAPE)])
    with pytest.raises(InputError, match="2 inputs were given"):
        run(network, [np.zeros(SHAPE, np.int8)] * 2)
    with pytest.raises(InputError, match="takes exactly 'tensor0'"):
        run(network, {"another": np.zeros(SHAPE, np.int8)})
