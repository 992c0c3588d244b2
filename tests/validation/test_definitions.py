"""SUM and NEG are held to their definitions: the sum of the real values, and their negative, rounded once."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import floor
from pathlib import Path

import numpy as np
import pytest
from command_line import call

import npu_testbed
from npu_model.tflite.model import TfliteModel, TfliteOperator, TfliteTensor, read_tflite
from validation.builder import NetworkBuilder
from validation.litert.definitions import defined, is_defined
from validation.litert.judge import judge, litert_installed

needs_litert = pytest.mark.skipif(not litert_installed(), reason="LiteRT's reference kernels are not installed")
CASES = [((1, 20, 4, 8), (3,), False), ((1, 5, 6, 3), (1, 2), True), ((1, 9, 16), (1,), False), ((1, 4, 4, 4), (1, 2, 3), False)]


def summed(shape: tuple[int, ...], axes: tuple[int, ...], *, keep: bool, ahead: bool = False) -> bytes:
    net = NetworkBuilder("summed")
    x = net.input(shape, "x")
    return net.finish([net.sum(net.logistic(x) if ahead else x, axes, keep=keep)])


@needs_litert
@pytest.mark.parametrize(("shape", "axes", "keep"), CASES)
def test_a_sum_is_the_rounded_sum_of_real_values(shape: tuple[int, ...], axes: tuple[int, ...], *, keep: bool) -> None:
    model = summed(shape, axes, keep=keep)
    (operator,), tensors = read_tflite(model).operators, read_tflite(model).tensors
    given, made = tensors[operator.inputs[0]], tensors[operator.outputs[0]]
    values = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    found = judge(model, [{"x": values}])
    assert found.defined == ("SUM",)
    (output,) = found.outputs[0].values()
    factor = Fraction(float(np.float32(given.scales[0]))) / Fraction(float(np.float32(made.scales[0])))
    expected = []
    for place in product(*(range(1 if axis in axes else extent) for axis, extent in enumerate(shape))):
        along = tuple(slice(None) if axis in axes else at for axis, at in enumerate(place))
        real = factor * sum(int(value) - given.zero_points[0] for value in values[along].reshape(-1))
        expected.append(max(-128, min(127, floor(real + Fraction(1, 2)) + made.zero_points[0])))
    assert output.reshape(-1).tolist() == expected


@needs_litert
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(("shape", "axes", "keep"), [case for case in CASES if len(case[1]) == 1])
def test_a_network_that_sums_is_verified(shape: tuple[int, ...], axes: tuple[int, ...], keep: bool, ahead: bool, tmp_path: Path) -> None:  # noqa: FBT001  # parameters of the test
    (tmp_path / "net.tflite").write_bytes(summed(shape, axes, keep=keep, ahead=ahead))
    npu_testbed.schedule(tmp_path / "net.tflite", output=tmp_path / "made.json")
    found = call("verify", tmp_path / "made.json", "--model", tmp_path / "net.tflite")
    assert found.status == 0, found.output
    assert "SUM was held to its definition" in found.output
    assert "Vela computes" not in found.output


@needs_litert
@pytest.mark.parametrize("precision", ["int8", "uint8", "int16"])
def test_a_network_that_negates_is_verified(precision: str, tmp_path: Path) -> None:
    net = NetworkBuilder("negated", precision)
    (tmp_path / "net.tflite").write_bytes(net.finish([net.unary("NEG", net.input((1, 6, 5, 8), "x"))]))
    npu_testbed.schedule(tmp_path / "net.tflite", output=tmp_path / "made.json")
    found = call("verify", tmp_path / "made.json", "--model", tmp_path / "net.tflite")
    assert found.status == 0, found.output
    assert "NEG was held to its definition" in found.output


@pytest.mark.parametrize(("given", "made"), [((0.5, 3), (0.25, -2)), ((0.125, -7), (0.5, 0)), ((1.0, 0), (1.0, 0))])
def test_a_negative_is_the_rounded_negative_of_the_real_value(given: tuple[float, int], made: tuple[float, int]) -> None:
    tensors = tuple(
        TfliteTensor(name, (256,), "INT8", (scale,), (zero,), 0, False, b"") for name, (scale, zero) in (("x", given), ("y", made))
    )
    operator = TfliteOperator("NEG", "", (0,), (1,))
    model = TfliteModel("", tensors, (operator,), (0,), (1,), {})
    assert is_defined(model, operator)
    for value, output in zip(range(-128, 128), defined(model, operator, np.arange(-128, 128).astype(np.int8)).tolist(), strict=True):
        real = Fraction(-(value - given[1])) * Fraction(given[0]) / Fraction(made[0])
        nearest = floor(abs(real) + Fraction(1, 2)) * (1 if real > 0 else -1)
        assert output == max(-128, min(127, nearest + made[1]))
