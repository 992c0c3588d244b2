"""Hazards: all that an order of the queues could do is found on tiny Programs, and nothing in whole networks but what was put there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

import pytest
from cascades import cascade, cuts
from every_order import Orders
from few_examples import few_cases
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from msgspec.structs import replace
from scheduling import network as imported
from small_programs import NO_CLAMP, REGIONS, STOP, feature_map

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import CompilerOptions, compile_network
from npu_model.accelerator import accelerator, accelerator_names
from npu_model.command_stream.decode import decode_words
from npu_model.command_stream.encode import encode_operations
from npu_model.command_stream.registers import Cmd0
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.errors import InputError
from npu_model.program import (
    Activation,
    ActivationKind,
    ByteRange,
    DataType,
    DmaOperation,
    DmaWait,
    ElementwiseKind,
    FeatureMap,
    Kernel,
    KernelOperation,
    KernelWait,
    Layout,
    Operation,
    OperationKind,
    Padding,
    PoolKind,
    Program,
    Shram,
    Tiles,
)
from npu_model.program.check import check_program
from npu_model.shapes import Shape3D
from sim.hazards import SHRAM, PartitionFault, Race, find_races, lost_tables, network_hazards
from validation.zoo import build

NAMES = ("tiny_conv", "tiny_residual", "resnet8", "ds_cnn")


# Against every order, on tiny Programs.

PLACES = st.integers(0, 24).map(lambda place: 16 * place)
LUT = Activation(ActivationKind.LUT, -128, 127)


@st.composite
def maps(draw: DrawFn, shape: Shape3D, dtype: DataType) -> FeatureMap:
    dense = feature_map(shape, draw(PLACES), draw(st.sampled_from(Layout)), dtype)
    if shape.height < 2 or draw(st.booleans()):
        return dense
    split = draw(st.integers(1, shape.height - 1))
    return replace(dense, tiles=Tiles(split, split, shape.width, (draw(PLACES), 0, draw(PLACES), 0)))


@st.composite
def kernels(draw: DrawFn) -> KernelOperation:
    kind = draw(st.sampled_from(OperationKind))
    extents, depth = st.integers(1, 3), draw(st.sampled_from([4, 16, 24]))
    dtype = DataType(draw(st.sampled_from([8, 32])), signed=True)
    ofm, taps = (
        Shape3D(draw(extents), draw(extents), depth),
        Kernel(draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 2))),
    )
    top = draw(st.integers(0, taps.height - 1))
    if kind is OperationKind.ELEMENTWISE:
        taps, top = Kernel(), 0
    sums = kind is OperationKind.CONV_2D
    shape = Shape3D(
        (ofm.height - 1) * taps.stride_y + taps.height - top,
        ofm.width - 1 + taps.width,
        draw(st.sampled_from([8, 24, 40])) if sums else depth,
    )
    op = KernelOperation(
        kind,
        ifm=draw(maps(shape, dtype)),
        ofm=draw(maps(ofm, DataType(8, signed=True))),
        block=Shape3D(draw(extents), draw(extents), draw(st.sampled_from([8, 16]))),
        shram=Shram(4, 6),
        activation=draw(st.sampled_from([NO_CLAMP, NO_CLAMP, LUT, replace(LUT, lut=1)])),
        kernel=taps,
        padding=Padding(top),
        blockdep=draw(st.integers(0, 3)),
    )
    if kind is OperationKind.POOL:
        return replace(op, pool=PoolKind.MAX)
    if kind is OperationKind.ELEMENTWISE:
        second = Shape3D(*(draw(st.sampled_from([1, extent])) for extent in (ofm.height, ofm.width, depth)))
        return replace(op, elementwise=ElementwiseKind.ADD, ifm2=draw(maps(second, dtype)))
    start = draw(PLACES)
    part_kernel = sums and draw(st.booleans())
    return replace(op, part_kernel=part_kernel, weights=(ByteRange(draw(st.sampled_from([0, 1])), start, start + 16),))


@st.composite
def transfers(draw: DrawFn) -> DmaOperation:
    if draw(st.integers(0, 3)) == 0:
        return DmaOperation(ByteRange(0, 0, 256), 0x3800 + 256 * draw(st.integers(0, 2)), to_shram=True)
    start, length = draw(PLACES), 16 * draw(st.integers(1, 3))
    return DmaOperation(ByteRange(draw(st.sampled_from([0, 1])), start, start + length), draw(PLACES), 1)


WAITS = st.builds(KernelWait, st.integers(0, 2)) | st.builds(DmaWait, st.integers(0, 1))


@st.composite
def programs(draw: DrawFn) -> Program:
    operations = draw(st.lists(kernels() | kernels() | transfers() | WAITS, min_size=2, max_size=6))
    every: tuple[Operation, ...] = (*operations, STOP)
    return Program(draw(st.sampled_from(["ethos-u55-32", "ethos-u55-64"])), every, (1,) * len(every), REGIONS)


def pairs(program: Program) -> set[tuple[int, int]]:
    return {(race.first, race.second) for race in find_races(program)}


@settings(max_examples=300, deadline=None)
@given(programs())
def test_the_pairs_that_race_are_those_of_every_order(program: Program) -> None:
    assert pairs(program) == Orders(program).races()


# Whole networks.


@cache
def of_vela(name: str, config: str) -> CompiledNetwork:
    return read_compiled(compile_network(build(name), CompilerOptions(config, "Performance")).compiled)


@pytest.mark.law
@pytest.mark.parametrize(("name", "config"), few_cases(NAMES, accelerator_names("u55")))
def test_streams_of_vela_have_no_hazard(name: str, config: str) -> None:
    assert network_hazards(of_vela(name, config)) == ()


@pytest.mark.parametrize("name", NAMES[:3])
@pytest.mark.parametrize("stripe_rows", [1, 2])
def test_cascades_have_no_hazard(name: str, stripe_rows: int) -> None:
    staged = range(len(imported(name).graph.parts)) if name == "resnet8" else ()
    assert network_hazards(lower(cascade(name, cuts(name, [], stripe_rows), staged=staged, ahead=1))) == ()


@pytest.mark.parametrize("config", ["ethos-u55-32", "ethos-u55-256"])
def test_schedules_layer_by_layer_have_no_hazard(config: str) -> None:
    assert network_hazards(lower(schedule_layer_by_layer(imported("resnet8", config), config))) == ()


# What is put there is found.

Change = Callable[[Operation], Operation]


def changed(network: CompiledNetwork, change: Change) -> tuple[CompiledNetwork, int]:
    """The network with each operation changed, and how many of them are others."""
    steps, count = [], 0
    for step in network.steps:
        assert isinstance(step, Program)
        operations = tuple(change(op) for op in step.operations)
        count += sum(one != other for one, other in zip(operations, step.operations, strict=True))
        steps.append(replace(step, operations=operations))
    return replace(network, steps=tuple(steps)), count


def eager(op: Operation) -> Operation:
    return replace(op, blockdep=3) if isinstance(op, KernelOperation) else op


def unwaiting(op: Operation) -> Operation:
    return replace(op, outstanding=15) if isinstance(op, (DmaWait, KernelWait)) else op


def low_accumulators(op: Operation) -> Operation:
    return replace(op, shram=replace(op.shram, ab_start=op.shram.ib_end - 1)) if isinstance(op, KernelOperation) else op


def high_input(op: Operation) -> Operation:
    return replace(op, shram=replace(op.shram, ib_end=op.shram.ab_start + 1)) if isinstance(op, KernelOperation) else op


def small_input(op: Operation) -> Operation:
    return replace(op, shram=replace(op.shram, ib_end=op.shram.ib_end - 1)) if isinstance(op, KernelOperation) else op


@pytest.mark.law
@pytest.mark.parametrize(
    ("change", "name", "config"),
    few_cases([eager, unwaiting, low_accumulators, high_input, small_input], NAMES, ["ethos-u55-32", "ethos-u55-128", "ethos-u55-256"]),
)
def test_a_changed_stream_has_hazards(change: Change, name: str, config: str) -> None:
    network, count = changed(of_vela(name, config), change)
    assert count
    found = network_hazards(network)
    partition = change not in (eager, unwaiting)
    assert any(isinstance(one, PartitionFault) is partition for one in found)


@pytest.mark.parametrize("name", NAMES)
def test_each_wait_of_our_own_streams_is_needed(name: str) -> None:
    """One wait, drawn by a seed, waits for nothing: the bytes that it guards are found, between the operations that it keeps in order."""
    random = Random(name)
    staged = lower(cascade(name, cuts(name, [], 1000), staged=range(len(imported(name).graph.parts)), ahead=1))
    (program,) = staged.programs
    waits = [index for index, op in enumerate(program.operations) if isinstance(op, (DmaWait, KernelWait))]
    for index in random.sample(waits, min(6, len(waits))):
        operations = (*program.operations[:index], unwaiting(program.operations[index]), *program.operations[index + 1 :])
        found = list(find_races(replace(program, operations=operations)))
        assert found
        assert all(race.first < index < race.second for race in found)
        assert all(type(program.operations[index]).__name__.upper().startswith(race.missing[:3]) for race in found)


def test_a_race_names_both_operations_the_bytes_and_what_is_missing() -> None:
    writer = replace(kernel(), ofm=feature_map(Shape3D(4, 4, 16), 0x400))
    reader = replace(kernel(), ifm=feature_map(Shape3D(4, 4, 16), 0x400), ofm=feature_map(Shape3D(4, 4, 16), 0x800), blockdep=3)
    (race,) = find_races(replace(small(writer, reader), names=("first", "second", "")))
    assert race.text == (
        "Operation 1 (CONV_2D second) reads bytes 0x400 to 0x480 of region 1, which operation 0 (CONV_2D first) may not yet have written: "
        "BLOCKDEP is 3, but 1 is the largest that is safe."
    )


def kernel() -> KernelOperation:
    shape = Shape3D(4, 4, 16)
    return KernelOperation(
        OperationKind.CONV_2D,
        ifm=feature_map(shape),
        ofm=feature_map(shape, 0x400),
        block=Shape3D(2, 4, 16),
        shram=Shram(6, 14),
        activation=NO_CLAMP,
        weights=(ByteRange(0, 0, 16),),
        scales=(ByteRange(0, 16, 32),),
    )


def small(*operations: Operation) -> Program:
    every: tuple[Operation, ...] = (*operations, STOP)
    return Program("ethos-u55-128", every, (1,) * len(every), REGIONS)


def test_a_table_is_lost_to_the_buffers_of_the_next_kernel_unless_it_waits() -> None:
    """Small devices have no banks for tables alone."""
    first = replace(kernel(), activation=LUT)
    second = replace(kernel(), ifm=feature_map(Shape3D(4, 4, 16), 0x1000), blockdep=1)
    program = replace(small(first, second), accelerator="ethos-u55-64")
    (race,) = find_races(program)
    assert race.bytes == ByteRange(SHRAM, 0x3800, 0x3900)
    assert not list(find_races(replace(program, accelerator="ethos-u55-128")))
    assert not list(find_races(replace(program, operations=(first, replace(second, blockdep=0), STOP))))


def test_a_table_that_buffers_have_overwritten_is_loaded_anew() -> None:
    copy = DmaOperation(ByteRange(0, 0, 256), 0x3800, to_shram=True)
    plain = replace(kernel(), blockdep=0)
    table = replace(plain, activation=LUT)
    lost = replace(small(copy, table, plain, table), accelerator="ethos-u55-64")
    assert [(one.first, one.second) for one in lost_tables(lost)] == [(2, 3)]
    assert not list(lost_tables(replace(lost, accelerator="ethos-u55-128")))
    again = (copy, DmaWait(0), table, plain, KernelWait(0), copy, DmaWait(0), table, STOP)
    whole = replace(small(), accelerator="ethos-u55-64", operations=again, words=(1,) * len(again))
    assert not list(lost_tables(whole))
    assert not list(find_races(whole))


def test_regions_of_one_size_are_one_memory() -> None:
    """The fast scratch is the arena in all memory modes but Dedicated_Sram."""
    copy = DmaOperation(ByteRange(0, 0, 64), 0, 2)
    arena, scratch = REGIONS[1], replace(REGIONS[1], index=2, role=type(REGIONS[1].role).FAST_SCRATCH)
    program = replace(small(copy, kernel()), regions=(REGIONS[0], arena, scratch))
    assert [race.missing for race in find_races(program)] == ["DMA_WAIT 0 is missing"]
    apart = replace(program, regions=(REGIONS[0], arena, replace(scratch, size=64)))
    assert not list(find_races(apart))


# What the registers must not hold at all.


def with_parameter(command: Cmd0, value: int) -> Program:
    """A Program whose words hold another value of a register, or of a wait."""
    words, _ = encode_operations((kernel(), KernelWait(0), STOP))
    edited = tuple(command.value | value << 16 if word & 0xFFFF == command.value else word for word in words)
    assert edited != words
    operations, counts = decode_words(edited)
    return replace(small(), operations=operations, words=counts)


@pytest.mark.parametrize(
    ("command", "value", "message"),
    [
        (Cmd0.BLOCKDEP, 7, "has BLOCKDEP 7 but 0 to 3 exist"),
        (Cmd0.OFM_BLK_WIDTH_M1, 2, "OFM block width 0x3 but a multiple of 2"),
        (Cmd0.OFM_BLK_DEPTH_M1, 11, "OFM block depth 0xc"),
        (Cmd0.KERNEL_WAIT, 16, "waits for 16 outstanding operations"),
    ],
)
def test_a_value_that_no_device_has_is_refused_and_not_cut_to_its_low_bits(command: Cmd0, value: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_program(with_parameter(command, value), accelerator("ethos-u55-128"))


def test_the_last_kernel_of_a_program_is_done_before_the_next_program() -> None:
    network = of_vela("tiny_conv", "ethos-u55-128")
    twice = replace(network, steps=network.steps * 2)
    assert not any(isinstance(one, Race) for one in network_hazards(twice))
