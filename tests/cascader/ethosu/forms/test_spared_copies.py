"""Copies that a network can do without: one tensor for two of the same elements, in the same bytes, and only where nobody needs both."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from msgspec.structs import replace
from scheduling import DEFAULT

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.spared_copies import Move, without_copies
from cascader.ethosu.forms.wide_copies import is_copy
from cascader.ethosu.forms.workbench import kernel_cycles
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import import_network
from cascader.graph.cascader_graph import TensorKind
from npu_model.accelerator import accelerator
from npu_model.program import DataType, FeatureMap, Layout, Strides, Tiles
from npu_model.shapes import Shape3D
from npu_model.timing import DEFAULT_TIMING
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim.functional import run
from validation.builder import NetworkBuilder, TensorHandle

pytestmark = pytest.mark.law

INT8 = DataType(8, signed=True)
SOURCES = Sources.staged(load_timing_adapter(DEFAULT_TIMING_ADAPTER), DEFAULT_TIMING)
SHAPE = (1, 12, 10, 16)
Draw = Callable[[NetworkBuilder], list[TensorHandle]]


def read_on(net: NetworkBuilder) -> list[TensorHandle]:
    """A map that is an output in another shape and is read by a convolution."""
    x = net.conv2d(net.input(SHAPE, "image"), 16, activation="RELU6")
    return [net.reshape(x, (1, 120, 16)), net.conv2d(x, 8)]


def transposed(net: NetworkBuilder) -> list[TensorHandle]:
    """A map whose height and width are exchanged between two convolutions."""
    x = net.conv2d(net.input(SHAPE, "image"), 16, activation="RELU6")
    return [net.conv2d(net.transpose(x, (0, 2, 1, 3)), 8)]


def both_shapes(net: NetworkBuilder) -> list[TensorHandle]:
    """A map that is an output in two shapes."""
    x = net.conv2d(net.input(SHAPE, "image"), 16, activation="RELU6")
    return [x, net.conv2d(x, 8), net.reshape(x, (1, 120, 16))]


def input_again(net: NetworkBuilder) -> list[TensorHandle]:
    """An image that is an output in another shape."""
    image = net.input(SHAPE, "image")
    return [net.conv2d(image, 8), net.reshape(image, (1, 120, 16))]


@cache
def network(draw: Draw) -> Network:
    net = NetworkBuilder(draw.__name__)
    return import_network(net.finish(draw(net)), DEFAULT)


def copies(net: Network) -> int:
    return sum(is_copy(kernel.operation) for kernel in net.kernels.values())


def results(net: Network) -> list[np.ndarray]:
    image = np.random.default_rng(5).integers(-128, 128, SHAPE, dtype=np.int8)
    return list(run(lower(schedule_layer_by_layer(net, DEFAULT)), [image]).values())


@pytest.mark.parametrize("draw", [read_on, transposed])
def test_a_tensor_and_its_copy_are_one_of_the_same_bytes(draw: Draw) -> None:
    before, after = network(draw), without_copies(network(draw))
    assert (copies(before), copies(after)) == (1, 0)
    assert len(after.graph.tensors) == len(before.graph.tensors) - 1
    assert all(np.array_equal(a, b) for a, b in zip(results(before), results(after), strict=True))


@pytest.mark.parametrize("draw", [read_on, transposed])
def test_without_a_copy_the_kernels_take_fewer_cycles(draw: Draw) -> None:
    nets = network(draw), without_copies(network(draw))
    before, after = (sum(kernel_cycles(net.kernels, accelerator(DEFAULT), SOURCES).values()) for net in nets)
    assert after < before


@pytest.mark.parametrize("draw", [both_shapes, input_again])
def test_an_application_finds_each_input_and_output_in_bytes_of_its_own(draw: Draw) -> None:
    net = without_copies(network(draw))
    ports = [port.tensor for port in (*net.inputs, *net.outputs)]
    assert copies(net) == 1
    assert len(set(ports)) == len(ports)


def test_a_transposed_tensor_is_left_a_copy_where_only_shifts_are_asked_for() -> None:
    assert copies(without_copies(network(transposed), shifted=True)) == 1
    assert copies(without_copies(network(read_on), shifted=True)) == 0


def test_what_is_written_across_its_rows_is_whole_from_the_first_write_on() -> None:
    rows = row_graph(without_copies(network(transposed)))
    (writer, *_), tensors = rows.parts, rows.tensors
    assert writer.maps[0].step == 0
    assert tensors[writer.outputs[0]].kind is TensorKind.INTERMEDIATE


def test_a_network_that_keeps_state_keeps_its_copies() -> None:
    """A variable holds last inference's bytes until it is written, which its copy does not."""
    net = network(read_on)
    kept = {kernel.ofm for kernel in net.kernels.values() if is_copy(kernel.operation)}
    tensors = tuple(replace(t, kind=TensorKind.VARIABLE) if t.name in kept else t for t in net.graph.tensors)
    state = replace(net, graph=replace(net.graph, tensors=tensors))
    assert without_copies(state) == state


