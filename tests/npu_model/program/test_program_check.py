from __future__ import annotations

import pytest
from msgspec.structs import replace
from reference_data import shared_data

from npu_model.accelerator import accelerator
from npu_model.compiled.network import read_compiled
from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile
from npu_model.program import (
    Activation,
    ActivationKind,
    Binding,
    ByteRange,
    Control,
    ControlKind,
    DataType,
    DmaOperation,
    DmaWait,
    FeatureMap,
    KernelOperation,
    KernelWait,
    Layout,
    Operation,
    OperationKind,
    Program,
    Quantisation,
    Region,
    RegionRole,
    Shram,
    Strides,
    Tiles,
)
from npu_model.program.check import check_program, violations
from npu_model.shapes import Shape3D
from sim import Cause, quick_replay, replay

INT8 = DataType(8, signed=True)
INT16 = DataType(16, signed=True)
SHAPE = Shape3D(4, 4, 32)
STOP = Control(ControlKind.STOP, 0xFFFF)


def bricks(base: int) -> FeatureMap:
    return FeatureMap(1, SHAPE, INT8, Layout.NHCWB16, Tiles.single(SHAPE, base), Strides(128, 16, 64))


def rows(base: int, dtype: DataType = INT8) -> FeatureMap:
    size = dtype.bytes
    return FeatureMap(1, SHAPE, dtype, Layout.NHWC, Tiles.single(SHAPE, base), Strides(128 * size, 32 * size, size))


def on_one_place(shape: Shape3D) -> FeatureMap:
    """A map whose rows and columns lie on one another."""
    return FeatureMap(1, shape, INT8, Layout.NHWC, Tiles.single(shape, 0), Strides(0, 0, 1))


CONV = KernelOperation(
    kind=OperationKind.CONV_2D,
    ifm=bricks(0),
    ofm=bricks(512),
    block=Shape3D(4, 4, 16),
    shram=Shram(8, 16),
    activation=Activation(ActivationKind.NONE, -128, 127),
    weights=(ByteRange(0, 0, 512),),
    scales=(ByteRange(0, 512, 832),),
)
LUT = replace(CONV.activation, kind=ActivationKind.LUT)
DMA = DmaOperation(ByteRange(0, 0, 256), 0, 1)


def program(*operations: Operation, inputs: tuple[Binding, ...] = ()) -> Program:
    regions = (Region(0, RegionRole.CONSTANTS, 1024), Region(1, RegionRole.ARENA, 1024))
    return Program("ethos-u55-128", operations, (1,) * len(operations), regions, inputs)


def test_a_program_inside_its_regions_keeps_the_rules() -> None:
    array = Binding("in", 1, 0, (1, 4, 4, 32), INT8, Quantisation(0.5, 0))
    check_program(program(DMA, DmaWait(0), CONV, KernelWait(1), STOP, inputs=(array,)), accelerator("ethos-u55-128"))


