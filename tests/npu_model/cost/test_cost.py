"""Cycles of a block: cases worked out by hand for every kind of operation and every MAC configuration."""

from __future__ import annotations

import doctest
from fractions import Fraction
from math import ceil

import pytest
from msgspec.structs import replace
from small_programs import INT8, NO_CLAMP, conv, feature_map, max_pool

import npu_model.cost.cycles
import npu_model.cost.shram
import npu_model.shapes
import sim.engine.ports
from npu_model.accelerator import accelerator, accelerator_names
from npu_model.cost.block_jobs import block_jobs
from npu_model.cost.cycles import mac_cycles, ofm_ublock, output_cycles
from npu_model.cost.flat_operation import flat_decoding
from npu_model.cost.mac_activity import NO_ACTIVITY, mac_activity
from npu_model.program import (
    AccumulatorFormat,
    ActivationKind,
    DataType,
    ElementwiseKind,
    Kernel,
    KernelOperation,
    OperationKind,
    PoolKind,
)
from npu_model.shapes import Shape3D, ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.weight_stream.mlw_work import DecoderWork

BLOCK = Shape3D(8, 8, 16)
INT16, INT32 = DataType(16, signed=True), DataType(32, signed=True)


def of_type(op: KernelOperation, ifm: DataType, ofm: DataType | None = None) -> KernelOperation:
    return replace(op, ifm=feature_map(op.ifm.shape, dtype=ifm), ofm=feature_map(op.ofm.shape, dtype=ofm or ifm))


def elementwise(kind: ElementwiseKind, ifm: DataType = INT8, ofm: DataType | None = None) -> KernelOperation:
    op = replace(conv(BLOCK, BLOCK), kind=OperationKind.ELEMENTWISE, elementwise=kind)
    return of_type(replace(op, scalar=None if kind.is_unary else 1), ifm, ofm)


def cycles(
    op: KernelOperation, macs: int, block: Shape3D = BLOCK, taps: int = 1, channels: int = 32, timing: TimingParameters = DEFAULT_TIMING
) -> int:
    return mac_cycles(op, accelerator(f"ethos-u55-{macs}"), block, taps, channels, timing)


@pytest.mark.parametrize("module", [npu_model.cost.cycles, npu_model.shapes, npu_model.cost.shram, sim.engine.ports])
def test_examples_in_the_documentation_hold(module: object) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(("macs", "expected"), [(32, 4 * 64 * 4), (64, 4 * 64 * 2), (128, 4 * 32 * 2), (256, 4 * 16 * 2)])
def test_a_depth_first_step_of_32_channels_takes_4_cycles_per_ublock(macs: int, expected: int) -> None:
    assert cycles(conv(BLOCK, BLOCK), macs) == expected


@pytest.mark.parametrize("macs", [32, 64, 128, 256])
def test_a_full_depth_first_step_keeps_every_mac_busy(macs: int) -> None:
    assert cycles(conv(BLOCK, BLOCK), macs, taps=9) * macs == BLOCK.elements * 9 * 32


def test_a_depth_first_step_costs_the_same_for_fewer_channels() -> None:
    assert cycles(conv(BLOCK, BLOCK), 128, channels=3) == cycles(conv(BLOCK, BLOCK), 128, channels=32)


@pytest.mark.parametrize(("taps", "groups"), [(1, 1), (4, 1), (5, 2), (9, 3), (25, 7)])
def test_a_part_kernel_step_takes_4_taps_at_once_for_8_channels(taps: int, groups: int) -> None:
    op = replace(conv(BLOCK, BLOCK), part_kernel=True)
    assert cycles(op, 128, taps=taps, channels=16) == 4 * 32 * groups * 2 * 2


def test_a_part_kernel_step_of_16_bits_takes_2_taps_at_once() -> None:
    op = of_type(replace(conv(BLOCK, BLOCK), part_kernel=True), INT16)
    assert cycles(op, 128, taps=9, channels=8) == 4 * 32 * 5 * 2


@pytest.mark.parametrize(("macs", "depth"), [(32, 4), (64, 8), (128, 8), (256, 8)])
def test_one_ublock_in_the_plane_is_bound_by_the_weight_decoder(macs: int, depth: int) -> None:
    # 32 weights for each of the ublock's channels, at 8 a cycle.
    assert cycles(conv(BLOCK, BLOCK), macs, Shape3D(1, 1, depth)) == 4 * depth


