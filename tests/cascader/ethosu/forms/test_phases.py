"""Transposed convolutions in phases: kernels without zeros write together what one behind an upscaler does."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from cascades import cascade_of
from form_variants import variants
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scheduling import DEFAULT, network
from unit_networks import Tensor, unit_network

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.phases import in_phases
from cascader.ethosu.job.constants import StreamEditor, repacked
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.network import EthosuPart, Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import import_network
from cascader.plan.depth_first import Group
from npu_model.accelerator import accelerator
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.program import Kernel, OperationKind, Padding, Rounding, Scale, Upscale
from npu_model.shapes import Shape3D
from npu_model.weight_stream.order import WeightFormat
from npu_model.weight_stream.weights import ChannelScale, encode_scales, encode_weights
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim import quick_cycles
from sim.functional import run
from validation.builder import NetworkBuilder

pytestmark = pytest.mark.law

DEVICE = accelerator(DEFAULT)
SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
STAGED = Sources.staged(SYSTEM)
SAME, VALID = 0, 1


@cache
def transposed(height: int, width: int, channels: tuple[int, int], taps: tuple[int, int], padding: int) -> Network:
    """A transposed convolution with stride 2 of a map of so many rows and columns."""
    inside, outside = channels
    rows, columns = (2 * n if padding == SAME else 2 * (n - 1) + k for n, k in ((height, taps[0]), (width, taps[1])))
    draw = np.random.default_rng(5)
    weights = Tensor((outside, *taps, inside), "int8", 0.003, 0, draw.integers(-127, 128, (outside, *taps, inside)))
    operands = [Tensor((4,), "int32", data=[1, rows, columns, outside]), weights, Tensor((1, height, width, inside), "int8", 0.02, -5)]
    result = Tensor((1, rows, columns, outside), zero_point=3)
    options = {"strideH": 2, "strideW": 2, "padding": padding}
    return import_network(unit_network("TRANSPOSE_CONV", operands, result, "TransposeConvOptions", **options), DEFAULT)


def kernels(net: Network) -> list[EthosuPart]:
    return list(net.kernels.values())


def outputs(schedule: Schedule) -> list[bytes]:
    check_schedule(schedule)
    compiled = lower(schedule)
    draw = np.random.default_rng(3)
    images = [draw.integers(-128, 128, entry.shape, dtype=np.int8) for entry in compiled.inputs]
    return [array.tobytes() for array in run(compiled, images).values()]


CASES = [
    (8, 8, (16, 1), (2, 2), SAME),
    (8, 9, (16, 3), (2, 2), VALID),
    (9, 7, (8, 16), (3, 3), SAME),
    (5, 8, (24, 5), (4, 4), SAME),
    (6, 6, (40, 20), (4, 4), VALID),
    (7, 10, (16, 9), (5, 5), SAME),
    (6, 11, (16, 4), (2, 4), SAME),
    (6, 11, (16, 4), (4, 2), VALID),
    (6, 6, (16, 4), (3, 3), VALID),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_phases_together_write_the_same_bytes_without_an_upscaler_in_fewer_cycles(
    case: tuple[int, int, tuple[int, int], tuple[int, int], int],
) -> None:
    before = transposed(*case)
    after = in_phases(before, DEVICE, STAGED)
    assert any(payload.operation.upscale is Upscale.ZEROS for payload in kernels(before))
    odd = case[4] == VALID and case[3][1] % 2
    assert len(kernels(after)) - len(kernels(before)) in ((3,) if odd else (1, 3))
    assert not any(payload.operation.upscale is Upscale.ZEROS for payload in kernels(after))
    whole, split = (schedule_layer_by_layer(net, DEFAULT) for net in (before, after))
    assert outputs(split) == outputs(whole)
    assert sum(p.operation.macs for p in kernels(after)) < sum(p.operation.macs for p in kernels(before)) / 2


def test_a_large_one_takes_fewer_cycles_in_the_replay() -> None:
    before = transposed(48, 48, (16, 1), (2, 2), SAME)
    cycles = [quick_cycles(lower(schedule_layer_by_layer(net, DEFAULT)), SYSTEM) for net in (before, in_phases(before, DEVICE, STAGED))]
    assert cycles[1] < cycles[0] * 0.6


def with_transposed(net: Network, taps: int) -> Network:
    """The network with a transposed convolution in place of its upscaling."""
    constants = StreamEditor(net.constants)
    ((name, payload),) = (one for one in net.kernels.items() if one[1].operation.upscale is Upscale.NEAREST)
    depth = payload.operation.ofm.shape.depth
    pads = (taps - 1) // 2, taps // 2
    operation = replace(
        payload.operation,
        kind=OperationKind.CONV_2D,
        pool=None,
        upscale=Upscale.ZEROS,
        kernel=Kernel(taps, taps),
        padding=Padding(pads[1], pads[1], pads[0], pads[0]),
        block=Shape3D(2, 2, 16),
        global_scale=False,
        ofm_scale=Scale(1, 0),
        rounding=Rounding.DOUBLE,
    )
    values = np.random.default_rng(9).integers(-127, 128, (depth, taps, taps, operation.ifm.shape.depth))
    stream = constants.append(encode_weights(values, WeightFormat.of(operation), DEVICE))
    records = constants.append(encode_scales([ChannelScale(50 * number - 300, 1 << 30, 39) for number in range(depth)]))
    shram = shram_partition(BlockQuery.of(operation), operation.block, DEVICE)
    assert shram is not None
    changed = replace(operation, shram=shram, weights=(stream,), scales=(records,))
    return repacked(net.with_kernels({name: replace(payload, operation=changed)}), constants)


@cache
def decoder(channels: int, taps: int, *, joined: bool) -> Network:
    """Up to 16 x 14 pixels by a transposed convolution, then a convolution; ``joined``: of it and of a skip tensor behind it."""
    net = NetworkBuilder("decoder")
    up = net.resize_nearest(net.conv2d(net.input((1, 8, 7, 8), "deep"), channels, activation="RELU6", name="bottom"), name="up")
    skip = net.conv2d(net.input((1, 16, 14, 8), "skip"), 24, (1, 1), activation="RELU6", name="beside") if joined else None
    last = net.conv2d(up if skip is None else net.concat([skip, up]), 8, name="last")
    return with_transposed(import_network(net.finish([last]), DEFAULT), taps)


@pytest.mark.parametrize(("channels", "taps", "joined"), [(16, 3, False), (20, 2, False), (48, 4, False), (32, 3, True), (20, 4, True)])
def test_results_inside_a_network_leave_their_bricks_and_four_kernels_write_a_part_of_a_concatenation(
    channels: int, taps: int, *, joined: bool
) -> None:
    before = decoder(channels, taps, joined=joined)
    after = in_phases(before, DEVICE, STAGED)
    assert sum(p.operation.upscale is Upscale.ZEROS for p in kernels(before)) == 1
    assert not any(p.operation.upscale is Upscale.ZEROS for p in kernels(after))
    more = len(kernels(after)) - len(kernels(before))
    assert more == 3 if joined else more in (1, 3)
    assert outputs(schedule_layer_by_layer(after, DEFAULT)) == outputs(schedule_layer_by_layer(before, DEFAULT))


def test_a_network_without_transposed_convolutions_stays() -> None:
    for name in ("tiny_conv", "tiny_residual"):
        assert in_phases(network(name), DEVICE, STAGED) is network(name)


@settings(max_examples=10)
@given(st.sampled_from(CASES), st.integers(1, 4))
def test_phases_in_a_group_compute_the_same_bytes(case: tuple[int, int, tuple[int, int], tuple[int, int], int], rows: int) -> None:
    net = in_phases(transposed(*case), DEVICE, STAGED)
    graph = row_graph(net)
    schedule = cascade_of(net, graph, [Group(0, len(graph.parts) - 1, rows)])
    assert outputs(schedule) == outputs(schedule_layer_by_layer(transposed(*case), DEFAULT))


def test_variants_split_transposed_convolutions_only_if_they_may() -> None:
    net = transposed(16, 16, (16, 1), (2, 2), SAME)
    for phases in (True, False):
        forms = variants(net, DEFAULT, SYSTEM, CascadeOptions(phases=phases))
        assert any(p.operation.upscale is Upscale.ZEROS for form in forms for p in kernels(form)) is not phases
