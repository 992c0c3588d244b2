"""Copies within the arena by transfers: the bytes of a kernel's copy, the waits on both sides, and less time than the kernel takes."""

from __future__ import annotations

from functools import cache

import pytest
from adverse_orders import Reorder, late_kernels, late_transfers, reordered, with_operations
from cascades import cascade_of, outputs
from msgspec.structs import replace
from scheduling import DEFAULT

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.codegen.stream import Stream
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.spared_copies import with_transfers
from cascader.ethosu.forms.wide_copies import is_copy, with_wide_copies
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.job.transfers import transfers
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.schedule.file import from_json, to_json
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import import_network
from cascader.frontends.vela.arena_copies import copy_kernel
from cascader.plan.depth_first import Group
from npu_model.accelerator import accelerator
from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.program import DataType, DmaOperation, DmaWait, FeatureMap, KernelOperation, KernelWait, Layout, Program, Strides, Tiles
from npu_model.shapes import Shape3D
from npu_model.timing import DEFAULT_TIMING
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim import quick_cycles, replay
from validation.builder import NetworkBuilder

pytestmark = pytest.mark.law

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
SOURCES = Sources.staged(SYSTEM, DEFAULT_TIMING)
DEVICES = ["ethos-u55-32", "ethos-u55-128"]


@cache
def plain(device: str = DEFAULT) -> Network:
    """A map that is an output in two shapes, and read by a convolution in between."""
    net = NetworkBuilder("two_shapes")
    x = net.conv2d(net.input((1, 24, 20, 8), "image"), 16, activation="RELU6")
    return import_network(net.finish([x, net.conv2d(x, 8), net.reshape(x, (1, 480, 16))]), device)


@cache
def moving(device: str = DEFAULT) -> Network:
    return with_transfers(plain(device), accelerator(device), SOURCES)


def striped(net: Network, rows: int = 5) -> Schedule:
    """All layers in stripes of some rows."""
    return cascade_of(net, row_graph(net), (Group(0, len(net.graph.parts) - 1, rows),))


def arena_copies(network: CompiledNetwork) -> list[DmaOperation]:
    return [op for program in network.programs for op in program.operations if isinstance(op, DmaOperation) and op.source.region == 1]


@pytest.mark.parametrize("device", DEVICES)
def test_an_output_in_a_second_shape_is_moved_and_not_computed(device: str) -> None:
    before, after = (lower(schedule_layer_by_layer(net, device)) for net in (plain(device), moving(device)))
    assert sum(one.length for one in arena_copies(after)) == 24 * 20 * 16
    assert not any(is_copy(kernel) for program in after.programs for kernel in program.kernels)
    assert outputs(after) == outputs(before)


@pytest.mark.parametrize("device", DEVICES)
def test_a_transfer_beside_the_kernels_takes_less_time_than_the_fastest_kernel(device: str) -> None:
    wide = with_wide_copies(plain(device), accelerator(device), SOURCES)
    kernel, transfer = (quick_cycles(lower(schedule_layer_by_layer(net, device)), SYSTEM) for net in (wide, moving(device)))
    assert transfer < kernel * 0.95


def test_both_engines_agree_to_the_cycle_on_transfers_that_run_beside_kernels() -> None:
    lowered = lower(striped(moving()))
    (program,) = lowered.programs
    assert len(arena_copies(lowered)) > 1
    assert quick_cycles(lowered, SYSTEM) == replay(program, SYSTEM).cycles


def test_the_reader_of_an_outputs_copy_reads_the_output() -> None:
    (copied,) = (kernel for kernel in moving().kernels.values() if kernel.transfer)
    assert all(kernel.ifm != copied.ofm for kernel in moving().kernels.values())


