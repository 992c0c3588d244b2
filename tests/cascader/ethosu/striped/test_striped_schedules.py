"""Plans of stripes along any axes on the NPU: jobs are the plan's boxes, its bytes and its work hold, every output byte is the same."""

from __future__ import annotations

import os
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from few_examples import few_cases
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scheduling import DEFAULT
from window_layers import LAYERS

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.column_spans import Tiling, segment
from cascader.ethosu.forms.layouts import pixel_layouts
from cascader.ethosu.forms.tiles import tiled
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.job.staging import staged_bytes
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.propagators import affine_graph
from cascader.ethosu.schedule.file import from_json, to_json
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.striped.choice import striped_schedule
from cascader.ethosu.striped.unroll import unrolled
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import import_network
from cascader.graph.cascader_graph import CascaderGraph
from cascader.graph.intervals import elements
from cascader.graph.stripe_config import StripeConfig
from cascader.plan.plan import BufferMode
from cascader.plan.stripe_plans import StripePlan, plan
from cascader.plan.stripe_trace import StripedGroup, interior, trace
from npu_model.accelerator import accelerator
from npu_model.errors import InputError
from npu_model.timing import DEFAULT_TIMING
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim.functional import run
from validation.builder import NetworkBuilder

pytestmark = pytest.mark.law

SOURCES = Sources.staged(load_timing_adapter(DEFAULT_TIMING_ADAPTER), DEFAULT_TIMING)
DEVICE = accelerator(DEFAULT)
TYPES = ("int8", "uint8", "int16")
EXAMPLES = {False: 40, True: 40 if "NPU_TESTBED_ALL" in os.environ else 14}
"""Plans of each network in bricks and in pixels. In pixels the NPU does most of them: each of these is lowered, checked and run."""


@cache
def plain(name: str, kind: str = "int8", *, pixels: bool = False) -> Network:
    net = NetworkBuilder("stripes", kind)
    network = import_network(net.finish(LAYERS[name](net, net.input((1, 11, 14, 3), "image"))), DEFAULT)
    return pixel_layouts(network) if pixels else network


@cache
def graph(name: str, kind: str = "int8", *, pixels: bool = False) -> CascaderGraph:
    return affine_graph(plain(name, kind, pixels=pixels))


def image(network: Network) -> np.ndarray:
    (port,) = network.inputs
    limits = np.iinfo(np.dtype(str(port.dtype)))
    return np.random.default_rng(7).integers(limits.min, limits.max + 1, port.shape).astype(limits.dtype)


def outputs(schedule: Schedule) -> list[bytes]:
    return [np.asarray(array).tobytes() for array in run(lower(schedule), [image(schedule.network)]).values()]


@cache
def expected(name: str, kind: str) -> list[bytes]:
    return outputs(schedule_layer_by_layer(plain(name, kind), DEFAULT))


