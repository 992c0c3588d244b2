"""Block configs chosen by cycles, together with the stripe that they are for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt

from npu_model.accelerator import Accelerator
from npu_model.cost import mac_pace, ofm_ublock, output_rate
from npu_model.program import BRICK, KernelOperation, Upscale
from npu_model.shapes import Shape3D, ceil_div, round_up
from npu_model.shram import BlockQuery, ifm_depth_step, shram_partition
from npu_model.traffic import BEAT_BYTES
from npu_model.traversal import keeps_ifm, reduces_depth, sub_kernels

Numbers = npt.NDArray[np.int64]
Cycles = npt.NDArray[np.float64]

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


@lru_cache(maxsize=4096)
def _grid(extent: Shape3D, depths: tuple[int, ...], accelerator: Accelerator) -> tuple[Shape3D, ...]:
    """Blocks of the given depths for an OFM of ``extent``."""
    ublock, limit = accelerator.ofm_ublock, accelerator.max_block
    heights, widths = _sides(extent.height, ublock.height, limit.height), _sides(extent.width, ublock.width, limit.width)
    return tuple(Shape3D(*sides) for sides in product(heights, widths, depths))


def _candidates(op: KernelOperation, accelerator: Accelerator) -> tuple[Shape3D, ...]:
    """Blocks of the depth that the weights are encoded for, of any allowed depth where there are none."""
    ofm, limit = op.ofm.shape, accelerator.max_block
    depths = {op.block.depth}
    if not op.weights:
        depths |= {min(limit.depth, round_up(d, BRICK)) for d in (16, 32, 64, 128) if d < ofm.depth}
        if ofm.depth <= limit.depth:
            depths.add(round_up(ofm.depth, accelerator.ofm_ublock.depth))
    return _grid(ofm, tuple(sorted(depths)), accelerator)


def _ceil(numerators: Numbers, denominator: int) -> Numbers:
    return -(-numerators // denominator)


@dataclass(frozen=True, slots=True)
class _Cuts:
    """The pieces that one dimension of the OFM is cut into by each of some blocks: whole ones and a rest (size 0 if there is none).

    ``sizes`` and ``counts`` have a row for whole pieces and one for rests; ``last`` is the size of the last piece.
    """

    sizes: Numbers
    counts: Numbers
    last: Numbers

    @classmethod
    def of(cls, extent: int, sides: Numbers) -> _Cuts:
        wholes, rests = extent // sides, extent % sides
        return cls(np.stack((sides, rests)), np.stack((wholes, np.minimum(rests, 1))), np.where(rests, rests, sides))


class Estimator:
    """Cycles of one kernel for any block; what does not depend on the block is worked out once.

    Its constants share the port of the feature maps, or are read at ``home_rate`` cycles a word from a memory of their own.
    """

    def __init__(self, op: KernelOperation, accelerator: Accelerator, home_rate: float | None) -> None:
        self._op = op
        self._ublock = ofm_ublock(op, accelerator)
        self._ublock_depth = self._ublock.depth * accelerator.cores
        self._home_rate = home_rate
        self._constants = sum(r.length for r in op.weights + op.scales)
        self._output = output_rate(op, accelerator).as_integer_ratio()
        self._reduces = reduces_depth(op)
        kernels, depth = sub_kernels(op), op.ifm.shape.depth
        step = ifm_depth_step(op.ifm.dtype.bits, part_kernel=op.part_kernel) if self._reduces else depth
        channels = [min(step, depth - first) for first in range(0, depth, step)]
        self._paces = Counter(mac_pace(op, accelerator, part.taps, count) for count in channels for part in kernels)
        self._steps = len(kernels) * len(channels)
        self._kept = keeps_ifm(op, self._steps)

    def _fetch(self, height: Numbers, width: Numbers, depth: Numbers) -> Numbers:
        """Beats that OFM blocks fetch of their operands, borders not counted off."""
        op, kernel = self._op, self._op.kernel
        rows, columns = (height - 1) * kernel.stride_y + kernel.dilated_height, (width - 1) * kernel.stride_x + kernel.dilated_width
        if op.upscale is not Upscale.NONE:
            rows, columns = _ceil(rows, 2), _ceil(columns, 2)
        bricks = _ceil(np.asarray(op.ifm.shape.depth) if self._reduces else depth, BRICK)
        elements: Numbers = np.minimum(rows, op.ifm.shape.height) * np.minimum(columns, op.ifm.shape.width) * bricks * BRICK
        return _ceil(elements * op.ifm.dtype.bytes * (2 if op.ifm2 is not None else 1), BEAT_BYTES)

    def _mac(self, height: Numbers, width: Numbers, depth: Numbers) -> Numbers:
        """MAC cycles of all steps of OFM blocks."""
        plane = _ceil(height, self._ublock.height) * _ceil(width, self._ublock.width)
        column = np.zeros_like(plane)
        for pace, times in self._paces.items():
            column += np.maximum(pace.floor, pace.plane * plane) * (pace.steps * times)
        return column * _ceil(depth, self._ublock_depth)

    def _output_cycles(self, height: Numbers, width: Numbers, depth: Numbers) -> Numbers:
        numerator, denominator = self._output
        return _ceil(height * width * depth * numerator, denominator)

    def _store(self, height: Numbers, width: Numbers, depth: Numbers) -> Numbers:
        """Beats that store OFM blocks."""
        return _ceil(height * width * (_ceil(depth, BRICK) * BRICK) * self._op.ofm.dtype.bytes, BEAT_BYTES)

    def cycles(self, blocks: Sequence[Shape3D]) -> Cycles:
        """For each block config the sum over its blocks of the slowest unit; the first fetch, last output and last store stand alone.

        Closed form over the at most eight kinds of blocks (whole or rest in each dimension), so borders are counted as if
        they were read.
        """
        ofm = self._op.ofm.shape
        sides = np.array([(block.height, block.width, block.depth) for block in blocks], dtype=np.int64).T
        rows, columns, depths = (_Cuts.of(*each) for each in zip((ofm.height, ofm.width, ofm.depth), sides, strict=True))
        # Axes: whole or rest of height, of width and of depth, block.
        kinds = rows.sizes[:, None, None], columns.sizes[:, None], depths.sizes
        fetch, store = self._fetch(*kinds), self._store(*kinds)
        weights = _ceil(self._constants * depths.sizes, ofm.depth * BEAT_BYTES)
        slowest: Cycles = np.maximum(self._mac(*kinds), self._output_cycles(*kinds)).astype(np.float64)
        if self._home_rate is None:
            store = store + weights
        else:
            slowest = np.maximum(slowest, weights * self._home_rate)
        again = np.maximum(slowest, store if self._kept else store + fetch)
        one_column = np.maximum(slowest, store + fetch) + (depths.counts - 1) * again
        counts = rows.counts[:, None, None] * columns.counts[:, None] * np.minimum(depths.counts, 1)
        last = rows.last, columns.last, depths.last
        ends = self._fetch(*last) // self._steps + self._output_cycles(*last) + self._store(*last)
        total = np.zeros(len(blocks))
        for each in (counts * one_column).reshape(-1, len(blocks)):
            total += each
        return total + ends


def estimate(op: KernelOperation, block: Shape3D, accelerator: Accelerator, home_rate: float | None = None) -> float:
    """Cycles of a kernel with this block, as :class:`Estimator` says."""
    return float(Estimator(op, accelerator, home_rate).cycles((block,))[0])


def shortlist(op: KernelOperation, accelerator: Accelerator, home_rate: float | None, count: int) -> list[Shape3D]:
    """The ``count`` fastest blocks by :class:`Estimator` that fit and beat the operation's own, the fastest first."""
    query, blocks = BlockQuery.of(op), _candidates(op, accelerator)
    own, *others = Estimator(op, accelerator, home_rate).cycles((op.block, *blocks)).tolist()
    faster = [(cycles, block) for cycles, block in zip(others, blocks, strict=True) if cycles < own * PROMISING]
    found: list[Shape3D] = []
    for _, block in sorted(faster, key=lambda entry: entry[0]):
        if len(found) < count and shram_partition(query, block, accelerator) is not None:
            found.append(block)
    return found


def choose_block(op: KernelOperation, accelerator: Accelerator, home_rate: float | None = None) -> Shape3D:
    """The block that :class:`Estimator` finds fastest among those that fit; the operation's own unless the gain is clear."""
    gain = GAIN_SHARED if home_rate is None else GAIN_DIRECT
    best = next(iter(shortlist(op, accelerator, home_rate, 1)), op.block)
    cycles, own = Estimator(op, accelerator, home_rate).cycles((best, op.block)).tolist()
    return best if cycles < own * gain else op.block
