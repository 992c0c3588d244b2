"""Pools and convolutions that step further than the NPU's windows: few kernels, rows that can be cut, the same bytes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from few_examples import few_cases
from msgspec.structs import replace
from scheduling import DEFAULT

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.columns import column_stripes
from cascader.ethosu.forms.long_steps import position_grids, with_long_steps
from cascader.ethosu.forms.transposed import with_transposed
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import import_network
from cascader.plan.depth_first import DepthFirstScheduler, Group
from npu_model.accelerator import accelerator
from npu_model.errors import InputError
from npu_model.program import LONGEST_STRIDE, KernelOperation
from npu_model.timing import DEFAULT_TIMING
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim.functional import run
from validation.builder import NetworkBuilder

pytestmark = pytest.mark.law

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
SOURCES = Sources.staged(SYSTEM, DEFAULT_TIMING)

IMAGE, SOUND = (1, 24, 20, 3), (1, 1, 96, 2)
LAYERS = {
    "patches": ("conv2d", IMAGE, (4, 4), (4, 4)),
    "overlapping windows": ("conv2d", IMAGE, (7, 5), (4, 4)),
    "columns alone": ("conv2d", IMAGE, (3, 4), (2, 4)),
    "rows alone": ("conv2d", IMAGE, (5, 3), (5, 1)),
    "sound": ("conv2d", SOUND, (1, 9), (1, 4)),
    "maxima side by side": ("max_pool", IMAGE, (4, 4), (4, 4)),
    "maxima that overlap": ("max_pool", IMAGE, (5, 5), (4, 4)),
    "maxima of sound": ("max_pool", SOUND, (1, 4), (1, 4)),
    "averages": ("average_pool", IMAGE, (4, 4), (4, 4)),
    "averages of sound": ("average_pool", SOUND, (1, 6), (1, 5)),
}
"""A layer's kind, the network's input, the window, and its strides."""


def model(layer: str) -> bytes:
    """A convolution, the layer, and another convolution."""
    kind, shape, window, strides = LAYERS[layer]
    net = NetworkBuilder("long")
    x = net.conv2d(net.input(shape, "image"), 8, (min(3, shape[1]), 3), activation="RELU")
    x = net.conv2d(x, 16, window, strides=strides, padding="VALID") if kind == "conv2d" else getattr(net, kind)(x, window, strides=strides)
    return net.finish([net.conv2d(x, 8, (1, 1))])


@cache
def plain(layer: str, device: str = DEFAULT) -> Network:
    return import_network(model(layer), device)


@cache
def made(layer: str, device: str = DEFAULT) -> Network:
    return with_long_steps(plain(layer, device), accelerator(device), SOURCES)


def outputs(schedule: Schedule, image: np.ndarray) -> list[np.ndarray]:
    return list(run(lower(schedule), [image]).values())


@pytest.mark.parametrize(("layer", "device"), few_cases(list(LAYERS), ["ethos-u55-32", DEFAULT, "ethos-u55-256"]))
def test_long_steps_compute_the_same(layer: str, device: str) -> None:
    image = np.random.default_rng(3).integers(-128, 128, LAYERS[layer][1], dtype=np.int8)
    found = [outputs(schedule_layer_by_layer(net, device), image) for net in (plain(layer, device), made(layer, device))]
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_cascade_through_long_steps_computes_the_same(layer: str) -> None:
    image = np.random.default_rng(5).integers(-128, 128, LAYERS[layer][1], dtype=np.int8)
    cascader = Cascader(column_stripes(made(layer), 64), DEFAULT, SYSTEM)
    expected = outputs(schedule_layer_by_layer(plain(layer), DEFAULT), image)
    found = outputs(cascader.schedule(cascader.smallest()), image)
    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


@pytest.mark.parametrize(
    ("layer", "kernels"),
    [("patches", 1), ("overlapping windows", 1), ("columns alone", 1), ("rows alone", 1), ("sound", 1), ("maxima of sound", 1)],
)
def test_the_positions_of_a_layer_are_one_kernel(layer: str, kernels: int) -> None:
    grids = list(position_grids(plain(layer)))
    assert [len(grid.parts) > 1 for grid in grids] == [True]
    assert len(made(layer).kernels) == len(plain(layer).kernels) - len(grids[0].parts) + kernels


def test_the_positions_of_an_average_are_a_kernel_for_each_column() -> None:
    _, (_, _, width, _), _, (_, step) = LAYERS["averages"]
    assert len(made("averages").kernels) == 2 + width // step


def test_maxima_side_by_side_are_maxima_of_maxima_where_that_takes_fewer_cycles() -> None:
    windows = {}
    for device in ("ethos-u55-32", "ethos-u55-256"):
        kernels = [kernel.operation.kernel for kernel in made("maxima side by side", device).kernels.values()]
        windows[device] = {(kernel.height, kernel.width) for kernel in kernels}
    assert (2, 2) in windows["ethos-u55-256"]
    assert (4, 4) in windows["ethos-u55-32"]


def far(network: Network) -> list[str]:
    """Parts whose windows step over more rows than the NPU's."""
    return [name for name, kernel in network.kernels.items() if kernel.operation.kernel.stride_y > LONGEST_STRIDE]


