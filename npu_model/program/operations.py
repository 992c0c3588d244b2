"""The operations of a Program: kernel operations, DMA transfers, waits and control."""

from __future__ import annotations

from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from npu_model.program.coded import Coded
from npu_model.program.feature_map import ByteRange, FeatureMap
from npu_model.program.modes import PLAIN, IndexList, Modes, Rows, TableFormat
from npu_model.shapes import Shape3D, ceil_div


class OperationKind(Enum):
    """Kinds of kernel operations (the NPU_OP_* command)."""

    __hash__ = object.__hash__  # An Enum's own runs in Python, at each look-up.

    CONV_2D = "CONV_2D"
    DEPTHWISE = "DEPTHWISE"
    POOL = "POOL"
    ELEMENTWISE = "ELEMENTWISE"
    RESIZE = "RESIZE"


class PoolKind(Coded):
    """Parameter of NPU_OP_POOL; values from SUM on exist only on the U85."""

    MAX = "MAX", 0
    AVERAGE = "AVERAGE", 1
    REDUCE_SUM = "REDUCE_SUM", 2
    SUM = "SUM", 3
    NONE = "NONE", 4
    MIN = "MIN", 5
    ARGMAX_X = "ARGMAX_X", 6
    ARGMAX_Y = "ARGMAX_Y", 7


class ElementwiseKind(Coded):
    """Parameter of NPU_OP_ELEMENTWISE; values from LSR on exist only on the U85."""

    MUL = "MUL", 0
    ADD = "ADD", 1
    SUB = "SUB", 2
    MIN = "MIN", 3
    MAX = "MAX", 4
    LRELU = "LRELU", 5
    ABS = "ABS", 6
    CLZ = "CLZ", 7
    SHR = "SHR", 8
    SHL = "SHL", 9
    LSR = "LSR", 10
    DIV = "DIV", 11
    EQUAL = "EQUAL", 16
    NOT_EQUAL = "NOT_EQUAL", 17
    GREATER_EQUAL = "GREATER_EQUAL", 18
    GREATER = "GREATER", 19
    AND = "AND", 33
    OR = "OR", 34
    XOR = "XOR", 35
    NOT = "NOT", 36
    AND_NOT = "AND_NOT", 42

    @property
    def is_unary(self) -> bool:
        """Whether the operation has a single operand."""
        return self in (ElementwiseKind.LRELU, ElementwiseKind.ABS, ElementwiseKind.CLZ, ElementwiseKind.NOT)


class Rounding(Coded):
    """Rounding of the output scaling (round field of IFM/OFM_PRECISION); codes from 16 on are not the U55's.

    The U85 has its own codes: natural rounding and truncation (towards zero) have other numbers there.
    """

    DOUBLE = "DOUBLE", 0
    TRUNCATE = "TRUNCATE", 1
    NATURAL = "NATURAL", 2
    DOUBLE_ASYMMETRIC = "DOUBLE_ASYMMETRIC", 18
    SYMMETRIC = "SYMMETRIC", 19
    TRUNCATE_LOWER = "TRUNCATE_LOWER", 21


class Upscale(Coded):
    """IFM_UPSCALE: none, nearest neighbour times two, zeros inserted times two."""

    NONE = "NONE", 0
    NEAREST = "NEAREST", 1
    ZEROS = "ZEROS", 2


class ActivationKind(Enum):
    """Step after the clamp: nothing, a native function, or a table in SHRAM."""

    __hash__ = object.__hash__  # An Enum's own runs in Python, at each look-up.

    NONE = "NONE"
    TANH = "TANH"
    SIGMOID = "SIGMOID"
    LUT = "LUT"


class ClipRange(Coded):
    """Number format to which the value is clipped before the LUT (ACTIVATION bits 12-14 of the U55); NONE: not at all."""

    OFM = "OFM", 0
    NONE = "NONE", 16
    UINT8 = "UINT8", 2
    INT8 = "INT8", 3
    INT16 = "INT16", 5


class AccumulatorFormat(Coded):
    """ACC_FORMAT: 32-bit or 40-bit integers, or half floats; 48-bit integers on the U85, with another code."""

    INT32 = "INT32", 0
    INT40 = "INT40", 1
    FP16 = "FP16", 2
    INT48 = "INT48", 17


class ScaledOperand(Coded):
    """The operand that OPA_SCALE rescales in ADD and SUB (scale mode of IFM_PRECISION); EACH: each operand has a full scale of its own."""

    BOTH = "BOTH", 0
    A = "A", 1
    B = "B", 2
    EACH = "EACH", 16


LONGEST_STRIDE = 3
"""The longest step of the NPU's kernels in elements (Vela 5.2's supported operators)."""


