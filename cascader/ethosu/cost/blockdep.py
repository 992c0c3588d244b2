"""BLOCKDEP: how many blocks of the previous kernel may be unfinished when a kernel starts.

The rule is Vela's (Vela 5.2.0, ``register_command_stream_util.py``), on exact element areas. Walk the first three jobs of the kernel (one
per OFM block and IFM depth block) and the last three OFM blocks of the previous one. The value is the distance of the first pair in which
one block reads bytes that the other writes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

from npu_model.accelerator import Accelerator
from npu_model.cost.shram import ifm_depth_step
from npu_model.cost.traversal import Box, block_count, reduces_depth, window_reach
from npu_model.native import native
from npu_model.program import ActivationKind, FeatureMap, KernelOperation, Layout, Upscale
from npu_model.shapes import Shape3D, ceil_div

_NATIVE = native("cascader.ethosu")
"""The compiled distance between a writer and its reader; None if it is not built."""

MAX_BLOCKDEP = 3
"""Largest value of the register (Vela 5.2.0 ``MAX_BLOCKDEP``)."""


def _blocks(shape: Shape3D, block: Shape3D, *, backwards: bool) -> Iterator[Box]:
    """OFM blocks in the order in which the NPU computes them (depth fastest, then width, then height), or in reverse."""
    rows, columns, depths = (
        ceil_div(a, b) for a, b in ((shape.height, block.height), (shape.width, block.width), (shape.depth, block.depth))
    )
    total = rows * columns * depths
    for index in range(total - 1, -1, -1) if backwards else range(total):
        y = index // (columns * depths) * block.height
        x = index // depths % columns * block.width
        c = index % depths * block.depth
        yield Box(y, min(y + block.height, shape.height), x, min(x + block.width, shape.width), c, min(c + block.depth, shape.depth))


def _jobs(operation: KernelOperation, block_shape: Shape3D, operand: FeatureMap) -> Iterator[Box]:
    """Areas of ``operand`` that the jobs read: one job per OFM block, and one per IFM depth block if the kernel sums over channels."""
    shape, kernel, padding = operand.shape, operation.kernel, operation.padding
    step = ifm_depth_step(operation.ifm.dtype.bits, part_kernel=operation.part_kernel)
    for block in _blocks(operation.ofm.shape, block_shape, backwards=False):
        y0, y1 = window_reach(block.y0, block.y1, kernel.stride_y, padding.top, kernel.dilated_height, shape.height, operation.upscale)
        x0, x1 = window_reach(block.x0, block.x1, kernel.stride_x, padding.left, kernel.dilated_width, shape.width, operation.upscale)
        if reduces_depth(operation):
            for c in range(0, shape.depth, step):
                yield Box(y0, y1, x0, x1, c, min(c + step, shape.depth))
        else:
            yield Box(y0, y1, x0, x1, block.c0, min(block.c1, shape.depth))


def _rows(feature_map: FeatureMap, area: Box) -> list[tuple[int, int]]:
    """Byte ranges that enclose the area, row by row and tile by tile, in ascending order."""
    size = feature_map.dtype.bytes
    ranges = []
    columns = [(area.x0, min(area.x1, feature_map.tiles.width0)), (max(area.x0, feature_map.tiles.width0), area.x1)]
    for y in range(area.y0, area.y1):
        for x0, x1 in columns:
            if x0 < x1 and area.c0 < area.c1:
                ends = [feature_map.address(y, x, c) for x in (x0, x1 - 1) for c in (area.c0, area.c1 - 1)]
                ranges.append((min(ends), max(ends) + size))
    return sorted(ranges)


def _intersect(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> bool:
    """Whether a range of ``a`` overlaps one of ``b``."""
    return any(start < other_end and other_start < end for start, end in a for other_start, other_end in b)


def _overlap(operand: FeatureMap | None, ofm: FeatureMap) -> bool:
    if operand is None or operand.region != ofm.region:
        return False
    written = ofm.byte_ranges()
    return any(one.overlaps(other) for one in operand.byte_ranges() for other in written)


def _same_grid(operand: FeatureMap, ofm: FeatureMap) -> bool:
    """Whether both maps have the same distances between rows, columns and channels.

    It is also true if the operand takes every n-th column of the OFM's rows.
    """
    read, written = operand.strides, ofm.strides
    if (operand.layout, operand.dtype.bytes, read.y, read.c) != (ofm.layout, ofm.dtype.bytes, written.y, written.c):
        return False
    return read.x == written.x or (read.x % max(1, written.x) == 0 and operand.shape.width * read.x <= ofm.shape.width * written.x)


def _distance(written: FeatureMap, before: Shape3D, operation: KernelOperation, block: Shape3D, operand: FeatureMap) -> int:
    """Smallest sum of jobs after the start and blocks before the end that separates a reader from its writer, with these blocks."""
    areas = [_rows(written, area) for area in islice(_blocks(written.shape, before, backwards=True), MAX_BLOCKDEP)]
    blockdep = MAX_BLOCKDEP
    for elapsed, area in enumerate(islice(_jobs(operation, block, operand), MAX_BLOCKDEP)):
        read = _rows(operand, area)
        outstanding = next((index for index, rows in enumerate(areas) if _intersect(read, rows)), len(areas))
        blockdep = min(blockdep, elapsed + outstanding)
    return blockdep


def _flat_map(feature_map: FeatureMap) -> tuple[int, ...]:
    shape, tiles, strides = feature_map.shape, feature_map.tiles, feature_map.strides
    return (
        *(shape.height, shape.width, shape.depth, feature_map.layout is Layout.NHCWB16, feature_map.dtype.bytes),
        *(strides.y, strides.x, strides.c, tiles.height0, tiles.height1, tiles.width0, *tiles.bases),
    )


class Dependency:
    """Dependency of an operation on the previous one, from their feature maps; :meth:`blocks` gives BLOCKDEP for any blocks."""

    def __init__(self, previous: KernelOperation, operation: KernelOperation) -> None:
        self._written, self._operation = previous.ofm, operation
        self._operand: FeatureMap | None = None
        self.limit = MAX_BLOCKDEP
        """Blocks that may be unfinished if no two blocks decide it."""
        first, second = _overlap(operation.ifm, previous.ofm), _overlap(operation.ifm2, previous.ofm)
        if not first and not second:
            return
        operand = operation.ifm if first else operation.ifm2
        self.limit = 0
        if operand is None or (first and second):
            return
        broadcast = second and operand.shape.elements < operation.ifm.shape.elements
        if not broadcast and _same_grid(operand, previous.ofm):
            self._operand = operand

    @classmethod
    def none(cls) -> Dependency:
        """The dependency of an operation that reads no result of the previous one."""
        one: Dependency = cls.__new__(cls)
        one._operand, one.limit = None, MAX_BLOCKDEP
        return one

    @cached_property
    def pair(self) -> array[int]:
        """Both kernels for the compiled core, their blocks last; empty if no two blocks tell more than the limit."""
        return array("q") if self._operand is None else self._row(self._operand)

    def _row(self, operand: FeatureMap) -> array[int]:
        op = self._operation
        ofm, kernel, padding = op.ofm.shape, op.kernel, op.padding
        window = kernel.stride_y, kernel.stride_x, kernel.dilated_height, kernel.dilated_width, padding.top, padding.left
        step = ifm_depth_step(op.ifm.dtype.bits, part_kernel=op.part_kernel)
        rest = (op.upscale is not Upscale.NONE, not reduces_depth(op), step)
        return array("q", (*_flat_map(self._written), *_flat_map(operand), ofm.height, ofm.width, ofm.depth, *window, *rest, *[1] * 6))

    def blocks(self, before: Shape3D, block: Shape3D) -> int:
        """Blocks of the previous kernel (0 to 3) that may be unfinished: that kernel has blocks ``before``, the operation ``block``."""
        if self._operand is None:
            return self.limit
        if _NATIVE is None:
            return _distance(self._written, before, self._operation, block, self._operand)
        flat = self.pair
        flat[-6:] = array("q", (before.height, before.width, before.depth, block.height, block.width, block.depth))
        found: int = _NATIVE.blockdep_distance(flat)
        return found


def shares_tables(previous: KernelOperation, operation: KernelOperation, accelerator: Accelerator) -> bool:
    """Whether the two use the same banks of SHRAM, the first one for its table."""
    tables = [op.activation.kind is ActivationKind.LUT for op in (previous, operation)]
    return accelerator.reserved_lut_banks == 0 and tables == [True, False]


def look_back(value: int, operation: KernelOperation, earlier: Sequence[KernelOperation]) -> int:
    """``value``, lowered until no unfinished block belongs to an earlier kernel whose result ``operation`` reads.

    A previous kernel with fewer blocks than BLOCKDEP would leave room for blocks of the kernel before it. No source says whether the
    hardware counts those blocks. In 1,228 kernels that Vela has emitted, none depends on the answer.
    """
    blocks = 0
    for kernel in reversed(earlier):
        if blocks >= value:
            break
        if blocks and any(read.overlaps(written) for read in operation.reads() for written in kernel.writes()):
            return blocks
        if kernel.blockdep == 0:
            break  # It has started, so everything before it is finished.
        blocks += block_count(kernel)
    return value


def block_distance(previous: KernelOperation, operation: KernelOperation, accelerator: Accelerator) -> int:
    """The largest safe value (0 to 3) for ``operation`` as far as the kernel right before it tells.

    It is 0 if one of the two kernels uses SHRAM banks as LUT that the other one uses. It is 0 if both operands come from the previous
    OFM, or a broadcast one, or one that is read in another shape. It is 3 if nothing overlaps, else the distance between writer and
    reader. Addresses are absolute.
    """
    if shares_tables(previous, operation, accelerator):
        return 0
    return Dependency(previous, operation).blocks(previous.block, operation.block)


def blockdep(earlier: Sequence[KernelOperation], operation: KernelOperation, accelerator: Accelerator) -> int:
    """The largest safe value (0 to 3) for ``operation`` after the ``earlier`` kernels, the newest last; 0 after none."""
    return look_back(block_distance(earlier[-1], operation, accelerator), operation, earlier) if earlier else 0
