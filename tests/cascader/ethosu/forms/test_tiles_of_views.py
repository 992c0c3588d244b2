"""Tiles through views: columns of reshaped, interleaved and bordered maps, and of upscaled ones; the bytes are the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from cascades import require_same_bytes
from few_examples import few_cases
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from scheduling import DEFAULT

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.column_spans import Tiling, grid_of, segment
from cascader.ethosu.forms.layouts import dense_layouts
from cascader.ethosu.forms.phases import in_phases
from cascader.ethosu.forms.row_shapes import in_row_shapes
from cascader.ethosu.forms.tiles import tiled
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.overlaps import byte_numbers
from cascader.frontends.vela import import_network
from cascader.graph.cascader_graph import Tensor, TensorKind
from npu_model.accelerator import accelerator
from npu_model.program import DataType, FeatureMap, Layout, OperationKind, Strides, Tiles, Upscale
from npu_model.shapes import Shape3D, ceil_div
from npu_model.timing import DEFAULT_TIMING
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from validation.builder import NetworkBuilder, TensorHandle

pytestmark = pytest.mark.law

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
SOURCES = Sources.staged(SYSTEM, DEFAULT_TIMING)
DEVICE = accelerator(DEFAULT)


def enlarged(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    """An image of twice the size, read by a window that has no whole pair of columns before it."""
    return net.conv2d(net.conv2d(net.resize_nearest(net.conv2d(x, 8)), 12, (3, 4)), 8, (5, 5))


def transposed(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    """Transposed convolutions: windows over columns with zeros between them."""
    x = net.transpose_conv(net.conv2d(x, 8, strides=(2, 2), activation="RELU"), 12, activation="RELU")
    return net.conv2d(net.transpose_conv(x, 8, (2, 2)), 4)


def bordered(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    """Real zeros around an image: strips, of which a tile in the middle has no left and right one."""
    return net.conv2d(net.pad(net.conv2d(x, 16, activation="RELU"), 1, 2, 3, 2), 8, padding="VALID")


def side_by_side(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    """Columns of two images beside each other, of which some are then cut out and every other one read."""
    x = net.concat([net.conv2d(x, 16, activation="RELU6"), net.conv2d(x, 16, (5, 5), activation="RELU6")], 2)
    x = net.slice(net.conv2d(x, 8), (0, 0, 7, 0), (1, x.shape[1], 62, 8))
    return net.conv2d(net.strided_slice(x, (0, 0, 1, 0), (1, x.shape[1], 62, 8), (1, 1, 2, 1)), 8)


LAYERS: dict[str, Callable[[NetworkBuilder, TensorHandle], TensorHandle]] = {
    "enlarged": enlarged,
    "transposed": transposed,
    "bordered": bordered,
    "side_by_side": side_by_side,
}


@cache
def plain(name: str, kind: str = "int8") -> Network:
    net = NetworkBuilder("tiles", kind)
    return import_network(net.finish([LAYERS[name](net, net.input((1, 18, 38, 3), "image"))]), DEFAULT)


def deep_sum() -> Network:
    """A sum as compilers run it: four dense pixels of 4 channels as one of 16."""
    net = NetworkBuilder("sum")
    x = net.conv2d(net.input((1, 18, 40, 3), "image"), 4)
    x = net.add(x, net.conv2d(net.conv2d(x, 8, activation="RELU"), 4))
    return in_row_shapes(dense_layouts(import_network(net.finish([net.conv2d(x, 8, (5, 5))]), DEFAULT), 64), DEVICE)


def whole(network: Network, count: int) -> Network:
    """The whole network in so many tiles."""
    cut = segment(network, 0, len(network.graph.parts) - 1)
    assert cut is not None
    made = tiled(network, cut, Tiling(count), DEVICE, SOURCES)
    assert made is not None
    assert made.macs == cut.macs(network, Tiling(count))
    return made


@pytest.mark.parametrize(("name", "kind", "count"), few_cases(list(LAYERS), ["int8", "int16"], [2, 3, 5]))
def test_tiles_through_views_compute_the_same(name: str, kind: str, count: int) -> None:
    require_same_bytes(plain(name, kind), whole(plain(name, kind), count), SYSTEM)


def test_tiles_of_a_transposed_convolution_begin_with_padding_or_with_an_element() -> None:
    kernels = [one.operation for one in whole(plain("transposed"), 5).kernels.values() if one.operation.upscale is Upscale.ZEROS]
    assert {kernel.padding.left for kernel in kernels} == {0, 1, 2}
    assert {kernel.padding.left for kernel in kernels[2:]} == {0}


@pytest.mark.parametrize("count", [2, 3])
def test_phases_of_transposed_convolutions_are_cut_where_their_pairs_of_columns_part(count: int) -> None:
    network = in_phases(plain("transposed"), DEVICE, SOURCES)
    assert len(network.kernels) > len(plain("transposed").kernels)
    require_same_bytes(plain("transposed"), whole(network, count), SYSTEM)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_sum_of_four_pixels_as_one_is_cut_between_these(count: int) -> None:
    network = deep_sum()
    made = whole(network, count)
    require_same_bytes(network, made, SYSTEM)
    assert {one.operation.ofm.shape.depth for one in network.kernels.values() if one.operation.kind is OperationKind.ELEMENTWISE} == {16}
    widths = [one.operation.ofm.shape.width for one in made.kernels.values() if one.operation.kind is OperationKind.ELEMENTWISE]
    assert len(widths) == count
    assert sum(widths) < 10 + count * 2


def test_strips_at_the_sides_are_made_by_the_tiles_at_the_sides_alone() -> None:
    network = plain("bordered")
    assert len(whole(network, 5).kernels) < 5 * len(network.kernels)


@given(st.data())
def test_columns_of_a_grid_are_those_whose_bytes_meet(data: st.DataObject) -> None:
    """Exactly those of a map's columns are named that share bytes with some columns of the tensor, and the other way round."""
    bricks, height = data.draw(st.booleans()), data.draw(st.integers(1, 3))
    dtype = DataType(data.draw(st.sampled_from([8, 16])), signed=True)
    unit = 16 * dtype.bytes if bricks else data.draw(st.integers(1, 4)) * dtype.bytes
    width = data.draw(st.integers(2, 12))
    line = width * unit
    step = 1 if bricks else data.draw(st.integers(1, 3))
    first = data.draw(st.integers(0, width - 1))
    within = 0 if bricks else data.draw(st.integers(0, unit // dtype.bytes - 1)) * dtype.bytes
    depth = data.draw(st.integers(1, 16 if bricks else max(1, step * unit // dtype.bytes)))
    reach = unit if bricks else within + depth * dtype.bytes
    room = (line - first * unit - reach) // (step * unit) + 1
    assume(room >= 1)
    shape = Shape3D(height, data.draw(st.integers(1, room)), depth)
    strides = Strides(line, unit, line) if bricks else Strides(line, step * unit, dtype.bytes)
    layout = Layout.NHCWB16 if bricks else Layout.NHWC
    seen = FeatureMap(1, shape, dtype, layout, Tiles.single(shape, first * unit + within), strides)
    every = Shape3D(height, width, 16 if bricks else unit // dtype.bytes)
    all_of_it = FeatureMap(1, every, dtype, layout, Tiles.single(every, 0), replace(strides, x=unit))
    tensor = Tensor.dense("tensor", TensorKind.INTERMEDIATE, (height * line,))
    grid = grid_of(tensor, (all_of_it, seen))
    assert grid is not None
    assert grid.line == line
    assert all_of_it.strides.x % grid.unit == 0
    finer = unit // grid.unit

    def bytes_of(feature_map: FeatureMap, column: int) -> set[int]:
        return set(byte_numbers(feature_map.part((0, height), (column, column + 1))).tolist())

    low = data.draw(st.integers(0, width - 1))
    high = data.draw(st.integers(low + 1, width))
    wanted = set().union(*(bytes_of(all_of_it, column) for column in range(low, high)))
    meeting = [column for column in range(shape.width) if bytes_of(seen, column) & wanted]
    begin, end = grid.columns(seen, (low * finer, high * finer))
    assert list(range(begin, end)) == meeting
    if meeting:
        touched = [column for column in range(width) if any(bytes_of(all_of_it, column) & bytes_of(seen, own) for own in meeting)]
        span = grid.span(seen, (begin, end))
        assert (span[0] // finer, ceil_div(span[1], finer)) == (touched[0], touched[-1] + 1)
        held = grid.moved(seen, (begin, end), (touched[0] * finer, (touched[-1] + 1) * finer))
        size = grid.size(tensor.size, (touched[-1] + 1 - touched[0]) * finer)
        assert np.max(byte_numbers(held)) < size
        assert len(byte_numbers(held)) == sum(len(bytes_of(seen, own)) for own in meeting)
