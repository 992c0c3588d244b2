"""The jobs of a kernel in the NPU's order: its last OFM blocks, and the reads of its first jobs.

This code serves only the check of races and follows the definitions. Another traversal chooses BLOCKDEP and counts cycles.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from npu_model.accelerator import Accelerator
from npu_model.program import FeatureMap, KernelOperation, OperationKind, PoolKind, ResizeAxis, Upscale
from npu_model.shapes import Shape3D
from sim.hazards.spans import SpanPart

Read = tuple[FeatureMap, SpanPart]
"""Elements of a map that a job reads."""

_DEPTH_STEP_BITS = 256
"""Bits of one IFM depth block: 32 channels of 8 bits, 16 of 16 or 8 of 32 (Vela 5.2.0 ``calc_ifm_block_depth``)."""

_PART_KERNEL_STEP = 16
"""Channels of an IFM depth block in part-kernel order, at most: so Vela's C++ core counts its jobs."""


_DEEP_UBLOCK, _SMALL_MACS, _WORD_BITS, _BYTE_BITS = 16, 256, 32, 8


def _cut(extent: int, size: int, number: int) -> tuple[int, int]:
    return number * size, min((number + 1) * size, extent)


def _counts(op: KernelOperation) -> tuple[int, int, int]:
    """OFM blocks along the rows, the columns and the channels."""
    shape, block = op.ofm.shape, op.block
    return tuple(-(-a // b) for a, b in ((shape.height, block.height), (shape.width, block.width), (shape.depth, block.depth)))  # type: ignore[return-value]  # three of them


def block_count(op: KernelOperation) -> int:
    """OFM blocks of a kernel."""
    rows, columns, depths = _counts(op)
    return rows * columns * depths


def block(op: KernelOperation, number: int) -> SpanPart:
    """An OFM block: depth fastest, then width, then height."""
    _, columns, depths = _counts(op)
    shape, size = op.ofm.shape, op.block
    return SpanPart(
        _cut(shape.height, size.height, number // (columns * depths)),
        _cut(shape.width, size.width, number // depths % columns),
        _cut(shape.depth, size.depth, number % depths),
    )


def shared_step(op: KernelOperation) -> int:
    """Channels of an IFM depth block of an accelerator with a shared buffer."""
    step = _DEPTH_STEP_BITS // op.ifm.dtype.bits
    return min(step, _PART_KERNEL_STEP) if op.part_kernel else step


def separate_step(op: KernelOperation, device: Accelerator) -> int:
    """The same with separate buffers (Vela 5.2.0 ``ethos_u85.cpp``); microblocks of 16 channels take 32 on small sizes."""
    height, width = op.modes.ublock
    deep = device.macs // (8 * height * width) == _DEEP_UBLOCK
    if op.part_kernel:
        return _PART_KERNEL_STEP
    if op.ifm.dtype.bits == _WORD_BITS or (deep and device.macs <= _SMALL_MACS and not op.modes.sparse_weights):
        return 32
    return 128 if op.modes.sparse_weights and op.ifm.dtype.bits == _BYTE_BITS else 64


def last_blocks(op: KernelOperation, most: int) -> list[SpanPart]:
    """The last OFM blocks, the very last first."""
    total = block_count(op)
    return [block(op, number) for number in range(total - 1, max(-1, total - 1 - most), -1)]


def _window(outer: tuple[int, int], stride: int, taps: int, pad: int, extent: int, *, doubled: bool) -> tuple[int, int]:
    """Rows (or columns) of the IFM under the OFM's. ``taps`` is the extent of the dilated window."""
    first, last = outer[0] * stride - pad, (outer[1] - 1) * stride - pad + taps - 1
    if doubled:
        first, last = first // 2, last // 2
    return max(first, 0), min(last + 1, extent)


def _neighbours(outer: tuple[int, int], axis: ResizeAxis, extent: int) -> tuple[int, int]:
    """Rows (or columns) of the IFM before and after the positions of the OFM's."""
    first, last = ((place * axis.step + axis.offset) // axis.numerator for place in (outer[0], outer[1] - 1))
    return min(max(first, 0), extent - 1), min(max(last + 2, 1), extent)


def _repeated(shape: Shape3D, part: SpanPart) -> SpanPart:
    """The part of an operand that an elementwise block reads: an axis of one element is repeated."""
    return SpanPart(
        part.y if shape.height > 1 else (0, 1),
        part.x if shape.width > 1 else (0, 1),
        (part.c[0], min(part.c[1], shape.depth)) if shape.depth > 1 else (0, 1),
    )


def _block_jobs(op: KernelOperation, part: SpanPart, step: int) -> Iterator[list[Read]]:
    if op.kind is OperationKind.ELEMENTWISE:
        yield [(fm, _repeated(fm.shape, part)) for fm in (op.ifm, op.ifm2) if fm is not None]
        return
    resize = op.modes.resize
    if resize is not None:
        height, width, depth = op.ifm.shape.height, op.ifm.shape.width, op.ifm.shape.depth
        rows, columns = _neighbours(part.y, resize.y, height), _neighbours(part.x, resize.x, width)
        yield [(op.ifm, SpanPart(rows, columns, (part.c[0], min(part.c[1], depth))))]
        return
    shape, kernel, doubled = op.ifm.shape, op.kernel, op.upscale is not Upscale.NONE
    y = _window(part.y, kernel.stride_y, kernel.dilated_height, op.padding.top, shape.height, doubled=doubled)
    x = _window(part.x, kernel.stride_x, kernel.dilated_width, op.padding.left, shape.width, doubled=doubled)
    yield from ([(op.ifm, SpanPart(y, x, channels))] for channels in _depths(op, part, step))


def _depths(op: KernelOperation, part: SpanPart, step: int) -> Iterator[tuple[int, int]]:
    """Channels of the IFM blocks under an OFM block: its own, or all of them step by step for a sum."""
    depth = op.ifm.shape.depth
    if op.kind is not OperationKind.CONV_2D and op.pool is not PoolKind.REDUCE_SUM:
        yield min(part.c[0], depth - 1), min(part.c[1], depth)
        return
    for first in range(0, depth, step):
        yield first, min(first + step, depth)


def first_jobs(op: KernelOperation, most: int, step: int) -> list[list[Read]]:
    """The reads of each of the first jobs, which sum ``step`` channels of the IFM at a time.

    A job is an OFM block, or each of its IFM depth blocks where channels are summed.

    A job reads all of its window. Windows of more than 8x8 are fetched in sub-kernels, which are not jobs: "jobs are invisibly decomposed
    into subkernels" (Vela 5.2.0 ``get_first_job_input_volume``). Vela's C++ core takes the whole window.
    """
    blocks = (block(op, number) for number in range(min(block_count(op), most)))
    return list(islice((job for part in blocks for job in _block_jobs(op, part, step)), most))
