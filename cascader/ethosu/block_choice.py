"""Block configs chosen by cycles, together with the stripe that they are for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from npu_model.accelerator import Accelerator
from npu_model.cost import mac_cycles, output_rate
from npu_model.program import BRICK, KernelOperation, Upscale
from npu_model.shapes import Shape3D, ceil_div, round_up
from npu_model.shram import BlockQuery, ifm_depth_step, shram_partition
from npu_model.traffic import BEAT_BYTES
from npu_model.traversal import keeps_ifm, reduces_depth, sub_kernels

SIDES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64)
"""Heights and widths that are tried besides even divisions of the OFM; a search over all gains less than 1 % more."""

PROMISING = 0.98
"""What part of the own block's estimate another one may have to be looked at."""
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


class Estimator:
    """Cycles of one kernel for any block; what does not depend on the block is worked out once.

    Its constants share the port of the feature maps, or are read at ``home_rate`` cycles a word from a memory of their own.
    """

    def __init__(self, op: KernelOperation, accelerator: Accelerator, home_rate: float | None) -> None:
        self._op = op
        self._accelerator = accelerator
        self._home_rate = home_rate
        self._constants = sum(r.length for r in op.weights + op.scales)
        self._output = output_rate(op, accelerator).as_integer_ratio()
        self._kernels = tuple(part.taps for part in sub_kernels(op))
        self._reduces = reduces_depth(op)
        self._channels: tuple[tuple[int, int], ...] = ((op.ifm.shape.depth, 1),)
        if self._reduces:
            self._channels = _cuts(op.ifm.shape.depth, ifm_depth_step(op.ifm.dtype.bits, part_kernel=op.part_kernel))
        self._steps = len(self._kernels) * sum(count for _, count in self._channels)
        self._kept = keeps_ifm(op, self._steps)

    def _fetch(self, height: int, width: int, depth: int) -> int:
        """Beats that one OFM block fetches of its operands, borders not counted off."""
        op, kernel = self._op, self._op.kernel
        rows, columns = (height - 1) * kernel.stride_y + kernel.dilated_height, (width - 1) * kernel.stride_x + kernel.dilated_width
        if op.upscale is not Upscale.NONE:
            rows, columns = ceil_div(rows, 2), ceil_div(columns, 2)
        channels = op.ifm.shape.depth if self._reduces else depth
        bytes_read = min(rows, op.ifm.shape.height) * min(columns, op.ifm.shape.width) * round_up(channels, BRICK) * op.ifm.dtype.bytes
        return ceil_div(bytes_read * (2 if op.ifm2 is not None else 1), BEAT_BYTES)

    def _mac(self, block: Shape3D) -> int:
        """MAC cycles of all steps of one OFM block."""
        channels = self._channels if self._reduces else ((block.depth, 1),)
        return sum(count * mac_cycles(self._op, self._accelerator, block, taps, size) for size, count in channels for taps in self._kernels)

    def cycles(self, block: Shape3D) -> float:
        """The sum over the kernel's blocks of the slowest unit; the first fetch, the last output and the last store stand alone.

        Closed form over the at most eight kinds of blocks (whole or rest in each dimension), so borders are counted as if
        they were read.
        """
        ofm, numerator, denominator = self._op.ofm, *self._output
        total, ends = 0.0, 0
        for (h, rows), (w, columns), (d, depths) in product(
            _cuts(ofm.shape.height, block.height), _cuts(ofm.shape.width, block.width), _cuts(ofm.shape.depth, block.depth)
        ):
            mac, output = self._mac(Shape3D(h, w, d)), ceil_div(h * w * d * numerator, denominator)
            fetch, store = self._fetch(h, w, d), ceil_div(h * w * round_up(d, BRICK) * ofm.dtype.bytes, BEAT_BYTES)
            weights = ceil_div(self._constants * d, ofm.shape.depth * BEAT_BYTES)
            shared, own = (weights, 0.0) if self._home_rate is None else (0, weights * self._home_rate)
            slowest = max(mac, output, own)
            again = max(slowest, store + shared + (0 if self._kept else fetch))
            total += rows * columns * (max(slowest, store + shared + fetch) + (depths - 1) * again)
            ends = fetch // self._steps + output + store
        return total + ends


def estimate(op: KernelOperation, block: Shape3D, accelerator: Accelerator, home_rate: float | None = None) -> float:
    """Cycles of a kernel with this block, as :class:`Estimator` says."""
    return Estimator(op, accelerator, home_rate).cycles(block)


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


def shortlist(op: KernelOperation, accelerator: Accelerator, home_rate: float | None, count: int) -> list[Shape3D]:
    """The ``count`` fastest blocks by :class:`Estimator` that fit and beat the operation's own, the fastest first."""
    query, estimator = BlockQuery.of(op), Estimator(op, accelerator, home_rate)
    own = estimator.cycles(op.block)
    faster = [(cycles, block) for block in _candidates(op, accelerator) if (cycles := estimator.cycles(block)) < own * PROMISING]
    found: list[Shape3D] = []
    for _, block in sorted(faster, key=lambda entry: entry[0]):
        if len(found) < count and shram_partition(query, block, accelerator) is not None:
            found.append(block)
    return found


def choose_block(op: KernelOperation, accelerator: Accelerator, home_rate: float | None = None) -> Shape3D:
    """The block that :class:`Estimator` finds fastest among those that fit; the operation's own unless the gain is clear."""
    gain = GAIN_SHARED if home_rate is None else GAIN_DIRECT
    estimator = Estimator(op, accelerator, home_rate)
    best = next(iter(shortlist(op, accelerator, home_rate, 1)), op.block)
    return best if estimator.cycles(best) < estimator.cycles(op.block) * gain else op.block
