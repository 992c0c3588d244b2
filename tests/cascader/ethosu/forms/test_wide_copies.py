"""Copies of bytes on wide elements: the same bytes in fewer cycles, and only where a kernel changes no value."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from msgspec.structs import replace
from scheduling import DEFAULT

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.wide_copies import is_copy, wide_copies, with_wide_copies
from cascader.ethosu.forms.workbench import kernel_cycles
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import import_network
from cascader.frontends.vela.arena_copies import copy_kernel
from npu_model.accelerator import accelerator
from npu_model.program import (
    DataType,
    ElementwiseKind,
    FeatureMap,
    Kernel,
    KernelOperation,
    Layout,
    OperationKind,
    Rounding,
    Scale,
    Strides,
    Tiles,
    Upscale,
)
from npu_model.shapes import Shape3D
from npu_model.timing import DEFAULT_TIMING
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim.functional import run
from validation.builder import NetworkBuilder

pytestmark = pytest.mark.law

INT8 = DataType(8, signed=True)
SOURCES = Sources.staged(load_timing_adapter(DEFAULT_TIMING_ADAPTER), DEFAULT_TIMING)


def model(shape: tuple[int, int, int]) -> bytes:
    """A convolution whose result is an output in its own shape and in another one, and is read again."""
    net = NetworkBuilder("reshaped")
    x = net.conv2d(net.input((1, *shape), "image"), shape[2], activation="RELU")
    return net.finish([x, net.conv2d(x, 8), net.reshape(x, (1, shape[0] * shape[1], shape[2]))])


@cache
def plain(device: str = DEFAULT, shape: tuple[int, int, int] = (24, 20, 16)) -> Network:
    return import_network(model(shape), device)


def wide(device: str = DEFAULT, shape: tuple[int, int, int] = (24, 20, 16)) -> Network:
    return with_wide_copies(plain(device, shape), accelerator(device), SOURCES)


def copies(network: Network) -> dict[str, KernelOperation]:
    """The network's kernels that are copies before the rewrite."""
    return {name: network.kernels[name].operation for name, kernel in plain().kernels.items() if is_copy(kernel.operation)}


def test_a_tensor_in_another_shape_is_copied_in_a_third_of_the_cycles() -> None:
    (name,) = copies(plain())
    before, after = (kernel_cycles({name: net.kernels[name]}, accelerator(DEFAULT), SOURCES)[name] for net in (plain(), wide()))
    assert 3 * after < before


@pytest.mark.parametrize(
    ("device", "kind", "bits"),
    [
        ("ethos-u55-32", ElementwiseKind.SHL, 32),
        ("ethos-u55-64", ElementwiseKind.SHL, 32),
        ("ethos-u55-128", ElementwiseKind.MIN, 16),
        ("ethos-u55-256", ElementwiseKind.MIN, 16),
    ],
)
def test_few_elementwise_units_copy_elements_of_32_bits_and_more_of_them_those_of_16(device: str, kind: ElementwiseKind, bits: int) -> None:
    (name,) = (name for name, kernel in plain(device).kernels.items() if is_copy(kernel.operation))
    found = wide(device).kernels[name].operation
    assert (found.elementwise, found.ofm.dtype.bits) == (kind, bits)


@pytest.mark.parametrize("device", ["ethos-u55-32", "ethos-u55-128"])
@pytest.mark.parametrize("shape", [(24, 20, 16), (7, 5, 4), (6, 2, 3)], ids=str)
def test_a_network_with_wide_copies_computes_the_same(device: str, shape: tuple[int, int, int]) -> None:
    image = np.random.default_rng(3).integers(-128, 128, (1, *shape), dtype=np.int8)
    networks = (plain(device, shape), wide(device, shape))
    expected, found = (list(run(lower(schedule_layer_by_layer(net, device)), [image]).values()) for net in networks)
    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


@pytest.mark.parametrize(("shape", "kept"), [((2, 2, 4), True), ((2, 2, 8), True), ((4, 4, 4), False)], ids=str)
def test_a_copy_that_gains_less_than_a_quarter_stays(shape: tuple[int, int, int], kept: bool) -> None:  # noqa: FBT001  # a case
    for name, kernel in plain(DEFAULT, shape).kernels.items():
        if is_copy(kernel.operation):
            assert (wide(DEFAULT, shape).kernels[name] == kernel) is kept


def test_a_wide_copy_has_the_rows_of_the_pixels_that_it_copies() -> None:
    assert row_graph(wide()) == row_graph(plain())


def dense(shape: Shape3D, start: int = 0, row: int | None = None) -> FeatureMap:
    """Bytes of the arena as pixels, the rows ``row`` bytes apart."""
    strides = Strides(row or shape.width * shape.depth, shape.depth, 1)
    return FeatureMap(1, shape, INT8, Layout.NHWC, Tiles.single(shape, start), strides)


def copy(source: FeatureMap) -> KernelOperation:
    return copy_kernel(source, 4096, accelerator(DEFAULT))


def bits_of(operation: KernelOperation) -> list[int]:
    return [other.ofm.dtype.bits for other in wide_copies(operation)]


@pytest.mark.parametrize(
    ("source", "bits"),
    [
        (dense(Shape3D(4, 6, 8)), [16, 32]),
        (dense(Shape3D(4, 6, 8), row=64), [16, 32]),
        (dense(Shape3D(4, 5, 2)), [16]),
        (dense(Shape3D(4, 6, 8), start=2), [16]),
        (dense(Shape3D(4, 6, 8), start=1), []),
        (dense(Shape3D(4, 5, 3)), []),
        (dense(Shape3D(4, 6, 8), row=49), []),
        (replace(dense(Shape3D(4, 6, 8)), strides=Strides(96, 16, 1)), []),
    ],
)
def test_rows_begin_and_end_at_a_wide_element_and_have_no_gaps(source: FeatureMap, bits: list[int]) -> None:
    found = copy(source)
    assert bits_of(found) == bits
    for other in wide_copies(found):
        assert (other.reads(), other.writes()) == (found.reads(), found.writes())


def bricks(channels: int) -> FeatureMap:
    """The first 16 channels of a tensor in bricks."""
    strides = Strides(6 * channels, 16, 6 * 16)
    shape = Shape3D(4, 6, 16)
    return FeatureMap(1, shape, INT8, Layout.NHCWB16, Tiles.single(shape, 0), strides)


def test_one_of_several_bricks_stays_a_brick_as_its_tensor_may_yet_be_stored_in_another_way() -> None:
    assert bits_of(copy(bricks(16))) == [16, 32]
    assert bits_of(copy(bricks(32))) == []


PLAIN = copy(dense(Shape3D(4, 6, 8)))


@pytest.mark.parametrize(
    "changes",
    [
        {"ofm": replace(PLAIN.ofm, zero_point=1)},
        {"ofm": replace(PLAIN.ofm, dtype=DataType(8, signed=False))},
        {"activation": replace(PLAIN.activation, minimum=0)},
        {"ofm_scale": Scale((1 << 30) + (1 << 24), 30)},
        {"rounding": Rounding.TRUNCATE},
        {"kernel": Kernel(width=2)},
        {"upscale": Upscale.NEAREST},
        {"kind": OperationKind.DEPTHWISE},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_kernel_that_changes_a_value_is_no_copy(changes: dict[str, object]) -> None:
    assert is_copy(PLAIN)
    assert not is_copy(PLAIN.having(**changes))
    assert not bits_of(PLAIN.having(**changes))
