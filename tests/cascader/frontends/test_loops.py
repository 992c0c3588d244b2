"""Loops: runs of alike moves as few kernels, which move the same bytes."""

from __future__ import annotations

import pytest
from cascades import outputs
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.network.overlaps import byte_numbers
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import MANY_SPARED, Legalised, legalised
from cascader.frontends.vela.moves import merged
from npu_model.accelerator import DEFAULT_ACCELERATOR
from npu_model.program import (
    Activation,
    ActivationKind,
    DataType,
    FeatureMap,
    KernelOperation,
    Layout,
    OperationKind,
    PoolKind,
    Shram,
    Strides,
    Tiles,
)
from npu_model.shapes import Shape3D
from npu_testbed.models.sources import load_model
from validation.builder import NetworkBuilder

BYTE = DataType(8, signed=True)


def a_map(shape: Shape3D, base: int, y: int, x: int) -> FeatureMap:
    return FeatureMap(1, shape, BYTE, Layout.NHWC, Tiles.single(shape, base), Strides(y, x, 1))


def move(shape: Shape3D, read: tuple[int, int, int], written: tuple[int, int, int]) -> KernelOperation:
    """A pool of 1x1 from one place to another; places are base, stride of rows and stride of columns."""
    return KernelOperation(
        OperationKind.POOL,
        a_map(shape, *read),
        a_map(shape, *written),
        Shape3D(2, 2, 8),
        Shram(6, 14),
        Activation(ActivationKind.NONE, -128, 127),
        pool=PoolKind.AVERAGE,
    )


def moved(operations: list[KernelOperation], memory: bytes) -> bytes:
    """The memory after the moves, each element from its place to its place."""
    found = bytearray(memory)
    for operation in operations:
        values = [found[place] for place in byte_numbers(operation.ifm)]
        for place, value in zip(byte_numbers(operation.ofm), values, strict=True):
            found[place] = value
    return bytes(found)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(1, 4),
    st.tuples(*(st.integers(-4, 12) for _ in range(6))),
    st.integers(0, 40),
)
def test_merged_loops_move_the_bytes_that_their_kernels_move(
    count: int, height: int, width: int, strides: tuple[int, ...], distance: int
) -> None:
    steps_in, steps_out = strides[:3], strides[3:]
    shape = Shape3D(height, width, 1)
    if min(*steps_in[1:], *steps_out[1:]) < 1:
        return
    run = [move(shape, (50 + n * steps_in[0], *steps_in[1:]), (50 + distance + n * steps_out[0], *steps_out[1:])) for n in range(count)]
    fewer = [operation for _, operations in merged(run) for operation in operations]
    assert len(fewer) <= count
    memory = bytes(range(256))
    assert moved(fewer, memory) == moved(run, memory)


def test_a_transposition_of_pixels_is_a_kernel_a_column() -> None:
    run = [move(Shape3D(2, 24, 1), (48 * n, 24, 1), (8000 + 48 * n, 1, 2)) for n in range(100)]
    [(found, operations)] = merged(run)
    assert found == range(100)
    assert [operation.ofm.shape for operation in operations] == [Shape3D(100, 24, 1)] * 2
    assert [operation.ofm.strides for operation in operations] == [Strides(48, 2, 1)] * 2


def test_moves_that_read_what_others_of_the_run_write_stay_as_they_are() -> None:
    run = [move(Shape3D(1, 4, 1), (4 * n, 4, 1), (4 * n + 4, 4, 1)) for n in range(10)]
    assert [len(operations) for _, operations in merged(run)] == [10]


def test_moves_of_different_scaling_are_not_one_loop() -> None:
    run = [move(Shape3D(1, 4, 1), (4 * n, 4, 1), (400 + 4 * n, 4, 1)) for n in range(10)]
    changed = [replace(operation, activation=Activation(ActivationKind.NONE, 0, 127)) for operation in run[5:]]
    assert [len(operations) for _, operations in merged([*run[:5], *changed])] == [1, 1]


def shuffle(size: int) -> Legalised:
    """Convolutions of 8 channels around a shuffle of an image of ``size`` by ``size`` pixels."""
    net = NetworkBuilder("shuffle")
    x = net.conv2d(net.input((1, size, size, 4), "image"), 8, name="before")
    x = net.transpose(net.reshape(x, (1, size, size, 2, 4)), (0, 1, 2, 4, 3))
    return legalised(net.finish([net.conv2d(net.reshape(x, (1, size, size, 8)), 4, name="after")]), DEFAULT_ACCELERATOR, ())


@pytest.mark.parametrize("size", [8, 28])
def test_a_network_of_merged_loops_computes_the_same(size: int) -> None:
    found = shuffle(size)
    plain, fewer = (found.network(merge=merge) for merge in (False, True))
    assert len(plain.kernels) - len(fewer.kernels) == found.spared == size * size - 2
    made = [lower(schedule_layer_by_layer(network, DEFAULT_ACCELERATOR)) for network in (plain, fewer)]
    assert list(outputs(made[0]).values()) == list(outputs(made[1]).values())


def test_a_network_of_very_many_kernels_is_taken_with_its_loops_merged() -> None:
    many, few = shuffle(28), shuffle(8)
    assert few.spared <= MANY_SPARED < many.spared
    assert len(many.network().kernels) == len(many.network(merge=True).kernels)
    assert len(few.network().kernels) > len(few.network(merge=True).kernels)


def test_merged_loops_keep_the_layers_name() -> None:
    found = legalised(load_model("portfolio:shufflenet").data, DEFAULT_ACCELERATOR, ())
    layers = {kernel.layer for kernel in found.network(merge=True).kernels.values()}
    assert layers == {kernel.layer for kernel in found.network(merge=False).kernels.values()} - {""}