@pytest.mark.parametrize("layer", ["patches", "rows alone", "averages"])
def test_a_window_that_steps_too_far_is_run_row_by_row(layer: str) -> None:
    graph = row_graph(made(layer))
    parts = {part.name: part for part in graph.parts}
    assert far(made(layer))
    assert all(parts[name].most_rows == 1 for name in far(made(layer)))
    scheduler = DepthFirstScheduler(graph)
    group = Group(0, len(graph.parts) - 1, 8)
    assert np.array_equal(scheduler.table(group), scheduler.table_in_python(group))
    assert all(end - start == 1 for part, start, end in scheduler.table(group).tolist() if graph.parts[part].most_rows)


@pytest.mark.parametrize("layer", LAYERS)
def test_no_kernel_that_is_emitted_steps_too_far(layer: str) -> None:
    for program in lower(schedule_layer_by_layer(made(layer), DEFAULT)).programs:
        for operation in program.operations:
            if isinstance(operation, KernelOperation):
                assert max(operation.kernel.stride_y, operation.kernel.stride_x) <= LONGEST_STRIDE


def test_a_schedule_that_makes_several_such_rows_at_once_is_refused() -> None:
    schedule = schedule_layer_by_layer(made("patches"), DEFAULT)
    (name,) = far(made("patches"))
    first = next(number for number, job in enumerate(schedule.jobs) if job.part == name)
    whole = replace(schedule.jobs[first], rows=(0, 2))
    with pytest.raises(InputError, match="makes 2 rows with strides 4 and 1: the NPU's end with 3"):
        check_schedule(replace(schedule, jobs=(*schedule.jobs[:first], whole, *schedule.jobs[first + 2 :])))


def test_the_columns_of_an_average_are_made_side_by_side_for_a_reader_of_all_rows() -> None:
    net = NetworkBuilder("flat")
    x = net.conv2d(net.input(IMAGE, "image"), 8, activation="RELU")
    model = net.finish([net.fully_connected(net.flatten(net.average_pool(x, (4, 4), strides=(4, 4))), 4)])
    network = with_long_steps(import_network(model, DEFAULT), accelerator(DEFAULT), SOURCES)
    graph = row_graph(network)
    jobs = DepthFirstScheduler(graph).table(Group(0, len(graph.parts) - 1, 1)).tolist()
    rows = [start for part, start, _ in jobs if graph.parts[part].most_rows]
    assert rows == sorted(rows)


def test_a_window_that_steps_too_far_down_is_not_turned() -> None:
    (name,) = far(made("patches"))
    network = with_transposed(made("patches"), list(made("patches").kernels), accelerator(DEFAULT), SOURCES)
    assert network.kernels[name].operation.kernel.stride_x <= LONGEST_STRIDE


def test_the_maxima_of_a_sound_are_cut_along_its_columns() -> None:
    cut = row_graph(column_stripes(made("maxima of sound"), 64))
    assert all(part.rows > 1 and not part.atomic for part in cut.parts)