@st.composite
def plans(draw: st.DrawFn, graph: CascaderGraph, *, pixels: bool) -> tuple[StripePlan, ...]:
    """Plans that cover a graph, of any stripes, orders, modes and staged constants; channels that may lie in bricks are cut in some."""
    found, first = [], 0
    while first < len(graph.parts):
        for last in range(draw(st.integers(first, len(graph.parts) - 1)), first - 1, -1):
            try:
                inside = interior(graph, first, last)
                break
            except InputError:
                continue
        extent = graph.tensor(graph.parts[last].output).shape
        shape = [draw(st.integers(max(1, size // 4), size)) for size in extent]
        if not pixels and draw(st.integers(0, 3)):
            shape[-1] = extent[-1]
        order = draw(st.permutations(range(1, len(shape) + 1)))
        modes = {name: draw(st.sampled_from((BufferMode.RECOMPUTE, BufferMode.ROLLING))) for name in inside}
        made = plan(graph, StripedGroup(first, last, StripeConfig.even(extent, shape, order), modes))
        found.append(replace(made, staged=tuple(sorted(draw(st.sets(st.integers(first, last)))))))
        first = last + 1
    return tuple(found)


REFUSED = (
    "of several tiles",
    "inside its padding",
    "into no block",
    "inside a brick",
    "rolls along axis",
    "rolls along rows and",
    "not cut into channels",
)
"""Ends of the sentences that say what the NPU does not do of a plan."""


def made(network: Network, given: tuple[StripePlan, ...]) -> Schedule | None:
    """The schedule of plans; None of one that the NPU does not do, which is refused in one sentence."""
    try:
        return striped_schedule(network, given, DEVICE, SOURCES)
    except InputError as refused:
        if any(reason in str(refused) for reason in REFUSED):
            return None
        raise


@pytest.mark.parametrize(("case", "kind"), few_cases(list(product(LAYERS, [False, True])), ["int8", "int16"]))
def test_any_plan_computes_the_same_bytes_in_its_memory_with_its_work(case: tuple[str, bool], kind: str) -> None:
    name, pixels = case
    network, seen = plain(name, kind, pixels=pixels), graph(name, kind, pixels=pixels)
    applied = []

    @settings(max_examples=EXAMPLES[pixels])
    @given(plans(seen, pixels=pixels))
    def holds(given: tuple[StripePlan, ...]) -> None:
        schedule = made(network, given)
        applied.append(schedule is not None)
        if schedule is not None:
            check_schedule(schedule)
            assert outputs(schedule) == expected(name, kind)
            require_boxes(schedule, network, seen, given)
            require_bytes(schedule, seen, given)

    holds()
    assert sum(applied) > len(applied) // 4


def require_boxes(schedule: Schedule, network: Network, seen: CascaderGraph, given: tuple[StripePlan, ...]) -> None:
    """The jobs are the boxes of the plans' traces in their order, and multiply as often as these say."""
    wanted, macs = [], Fraction(0)
    for one in given:
        traced = trace(seen, one.group)
        for step in range(one.group.stripes.count):
            for index, boxes in traced.made.items():
                name, box = seen.parts[index].name, boxes[step]
                if not elements(box):
                    continue
                operation = network.kernels[name].operation
                whole, count = operation.ofm.shape, elements(box)
                if len(box) == 5:  # the last brick may have fewer channels than 16
                    count = count // (16 * (box[2][1] - box[2][0])) * (min(whole.depth, 16 * box[2][1]) - 16 * box[2][0])
                wanted.append((name, count))
                macs += Fraction(operation.macs * count, whole.elements)
    kernels = schedule.network.kernels
    jobs = [(job.part.rpartition("/stripe")[0] or job.part, kernels[job.part].operation.ofm.shape.elements) for job in schedule.jobs]
    assert jobs == wanted
    assert all(job.rows is None for job in schedule.jobs)
    assert schedule.network.macs == macs
    assert schedule.network.recomputed_macs == macs - network.macs


def require_bytes(schedule: Schedule, seen: CascaderGraph, given: tuple[StripePlan, ...]) -> None:
    """No buffer of a tensor inside a group is larger than the plan says, one that rolls is as large, and so is the arena."""
    planned = {buffer.tensor: buffer for one in given for buffer in one.buffers}
    largest: dict[str, int] = {}
    for buffer in schedule.buffers:
        for tensor in buffer.tensors:
            name = tensor.rpartition("/")[0] or tensor
            if name in planned:
                largest[name] = max(largest.get(name, 0), buffer.size)
    for name, buffer in planned.items():
        if buffer.mode is BufferMode.RECOMPUTE:
            assert largest[name] <= buffer.size
    kernels = schedule.network.kernels
    with_weights = {name.rpartition("/stripe")[0] or name for name, kernel in kernels.items() if kernel.operation.weights}
    staged = sum(staged_bytes(kernels[copy.part].operation) for copy in schedule.copies)
    assert {copy.part.rpartition("/stripe")[0] or copy.part for copy in schedule.copies} == {
        part.name for one in given for index in one.staged if (part := seen.parts[index]).name in with_weights
    }
    assert schedule.arena_size <= max(one.memory for one in given) + staged + 16 * (1 + len(planned))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ["residual", "joined"])
def test_a_form_in_columns_of_tiles_is_a_plan_of_stripes_along_the_width_made_again(name: str, kind: str) -> None:
    network, seen = plain(name, kind), graph(name, kind)
    last = len(seen.parts) - 1
    inside = interior(seen, 0, last)
    extent = seen.tensor(seen.parts[last].output).shape
    width = extent.index(14)
    stripe = tuple(size // 2 if axis == width else size for axis, size in enumerate(extent))
    group = StripedGroup(0, last, StripeConfig.even(extent, stripe), dict.fromkeys(inside, BufferMode.RECOMPUTE))
    made = unrolled(network, [plan(seen, group)], DEVICE, SOURCES).network
    cut = segment(network, 0, last)
    assert cut is not None
    tiles = tiled(network, cut, Tiling(2), DEVICE, SOURCES)
    assert tiles is not None
    assert [kernel.operation for kernel in made.kernels.values()] == [kernel.operation for kernel in tiles.kernels.values()]
    assert [part.name for part in made.graph.parts] == [part.name.replace("tile", "stripe") for part in tiles.graph.parts]
    assert {t.name: t.size for t in made.graph.tensors} == {t.name.replace("tile", "stripe"): t.size for t in tiles.graph.tensors}
    assert made.recomputed_macs == tiles.recomputed_macs > 0


def test_a_schedule_of_a_plan_is_a_file_like_any_other() -> None:
    seen = graph("residual")
    extent = seen.tensor(seen.parts[-1].output).shape
    group = StripedGroup(
        0,
        len(seen.parts) - 1,
        StripeConfig.even(extent, (1, 4, *extent[2:])),
        dict.fromkeys(interior(seen, 0, len(seen.parts) - 1), BufferMode.ROLLING),
    )
    schedule = striped_schedule(plain("residual"), [plan(seen, group)], DEVICE, SOURCES)
    assert from_json(to_json(schedule)) == schedule
    assert any(buffer.rows for buffer in schedule.buffers)
    assert schedule.network.recomputed_macs == 0


def test_what_the_npu_does_not_do_is_refused_by_name() -> None:
    seen = graph("residual")
    one = StripedGroup(
        0,
        0,
        StripeConfig.even(seen.tensor(seen.parts[0].output).shape, seen.parts[0].shape),
        {"image": BufferMode.DOUBLE},
        frozenset({"image"}),
    )
    rest = [
        plan(
            seen,
            StripedGroup(i, i, StripeConfig.even(seen.tensor(seen.parts[i].output).shape, seen.tensor(seen.parts[i].output).shape), {}),
        )
        for i in range(1, len(seen.parts))
    ]
    with pytest.raises(InputError, match="Tensor 'image' is external in a plan for the NPU"):
        striped_schedule(plain("residual"), [plan(seen, one), *rest], DEVICE, SOURCES)
