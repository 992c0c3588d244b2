"""The order in which the NPU walks through a kernel operation: OFM blocks, and the IFM areas that each one needs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from npu_model.cost.shram import ifm_depth_step
from npu_model.program import KernelOperation, OperationKind, PoolKind, Upscale
from npu_model.shapes import Shape3D, ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.weight_stream.order import WeightFormat


class Box(Struct, frozen=True):
    """Rows ``y0`` to ``y1``, columns ``x0`` to ``x1`` and channels ``c0`` to ``c1`` of a feature map, ends exclusive."""

    y0: int
    y1: int
    x0: int
    x1: int
    c0: int
    c1: int

    @property
    def shape(self) -> Shape3D:
        """Height, width and depth of the box."""
        return Shape3D(self.y1 - self.y0, self.x1 - self.x0, self.c1 - self.c0)

    @property
    def is_empty(self) -> bool:
        """Whether the box has no element."""
        return self.y1 <= self.y0 or self.x1 <= self.x0 or self.c1 <= self.c0


class SubKernel(Struct, frozen=True):
    """A part of the filter window that is processed in one pass: first row and column, rows and columns, in taps."""

    y: int
    x: int
    height: int
    width: int

    @property
    def taps(self) -> int:
        """Filter taps of the part."""
        return self.height * self.width


def _pieces(extent: int, side: int) -> list[tuple[int, int]]:
    """Starts and ends of the parts of ``side`` into which ``extent`` is cut; the last part may be smaller."""
    return [(start, min(extent, start + side)) for start in range(0, extent, side)]


def ofm_columns(op: KernelOperation) -> tuple[list[tuple[int, int, int, int]], list[tuple[int, int]]]:
    """Rows and columns (``y0, y1, x0, x1``) of the columns of OFM blocks, clipped to the OFM, and channels of the blocks of each.

    The hardware goes from column to column, depth fastest, then width, then height. Source: Vela's BLOCKDEP rule and weight
    layout; the AXI0 read beats of the FVP fit no other order.
    """
    ofm, block = op.ofm.shape, op.block
    places = [(*rows, *columns) for rows in _pieces(ofm.height, block.height) for columns in _pieces(ofm.width, block.width)]
    return places, _pieces(ofm.depth, block.depth)


def ofm_blocks(op: KernelOperation) -> Iterator[Box]:
    """The OFM blocks, clipped to the OFM, in the hardware's order (:func:`ofm_columns`)."""
    places, depths = ofm_columns(op)
    return (Box(*place, *depth) for place in places for depth in depths)


@lru_cache(maxsize=1024)
def _parts(height: int, width: int, rows: int, columns: int) -> tuple[SubKernel, ...]:
    return tuple(
        SubKernel(y, x, min(rows, height - y), min(columns, width - x)) for y in range(0, height, rows) for x in range(0, width, columns)
    )


def block_count(op: KernelOperation) -> int:
    """OFM blocks of a kernel."""
    shape, block = op.ofm.shape, op.block
    return ceil_div(shape.height, block.height) * ceil_div(shape.width, block.width) * ceil_div(shape.depth, block.depth)


def sub_kernels(op: KernelOperation) -> tuple[SubKernel, ...]:
    """The passes over the filter window: at most 8 x 8 of the dilated window each, row by row."""
    return _parts(op.kernel.height, op.kernel.width, *WeightFormat.of(op).subkernel)


def reduces_depth(op: KernelOperation) -> bool:
    """Whether every OFM channel needs all IFM channels: convolutions and REDUCE_SUM."""
    return op.kind is OperationKind.CONV_2D or op.pool is PoolKind.REDUCE_SUM


def ifm_channel_steps(op: KernelOperation, ofm_box: Box) -> tuple[tuple[int, int], ...]:
    """Channel ranges of the IFM blocks for one OFM block, in order: one per IFM depth block, else the OFM block's own."""
    depth = op.ifm.shape.depth
    if not reduces_depth(op):
        return ((min(ofm_box.c0, depth - 1), min(ofm_box.c1, depth)),)
    step = ifm_depth_step(op.ifm.dtype.bits, part_kernel=op.part_kernel)
    return tuple((c, min(depth, c + step)) for c in range(0, depth, step))


def window_reach(first: int, last: int, stride: int, pad: int, taps: int, extent: int, upscale: Upscale) -> tuple[int, int]:  # noqa: PLR0913  # a window along one axis
    """IFM rows (or columns) for OFM rows ``first`` to ``last`` (exclusive), clipped to the IFM."""
    low, high = first * stride - pad, (last - 1) * stride - pad + taps
    if upscale is not Upscale.NONE:
        low, high = low // 2, ceil_div(high, 2)
    return max(0, low), min(extent, high)


def ifm_box(op: KernelOperation, ofm_box: Box, part: SubKernel, channels: tuple[int, int]) -> Box:
    """The box of the IFM that one pass reads for one OFM block; empty if the window lies in the padding."""
    kernel, ifm = op.kernel, op.ifm.shape
    rows = (part.height - 1) * kernel.dilation_y + 1
    columns = (part.width - 1) * kernel.dilation_x + 1
    top, left = op.padding.top - part.y * kernel.dilation_y, op.padding.left - part.x * kernel.dilation_x
    y0, y1 = window_reach(ofm_box.y0, ofm_box.y1, kernel.stride_y, top, rows, ifm.height, op.upscale)
    x0, x1 = window_reach(ofm_box.x0, ofm_box.x1, kernel.stride_x, left, columns, ifm.width, op.upscale)
    return Box(y0, y1, x0, x1, *channels)


def ifm2_box(shape: Shape3D, ofm_box: Box) -> Box:
    """The box of the second operand, of ``shape``, that an OFM block of an elementwise operation reads; broadcast axes have extent 1."""
    y = (0, 1) if shape.height == 1 else (ofm_box.y0, ofm_box.y1)
    x = (0, 1) if shape.width == 1 else (ofm_box.x0, ofm_box.x1)
    c = (0, 1) if shape.depth == 1 else (ofm_box.c0, ofm_box.c1)
    return Box(*y, *x, *c)


def keeps_ifm(op: KernelOperation, passes: int, timing: TimingParameters = DEFAULT_TIMING) -> bool:
    """Whether the IFM of one OFM block still lies in the input buffer for the next block of the same rows and columns.

    It does if the block needed no more fetches than the double buffer holds and the window is one sub-kernel. The next OFM block, deeper at
    the same position, then reads nothing. The rule is undocumented. It was found from the AXI0 read beats of the FVP, which it reproduces
    exactly on the calibration points. ``passes`` counts the fetches of one OFM block.
    """
    return reduces_depth(op) and passes <= timing.kept_ifm_blocks and len(sub_kernels(op)) == 1
