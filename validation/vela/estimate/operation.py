"""An operation as Vela's estimator is told of it: shapes, blocks, formats, memories, weights and the LUT."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from npu_model.program import Kernel, Layout, Upscale
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import Shape3D, round_up
from npu_model.weight_stream.weights import RECORD_BYTES
from validation.vela.estimate.memories import VelaMemory


class Engine(Enum):
    """The part of the NPU that an operator of Vela's graph runs on, as its estimator parts them."""

    CONVOLUTION = "convolution"
    DEPTHWISE = "depthwise"
    POOL = "pool"
    REDUCE_SUM = "reduce-sum"
    ELEMENTWISE = "elementwise"
    TRANSPOSE = "transpose"

    @property
    def has_weights(self) -> bool:
        """Whether weights and a bias and scale table are read."""
        return self in (Engine.CONVOLUTION, Engine.DEPTHWISE)

    @property
    def is_equal_depth(self) -> bool:
        """Whether an OFM channel needs only its own IFM channel."""
        return self in (Engine.DEPTHWISE, Engine.POOL)


ENGINES = {
    **dict.fromkeys(("Conv2D", "FullyConnected"), Engine.CONVOLUTION),
    "DepthwiseConv2D": Engine.DEPTHWISE,
    **dict.fromkeys(("MaxPool", "AvgPool", "SumPool", "QuantizedAvgPool", "QuantizedMaxPool", "ReduceMax", "Rescale"), Engine.POOL),
    # An operator without an engine of its own runs as an average pool over one element.
    **dict.fromkeys(("Quantize", "MemoryCopy", "Reverse", "LUT", "Sigmoid", "Tanh", "Clamp", "Prelu"), Engine.POOL),
    **dict.fromkeys(("Relu", "Relu0To1", "Relu6", "ReluN", "ReluN1To1"), Engine.POOL),
    "ReduceSum": Engine.REDUCE_SUM,
    **dict.fromkeys(("Add", "Sub", "Abs", "Mul", "Minimum", "Maximum", "LeakyRelu", "CLZ", "SHL", "Asr"), Engine.ELEMENTWISE),
    "Transpose": Engine.TRANSPOSE,
}
"""Engine by operator name of the ``perf`` table (Vela 5.2.0 ``GetHWOp``).

MatMul is left out: it is a multiplication and a reduce-sum, and the database has the block of the latter alone.
"""


def stored_elements(shape: Shape3D, layout: Layout | None) -> int:
    """Elements of a feature map as stored: NHCWB16 rounds channels up to 16.

    >>> stored_elements(Shape3D(2, 2, 17), Layout.NHCWB16)
    128
    """
    return shape.height * shape.width * (round_up(shape.depth, 16) if layout is Layout.NHCWB16 else shape.depth)


class VelaOperand(Struct, frozen=True):
    """A feature map of an operation: the shape it uses, the element's bits, the layout (None: neither of the two) and the memory."""

    shape: Shape3D
    bits: int
    layout: Layout | None
    memory: VelaMemory

    @property
    def stored_elements(self) -> int:
        """Elements as stored."""
        return stored_elements(self.shape, self.layout)


class Weights(Struct, frozen=True):
    """The weights of an operation and how they reach the NPU.

    ``encoded_bytes`` are the compressed weights of all OFM depth slices, ``depth_slices`` the slices' channels. If
    ``staging`` is set the weights are copied there, slice by slice: ``first_transfer_bytes`` is the first slice
    with its scales, ``pre_buffered`` says that it is copied during the previous operation, ``full_transfer_cycles`` is the
    copy of everything in one piece.
    """

    encoded_bytes: int
    depth_slices: tuple[int, ...]
    home: VelaMemory
    staging: VelaMemory | None = None
    first_transfer_bytes: int = 0
    pre_buffered: bool = False
    full_transfer_cycles: int = 0

    @property
    def scale_bytes(self) -> int:
        """Bytes of the bias and scale tables: 10 a channel, a multiple of 16 per slice (Vela 5.2.0 weight encoder)."""
        return sum(round_up(RECORD_BYTES * depth, ALIGNMENT) for depth in self.depth_slices)

    @property
    def source(self) -> VelaMemory:
        """The memory that the NPU reads weights from."""
        return self.staging or self.home


class VelaTable(Struct, frozen=True):
    """A look-up table: its bytes and the memory that it is copied from."""

    size: int
    home: VelaMemory


class EstimatedOperation(Struct, frozen=True):
    """One operator as Vela schedules it, whole: cascaded operators are estimated on their full OFM, with the stripe's block.

    ``operator`` is Vela's name of it, ``activation`` that of the operator fused to its output ("" if none). ``lut`` is
    the table that the operator itself loads: Vela counts none for a fused one. ``stripe`` is the OFM that one pass writes.
    """

    operator: str
    engine: Engine
    ifm: VelaOperand
    ifm2: VelaOperand | None
    ofm: VelaOperand
    ifm_block: Shape3D
    ofm_block: Shape3D
    stripe: Shape3D
    kernel: Kernel
    part_kernel: bool = False
    acc40: bool = False
    upscale: Upscale = Upscale.NONE
    activation: str = ""
    weights: Weights | None = None
    lut: VelaTable | None = None

    @property
    def clipped_ofm_block(self) -> Shape3D:
        """The OFM block, no larger than the OFM."""
        return clip(self.ofm_block, self.ofm.shape)

    @property
    def clipped_ifm_block(self) -> Shape3D:
        """The IFM block, no larger than the IFM."""
        return clip(self.ifm_block, self.ifm.shape)


def clip(block: Shape3D, limit: Shape3D) -> Shape3D:
    """The smaller extent along each axis.

    >>> str(clip(Shape3D(8, 16, 64), Shape3D(10, 10, 32)))
    '8x10x32'
    """
    return Shape3D(min(block.height, limit.height), min(block.width, limit.width), min(block.depth, limit.depth))