def test_a_faster_decoder_lowers_the_floor_of_a_convolution_but_not_of_reduce_sum() -> None:
    fast, single = TimingParameters(decoder_cycles_per_channel=2), Shape3D(1, 1, 8)
    device = accelerator("ethos-u55-128")
    assert mac_cycles(conv(BLOCK, BLOCK), device, single, 1, 32, fast) == 2 * 8
    reduce_sum = replace(conv(BLOCK, BLOCK), kind=OperationKind.POOL, pool=PoolKind.REDUCE_SUM)
    assert mac_cycles(reduce_sum, device, single, 1, 32) == 4


def test_depthwise_takes_4_taps_at_once_and_16_bits_twice_as_long() -> None:
    op = replace(conv(BLOCK, BLOCK), kind=OperationKind.DEPTHWISE)
    fast = TimingParameters(depthwise_delays=False)
    assert cycles(op, 128, taps=9, timing=fast) == 4 * 32 * 3 * 2
    assert cycles(of_type(op, INT16), 128, taps=9, timing=fast) == 8 * 32 * 3 * 2


def test_two_cores_share_the_depth_of_a_block() -> None:
    """The U65 with 512 MACs: each of its cores has 256, and makes every other ublock of a block's depth."""
    one, two = accelerator("ethos-u65-256"), accelerator("ethos-u65-512")
    for depth in (8, 16, 24, 32, 40):
        block = Shape3D(8, 8, depth)
        halves = Shape3D(8, 8, ceil_div(depth, 16) * 8)
        assert mac_cycles(conv(BLOCK, BLOCK), two, block, 9, 32) == mac_cycles(conv(BLOCK, BLOCK), one, halves, 9, 32)


@pytest.mark.parametrize("macs", [32, 64, 128, 256])
@pytest.mark.parametrize(("block", "taps"), [(BLOCK, 1), (Shape3D(16, 4, 32), 9), (Shape3D(2, 8, 8), 9)])
def test_dot_products_of_whole_ublocks_keep_every_mac_busy(macs: int, block: Shape3D, taps: int) -> None:
    side = {1: 1, 9: 3}[taps]
    found = mac_activity(conv(block, block, ifm_depth=32, kernel=Kernel(side, side)), accelerator(f"ethos-u55-{macs}"))
    assert found.dot_products * macs == block.elements * taps * 32
    assert found.active == found.dot_products


def test_dot_products_are_of_convolutions_alone_a_tap_a_cycle_where_channels_stay_apart() -> None:
    device = accelerator("ethos-u55-128")
    depthwise = replace(conv(BLOCK, BLOCK, kernel=Kernel(3, 3)), kind=OperationKind.DEPTHWISE)
    assert mac_activity(depthwise, device).dot_products == 8 * 4 * 2 * 9
    assert mac_activity(of_type(depthwise, INT16), device).dot_products == 8 * 4 * 2 * 9 * 2
    pool = mac_activity(max_pool(BLOCK, BLOCK), device)
    assert pool.active > pool.dot_products == 0
    assert mac_activity(elementwise(ElementwiseKind.ADD), device) == NO_ACTIVITY


def test_the_activity_of_a_kernel_is_that_of_its_blocks() -> None:
    device, block = accelerator("ethos-u55-128"), Shape3D(4, 4, 16)
    whole = mac_activity(conv(Shape3D(8, 12, 32), block, ifm_depth=16), device)
    assert whole == mac_activity(conv(block, block, ifm_depth=16), device).times(2 * 3 * 2)


@pytest.mark.parametrize(("macs", "narrow", "wide"), [(32, 3, 7), (64, 2, 3), (128, 2, 3), (256, 2, 2)])
def test_depthwise_kernel_steps_are_delayed_as_vela_has_it_for_one_ublock(macs: int, narrow: int, wide: int) -> None:
    depth, fast = accelerator(f"ethos-u55-{macs}").ofm_ublock.depth, TimingParameters(depthwise_delays=False)
    for accumulator, delay in ((AccumulatorFormat.INT32, narrow), (AccumulatorFormat.INT40, wide)):
        op = replace(conv(BLOCK, BLOCK), kind=OperationKind.DEPTHWISE, accumulator=accumulator)
        for ublocks, taps, delays in ((1, 4, 1), (1, 9, 3), (2, 4, 0), (2, 9, 2 * 2), (3, 36, 8 * 3)):
            block = Shape3D(8, 8, ublocks * depth)
            lost = cycles(op, macs, block, taps=taps) - cycles(op, macs, block, taps=taps, timing=fast)
            assert lost == delay * delays


