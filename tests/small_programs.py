"""Small Programs whose cycles can be worked out by hand: one-line constructors for operations and memories."""

from __future__ import annotations

from fractions import Fraction

from msgspec.structs import replace

from npu_model.memory.system import Memory, MemorySystem, Pulse
from npu_model.program import (
    Activation,
    ActivationKind,
    ByteRange,
    Control,
    ControlKind,
    DataType,
    DmaOperation,
    FeatureMap,
    Kernel,
    KernelOperation,
    Layout,
    Operation,
    OperationKind,
    Padding,
    PoolKind,
    Program,
    Region,
    RegionRole,
    Shram,
    Strides,
    Tiles,
)
from npu_model.shapes import Shape3D, round_up

INT8 = DataType(8, signed=True)
CONSTANTS, ARENA = 0, 1
NO_CLAMP = Activation(ActivationKind.NONE, -128, 127)
STOP = Control(ControlKind.STOP, 0xFFFF)
REGIONS = (Region(CONSTANTS, RegionRole.CONSTANTS, 1 << 20), Region(ARENA, RegionRole.ARENA, 1 << 20))


def feature_map(shape: Shape3D, base: int = 0, layout: Layout = Layout.NHCWB16, dtype: DataType = INT8) -> FeatureMap:
    """A dense feature map of the arena in one tile."""
    size = dtype.bytes
    if layout is Layout.NHWC:
        strides = Strides(shape.width * shape.depth * size, shape.depth * size, size)
    else:
        brick = shape.width * 16 * size
        strides = Strides(round_up(shape.depth, 16) // 16 * brick, 16 * size, brick)
    return FeatureMap(ARENA, shape, dtype, layout, Tiles.single(shape, base), strides)


def constant(length: int, start: int = 0) -> tuple[ByteRange, ...]:
    """A weight or scale stream."""
    return (ByteRange(CONSTANTS, start, start + length),)


def conv(
    ofm: Shape3D,
    block: Shape3D,
    ifm_depth: int = 16,
    kernel: Kernel = Kernel(),  # noqa: B008  # frozen
    weights: int = 0,
    blockdep: int = 3,
    ofm_base: int = 1 << 16,
    ifm_base: int = 0,
) -> KernelOperation:
    """A convolution without padding, clamp or scales; feature maps in NHCWB16."""
    height = (ofm.height - 1) * kernel.stride_y + kernel.dilated_height
    width = (ofm.width - 1) * kernel.stride_x + kernel.dilated_width
    return KernelOperation(
        OperationKind.CONV_2D,
        ifm=feature_map(Shape3D(height, width, ifm_depth), ifm_base),
        ofm=feature_map(ofm, ofm_base),
        block=block,
        shram=Shram(10, 12),
        activation=NO_CLAMP,
        kernel=kernel,
        padding=Padding(),
        weights=constant(weights) if weights else (),
        blockdep=blockdep,
    )


def max_pool(ofm: Shape3D, block: Shape3D, kernel: Kernel = Kernel()) -> KernelOperation:  # noqa: B008  # frozen
    """A maximum pooling without padding."""
    return replace(conv(ofm, block, ofm.depth, kernel), kind=OperationKind.POOL, pool=PoolKind.MAX)


def copy(length: int, *, to_shram: bool = False) -> DmaOperation:
    """A transfer from constants to the arena."""
    return DmaOperation(ByteRange(CONSTANTS, 0, length), 0x40000, ARENA, to_shram)


def program(*operations: Operation, accelerator: str = "ethos-u55-128", words: int = 1, names: tuple[str, ...] = ()) -> Program:
    """The operations and NPU_OP_STOP, each of ``words`` command words."""
    every = (*operations, STOP)
    return Program(accelerator, every, (words,) * len(every), REGIONS, names=(*names, "") if names else ())


def memories(sram: Memory, flash: Memory | None = None) -> MemorySystem:
    """``sram`` behind AXI0, and ``flash`` (ideal if None) behind AXI1."""
    return MemorySystem("test", 1, (sram, flash or IDEAL_MEMORY), (1, 0, 0, 0, 0, 0, 0, 0))


def memory(latency: int = 0, outstanding: int = 0, pulse: Pulse | None = None, rate: Fraction = Fraction(1)) -> Memory:
    """A memory of equal latency and bound for reads and writes, with a data path for each."""
    return Memory("test", latency, latency, outstanding, outstanding, cycles_per_word=rate, shared=False, pulse=pulse)


IDEAL_MEMORY = Memory("ideal", 0, 0, shared=False)
IDEAL = memories(IDEAL_MEMORY)
