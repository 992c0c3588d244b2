"""Streamed pools: pools over all rows of a map as sums or maxima of a few rows each, and the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from cascades import smallest
from scheduling import DEFAULT

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.average_factors import narrow_factor
from cascader.ethosu.forms.columns import column_stripes
from cascader.ethosu.forms.streamed_pools import with_quick_means, with_streamed_pools
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.network import Network
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import import_network
from npu_model.accelerator import accelerator
from npu_model.program import Kernel, KernelOperation, PoolKind, Rounding, Scale
from npu_model.timing import DEFAULT_TIMING
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim.functional import run
from sim.functional.rescale import rescale
from validation.builder import NetworkBuilder, TensorHandle

pytestmark = pytest.mark.law

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
SOURCES = Sources.staged(SYSTEM, DEFAULT_TIMING)

ODD, EVEN, SOUND, WIDE, TALL = (1, 21, 37, 3), (1, 14, 10, 3), (1, 1, 200, 2), (1, 6, 300, 2), (1, 90, 8, 2)
TYPES = ("int8", "uint8", "int16")


def average(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    return net.average_pool(x)


def mean(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    return net.mean(x, keep=True)


def mean_of_rows(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    return net.mean(x, (1,), keep=True)


def maximum(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    return net.max_pool(x, (x.shape[1], x.shape[2]), strides=(1, 1), padding="VALID")


POOLS = {"average": average, "mean": mean, "mean of rows": mean_of_rows, "maximum": maximum}
CASES = [
    *((name, kind, ODD) for name in POOLS for kind in TYPES),
    *((name, "int8", shape) for name in ("average", "mean", "maximum") for shape in (SOUND, WIDE, TALL)),
    *((name, "int16", SOUND) for name in ("average", "mean")),
    ("average", "int16", EVEN),
    ("mean", "uint8", WIDE),
]


@cache
def plain(pool: str, kind: str, shape: tuple[int, ...]) -> Network:
    """A convolution, the pool, and another convolution."""
    net = NetworkBuilder("pools", kind)
    x = net.conv2d(net.input(shape, "image"), 20, (min(3, shape[1]), 3), activation="RELU")
    return import_network(net.finish([net.conv2d(POOLS[pool](net, x), 8, (1, 1))]), DEFAULT)


@cache
def streamed(pool: str, kind: str, shape: tuple[int, ...]) -> Network:
    return with_streamed_pools(plain(pool, kind, shape), accelerator(DEFAULT), SOURCES)


def images(network: Network) -> list[np.ndarray]:
    """Some images: at random, and of the largest and smallest values, whose sums are the largest."""
    (port,) = network.inputs
    bits = np.dtype(str(port.dtype))
    least, most = np.iinfo(bits).min, np.iinfo(bits).max
    drawn = np.random.default_rng(7).integers(least, most + 1, port.shape).astype(bits)
    return [drawn, np.full(port.shape, most, bits), np.full(port.shape, least, bits)]


def outputs(schedule: Schedule, image: np.ndarray) -> list[np.ndarray]:
    return list(run(lower(schedule), [image]).values())


@pytest.mark.parametrize(("pool", "kind", "shape"), CASES)
def test_a_streamed_pool_computes_the_same_layer_by_layer_and_as_a_cascade(pool: str, kind: str, shape: tuple[int, ...]) -> None:
    before, after = plain(pool, kind, shape), streamed(pool, kind, shape)
    assert len(after.kernels) > len(before.kernels)
    least = smallest(column_stripes(after, 64), SYSTEM)
    check_schedule(least)
    for image in images(before):
        expected = outputs(schedule_layer_by_layer(before, DEFAULT), image)
        for schedule in (schedule_layer_by_layer(after, DEFAULT), least):
            assert all(np.array_equal(a, b) for a, b in zip(expected, outputs(schedule, image), strict=True))


@pytest.mark.parametrize(("pool", "kind", "shape"), CASES)
def test_a_cascade_through_a_streamed_pool_needs_fewer_bytes(pool: str, kind: str, shape: tuple[int, ...]) -> None:
    before, after = (
        Cascader(column_stripes(network, 64), DEFAULT, SYSTEM).smallest().memory
        for network in (plain(pool, kind, shape), streamed(pool, kind, shape))
    )
    assert after < before


@pytest.mark.parametrize("pool", [average, mean_of_rows])
def test_no_sum_leaves_16_bits(pool: object) -> None:
    """The windows of the first kernel are as large as the zero point allows, and no larger."""
    name = next(name for name, one in POOLS.items() if one is pool)
    for kind in ("int8", "uint8"):
        network = streamed(name, kind, ODD if name == "average" else TALL)
        for kernel in network.kernels.values():
            operation = kernel.operation
            if kernel.ofm.endswith("/streamed"):
                furthest = max(
                    operation.ifm.dtype.maximum - operation.ifm.zero_point, operation.ifm.zero_point - operation.ifm.dtype.minimum
                )
                assert furthest * operation.kernel.elements <= operation.ofm.dtype.maximum


def test_a_network_without_pools_over_all_rows_stays_itself() -> None:
    net = NetworkBuilder("none")
    x = net.average_pool(net.conv2d(net.input(ODD, "image"), 20), (3, 3), strides=(1, 1), padding="SAME")
    network = import_network(net.finish([x]), DEFAULT)
    assert with_streamed_pools(network, accelerator(DEFAULT), SOURCES) is network


def pooled(factor: Scale, count: int, rounding: Rounding = Rounding.NATURAL) -> KernelOperation:
    """An average of ``count`` 16-bit elements with a factor, from a row of them to one."""
    (kernel,) = [one for one in plain("average", "int16", EVEN).kernels.values() if one.operation.pool is PoolKind.AVERAGE]
    return kernel.operation.having(ofm_scale=factor, kernel=Kernel(width=count), rounding=rounding)


def vela_factor(count: int) -> Scale:
    """The factor of an average as Vela 5.2 computes it."""
    bits = (count - 1).bit_length()
    return Scale(((1 << 31 + bits) + (1 << bits)) // count, 31 + bits)


@pytest.mark.parametrize("count", [*range(2, 67), 125, 250, 777, 961, 3136, 16383])
def test_a_narrower_factor_gives_the_same_average_of_every_sum(count: int) -> None:
    own = vela_factor(count)
    factor = narrow_factor(pooled(own, count))
    assert factor is not None
    assert factor.scale < 1 << 31
    # Only sums near a half can tell two factors apart: all of those, and the ends.
    halves = (np.arange(-(1 << 15), 1 << 15, dtype=np.int64) * 2 + 1) * count // 2
    sums = np.clip(np.concatenate([halves + by for by in (-1, 0, 1)]), -(count << 15), count * ((1 << 15) - 1))
    before, after = (rescale(sums, one.scale, one.shift, Rounding.NATURAL) for one in (own, factor))
    assert np.array_equal(before, after)


@pytest.mark.parametrize("low", [-2, -1, 1, 3])
def test_a_factor_that_rounds_otherwise_has_no_narrower_one(low: int) -> None:
    """Odd factors that lie below 1 / count, or far above, do not round halves as half of the next even factor does."""
    own = vela_factor(6)
    other = Scale(own.scale + (low << 18) | 1, own.shift)
    assert narrow_factor(pooled(other, 6)) is None


def test_sums_of_over_32_bits_and_other_roundings_have_no_narrower_factor() -> None:
    assert narrow_factor(pooled(vela_factor(1 << 16), 1 << 16)) is None
    assert narrow_factor(pooled(vela_factor(6), 6, Rounding.DOUBLE)) is None


@pytest.mark.parametrize("pool", ["mean", "maximum"])
def test_a_mean_is_streamed_for_its_cycles_and_a_pool_is_not(pool: str) -> None:
    before = plain(pool, "int8", SOUND)
    quick = with_quick_means(before, accelerator(DEFAULT), SOURCES)
    assert quick.kernels == (streamed(pool, "int8", SOUND) if pool == "mean" else before).kernels


@pytest.mark.parametrize("pool", [average, mean])
def test_a_streamed_average_runs_on_both_cores_of_a_u65(pool: Callable[[NetworkBuilder, TensorHandle], TensorHandle]) -> None:
    """A convolution in place of a pool gets a stream for each core, and kernels without weights have one core."""
    both = "ethos-u65-512"
    net = NetworkBuilder("pools")
    x = net.conv2d(net.input((1, 25, 5, 8), "image"), 64, (3, 3), activation="RELU")
    before = import_network(net.finish([net.conv2d(pool(net, x), 8, (1, 1))]), both)
    after = with_streamed_pools(before, accelerator(both), SOURCES)
    assert len(after.kernels) > len(before.kernels)
    for kernel in after.kernels.values():
        assert kernel.operation.parallel_mode == (1 if kernel.operation.weights else 0)
        assert len(kernel.operation.weights) in (0, 2)
    (image, *_) = images(before)
    one, other = (outputs(schedule_layer_by_layer(network, both), image) for network in (before, after))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
