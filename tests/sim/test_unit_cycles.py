"""Operators that no measured network has: the replay's cycles beside Vela's estimate, and the reason of every outlier.

Vela's estimate is no measurement. What agrees with it follows Arm's published rates; what does not is named here with its cause.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT (extra numerics) is not installed, whose schema writes the networks")

from unit_networks import Tensor, unit_network

from cascader.frontends.vela import CompilerOptions, compile_network
from npu_model.compiled.network import read_compiled
from npu_model.memory.timing_adapter import profile
from npu_model.program import KernelOperation, PoolKind, Upscale
from sim import NetworkReplay, replay_network
from sim.events import Unit

SIZE, CHANNELS = 32, 32
IMAGE = (1, SIZE, SIZE, CHANNELS)


def convolution(
    kernel: tuple[int, int], channels: tuple[int, int] = (32, 32), stride: int = 1, dilation: int = 1, dtype: str = "int8", size: int = SIZE
) -> bytes:
    ifm, ofm = channels
    shape, out = (ofm, *kernel, ifm), -(-size // stride)
    weights = np.random.default_rng(0).integers(-127, 128, shape)
    bias = Tensor((ofm,), "int64" if dtype == "int16" else "int32", scale=(0.0005,) * ofm, data=np.zeros(ofm))
    return unit_network(
        "CONV_2D",
        [Tensor((1, size, size, ifm), dtype), Tensor(shape, scale=(0.01,) * ofm, data=weights), bias],
        Tensor((1, out, out, ofm), dtype),
        "Conv2DOptions", strideW=stride, strideH=stride, padding=0, dilationWFactor=dilation, dilationHFactor=dilation,
    )  # fmt: skip


def depthwise(kernel: tuple[int, int], dilation: int = 1, dtype: str = "int8") -> bytes:
    shape = (1, *kernel, CHANNELS)
    weights = np.random.default_rng(0).integers(-127, 128, shape)
    bias = Tensor((CHANNELS,), "int64" if dtype == "int16" else "int32", scale=(0.0005,) * CHANNELS, data=np.zeros(CHANNELS))
    return unit_network(
        "DEPTHWISE_CONV_2D",
        [Tensor(IMAGE, dtype), Tensor(shape, scale=(0.01,) * CHANNELS, data=weights, axis=3), bias],
        Tensor(IMAGE, dtype),
        "DepthwiseConv2DOptions", strideW=1, strideH=1, padding=0, dilationWFactor=dilation, dilationHFactor=dilation, depthMultiplier=1,
    )  # fmt: skip


def pooling(code: str, window: int, stride: int = 1, dtype: str = "int8") -> bytes:
    out = SIZE // stride
    return unit_network(
        code, [Tensor(IMAGE, dtype)], Tensor((1, out, out, CHANNELS), dtype), "Pool2DOptions",
        filterHeight=window, filterWidth=window, strideH=stride, strideW=stride, padding=0,
    )  # fmt: skip


def elementwise(code: str, second: tuple[int, ...] = IMAGE, dtype: str = "int8") -> bytes:
    options = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}[code]
    return unit_network(code, [Tensor(IMAGE, dtype), Tensor(second, dtype)], Tensor(IMAGE, dtype, scale=0.09), options)


def activation(code: str, shape: tuple[int, ...] = IMAGE, options: str = "", **fields: Any) -> bytes:
    return unit_network(code, [Tensor(shape)], Tensor(shape, scale=1 / 256, zero_point=-128), options, **fields)


def fully_connected(ifm: int, ofm: int, dtype: str = "int8") -> bytes:
    weights = np.random.default_rng(0).integers(-127, 128, (ofm, ifm))
    bias = Tensor((ofm,), "int64" if dtype == "int16" else "int32", scale=0.0005, data=np.zeros(ofm))
    inputs = [Tensor((1, ifm), dtype), Tensor((ofm, ifm), scale=0.01, data=weights), bias]
    return unit_network("FULLY_CONNECTED", inputs, Tensor((1, ofm), dtype), "FullyConnectedOptions")


def transposed(kernel: int) -> bytes:
    weights = np.random.default_rng(0).integers(-127, 128, (16, kernel, kernel, 16))
    shape = Tensor((4,), "int32", data=np.array([1, SIZE, SIZE, 16]))
    inputs = [shape, Tensor(weights.shape, scale=(0.01,) * 16, data=weights), Tensor((1, 16, 16, 16))]
    return unit_network("TRANSPOSE_CONV", inputs, Tensor((1, SIZE, SIZE, 16)), "TransposeConvOptions", strideW=2, strideH=2, padding=0)


def resized(code: str, options: str, **fields: Any) -> bytes:
    inputs = [Tensor((1, 16, 16, 16)), Tensor((2,), "int32", data=np.array([SIZE, SIZE]))]
    return unit_network(code, inputs, Tensor((1, SIZE, SIZE, 16)), options, **fields)


NETWORKS = {
    "convolution 1x1": lambda: convolution((1, 1), (32, 64)),
    "convolution 3x3": lambda: convolution((3, 3)),
    "convolution 3x3, 3 channels": lambda: convolution((3, 3), (3, 32), stride=2, size=64),
    "convolution 3x3, dilation 2": lambda: convolution((3, 3), dilation=2),
    "convolution 7x7": lambda: convolution((7, 7), (16, 16)),
    "convolution 15x3": lambda: convolution((15, 3), (16, 16)),
    "convolution 3x3, 16 bits": lambda: convolution((3, 3), dtype="int16"),
    "depthwise 3x3": lambda: depthwise((3, 3)),
    "depthwise 9x9": lambda: depthwise((9, 9)),
    "depthwise 3x3, dilation 2": lambda: depthwise((3, 3), dilation=2),
    "depthwise 3x3, 16 bits": lambda: depthwise((3, 3), dtype="int16"),
    "average 2x2": lambda: pooling("AVERAGE_POOL_2D", 2, 2),
    "maximum 2x2": lambda: pooling("MAX_POOL_2D", 2, 2),
    "add": lambda: elementwise("ADD"),
    "multiply": lambda: elementwise("MUL"),
    "add, one channel vector": lambda: elementwise("ADD", (1, 1, 1, CHANNELS)),
    "add, one value": lambda: elementwise("ADD", (1, 1, 1, 1)),
    "add, 16 bits": lambda: elementwise("ADD", dtype="int16"),
    "logistic": lambda: activation("LOGISTIC"),
    "hard swish": lambda: activation("HARD_SWISH", options="HardSwishOptions"),
    "softmax": lambda: activation("SOFTMAX", (16, 100), "SoftmaxOptions", beta=1.0),
    "fully connected": lambda: fully_connected(256, 256),
    "fully connected, 16 bits": lambda: fully_connected(256, 256, "int16"),
    "transposed 2x2": lambda: transposed(2),
    "transposed 3x3": lambda: transposed(3),
    "nearest neighbour": lambda: resized("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
    "bilinear": lambda: resized("RESIZE_BILINEAR", "ResizeBilinearOptions"),
}

OUTLIERS = {
    "average 3x3": lambda: pooling("AVERAGE_POOL_2D", 3),
    "maximum 3x3, 16 bits": lambda: pooling("MAX_POOL_2D", 3, dtype="int16"),
    "bilinear, half pixel": lambda: resized("RESIZE_BILINEAR", "ResizeBilinearOptions", halfPixelCenters=True),
}


@cache
def replayed(name: str, device: str = "ethos-u55-128", adapter: str = "u55_high_end") -> tuple[NetworkReplay, int]:
    """The replay, and the cycles that Vela estimates."""
    result = compile_network((NETWORKS | OUTLIERS)[name](), CompilerOptions(device))
    return replay_network(read_compiled(result.compiled), profile(adapter).memory_system()), round(result.summary.cycles_total)


def kernels(name: str) -> list[KernelOperation]:
    return [op for run in replayed(name)[0].replays for op in run.program.kernels]


def busy(name: str, unit: Unit, device: str = "ethos-u55-128") -> int:
    return sum(run.busy.get(unit, 0) for run in replayed(name, device)[0].replays)


@pytest.mark.parametrize("name", NETWORKS)
def test_an_operator_takes_about_the_cycles_that_vela_estimates(name: str) -> None:
    run, vela = replayed(name)
    assert 0.85 * vela < run.cycles < 1.25 * vela


@pytest.mark.parametrize("name", NETWORKS)
def test_no_operator_is_faster_than_its_units_and_its_multiplications(name: str) -> None:
    run, _ = replayed(name)
    macs = sum(op.macs for op in kernels(name))
    assert run.cycles >= macs / 128
    assert run.cycles >= max(busy(name, unit) for unit in (Unit.MAC, Unit.AO))


def test_a_large_pooling_window_takes_a_cycle_a_tap_where_vela_counts_four() -> None:
    run, vela = replayed("average 3x3")
    # Nine taps are fewer than the floor of 16; four times nine would be 36. The FVP's 25x5 pooling takes one a cycle.
    plane, deep = SIZE * SIZE // 2, CHANNELS // 8
    # Each block needs half a floor to fill.
    assert 0 < busy("average 3x3", Unit.MAC) - 16 * plane * deep <= 0.02 * 16 * plane * deep
    assert vela > 36 * plane * deep > 2 * run.cycles
    assert 0 < busy("maximum 3x3, 16 bits", Unit.MAC) - 18 * plane * deep <= 0.02 * 18 * plane * deep


def test_half_pixel_bilinear_resizing_writes_a_quarter_of_what_vela_counts_for_each_phase() -> None:
    run, vela = replayed("bilinear, half pixel")
    phases = [op for op in kernels("bilinear, half pixel") if op.pool is None]
    assert [(op.ofm.shape.height, op.ofm.shape.width) for op in phases] == [(16, 16)] * 4
    assert sum(op.ofm.shape.elements for op in phases) == SIZE * SIZE * 16
    assert run.cycles < 0.5 * vela


def test_a_look_up_takes_a_cycle_an_element_however_many_macs_there_are() -> None:
    for device, cycles in (("ethos-u55-32", 2), ("ethos-u55-64", 1), ("ethos-u55-128", 1), ("ethos-u55-256", 1)):
        assert busy("logistic", Unit.AO, device) == cycles * SIZE * SIZE * CHANNELS
    # Vela counts no table where it makes an operator into one, which shows with 256 MACs.
    run, vela = replayed("logistic", "ethos-u55-256")
    assert 1.8 * vela < run.cycles < 2.2 * vela


def test_sixteen_bits_halve_the_rate_of_the_macs() -> None:
    assert busy("convolution 3x3, 16 bits", Unit.MAC) == 2 * busy("convolution 3x3", Unit.MAC)
    # The delays between depthwise kernel steps are not twice as long.
    wide, narrow = busy("depthwise 3x3, 16 bits", Unit.MAC), busy("depthwise 3x3", Unit.MAC)
    assert wide == pytest.approx(2 * narrow, rel=0.05)


def test_a_step_of_16_bits_takes_arms_floor_though_its_weights_are_decoded_sooner() -> None:
    # 16 IFM channels a step, 8 OFM channels of a ublock: 32 cycles, where 128 weights would take 16 turns.
    assert busy("fully connected, 16 bits", Unit.MAC) == 32 * (256 // 16) * (256 // 8)
    eight = busy("fully connected", Unit.MAC)
    assert eight == pytest.approx(256 * 256 / 8, rel=0.02)


def test_upscaled_input_is_read_once_and_not_as_large_as_it_becomes() -> None:
    for name, upscale in (("nearest neighbour", Upscale.NEAREST), ("transposed 2x2", Upscale.ZEROS)):
        (op,) = kernels(name)
        assert op.upscale is upscale
        run = replayed(name)[0]
        block_rows = -(-SIZE // op.block.height) * -(-SIZE // op.block.width)
        halo = (op.block.height // 2 + 2) * (op.block.width // 2 + 2)
        assert 16 * 16 * 16 / 8 <= run.beats.axi0_read <= block_rows * halo * 16 / 8 + 512


def test_a_broadcast_operand_is_hardly_read() -> None:
    whole, vector, value = (replayed(name)[0].beats.axi0_read for name in ("add", "add, one channel vector", "add, one value"))
    assert whole > 1.9 * vector
    assert value <= vector


def test_a_chain_of_tiny_kernels_is_bound_by_latency_and_not_by_rates() -> None:
    memory, none = replayed("softmax")[0].cycles, replayed("softmax", adapter="off")[0].cycles
    sums = [op for op in kernels("softmax") if op.pool is PoolKind.REDUCE_SUM]
    assert len(sums) == 1
    assert memory > 1.3 * none
    assert none > 2 * busy("softmax", Unit.AO)