def test_the_measured_programs_keep_the_rules() -> None:
    files = sorted((shared_data() / "fvp" / "streams").glob("*.tflite"))
    assert files
    for path in files:
        for measured in read_compiled(path.read_bytes()).programs:
            assert list(violations(measured, accelerator(measured.accelerator))) == []


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        (
            replace(CONV, ifm=on_one_place(Shape3D(65551, 65551, 8))),
            "has 65551x65551x8 elements as its IFM but 268435456 is the most",
        ),
        (replace(CONV, ofm=bricks(513)), "has OFM base 0x201 but a multiple of 16 is needed"),
        (replace(CONV, ofm=bricks(528)), "has its OFM at bytes 0x210 to 0x410 but region 1 has 0x400"),
        (replace(CONV, ifm=replace(bricks(0), region=3)), "uses region 3 for its IFM but the program has 0, 1"),
        (replace(CONV, ifm=replace(bricks(0), strides=Strides(120, 16, 64))), "has IFM row stride 0x78 but a multiple of 16 is needed"),
        (replace(CONV, ifm=replace(bricks(0), strides=Strides(128, 16, 72))), "has IFM brick stride 0x48 but a multiple of 16 is needed"),
        (replace(CONV, ifm=rows(1, INT16)), "has IFM base 0x1 but a multiple of 2 is needed"),
        (
            replace(CONV, ofm=replace(bricks(0), tiles=Tiles(2, 2, 4, (0, 0, 768 + 16, 0)))),
            "has its OFM at bytes 0x310 to 0x410 but region 1 has 0x400",
        ),
        (replace(CONV, weights=(ByteRange(0, 8, 504),)), "has weights length 0x1f0|has weights base 0x8 but a multiple of 16"),
        (replace(CONV, weights=(ByteRange(0, 0, 500),)), "has weights length 0x1f4 but a multiple of 16 is needed"),
        (replace(CONV, weights=(ByteRange(0, 768, 1280),)), "has its weights at bytes 0x300 to 0x500 but region 0 has 0x400"),
        (replace(CONV, scales=(ByteRange(0, 512, 520),)), "has scales length 0x8 but a multiple of 16 is needed"),
        (replace(CONV, parallel_mode=1), "runs on 2 cores but the accelerator has 1"),
        (replace(CONV, block=Shape3D(33, 4, 16)), "has OFM block 33x4x16 but 32x64x128 is the largest"),
        (replace(CONV, block=Shape3D(4, 4, 12)), "has OFM block depth 0xc but a multiple of 8 is needed"),
        (replace(CONV, block=Shape3D(4, 4, 24)), "(it splits the OFM) 0x18 but a multiple of 16 is needed"),
        (replace(CONV, shram=Shram(25, 16)), "ends its IFM buffer at SHRAM bank 25 but banks 2 to 24 exist"),
        (replace(CONV, shram=Shram(1, 16)), "ends its IFM buffer at SHRAM bank 1 but banks 2 to 24 exist"),
        (replace(CONV, blockdep=4), "has BLOCKDEP 4 but 0 to 3 exist"),
        (replace(CONV, shram=Shram(8, 23)), "starts its accumulators at SHRAM bank 23 but 22 is the last"),
        (replace(CONV, activation=Activation(ActivationKind.NONE, 1, 0)), "clamps to 1 to 0"),
        (replace(DMA, source=ByteRange(0, 8, 264)), "has DMA source 0x8 but a multiple of 16 is needed"),
        (replace(DMA, source=ByteRange(0, 0, 250)), "has DMA length 0xfa but a multiple of 16 is needed"),
        (replace(DMA, destination=4), "has DMA destination 0x4 but a multiple of 16 is needed"),
        (replace(DMA, destination=784), "has its DMA destination at bytes 0x310 to 0x410 but region 1 has 0x400"),
        (replace(DMA, destination=0x5F10, destination_region=0, to_shram=True), "writes SHRAM bytes 0x5f10 to 0x6010 but there are 0x6000"),
        (DmaWait(16), "waits for 16 outstanding operations but the command has room for 0 to 15"),
        (KernelWait(-1), "waits for -1 outstanding operations but the command has room for 0 to 15"),
    ],
)
def test_a_broken_rule_is_named_with_its_operation_value_and_bound(operation: Operation, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        check_program(program(operation, STOP), accelerator("ethos-u55-128"))
    assert str(caught.value).startswith("Operation 0 (")
    assert any(part in str(caught.value) for part in problem.split("|"))


@pytest.mark.parametrize(
    "operation",
    [
        replace(CONV, shram=Shram(2, 16)),
        replace(CONV, shram=Shram(24, 16)),
        replace(CONV, shram=Shram(8, 22)),
        replace(CONV, block=Shape3D(32, 64, 128)),
        replace(CONV, blockdep=3),
        replace(CONV, activation=Activation(ActivationKind.NONE, 1, 1)),
        replace(CONV, weights=(ByteRange(0, 512, 1024),)),
        replace(CONV, ofm=bricks(512)),
        replace(DMA, destination=768),
        replace(DMA, destination=0x5F00, destination_region=0, to_shram=True),
        DmaWait(15),
        KernelWait(0),
    ],
)
def test_the_bound_itself_is_legal(operation: Operation) -> None:
    check_program(program(operation, STOP), accelerator("ethos-u55-128"))


def test_a_wait_that_is_already_met_is_legal_and_takes_no_time() -> None:
    """Vela 3.0.0 waits for two outstanding kernels where no more can be under way."""
    waits = program(CONV, KernelWait(2), DmaWait(1), KernelWait(15), STOP)
    check_program(waits, accelerator("ethos-u55-128"))
    system = profile("off").memory_system()
    run = replay(waits, system)
    assert not any(cause in (Cause.KERNEL_WAIT, Cause.DMA_WAIT) for _, cause in run.waits)
    assert run.cycles == quick_replay(waits, system).cycles


def test_a_kernel_with_a_lut_on_the_small_accelerators_gives_up_the_last_two_banks() -> None:
    plain, table = replace(CONV, shram=Shram(8, 15)), replace(CONV, shram=Shram(8, 15), activation=LUT)
    check_program(program(plain, STOP), accelerator("ethos-u55-64"))
    with pytest.raises(InputError, match="SHRAM bank 15 but 14 is the last"):
        check_program(program(table, STOP), accelerator("ethos-u55-64"))


def test_a_program_ends_with_the_stop() -> None:
    with pytest.raises(InputError, match="last of 1 operations is not NPU_OP_STOP"):
        check_program(program(CONV), accelerator("ethos-u55-128"))


@pytest.mark.parametrize(
    ("binding", "problem"),
    [
        (Binding("in", 1, 1000, (25,), INT8), "Input 'in' has its array at bytes 0x3e8 to 0x401 but region 1 has 0x400"),
        (Binding("in", 1, 0, (4, 0), INT8), "Input 'in' has shape (4, 0)"),
        (Binding("in", 2, 0, (4,), INT8), "Input 'in' uses region 2"),
        (Binding("in", 1, 0, (4,), INT8, Quantisation(0.0, 0)), "Input 'in' has quantisation scale 0.0"),
    ],
)
def test_an_input_lies_in_its_region(binding: Binding, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        check_program(program(STOP, inputs=(binding,)), accelerator("ethos-u55-128"))
    assert str(caught.value).startswith(problem)
