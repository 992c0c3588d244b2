"""Traffic of an Ethos-U85's kernels: the runs of 16-byte beats that each OFM block reads and writes.

The rules were found from the beat counters of the published inferences, which they reproduce exactly: Writes are as on the U55. Weights and
scales are read once for each position of OFM blocks. A window is read in strips of 8 columns over its full height. Elementwise operands in
NHWC are cut at 16 channels. A resize reads two rows of the IFM for each row of the OFM. The input buffer keeps up to four IFM blocks for
the next OFM block at a position, which takes them in the opposite order. :func:`unmet` names the kernels that no point covers.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from npu_model.accelerator import Accelerator
from npu_model.cost.traffic import Runs, pixel_runs, read_runs, write_runs
from npu_model.cost.traversal import Box, ifm2_box, ofm_columns, reduces_depth, window_reach
from npu_model.program import (
    BRICK,
    FeatureMap,
    KernelOperation,
    Layout,
    MapStorage,
    OperationKind,
    PoolKind,
    ResizeKind,
    Reverse,
    Transpose,
    Upscale,
)
from npu_model.program.check import ofm_ublock_of
from npu_model.shapes import ceil_div
from npu_model.weight_stream.deep_order import ifm_block_depth

KEPT_BLOCKS = 4
"""IFM blocks that the input buffer keeps. It is a fit: five kernels of one network (an anomaly detector, on 128 and 256 MACs) decide it."""

STRIP = 8
"""The most taps of the dilated window in a strip, along a row."""


Reads = tuple[tuple[int, Runs], ...]
"""Beats that are read, by region."""


class DeepStep(Struct, frozen=True):
    """The part of an OFM block with channels ``c0`` to ``c1`` of its IFM, and its reads of the operands: none if the part is kept."""

    c0: int
    c1: int
    fetches: Reads


class DeepBlock(Struct, frozen=True):
    """One OFM block: its steps, a part of the IFM's channels each, and the beats that it writes.

    The first block of a position reads the ``streams`` of weights and scales for all of them.
    """

    box: Box
    steps: tuple[DeepStep, ...]
    streams: Reads
    writes: Runs

    @property
    def fetches(self) -> Reads:
        """The beats that the block reads of the operands."""
        return tuple(read for step in self.steps for read in step.fetches)


def depth_step(op: KernelOperation, device: Accelerator) -> int:
    """IFM channels of an IFM block: all channels of the OFM block, or those that are summed at a time."""
    if not reduces_depth(op):
        return op.block.depth
    depth, sparse = ofm_ublock_of(op, device).depth, op.modes.sparse_weights
    return ifm_block_depth(device.macs, depth, op.ifm.dtype.bits, part_kernel=op.part_kernel, sparse=sparse)


def _strips(op: KernelOperation) -> list[tuple[int, int]]:
    """First tap and taps of the strips of a window."""
    width, side = op.kernel.width, STRIP // op.kernel.dilation_x
    return [(first, min(side, width - first)) for first in range(0, width, side)]


def _strip_box(op: KernelOperation, box: Box, strip: tuple[int, int], channels: tuple[int, int]) -> Box:
    """The part of the IFM that a strip of the window reads for an OFM block."""
    kernel, ifm = op.kernel, op.ifm.shape
    first, taps = strip
    columns = (taps - 1) * kernel.dilation_x + 1
    rows = window_reach(box.y0, box.y1, kernel.stride_y, op.padding.top, kernel.dilated_height, ifm.height, op.upscale)
    left = op.padding.left - first * kernel.dilation_x
    return Box(*rows, *window_reach(box.x0, box.x1, kernel.stride_x, left, columns, ifm.width, op.upscale), *channels)


def _operand_runs(fm: FeatureMap, box: Box, word: int) -> Runs:
    """Runs that read an operand of an elementwise operation."""
    if box.is_empty:
        return ()
    if fm.layout is Layout.NHCWB16:
        return read_runs(fm, box, word)
    dense = (box.c1 - box.c0) * fm.dtype.bytes == fm.strides.x and box.c1 - box.c0 <= BRICK
    return read_runs(fm, box, word) if dense else pixel_runs(fm, box, BRICK, word)


def _resize_reads(op: KernelOperation, box: Box, word: int) -> Iterator[Runs]:
    """Two rows for each OFM row, one before and one after its position."""
    resize, ifm = op.modes.resize, op.ifm.shape
    if resize is None:
        return
    first, last = ((x * resize.x.step + resize.x.offset) // resize.x.numerator for x in (box.x0, box.x1 - 1))
    columns = max(0, first), min(ifm.width, last + 2)
    for y in range(box.y0, box.y1):
        place = (y * resize.y.step + resize.y.offset) // resize.y.numerator
        for row in (place, place + 1):
            kept = min(max(row, 0), ifm.height - 1)
            for c in range(box.c0, min(box.c1, ifm.depth), BRICK):
                yield read_runs(op.ifm, Box(kept, kept + 1, *columns, c, min(c + BRICK, box.c1, ifm.depth)), word)


def _stored(op: KernelOperation, box: Box) -> Box:
    """An OFM block at its address in memory: in another order of axes, or backwards along one."""
    spans = [[box.y0, box.y1], [box.x0, box.x1], [box.c0, box.c1]]
    axis = op.modes.reverse.axis
    if axis is not None:
        extent = (op.ofm.shape.height, op.ofm.shape.width, op.ofm.shape.depth)[axis]
        spans[axis] = [extent - spans[axis][1], extent - spans[axis][0]]
    (y0, y1), (x0, x1), (c0, c1) = (spans[axis] for axis in op.modes.transpose.axes)
    return Box(y0, y1, x0, x1, c0, c1)


class _Kernel:
    """The reads and writes of the blocks of one kernel."""

    def __init__(self, op: KernelOperation, device: Accelerator) -> None:
        self._op = op
        self._word = device.port_bytes_per_cycle
        self._step = depth_step(op, device)
        self._strips = _strips(op)
        self._device = device
        self._single = len(self._strips) == 1 and op.kernel.dilated_height <= STRIP

    def _in_memory(self, fm: FeatureMap | None) -> bool:
        return fm is not None and fm.storage is MapStorage.TILES

    def _steps(self, box: Box, number: int) -> Iterator[DeepStep]:
        """The steps of a block; ``number`` blocks came before it at its position.

        IFM blocks are taken upwards and downwards in turn, so that the last ones of a block are the first ones of the next and are kept.
        """
        op, channels = self._op, self._channels(box)
        if not reduces_depth(op):
            yield DeepStep(*channels[0], tuple(self._own_reads(box, channels[0])))
            return
        kept = self._slots(box, channels[0]) if number and self._single else 0
        for place, (c0, c1) in enumerate(channels if number % 2 == 0 else channels[::-1]):
            yield DeepStep(c0, c1, () if place < kept else tuple(self._window_reads(box, (c0, c1))))

    def _own_reads(self, box: Box, channels: tuple[int, int]) -> Iterator[tuple[int, Runs]]:
        """The runs that a block reads if its channels need only their own."""
        op = self._op
        if op.kind is OperationKind.ELEMENTWISE:
            for fm in (op.ifm, op.ifm2):
                if fm is not None and self._in_memory(fm):
                    yield fm.region, _operand_runs(fm, ifm2_box(fm.shape, box), self._word)
        elif op.pool is PoolKind.NONE:
            if op.ifm2 is not None:
                yield op.ifm2.region, _operand_runs(op.ifm2, box, self._word)
        elif op.kind is OperationKind.RESIZE:
            yield from ((op.ifm.region, runs) for runs in _resize_reads(op, box, self._word))
        else:
            yield from self._window_reads(box, channels)

    def _window_reads(self, box: Box, channels: tuple[int, int]) -> Iterator[tuple[int, Runs]]:
        """The runs of the window's strips."""
        if self._in_memory(self._op.ifm):
            for strip in self._strips:
                yield self._op.ifm.region, read_runs(self._op.ifm, _strip_box(self._op, box, strip, channels), self._word)

    def _slots(self, box: Box, channels: tuple[int, int]) -> int:
        """IFM blocks that the input buffer keeps: four, or fewer if they are larger than a quarter of it."""
        buffers = self._device.buffers
        area = _strip_box(self._op, box, self._strips[0], channels).shape
        size = max(1, area.height * area.width * self._step * self._op.ifm.dtype.bytes)
        return min(KEPT_BLOCKS, max(1, buffers.input // size)) if buffers is not None else KEPT_BLOCKS

    def _channels(self, box: Box) -> list[tuple[int, int]]:
        depth = self._op.ifm.shape.depth
        if not reduces_depth(self._op):
            return [(min(box.c0, depth - 1), min(box.c1, depth))]
        return [(c, min(depth, c + self._step)) for c in range(0, depth, self._step)]

    def _streams(self) -> tuple[tuple[int, Runs], ...]:
        ranges = (*self._op.weights, *self._op.scales)
        return tuple((part.region, (ceil_div(part.end, self._word) - part.start // self._word,)) for part in ranges if part.length)

    def blocks(self) -> Iterator[DeepBlock]:
        """The blocks in the hardware's order: depth fastest, then width, then height."""
        places, depths = ofm_columns(self._op)
        for place in places:
            for number, channels in enumerate(depths):
                box = Box(*place, *channels)
                written = write_runs(self._op.stored, _stored(self._op, box), self._word) if self._in_memory(self._op.ofm) else ()
                yield DeepBlock(box, tuple(self._steps(box, number)), () if number else self._streams(), written)


def deep_blocks(op: KernelOperation, device: Accelerator) -> Iterator[DeepBlock]:
    """The OFM blocks of a kernel, each with its reads and writes."""
    return _Kernel(op, device).blocks()


def deep_beats(op: KernelOperation, device: Accelerator) -> Iterator[tuple[int, int, int]]:
    """Region, beats read and beats written of all accesses of a kernel."""
    for block in deep_blocks(op, device):
        for region, runs in block.fetches + block.streams:
            yield region, sum(runs), 0
        yield op.ofm.region, 0, sum(block.writes)


def _unmet(op: KernelOperation, device: Accelerator) -> Iterator[tuple[bool, str]]:
    """Kinds of kernels without a published point, each with its test."""
    deep = reduces_depth(op) and op.ofm.shape.depth > op.block.depth
    parts = len(_strips(op)) > 1 or op.kernel.dilated_height > STRIP
    yield deep and parts, "a window of several sub-kernels with several OFM blocks in depth (one layer of one network bears the rule)"
    kept = min(ceil_div(op.ifm.shape.depth, depth_step(op, device)), KEPT_BLOCKS)
    room = device.buffers.input if device.buffers is not None else 0
    yield deep and kept > 1 and kept * _window_bytes(op, device) > room, "kept IFM blocks that are larger than the input buffer"
    yield op.modes.resize is not None and op.modes.resize.kind is not ResizeKind.NEAREST, "a bilinear resize"
    yield op.ifm.dtype.bits > BYTE or op.ofm.dtype.bits > BYTE, "elements of more than 8 bits"
    yield op.modes.transpose is not Transpose.HWC or op.modes.reverse is not Reverse.NONE, "an output that is stored in another order"
    yield op.modes.weights_from_ifm2 or op.pool in _RARE, "a matrix product, a copy of accumulators or an ARG_MAX"
    yield op.upscale is not Upscale.NONE or not op.ifm.is_single_tile, "an IFM that is upscaled or of several tiles"


BYTE = 8
_RARE = PoolKind.NONE, PoolKind.ARGMAX_X, PoolKind.ARGMAX_Y


def unmet(op: KernelOperation, device: Accelerator) -> str:
    """The reason why the published points say little about a kernel's traffic; "" if they cover it."""
    return next((reason for applies, reason in _unmet(op, device) if applies), "")


def _window_bytes(op: KernelOperation, device: Accelerator) -> int:
    """Bytes of the IFM block under a whole OFM block."""
    kernel, block = op.kernel, op.block
    rows = min(op.ifm.shape.height, (min(block.height, op.ofm.shape.height) - 1) * kernel.stride_y + kernel.dilated_height)
    columns = min(op.ifm.shape.width, (min(block.width, op.ofm.shape.width) - 1) * kernel.stride_x + kernel.dilated_width)
    return rows * columns * depth_step(op, device) * op.ifm.dtype.bytes
