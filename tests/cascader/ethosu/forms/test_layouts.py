"""Dense layouts: which tensors leave their bricks, what that saves, and that the network stays the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_schedules import make_schedule
from msgspec.structs import replace
from row_graphs import schedule_groups
from scheduling import DEFAULT

from cascader.allocate.moving import allocate
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.block_choice import choose_block
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.brick_tensors import Bricks, Element, NhwcForm, first_element
from cascader.ethosu.forms.layouts import dense_layouts, denser_layouts, quick_layouts
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.network import ARENA, EthosuPart, Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import import_network
from cascader.graph.cascader_graph import TensorKind
from cascader.graph.row_graph import RowGraph
from cascader.plan.buffers import Buffers, storages
from cascader.plan.depth_first import DepthFirstScheduler, Group
from npu_model.accelerator import accelerator
from npu_model.program import BRICK, DataType, FeatureMap, Layout, Strides, Tiles
from npu_model.shapes import Shape3D
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim.functional import run
from validation.builder import NetworkBuilder

pytestmark = pytest.mark.law


@cache
def network() -> Network:
    """Tensors of 8, 24 and 32 channels, a residual sum of 24, and a concatenation of two of 8 channels."""
    net = NetworkBuilder("layouts")
    narrow = net.conv2d(net.input((1, 12, 10, 3), "image"), 8, activation="RELU6", name="narrow")
    x = net.depthwise(narrow, activation="RELU6", name="depthwise")
    wide = net.conv2d(x, 24, (1, 1), name="wide")
    x = net.add(wide, net.conv2d(wide, 24, name="beside"), name="sum")
    x = net.conv2d(x, 32, strides=(2, 2), activation="RELU6", name="full")
    left, right = (net.conv2d(x, 8, (1, 1), activation="RELU6", name=name) for name in ("left", "right"))
    return import_network(net.finish([net.conv2d(net.concat([left, right]), 16, name="last")]), DEFAULT)


def maps(net: Network) -> list[tuple[str, FeatureMap]]:
    """The tensors of the arena with every access to them."""
    found: list[tuple[str, FeatureMap]] = []
    for part in net.graph.parts:
        payload = part.payload
        assert isinstance(payload, EthosuPart)
        operation = payload.operation
        pairs = ((payload.ifm, operation.ifm), (payload.ifm2, operation.ifm2), (payload.ofm, operation.ofm))
        found += [(name, fm) for name, fm in pairs if name is not None and fm is not None and fm.region == ARENA]
    return found


def depths(net: Network, layout: Layout) -> set[int]:
    return {feature_map.shape.depth for _, feature_map in maps(net) if feature_map.layout is layout}


def changed(before: Network, after: Network) -> set[str]:
    return {a.name for a, b in zip(before.graph.tensors, after.graph.tensors, strict=True) if a != b}


@pytest.mark.parametrize(("largest", "dense"), [(0, set()), (15, {8}), (24, {8, 24}), (1000, {8, 24})])
def test_tensors_up_to_the_given_depth_that_do_not_fill_bricks_are_dense(largest: int, dense: set[int]) -> None:
    net = dense_layouts(network(), largest)
    names = changed(network(), net)
    assert {feature_map.shape.depth for name, feature_map in maps(net) if name in names} == dense
    assert all(feature_map.layout is Layout.NHWC for name, feature_map in maps(net) if name in names)


def test_a_dense_tensor_has_the_bytes_of_its_elements_and_a_brick_one_those_of_whole_bricks() -> None:
    net = dense_layouts(network(), 1000)
    shapes = dict(maps(net))
    for name in changed(network(), net):
        shape = shapes[name].shape
        assert net.graph.tensor(name).size == shape.height * shape.width * shape.depth
        assert network().graph.tensor(name).size == shape.height * shape.width * -(-shape.depth // 16) * 16


def test_a_tensor_written_in_pieces_or_read_by_the_user_keeps_its_layout() -> None:
    net = dense_layouts(network(), 1000)
    names = changed(network(), net)
    concatenation = next(t.name for t in net.graph.tensors if len(net.graph.producers(t.name)) == 2)
    assert concatenation not in names
    assert not names & {port.tensor for port in net.inputs + net.outputs}
    assert depths(net, Layout.NHCWB16) == {32}


def test_denser_layouts_are_of_any_depth_but_leave_channels_that_are_written_apart() -> None:
    assert denser_layouts(network()) == dense_layouts(network(), 1000)


def test_dense_layouts_of_a_dense_network_change_nothing() -> None:
    net = dense_layouts(network(), 1000)
    assert dense_layouts(net, 1000) == net


def test_quick_layouts_keep_the_bricks_that_are_estimated_to_be_faster() -> None:
    """A depthwise block takes 16 of 24 channels at a time: bricks are read row by row, dense pixels one by one."""
    net = NetworkBuilder("layouts")
    x = net.conv2d(net.input((1, 48, 48, 3), "image"), 24, (1, 1), activation="RELU6", name="wide")
    x = net.depthwise(x, (3, 3), strides=(2, 2), activation="RELU6", name="depthwise")
    found = import_network(net.finish([net.conv2d(x, 16, (1, 1), name="last")]), DEFAULT)
    device, staged = accelerator(DEFAULT), Sources.staged(load_timing_adapter(DEFAULT_TIMING_ADAPTER))

    def cycles(one: Network) -> float:
        payloads = [part.payload for part in one.graph.parts]
        return sum(choose_block(p.operation, device, staged)[1] for p in payloads if isinstance(p, EthosuPart))

    quick, dense = quick_layouts(found, 1000, device, staged), dense_layouts(found, 1000)
    assert cycles(quick) <= min(cycles(dense), cycles(found))
    assert cycles(quick) < cycles(dense)
    assert outputs(schedule_layer_by_layer(quick, DEFAULT), seed=3) == outputs(schedule_layer_by_layer(found, DEFAULT), seed=3)


def outputs(schedule: Schedule, seed: int) -> list[bytes]:
    compiled = lower(schedule)
    draw = np.random.default_rng(seed)
    image = draw.integers(-128, 128, compiled.inputs[0].shape, dtype=np.int8)
    return [array.tobytes() for array in run(compiled, [image]).values()]


@pytest.mark.parametrize("largest", [15, 1000])
def test_the_network_computes_the_same_bytes_in_every_layout_in_less_memory(largest: int) -> None:
    bricks, dense = (schedule_layer_by_layer(net, DEFAULT) for net in (network(), dense_layouts(network(), largest)))
    assert outputs(bricks, seed=3) == outputs(dense, seed=3)
    assert dense.arena_size <= bricks.arena_size


def cascaded(net: Network, graph: RowGraph, groups: list[Group]) -> Schedule:
    scheduler = DepthFirstScheduler(graph)
    jobs = [job for group in groups for job in schedule_groups(scheduler, [group])]
    stores = storages(DepthFirstScheduler(graph), jobs, groups)
    _, addresses = allocate([store.extent for store in stores], moves=0)
    return make_schedule(net, DEFAULT, graph, jobs, Buffers.of(stores, len(jobs)), addresses)


@settings(max_examples=15)
@given(st.data(), st.sampled_from([0, 15, 1000]))
def test_any_cascade_in_any_layout_computes_the_same_bytes(data: st.DataObject, largest: int) -> None:
    net = dense_layouts(network(), largest)
    graph = row_graph(net)
    cuts = data.draw(st.sets(st.integers(1, len(graph.parts) - 1)))
    bounds = [0, *sorted(cuts), len(graph.parts)]
    groups = [Group(a, b - 1, data.draw(st.integers(1, 5))) for a, b in pairwise(bounds)]
    assert outputs(cascaded(net, graph, groups), seed=5) == outputs(schedule_layer_by_layer(network(), DEFAULT), seed=5)


def two_pixels_as_one(ifm: FeatureMap) -> FeatureMap:
    return replace(ifm, strides=replace(ifm.strides, y=2 * ifm.strides.y), shape=replace(ifm.shape, height=ifm.shape.height // 2))


def from_the_second_row(ifm: FeatureMap) -> FeatureMap:
    rows = ifm.shape.height - 1
    tiles = replace(ifm.tiles, height0=rows, height1=rows, bases=(ifm.strides.y, *ifm.tiles.bases[1:]))
    return replace(ifm, shape=replace(ifm.shape, height=rows), tiles=tiles)


@pytest.mark.parametrize("view", [two_pixels_as_one, from_the_second_row])
def test_a_tensor_that_is_read_in_another_shape_keeps_its_layout(view: Callable[[FeatureMap], FeatureMap]) -> None:
    """Another view of the same bytes would not find them in dense rows."""
    net = network()
    index = next(i for i, part in enumerate(net.graph.parts) if "beside" in part.name)
    part = net.graph.parts[index]
    payload = part.payload
    assert isinstance(payload, EthosuPart)
    changed_part = replace(part, payload=replace(payload, operation=replace(payload.operation, ifm=view(payload.operation.ifm))))
    viewed = replace(net, graph=replace(net.graph, parts=(*net.graph.parts[:index], changed_part, *net.graph.parts[index + 1 :])))
    assert payload.ifm in changed(net, dense_layouts(net, 1000))
    assert payload.ifm not in changed(viewed, dense_layouts(viewed, 1000))


@pytest.mark.parametrize("kind", [TensorKind.INPUT, TensorKind.OUTPUT, TensorKind.VARIABLE])
def test_only_intermediate_tensors_become_dense(kind: TensorKind) -> None:
    net = network()
    tensors = tuple(replace(tensor, kind=kind) if tensor.kind is TensorKind.INTERMEDIATE else tensor for tensor in net.graph.tensors)
    assert dense_layouts(replace(net, graph=replace(net.graph, tensors=tensors)), 1000).graph.tensors == tensors


@settings(max_examples=60)
@given(data=st.data())
def test_a_piece_of_a_tensor_in_bricks_begins_with_the_same_element_in_every_form(data: st.DataObject) -> None:
    height, width, bricks = (data.draw(st.integers(1, 5)) for _ in range(3))
    dtype = DataType(data.draw(st.sampled_from([8, 16, 32])), signed=True)
    brick = BRICK * dtype.bytes
    whole = Shape3D(height, width, bricks * BRICK)
    strides = Strides(bricks * width * brick, brick, width * brick)
    tensor = FeatureMap(ARENA, whole, dtype, Layout.NHCWB16, Tiles.single(whole, 0), strides)
    y, x, c = (data.draw(st.integers(0, extent - 1)) for extent in (height, width, whole.depth))
    rows, columns = (y, data.draw(st.integers(y + 1, height))), (x, data.draw(st.integers(x + 1, width)))
    piece = tensor.part(rows, columns)
    assert [piece.address(i, j, c) for i in range(rows[1] - y) for j in range(columns[1] - x)] == [
        tensor.address(i, j, c) for i in range(*rows) for j in range(*columns)
    ]
    deep = replace(piece, tiles=Tiles.single(piece.shape, tensor.address(y, x, c)))
    assert first_element(deep) == Element(y, x, c)
    dense = NhwcForm(height, width, whole.depth * dtype.bytes, dtype.bytes).feature_map(deep)
    assert dense.address(0, 0, 0) == ((y * width + x) * whole.depth + c) * dtype.bytes
    transposed = Bricks(height, width, bricks, dtype.bytes, whole.depth).transposed(deep)
    shape = Shape3D(width, height, whole.depth)
    upright = replace(tensor, shape=shape, tiles=Tiles.single(shape, 0), strides=Strides(bricks * height * brick, brick, height * brick))
    assert transposed.address(0, 0, 0) == upright.address(x, y, c)