def test_other_convolutions_are_not_delayed() -> None:
    assert cycles(conv(BLOCK, BLOCK), 128, taps=9) == cycles(
        conv(BLOCK, BLOCK), 128, taps=9, timing=TimingParameters(depthwise_delays=False)
    )


@pytest.mark.parametrize(("taps", "per_ublock"), [(1, 16), (9, 16), (16, 16), (49, 49)])
def test_a_pooling_ublock_takes_a_cycle_per_tap_and_at_least_16(taps: int, per_ublock: int) -> None:
    assert cycles(max_pool(BLOCK, BLOCK), 128, taps=taps) == 8 + per_ublock * 32 * 2


@pytest.mark.parametrize(
    ("macs", "depth", "ublocks"), [(32, 2, 0.5), (32, 4, 1), (32, 6, 1.5), (128, 1, 0.5), (128, 4, 0.5), (128, 5, 1), (128, 12, 1.5)]
)
def test_half_a_pooling_ublock_takes_half_the_floor(macs: int, depth: int, ublocks: float) -> None:
    ublock = accelerator(f"ethos-u55-{macs}").ofm_ublock
    plane = 8 * 8 // (ublock.height * ublock.width)
    assert cycles(max_pool(BLOCK, BLOCK), macs, Shape3D(8, 8, depth)) == 8 + 16 * ublocks * plane
    # A large window takes a cycle a tap, however many channels there are.
    assert cycles(max_pool(BLOCK, BLOCK), macs, Shape3D(8, 8, depth), taps=49) == 8 + 49 * ceil_div(depth, ublock.depth) * plane


def test_of_two_cores_half_a_pooling_ublock_is_that_of_one() -> None:
    two, ublocks = accelerator("ethos-u65-512"), 8 * 8 // (2 * 2)
    for depth, halves in ((8, 1), (16, 2), (24, 3)):
        assert mac_cycles(max_pool(BLOCK, BLOCK), two, Shape3D(8, 8, depth), 1, 32) == 8 + 8 * halves * ublocks


def test_without_passes_a_pooling_ublock_takes_the_whole_floor_and_no_filling() -> None:
    plain = TimingParameters(pool_passes=False)
    assert cycles(max_pool(BLOCK, BLOCK), 128, Shape3D(8, 8, 1), timing=plain) == 16 * 32


@pytest.mark.parametrize(("macs", "factor"), [(32, 1), (64, 2), (128, 2), (256, 2)])
def test_pooling_16_bits_doubles_the_taps_but_on_32_macs(macs: int, factor: int) -> None:
    op = max_pool(BLOCK, BLOCK)
    assert cycles(of_type(op, INT16), macs, taps=49) - 8 == factor * (cycles(op, macs, taps=49) - 8)


@pytest.mark.parametrize("kind", list(ElementwiseKind))
def test_elementwise_operations_use_no_macs(kind: ElementwiseKind) -> None:
    assert cycles(elementwise(kind), 128) == 0


@pytest.mark.parametrize(
    ("ofm", "kernel", "expected"),
    [
        (Shape3D(1, 8, 16), Kernel(1, 3), Shape3D(1, 4, 8)),
        (Shape3D(1, 7, 16), Kernel(1, 3), Shape3D(2, 2, 8)),
        (Shape3D(1, 8, 16), Kernel(2, 3), Shape3D(2, 2, 8)),
        (Shape3D(2, 8, 16), Kernel(1, 3), Shape3D(2, 2, 8)),
    ],
)
def test_256_macs_take_one_even_row_under_a_flat_window_in_1x4_ublocks(ofm: Shape3D, kernel: Kernel, expected: Shape3D) -> None:
    assert ofm_ublock(conv(ofm, BLOCK, kernel=kernel), accelerator("ethos-u55-256")) == expected
    other = accelerator("ethos-u55-128")
    assert ofm_ublock(conv(ofm, BLOCK, kernel=kernel), other) == other.ofm_ublock


def test_pooling_keeps_the_2x2_ublock_of_256_macs() -> None:
    assert ofm_ublock(max_pool(Shape3D(1, 8, 16), BLOCK), accelerator("ethos-u55-256")) == Shape3D(2, 2, 8)


