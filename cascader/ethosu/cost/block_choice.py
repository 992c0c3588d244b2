"""Block configs chosen by cycles, together with the stripe that they are for."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from cascader.ethosu.cost.block_estimator import Estimator
from cascader.ethosu.cost.block_grid import block_counts, candidates
from cascader.ethosu.cost.memory_path import Sources
from npu_model.accelerator import Accelerator
from npu_model.cost.shram import BlockQuery, ShramQuery
from npu_model.program import KernelOperation
from npu_model.program.operations import Shram
from npu_model.shapes import Shape3D

PROMISING = 0.98
"""Share of the own block's estimate below which another block is looked at."""

WORTHWHILE = 1.05
"""Share of the own block's estimate below which a block is looked at for its partition."""


class Ranking:
    """The blocks that an operation may be made in, by their estimates."""

    def __init__(
        self, op: KernelOperation, accelerator: Accelerator, sources: Sources, decoding: int | None = None, operand_latency: int = 0
    ) -> None:
        """Every block waits ``operand_latency`` cycles, one after the other, for an operand that is a constant."""
        own = op.block
        self._ofm = op.ofm.shape
        self._candidates = np.concatenate((np.array([(own.height, own.width, own.depth)], np.int64), candidates(op, accelerator)))
        self._query = ShramQuery(BlockQuery.of(op), accelerator)
        self._estimator = Estimator(op, accelerator, sources, decoding)
        self._rank(operand_latency)

    def beside(self, sources: Sources, operand_latency: int = 0) -> Ranking:
        """The ranking of the same operation with its operands elsewhere, in an NPU of the same timing."""
        other: Ranking = Ranking.__new__(Ranking)  # as copy.copy does, in a fifth of its time
        other.__dict__.update(self.__dict__)
        other._estimator = self._estimator.beside(sources)
        other._rank(operand_latency)
        return other

    def _rank(self, operand_latency: int) -> None:
        cycles = self._estimator.cycles_of(self._candidates)
        if operand_latency:
            cycles = np.maximum(cycles, operand_latency * block_counts(self._ofm, self._candidates))
        self.own_cycles = float(cycles[0])
        """The estimate of the operation's own block."""
        near = np.flatnonzero(cycles[1:] < self.own_cycles * WORTHWHILE) + 1
        order = near[np.argsort(cycles[near], kind="stable")]
        self._cycles: list[float] = cycles[order].tolist()
        self._blocks = array("q", self._candidates[order].tobytes())

    def listed(self, count: int, *, partitions: bool = False) -> list[tuple[float, Shape3D, Shram]]:
        """The ``count`` fastest blocks that fit and beat the operation's own, the fastest first, with their estimates.

        With ``partitions`` they are the fastest ones of as many partitions of the shared buffer, and may be slower than the own one by
        as much as neighbours of one partition may save.
        """
        promising = bisect_left(self._cycles, self.own_cycles * (WORTHWHILE if partitions else PROMISING))
        found = self._query.fitting(self._blocks[: 3 * promising], count, distinct=partitions)
        return [(self._cycles[number], Shape3D(*self._blocks[3 * number : 3 * number + 3]), shram) for number, shram in found]

    def near(self, count: int) -> list[Shape3D]:
        """The ``count`` fastest blocks that fit, none much slower than the operation's own."""
        return [Shape3D(*self._blocks[3 * number : 3 * number + 3]) for number, _ in self._query.fitting(self._blocks, count)]

    def fastest(self, count: int, *, partitions: bool = False) -> list[tuple[Shape3D, Shram]]:
        """As :meth:`listed`, without the estimates."""
        return [(block, shram) for _, block, shram in self.listed(count, partitions=partitions)]


def choose_block(op: KernelOperation, accelerator: Accelerator, sources: Sources, decoding: int | None = None) -> tuple[Shape3D, float]:
    """The block that :class:`Estimator` finds fastest among those that fit and the operation's own, with its cycles."""
    return choose_blocks(op, accelerator, (sources,), decoding)[0]


def choose_blocks(
    op: KernelOperation, accelerator: Accelerator, sources: Sequence[Sources], decoding: int | None = None
) -> list[tuple[Shape3D, float]]:
    """As :func:`choose_block` for each of some sources, all of one timing."""
    found: list[tuple[Shape3D, float]] = []
    ranking: Ranking | None = None
    for one in sources:
        ranking = Ranking(op, accelerator, one, decoding) if ranking is None else ranking.beside(one)
        best = next(((block, cycles) for cycles, block, _ in ranking.listed(1)), (op.block, ranking.own_cycles))
        found.append(best)
    return found
