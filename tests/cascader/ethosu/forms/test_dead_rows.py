"""Dead rows: the same bytes from depthwise convolutions that write over their own input, and how few bytes they need."""

from __future__ import annotations

from itertools import combinations

import pytest
from cascades import cascade_of, outputs, require_same_bytes
from few_examples import few_cases
from scheduling import DEFAULT

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.dead_rows import depthwise_over_dead_rows, over_dead_rows
from cascader.ethosu.forms.planned import planned_bytes
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import import_network
from cascader.plan.depth_first import Group
from npu_model.accelerator import accelerator
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
