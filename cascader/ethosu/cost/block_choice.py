"""Block configs of a kernel: the candidates, ranked by their estimated cycles."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from copy import copy
from functools import lru_cache

import numpy as np

from cascader.ethosu.cost.block_estimator import Cycles, Estimator, Numbers
from cascader.ethosu.cost.memory_path import Sources
from npu_model.accelerator import Accelerator
from npu_model.cost.shram import BlockQuery, ShramQuery
from npu_model.program import BRICK, KernelOperation
from npu_model.program.operations import Shram
from npu_model.shapes import Shape3D, ceil_div, round_up

SIDES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64)
"""Heights and widths that are tried in addition to even divisions of the OFM. A search over all blocks gains less than 1 % more."""


@lru_cache(maxsize=1024)
def _sides(extent: int, ublock: int, limit: int) -> tuple[int, ...]:
    """Block sides to try: whole ublocks, up to the OFM's extent."""
    even = (ceil_div(extent, parts) for parts in range(1, 5))
    rounded = {round_up(side, ublock) for side in (*SIDES, *even)}
    most = min(limit, round_up(extent, ublock))
    return tuple(sorted(side for side in rounded if side <= most))


@lru_cache(maxsize=4096)
def _grid(extent: Shape3D, depths: tuple[int, ...], accelerator: Accelerator) -> Numbers:
    """Blocks of the given depths for an OFM of ``extent``: a row of height, width and depth each."""
    ublock, limit = accelerator.ofm_ublock, accelerator.max_block
    heights, widths = _sides(extent.height, ublock.height, limit.height), _sides(extent.width, ublock.width, limit.width)
    grid = np.empty((len(heights), len(widths), len(depths), 3), np.int64)
    grid[..., 0], grid[..., 1], grid[..., 2] = np.array(heights)[:, None, None], np.array(widths)[:, None], depths
    found = grid.reshape(-1, 3)
    found.flags.writeable = False
    return found


def candidates(op: KernelOperation, accelerator: Accelerator) -> Numbers:
    """Blocks of the depth that the weights are encoded for; of any allowed depth without weights."""
    ofm, limit = op.ofm.shape, accelerator.max_block
    depths = {op.block.depth}
    if not op.weights:
        depths |= {min(limit.depth, round_up(d, BRICK)) for d in (16, 32, 64, 128) if d < ofm.depth}
        if ofm.depth <= limit.depth:
            depths.add(round_up(ofm.depth, accelerator.ofm_ublock.depth))
    return _grid(ofm, tuple(sorted(depths)), accelerator)


def block_counts(shape: Shape3D, blocks: Numbers) -> Numbers:
    """Numbers of OFM blocks of several sizes (rows of height, width and depth) in an OFM."""
    counts: Numbers = np.prod(-(np.array([(shape.height, shape.width, shape.depth)], np.int64) // -blocks), axis=1)
    return counts


PROMISING = 0.98
"""Another block is considered if its estimate is below this share of the own block's."""

WORTHWHILE = 1.05
"""A block is considered for its partition if its estimate is below this share of the own block's."""


class Ranking:
    """The possible blocks of an operation, ranked by their estimates."""

    def __init__(
        self, op: KernelOperation, accelerator: Accelerator, sources: Sources, decoding: int | None = None, operand_latency: int = 0
    ) -> None:
        """A constant operand costs every block ``operand_latency`` cycles, one after the other."""
        own = op.block
        self._candidates = np.concatenate((np.array([(own.height, own.width, own.depth)], np.int64), candidates(op, accelerator)))
        self._query = ShramQuery(BlockQuery.of(op), accelerator)
        self._estimator = Estimator(op, accelerator, sources, decoding)
        cycles = self._estimator.cycles_of(self._candidates)
        if operand_latency:
            cycles = np.maximum(cycles, operand_latency * block_counts(op.ofm.shape, self._candidates))
        self._rank(cycles)

    def over(self, sources: Sources) -> Ranking:
        """The ranking without such a latency, for constants in another place, under the same timing."""
        found = copy(self)
        found._estimator = self._estimator.over(sources)  # noqa: SLF001  # of its own class
        found._rank(found._estimator.cycles_of(self._candidates))  # noqa: SLF001  # the same
        return found

    def _rank(self, cycles: Cycles) -> None:
        self.own_cycles = float(cycles[0])
        """The estimate of the operation's own block."""
        near = np.flatnonzero(cycles[1:] < self.own_cycles * WORTHWHILE) + 1
        order = near[np.argsort(cycles[near], kind="stable")]
        self._cycles: list[float] = cycles[order].tolist()
        self._blocks = array("q", self._candidates[order].tobytes())

    def listed(self, count: int, *, partitions: bool = False) -> list[tuple[float, Shape3D, Shram]]:
        """The ``count`` fastest blocks that fit and beat the operation's own, the fastest first, with their estimates.

        ``partitions`` asks for the fastest block of each of ``count`` partitions of the shared buffer. A block may be slower than the
        kernel's own by the cycles that neighbours of one partition may save.
        """
        promising = bisect_left(self._cycles, self.own_cycles * (WORTHWHILE if partitions else PROMISING))
        found = self._query.fitting(self._blocks[: 3 * promising], count, distinct=partitions)
        return [(self._cycles[number], Shape3D(*self._blocks[3 * number : 3 * number + 3]), shram) for number, shram in found]

    def near(self, count: int) -> list[Shape3D]:
        """The ``count`` fastest blocks that fit and are not much slower than the operation's own."""
        return [Shape3D(*self._blocks[3 * number : 3 * number + 3]) for number, _ in self._query.fitting(self._blocks, count)]

    def fastest(self, count: int, *, partitions: bool = False) -> list[tuple[Shape3D, Shram]]:
        """Like :meth:`listed`, without the estimates."""
        return [(block, shram) for _, block, shram in self.listed(count, partitions=partitions)]


def choose_block(op: KernelOperation, accelerator: Accelerator, sources: Sources, decoding: int | None = None) -> tuple[Shape3D, float]:
    """The block that :class:`Estimator` finds fastest among the fitting ones and the operation's own, with its cycles."""
    return choose_blocks(op, accelerator, (sources,), decoding)[0]


def choose_blocks(
    op: KernelOperation, accelerator: Accelerator, sources: Sequence[Sources], decoding: int | None = None
) -> list[tuple[Shape3D, float]]:
    """Like :func:`choose_block`, for each of some sources of one timing."""
    return list(_chosen(op, accelerator, tuple(sources), decoding))


@lru_cache(maxsize=1 << 12)  # forms ask again and again for kernels that they share
def _chosen(
    op: KernelOperation, accelerator: Accelerator, sources: tuple[Sources, ...], decoding: int | None
) -> tuple[tuple[Shape3D, float], ...]:
    first = Ranking(op, accelerator, sources[0], decoding)
    rankings = [first, *map(first.over, sources[1:])]
    return tuple(next(((block, cycles) for cycles, block, _ in one.listed(1)), (op.block, one.own_cycles)) for one in rankings)