class Kernel(Struct, frozen=True):
    """Filter window in elements, undilated, with its strides and dilations."""

    height: int = 1
    width: int = 1
    stride_y: int = 1
    stride_x: int = 1
    dilation_y: int = 1
    dilation_x: int = 1

    @property
    def dilated_height(self) -> int:
        """Rows that the dilated window spans."""
        return (self.height - 1) * self.dilation_y + 1

    @property
    def dilated_width(self) -> int:
        """Columns that the dilated window spans."""
        return (self.width - 1) * self.dilation_x + 1

    @property
    def elements(self) -> int:
        """Filter taps: height * width."""
        return self.height * self.width


class Padding(Struct, frozen=True):
    """Rows and columns of zeros around the IFM."""

    top: int = 0
    left: int = 0
    bottom: int = 0
    right: int = 0


class Scale(Struct, frozen=True):
    """A fixed-point factor: the 32-bit word and the right shift of the product.

    ``double_round`` is the U85's field of double rounding: the operand's left shift for which it compensates. ``is_natural`` says that an
    operand's scale rounds naturally; the OFM's rounding is the operation's.
    """

    scale: int
    shift: int
    double_round: int = 0
    is_natural: bool = False


class Activation(Struct, frozen=True):
    """Clamp and function applied before the result is stored; ``lut`` is the table's number (0-7), counted in tables of its size."""

    kind: ActivationKind
    minimum: int
    maximum: int
    lut: int = 0
    clip: ClipRange = ClipRange.OFM
    table: TableFormat = TableFormat.OFM


class Shram(Struct, frozen=True):
    """Partition of the shared buffer, in banks of 1 KiB: end of the IFM buffer, start of IFM2's, start of the accumulators."""

    ib_end: int
    ab_start: int
    ib2_start: int = 0


SEPARATE_BUFFERS = Shram(0, 0)
"""The partition of a kernel whose buffers are separate memories, without sharing."""


class Broadcast(Struct, frozen=True):
    """IFM2_BROADCAST: the axes along which IFM2 repeats, and whether the operands are swapped."""

    height: bool = False
    width: bool = False
    depth: bool = False
    swap: bool = False

    def operand(self, ofm: Shape3D) -> Shape3D:
        """The shape of an operand that repeats along these axes under an OFM of this shape."""
        return Shape3D(1 if self.height else ofm.height, 1 if self.width else ofm.width, 1 if self.depth else ofm.depth)


class KernelOperation(Struct, frozen=True):
    """One NPU_OP_CONV, DEPTHWISE, POOL, ELEMENTWISE or RESIZE with every register that it uses resolved.

    ``pool`` and ``elementwise`` are set only for their kinds. An elementwise operation has ``ifm2`` (a feature map) or ``scalar``
    (IFM2_SCALAR; its zero point in ``scalar_zero_point``) unless it is unary. ``weights`` and ``scales`` hold one range per core. If either
    operand may be the ``scalar``, its map exists without storage.
    """

    kind: OperationKind
    ifm: FeatureMap
    ofm: FeatureMap
    block: Shape3D
    shram: Shram
    activation: Activation
    kernel: Kernel = Kernel()
    padding: Padding = Padding()
    pool: PoolKind | None = None
    elementwise: ElementwiseKind | None = None
    ifm2: FeatureMap | None = None
    scalar: int | None = None
    scalar_zero_point: int = 0
    broadcast: Broadcast = Broadcast()
    weights: tuple[ByteRange, ...] = ()
    scales: tuple[ByteRange, ...] = ()
    part_kernel: bool = False
    decompose: bool = False
    accumulator: AccumulatorFormat = AccumulatorFormat.INT32
    rounding: Rounding = Rounding.DOUBLE
    global_scale: bool = False
    ofm_scale: Scale = Scale(1, 0)
    opa_scale: Scale = Scale(0, 0)
    opb_scale: Scale = Scale(0, 0)
    scaled_operand: ScaledOperand = ScaledOperand.BOTH
    upscale: Upscale = Upscale.NONE
    parallel_mode: int = 0
    blockdep: int = 0
    modes: Modes = PLAIN

    @property
    def is_binary(self) -> bool:
        """Whether a second operand (tensor or scalar) takes part."""
        return self.elementwise is not None and not self.elementwise.is_unary

    @property
    def mnemonic(self) -> str:
        """Short name: the kind, with the pooling or elementwise function after a dot."""
        detail = self.pool or self.elementwise
        return f"{self.kind.value}.{detail.name}" if detail is not None else self.kind.value

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the operation's mathematics (no padding of channels or blocks); 0 for elementwise."""
        if self.kind in (OperationKind.ELEMENTWISE, OperationKind.RESIZE) or self.pool is PoolKind.NONE:
            return 0
        per_output = self.kernel.elements
        if self.kind is OperationKind.CONV_2D or self.pool is PoolKind.REDUCE_SUM:
            per_output *= self.ifm.shape.depth
        return self.ofm.shape.elements * per_output

    def reads(self) -> tuple[ByteRange, ...]:
        """Every byte range of external memory that the operation may read."""
        maps = self.ifm.byte_ranges() + (self.ifm2.byte_ranges() if self.ifm2 else ())
        return maps + self.weights + self.scales

    def writes(self) -> tuple[ByteRange, ...]:
        """Every byte range of external memory that the operation may write."""
        return self.stored.byte_ranges()

    @property
    def stored(self) -> FeatureMap:
        """The OFM with its axes in memory order; ``ofm`` has them in the order of computation."""
        axes = self.modes.transpose.axes
        if axes == (0, 1, 2):
            return self.ofm
        extents = self.ofm.shape.height, self.ofm.shape.width, self.ofm.shape.depth
        return replace(self.ofm, shape=Shape3D(*[extents[axis] for axis in axes]))

    def having(self, **changes: Any) -> KernelOperation:
        """The operation with other values of some fields."""
        return replace(self, **changes)


