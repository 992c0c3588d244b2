"""Blocks of all jobs together: kernels of one partition of the shared buffer overlap, so that neighbours had better agree on one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cascader.ethosu.blockdep import blockdep
from npu_model.accelerator import Accelerator
from npu_model.program import KernelOperation
from npu_model.program.operations import Shram
from npu_model.shapes import Shape3D


@dataclass(frozen=True, slots=True)
class BlockOption:
    """A block that a job may be made in, and the partition of the shared buffer that it needs.

    ``cycles`` are the job's with nothing before and after it, ``head`` those before its first MAC step, ``drain`` those after its last one,
    and ``lags`` those after its last but one block is stored, its last but two, its last but three, as long as there are such.
    """

    block: Shape3D
    shram: Shram
    cycles: int
    head: int = 0
    drain: int = 0
    lags: tuple[int, ...] = ()


@dataclass(slots=True)
class _Chain:
    """Dynamic program over the jobs in their order."""

    accelerator: Accelerator

    def saved(self, before: tuple[KernelOperation, BlockOption], after: tuple[KernelOperation, BlockOption]) -> int:
        """Cycles that two neighbours share: the second's fetches and MAC steps may begin while the first drains.

        A different partition waits until all is stored, and BLOCKDEP until all but so many blocks are.
        """
        (first, one), (second, two) = before, after
        if one.shram != two.shram or not one.lags:
            return 0
        distance = blockdep(
            [replace(first, block=one.block, shram=one.shram)], replace(second, block=two.block, shram=two.shram), self.accelerator
        )
        return min(two.head + one.drain, one.lags[min(distance, len(one.lags)) - 1]) if distance else 0

    def choose(self, operations: Sequence[KernelOperation | None], options: Sequence[Sequence[BlockOption]]) -> list[BlockOption | None]:
        """For each job one of its options, so that the sum of cycles less what neighbours share is least."""
        costs: list[list[int]] = []
        origins: list[list[int]] = []
        for step, (operation, choices) in enumerate(zip(operations, options, strict=True)):
            row, origin = [], []
            for choice in choices:
                best, at = 0, 0
                if step and options[step - 1]:
                    previous = operations[step - 1]
                    ends = [
                        cost - (self.saved((previous, one), (operation, choice)) if previous and operation else 0)
                        for cost, one in zip(costs[-1], options[step - 1], strict=True)
                    ]
                    best = min(ends)
                    at = ends.index(best)
                elif step:
                    best = min(costs[-1], default=0)
                row.append(best + choice.cycles)
                origin.append(at)
            costs.append(row or [min(costs[-1], default=0) if costs else 0])
            origins.append(origin or [0])
        return self._back(costs, origins, options)

    @staticmethod
    def _back(costs: list[list[int]], origins: list[list[int]], options: Sequence[Sequence[BlockOption]]) -> list[BlockOption | None]:
        """The choices that lead to the least cost, from the last job to the first."""
        chosen: list[BlockOption | None] = []
        at = -1
        for row, origin, choices in zip(reversed(costs), reversed(origins), reversed(options), strict=True):
            at = row.index(min(row)) if at < 0 or not choices else at
            chosen.append(choices[at] if choices else None)
            at = origin[at] if choices else -1
        return chosen[::-1]


def choose_together(
    operations: Sequence[KernelOperation | None], options: Sequence[Sequence[BlockOption]], accelerator: Accelerator
) -> list[BlockOption | None]:
    """For each job the option that is best for all jobs together; None for a job on the CPU, which has no operation and no options."""
    return _Chain(accelerator).choose(operations, options)
