"""Dead rows: the same bytes from depthwise convolutions that write over their own input, and how few bytes they need."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from cascades import cascade_of, outputs, require_same_bytes
from few_examples import few_cases
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scheduling import DEFAULT

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.dead_rows import depthwise_over_dead_rows, over_dead_rows
from cascader.ethosu.forms.planned import planned_bytes
from cascader.ethosu.forms.recomputed import recomputed
from cascader.ethosu.network.network import EthosuPart, Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import import_network
from cascader.plan.depth_first import Group
from npu_model.accelerator import accelerator
from npu_model.program import BRICK, FeatureMap, Layout
from npu_model.timing import DEFAULT_TIMING
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim.functional import FilterCache
from validation.builder import NetworkBuilder

pytestmark = pytest.mark.law

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
SOURCES = Sources.staged(SYSTEM, DEFAULT_TIMING)
DEVICE = accelerator(DEFAULT)


def bottlenecks(kind: str = "int8", channels: int = 128, taps: int = 3) -> Network:
    """Two inverted bottlenecks: one at full width, and one with a step along its columns' rows that cannot share."""
    net = NetworkBuilder("dead_rows", kind)
    x = net.conv2d(net.input((1, 13, 11, 3), "image"), 10, activation="RELU6")
    x = net.conv2d(x, channels, (1, 1), activation="RELU6")
    x = net.conv2d(net.depthwise(x, (taps, taps), activation="RELU6"), 12, (1, 1))
    x = net.conv2d(x, 80, (1, 1), activation="RELU6")
    return import_network(net.finish([net.conv2d(net.depthwise(x, (taps, taps), strides=(2, 2)), 9, (1, 1))]), DEFAULT)


def shared(network: Network) -> Network:
    return over_dead_rows(network, [one.name for one in depthwise_over_dead_rows(network, DEVICE)], DEVICE, SOURCES)


@pytest.mark.parametrize(("layer", "kind"), few_cases([(128, 3), (131, 3), (160, 5), (48, 3)], ["int8", "uint8", "int16"]))
def test_results_over_dead_rows_have_the_same_bytes_layer_by_layer_and_in_the_smallest_arena(layer: tuple[int, int], kind: str) -> None:
    network = bottlenecks(kind, *layer)
    made = shared(network)
    assert len(made.graph.parts) > len(network.graph.parts)
    assert made.macs == network.macs
    require_same_bytes(network, made, SYSTEM)


def test_a_result_over_dead_rows_needs_a_slice_beside_each_row_and_no_row() -> None:
    network = bottlenecks()
    (one,) = depthwise_over_dead_rows(network, DEVICE)
    row, part = 11 * 128, 11 * one.depth
    assert one.saved == row - 3 * part
    assert planned_bytes(network) - planned_bytes(shared(network)) == one.saved


def test_any_groups_and_stripes_keep_the_bytes() -> None:
    network = bottlenecks()
    made = shared(network)
    graph, filters, last = row_graph(made), FilterCache(), len(made.graph.parts) - 1
    wanted = outputs(lower(schedule_layer_by_layer(network, DEFAULT)), filters=FilterCache())
    assert any(part.in_place is not None for part in graph.parts)
    for first, second in combinations(range(last), 2):
        groups = [Group(0, first, 1 + first % 3), Group(first + 1, second, 1 + second % 2), Group(second + 1, last, 2)]
        found = cascade_of(made, graph, groups)
        check_schedule(found)
        assert outputs(lower(found), filters=filters) == wanted


def test_where_nothing_is_recomputed_results_still_lie_over_dead_rows() -> None:
    network = bottlenecks()
    (made,) = recomputed(network, Fraction(1), DEVICE, SOURCES)
    assert planned_bytes(made) < planned_bytes(network)
    assert (made.macs, made.recomputed_macs) == (network.macs, 0)
    require_same_bytes(network, made, SYSTEM)


def addresses(feature_map: FeatureMap, row: int) -> dict[tuple[int, int], int]:
    """The byte of each element of a row, by its column and its channel in the map: strides and bricks as the hardware counts them."""
    strides, bricks = feature_map.strides, feature_map.layout is Layout.NHCWB16
    pixel = BRICK if bricks else strides.x
    return {
        (column, channel): feature_map.base
        + row * strides.y
        + column * pixel
        + (channel // BRICK * strides.c + channel % BRICK if bricks else channel)
        for column in range(feature_map.shape.width)
        for channel in range(feature_map.shape.depth)
    }


def lost_elements(slices: list[EthosuPart], height: int) -> int:
    """Bytes that slices read although a result has been written over, if each row of the result is made slice by slice."""
    written: set[int] = set()
    lost = 0
    for row in range(height):
        for kernel in slices:
            window, ifm, ofm = kernel.operation.kernel, kernel.operation.ifm, kernel.operation.ofm
            top = row - kernel.operation.padding.top
            for read in range(max(0, top), min(ifm.shape.height, top + window.dilated_height)):
                lost += len(written & set(addresses(ifm, read).values()))
            written |= set(addresses(ofm, row).values())
    return lost


@settings(max_examples=10, deadline=None)
@given(
    height=st.integers(6, 9),
    width=st.integers(1, 7),
    channels=st.integers(17, 140),
    taps=st.sampled_from([(2, 2), (3, 3), (3, 1), (5, 3)]),
    padding=st.sampled_from(["SAME", "VALID"]),
)
def test_no_byte_that_is_still_read_is_written_over(height: int, width: int, channels: int, taps: tuple[int, int], padding: str) -> None:
    net = NetworkBuilder("random")
    x = net.conv2d(net.input((1, height, width + taps[1] - 1, 3), "image"), channels, (1, 1), activation="RELU6")
    x = net.depthwise(x, taps, padding=padding)
    network = import_network(net.finish([net.conv2d(x, 4, (1, 1))]), DEFAULT)
    able = list(depthwise_over_dead_rows(network, DEVICE))
    assume(able)
    (one,) = able
    made = over_dead_rows(network, [one.name], DEVICE, SOURCES)
    slices = [kernel for kernel in made.kernels.values() if (kernel.ifm, kernel.ofm) == (one.kernel.ifm, one.kernel.ofm)]
    assert [kernel.operation.ofm.shape.depth for kernel in slices] == [last - first for first, last in one.slices]
    assert lost_elements(slices, one.target.height) == 0
    # In another order, a slice would be written over before it is read.
    assert lost_elements(slices[::-1], one.target.height) > 0