# Cycles per element on 32, 64, 128 and 256 MACs: fact sheet of the U55, section 1.4.
RATES = {
    "convolution": (conv(BLOCK, BLOCK), ("2", "1", "0.5", "0.25")),
    "40-bit accumulators": (replace(conv(BLOCK, BLOCK), accumulator=AccumulatorFormat.INT40), ("3", "1.5", "0.75", "0.375")),
    "maximum pooling": (max_pool(BLOCK, BLOCK), ("1", "0.5", "0.25", "0.125")),
    "add": (elementwise(ElementwiseKind.ADD), ("6", "3", "1.5", "0.75")),
    "subtract": (elementwise(ElementwiseKind.SUB), ("6", "3", "1.5", "0.75")),
    "multiply": (elementwise(ElementwiseKind.MUL), ("3", "1.5", "0.75", "0.375")),
    "multiply to 32 bits": (elementwise(ElementwiseKind.MUL, ofm=INT32), ("3", "1.5", "0.75", "0.5")),
    "minimum": (elementwise(ElementwiseKind.MIN), ("2", "1", "0.5", "0.25")),
    "32-bit unary": (elementwise(ElementwiseKind.CLZ, INT32), ("2", "1", "0.75", "0.625")),
    "32-bit binary": (elementwise(ElementwiseKind.SHR, INT32), ("3", "1.5", "1.25", "1.125")),
}


@pytest.mark.parametrize("name", RATES)
def test_output_cycles_per_element_are_those_of_arm_s_models(name: str) -> None:
    op, rates = RATES[name]
    for macs, rate in zip((32, 64, 128, 256), rates, strict=True):
        assert output_cycles(op, accelerator(f"ethos-u55-{macs}"), 1000) == Fraction(rate) * 1000


def test_output_cycles_are_whole_and_rounded_up_per_block() -> None:
    assert output_cycles(elementwise(ElementwiseKind.MUL), accelerator("ethos-u55-256"), 7) == ceil(Fraction("0.375") * 7)


@pytest.mark.parametrize("kind", [ActivationKind.LUT, ActivationKind.TANH, ActivationKind.SIGMOID])
def test_a_table_or_native_function_takes_a_cycle_per_element_at_least(kind: ActivationKind) -> None:
    op = replace(conv(BLOCK, BLOCK), activation=replace(NO_CLAMP, kind=kind))
    assert [output_cycles(op, accelerator(name), 100) for name in accelerator_names("u55")] == [200, 100, 100, 100]


def test_a_clamp_sets_a_floor_only_where_it_clamps() -> None:
    op, device = max_pool(BLOCK, BLOCK), accelerator("ethos-u55-128")
    clamped = replace(op, activation=replace(NO_CLAMP, minimum=-100))
    assert (output_cycles(op, device, 100), output_cycles(clamped, device, 100)) == (25, 50)


def test_a_step_with_more_weights_than_a_slot_holds_is_done_in_parts_on_one_ifm_block() -> None:
    """3x3 over 32 channels: 2,304 weights for a ublock of 8 channels, so that 4,096 hold one; 1x1: 256, so that all fit."""
    device = accelerator("ethos-u55-128")
    deep = conv(Shape3D(8, 8, 64), Shape3D(8, 8, 64), 32, Kernel(3, 3), weights=18432)
    (job,) = block_jobs(deep, device)
    assert [step.continues for step in job.steps] == [False] + [True] * 7
    assert [bool(step.fetches) for step in job.steps] == [True] + [False] * 7
    (whole,) = block_jobs(deep, device, TimingParameters(weights_at_once=18432))[0].steps
    assert sum(step.mac_cycles for step in job.steps) == whole.mac_cycles
    assert sum(read.runs[0] for step in job.steps for read in step.weights) == 18432 // 8
    (flat,) = block_jobs(conv(Shape3D(8, 8, 64), Shape3D(8, 8, 64), 32, weights=2048), device)
    assert len(flat.steps) == 1


def test_the_flat_work_of_decoders_has_bits_and_then_turns_core_by_core() -> None:
    first, second = DecoderWork((8, 24), (2, 5)), DecoderWork((16,), (3,))
    assert flat_decoding((first, second)).tolist() == [8, 24, 2, 5, 16, 3]
    assert flat_decoding(()).tolist() == []
