"""Block configs chosen by cycles, together with the stripe that they are for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from npu_model.accelerator import Accelerator
from npu_model.cost import mac_cycles, output_cycles
from npu_model.program import BRICK, KernelOperation, Upscale
from npu_model.shapes import Shape3D, ceil_div, round_up
from npu_model.shram import BlockQuery, ifm_depth_step, shram_partition
from npu_model.traffic import BEAT_BYTES
from npu_model.traversal import keeps_ifm, reduces_depth, sub_kernels

SIDES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64)
"""Heights and widths that are tried besides even divisions of the OFM; a search over all gains less than 1 % more."""

GAIN_SHARED = 0.8
GAIN_DIRECT = 0.96
"""What part of the estimate a block may at most have to take the place of the network's own.

Isolated gains are mostly lost where kernels overlap, and a different partition of the shared buffer drains the pipeline;
not so where weights from a slow memory bind, which a larger block reads less often. Both measured on ResNet-8 and VWW.
"""


def _sides(extent: int, ublock: int, limit: int) -> list[int]:
    """Block sides worth a try: whole ublocks, up to the OFM's extent."""
    even = (ceil_div(extent, parts) for parts in range(1, 5))
    rounded = {round_up(side, ublock) for side in (*SIDES, *even)}
    return sorted(side for side in rounded if side <= min(limit, round_up(extent, ublock)))


def _cuts(extent: int, side: int) -> tuple[tuple[int, int], ...]:
    """(size, count) of the pieces that ``extent`` is cut into: whole ones, and a rest."""
    whole, rest = divmod(extent, side)
    return tuple((size, count) for size, count in ((side, whole), (rest, 1 if rest else 0)) if count)


def _passes(op: KernelOperation, depth: int) -> list[tuple[int, int, int]]:
    """(taps, channels, how often) of the MAC steps of one OFM block of ``depth`` channels."""
    channels: tuple[tuple[int, int], ...] = ((depth, 1),)
    if reduces_depth(op):
        channels = _cuts(op.ifm.shape.depth, ifm_depth_step(op.ifm.dtype.bits, part_kernel=op.part_kernel))
    return [(part.taps, size, count) for size, count in channels for part in sub_kernels(op)]


def _ifm_beats(op: KernelOperation, height: int, width: int, depth: int) -> int:
    """Beats that one OFM block fetches of its operands, borders not counted off."""
    kernel = op.kernel
    rows, columns = (height - 1) * kernel.stride_y + kernel.dilated_height, (width - 1) * kernel.stride_x + kernel.dilated_width
    if op.upscale is not Upscale.NONE:
        rows, columns = ceil_div(rows, 2), ceil_div(columns, 2)
    channels = op.ifm.shape.depth if reduces_depth(op) else depth
    bytes_read = min(rows, op.ifm.shape.height) * min(columns, op.ifm.shape.width) * round_up(channels, BRICK) * op.ifm.dtype.bytes
    return ceil_div(bytes_read * (2 if op.ifm2 is not None else 1), BEAT_BYTES)


def estimate(op: KernelOperation, block: Shape3D, accelerator: Accelerator, home_rate: float | None = None) -> float:
    """Cycles of a kernel with this block: the sum over its blocks of the slowest unit.

    Its constants share the port of the feature maps, or are read at ``home_rate`` cycles a word from a memory of their own.
    The first fetch, the last output and the last store stand alone. Closed form over the at most eight kinds of blocks
    (whole or rest in each dimension), so borders are counted as if they were read.
    """
    ofm = op.ofm.shape
    constants = sum(r.length for r in op.weights + op.scales)
    total, ends = 0.0, 0
    for (h, rows), (w, columns), (d, depths) in product(
        _cuts(ofm.height, block.height), _cuts(ofm.width, block.width), _cuts(ofm.depth, block.depth)
    ):
        passes = _passes(op, d)
        steps = sum(count for _, _, count in passes)
        mac = sum(count * mac_cycles(op, accelerator, Shape3D(h, w, d), taps, channels) for taps, channels, count in passes)
        output = output_cycles(op, accelerator, h * w * d)
        fetch, store = _ifm_beats(op, h, w, d), ceil_div(h * w * round_up(d, BRICK) * op.ofm.dtype.bytes, BEAT_BYTES)
        weights = ceil_div(constants * d, ofm.depth * BEAT_BYTES)
        kept = keeps_ifm(op, steps)
        shared, own = (weights, 0.0) if home_rate is None else (0, weights * home_rate)
        again = max(mac, output, own, store + shared + (0 if kept else fetch))
        total += rows * columns * (max(mac, output, own, store + shared + fetch) + (depths - 1) * again)
        ends = fetch // steps + output + store
    return total + ends


def _candidates(op: KernelOperation, accelerator: Accelerator) -> Iterator[Shape3D]:
    """Blocks of the depth that the weights are encoded for, of any allowed depth where there are none."""
    ofm, ublock, limit = op.ofm.shape, accelerator.ofm_ublock, accelerator.max_block
    depths = {op.block.depth}
    if not op.weights:
        depths |= {min(limit.depth, round_up(d, BRICK)) for d in (16, 32, 64, 128) if d < ofm.depth}
        if ofm.depth <= limit.depth:
            depths.add(round_up(ofm.depth, ublock.depth))
    for height in _sides(ofm.height, ublock.height, limit.height):
        for width in _sides(ofm.width, ublock.width, limit.width):
            for depth in sorted(depths):
                yield Shape3D(height, width, depth)


def choose_block(op: KernelOperation, accelerator: Accelerator, home_rate: float | None = None) -> Shape3D:
    """The block that :func:`estimate` finds fastest among those that fit; the operation's own unless the gain is clear."""
    query = BlockQuery.of(op)
    gain = GAIN_SHARED if home_rate is None else GAIN_DIRECT
    best, least = op.block, estimate(op, op.block, accelerator, home_rate) * gain
    for block in _candidates(op, accelerator):
        if shram_partition(query, block, accelerator) is None:
            continue
        cycles = estimate(op, block, accelerator, home_rate)
        if cycles < least:
            best, least = block, cycles
    return best