INDEX_BYTES = 4
"""Bytes of a row number of an indexed transfer (Vela 5.2.0 makes int32 of them)."""


class DmaOperation(Struct, frozen=True):
    """NPU_OP_DMA_START: ``source`` is copied to address ``destination`` of ``destination_region``.

    With ``to_shram`` the destination is an offset into the shared buffer (a LUT) and the region is unused. If ``rows`` are given, source
    and destination belong to the first row.
    """

    source: ByteRange
    destination: int
    destination_region: int = 0
    to_shram: bool = False
    rows: Rows | None = None

    @property
    def length(self) -> int:
        """Bytes transferred; with ``rows`` the bytes of one row."""
        return self.source.length

    def reads(self) -> tuple[ByteRange, ...]:
        """The source range, from the first to the last byte that may be read; an indexed transfer reads its row numbers too."""
        rows = self.rows
        if rows is None:
            return (self.source,)
        span = ByteRange(self.source.region, self.source.start, self.source.start + self._extent(rows.source, picked=True))
        indices = rows.indices
        if indices is None:
            return (span,)
        numbers = INDEX_BYTES * rows.count + (rows.planes - 1) * max(indices.skip, INDEX_BYTES * rows.count)
        return span, ByteRange(indices.region, indices.address, indices.address + numbers)

    def _extent(self, strides: tuple[int, int], *, picked: bool) -> int:
        """Bytes from the first row's start to the end of the last row that a side may touch; ``picked``: of the source."""
        rows = self.rows or Rows(1)
        indices: IndexList | None = rows.indices
        last = indices.largest if indices is not None and indices.picks_source is picked else rows.count - 1
        return last * strides[0] + (rows.planes - 1) * strides[1] + self.length

    def writes(self) -> tuple[ByteRange, ...]:
        """The destination range in external memory; empty for a transfer to SHRAM."""
        if self.to_shram:
            return ()
        extent = self.length if self.rows is None else self._extent(self.rows.destination, picked=False)
        return (ByteRange(self.destination_region, self.destination, self.destination + extent),)


class DmaWait(Struct, frozen=True):
    """NPU_OP_DMA_WAIT: block the command processor until at most ``outstanding`` DMA transfers remain."""

    outstanding: int


class KernelWait(Struct, frozen=True):
    """NPU_OP_KERNEL_WAIT: block the command processor until at most ``outstanding`` kernels remain."""

    outstanding: int


class ControlKind(Enum):
    """Commands that neither compute nor copy."""

    STOP = 0
    IRQ = 1
    PMU_MASK = 0x13


class Control(Struct, frozen=True):
    """NPU_OP_STOP, NPU_OP_IRQ or NPU_OP_PMU_MASK with its parameter."""

    kind: ControlKind
    parameter: int = 0


Operation = KernelOperation | DmaOperation | DmaWait | KernelWait | Control


def ifm_extent(ofm: int, stride: int, dilated: int, pad_before: int, pad_after: int, upscale: Upscale) -> int:
    """Rows (or columns) of the IFM that an operation reads: no register holds them.

    ``(ofm - 1) * stride + dilated - pads``, halved (rounded up) when the IFM is upscaled.

    >>> ifm_extent(8, 2, 3, 0, 1, Upscale.NONE)
    16
    """
    extent = (ofm - 1) * stride + dilated - pad_before - pad_after
    return extent if upscale is Upscale.NONE else ceil_div(extent, 2)