def test_a_network_without_copies_stays_itself() -> None:
    once = without_copies(network(read_on))
    assert without_copies(once) is once


def pixels(shape: Shape3D, start: int = 0, row: int | None = None) -> FeatureMap:
    """Elements as NHWC, the rows ``row`` bytes apart."""
    strides = Strides(row or shape.width * shape.depth, shape.depth, 1)
    return FeatureMap(1, shape, INT8, Layout.NHWC, Tiles.single(shape, start), strides)


def bricks(shape: Shape3D, tensor: Shape3D, channel: int = 0) -> FeatureMap:
    """Some channels from ``channel`` on of a tensor in bricks."""
    plane = 16 * tensor.width
    start = channel // 16 * plane + channel % 16
    return FeatureMap(1, shape, INT8, Layout.NHCWB16, Tiles.single(shape, start), Strides(plane * -(-tensor.depth // 16), 16, plane))


WHOLE = Shape3D(4, 6, 32)
TO_PIXELS = Move(bricks(WHOLE, WHOLE), pixels(WHOLE), 4 * 6 * 32)
TO_BRICKS = Move(pixels(WHOLE), bricks(WHOLE, WHOLE), 4 * 6 * 32)


def test_the_second_brick_of_a_tensor_becomes_the_upper_channels_of_its_pixels() -> None:
    half = Shape3D(4, 6, 16)
    found = TO_PIXELS.feature_map(bricks(half, WHOLE, 16))
    assert found is not None
    assert [found.address(*place) for place in ((0, 0, 0), (0, 1, 3), (2, 5, 15))] == [16, 32 + 19, (2 * 6 + 5) * 32 + 31]


def test_channels_that_begin_inside_a_brick_have_no_map_there() -> None:
    """A base of bricks is a multiple of 16 bytes."""
    few = replace(pixels(Shape3D(4, 6, 8), row=192), strides=Strides(192, 32, 1))
    inside = replace(few, tiles=Tiles.single(few.shape, 8))
    assert TO_BRICKS.feature_map(few) is not None
    assert TO_BRICKS.feature_map(inside) is None


def test_a_map_of_other_rows_has_no_like_where_elements_change_their_order() -> None:
    assert TO_BRICKS.feature_map(pixels(Shape3D(2, 6, 32))) is not None
    assert TO_BRICKS.feature_map(pixels(Shape3D(8, 3, 32))) is None


def test_a_map_of_other_rows_is_moved_where_all_bytes_move_together() -> None:
    shifted = Move(pixels(WHOLE), pixels(WHOLE, 64), WHOLE.elements)
    found = shifted.feature_map(pixels(Shape3D(2, 6, 64)))
    assert shifted.shifts
    assert not TO_BRICKS.shifts
    assert found == pixels(Shape3D(2, 6, 64), 64)


def test_bytes_that_are_not_copied_have_no_place() -> None:
    part = Move(pixels(Shape3D(2, 6, 32)), pixels(Shape3D(2, 6, 32)), WHOLE.elements)
    assert part.feature_map(pixels(Shape3D(2, 6, 32))) is not None
    assert part.feature_map(pixels(WHOLE)) is None