@pytest.mark.parametrize("order", [late_transfers, late_kernels])
@pytest.mark.parametrize("rows", [3, 24])
def test_the_waits_hold_in_the_most_adverse_order(rows: int, order: Reorder) -> None:
    made = striped(moving(), rows)
    check_schedule(made)
    assert outputs(reordered(made, order)) == outputs(lower(schedule_layer_by_layer(plain(), DEFAULT)))


def test_without_waiting_for_the_kernel_before_a_transfer_takes_bytes_that_are_not_there() -> None:
    def hasty(program: Program) -> Program:
        return late_kernels(with_operations(program, [op for op in program.operations if not isinstance(op, KernelWait)]))

    with pytest.raises(InputError):
        outputs(reordered(striped(moving(), 24), hasty))


def test_a_schedule_file_keeps_transfers() -> None:
    made = striped(moving())
    assert from_json(to_json(made)) == made


INT8 = DataType(8, signed=True)
SHAPE = Shape3D(8, 4, 16)


def rows(start: int, shape: Shape3D = SHAPE, tiles: Tiles | None = None) -> FeatureMap:
    return FeatureMap(1, shape, INT8, Layout.NHWC, tiles or Tiles.single(shape, start), Strides(shape.width * shape.depth, shape.depth, 1))


def copy(source: int, target: int) -> KernelOperation:
    return copy_kernel(rows(source), target, accelerator(DEFAULT))


MOVED = transfers(copy(0, 4096))


@pytest.mark.parametrize(
    ("kernel", "waits"),
    [(copy(0, 8192), False), (copy(4096, 8192), True), (copy(8192, 4096), True), (copy(8192, 0), True), (copy(8192, 16384), False)],
    ids=["reads the source", "reads the copy", "overwrites the copy", "overwrites the source", "touches neither"],
)
def test_a_kernel_behind_waits_for_a_transfer_whose_bytes_it_needs_or_overwrites(kernel: KernelOperation, waits: bool) -> None:  # noqa: FBT001
    stream = Stream(accelerator(DEFAULT))
    stream.move(MOVED, "copy")
    stream.run(kernel, "kernel")
    assert any(isinstance(op, DmaWait) for op in stream.operations) == waits


@pytest.mark.parametrize(
    ("kernel", "waits"),
    [(copy(0, 8192), False), (copy(4096, 8192), True), (copy(8192, 4096), True), (copy(8192, 0), True), (copy(8192, 16384), False)],
    ids=["reads the source", "reads what is overwritten", "writes there", "makes the source", "touches neither"],
)
def test_a_transfer_waits_for_a_kernel_before_that_makes_its_bytes_or_uses_its_place(kernel: KernelOperation, waits: bool) -> None:  # noqa: FBT001
    stream = Stream(accelerator(DEFAULT))
    stream.run(kernel, "kernel")
    stream.move(MOVED, "copy")
    assert any(isinstance(op, KernelWait) for op in stream.operations) == waits


def test_rows_that_roll_over_in_their_buffer_are_moved_in_two_pieces() -> None:
    rolled = Tiles(5, 5, 4, (192, 0, 0, 0))
    found = transfers(replace(copy(0, 4096), ifm=rows(0, tiles=rolled)))
    assert [(one.source.start, one.length, one.destination) for one in found] == [(192, 320, 4096), (0, 192, 4096 + 320)]


@pytest.mark.parametrize(
    "source",
    [
        rows(8),
        rows(0, Shape3D(8, 4, 1)),
        replace(rows(0), strides=Strides(80, 16, 1)),
        replace(rows(0), strides=Strides(16, 128, 1)),
    ],
    ids=["off a multiple of 16", "rows of 4 bytes from the fifth on", "gaps between rows", "transposed"],
)
def test_bytes_that_do_not_lie_together_or_not_at_multiples_of_16_are_left_to_a_kernel(source: FeatureMap) -> None:
    part = source.part((1, source.shape.height), (0, source.shape.width))
    assert transfers(replace(copy(0, 4096), ifm=part, ofm=rows(4096, part.shape))) == ()
