"""Blocks of all jobs together: kernels of one partition of the shared buffer overlap, so that neighbours had better agree on one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cascader.ethosu.cost.block_option import BlockOption
from cascader.ethosu.cost.coupling import Coupling
from npu_model.accelerator import Accelerator
from npu_model.program import KernelOperation


def _first_least(costs: Sequence[int]) -> tuple[int, int]:
    """The least cost and its first place."""
    best = min(costs)
    return best, costs.index(best)


@dataclass(slots=True)
class _Chain:
    """Dynamic program over the jobs in their order."""

    accelerator: Accelerator

    def choose(self, operations: Sequence[KernelOperation | None], options: Sequence[Sequence[BlockOption]]) -> list[BlockOption | None]:
        """For each job one of its options, so that cycles less what neighbours share are least; the first waits for its weights."""
        costs: list[list[int]] = []
        origins: list[list[int]] = []
        for step, (operation, choices) in enumerate(zip(operations, options, strict=True)):
            previous = operations[step - 1] if step else None
            coupling = Coupling(previous, operation, self.accelerator) if previous and operation else None
            if coupling and options[step - 1]:
                before = coupling.least(costs[-1], options[step - 1], choices)
            else:
                before = [_first_least(costs[-1]) if step else (choice.lead, 0) for choice in choices]
            row = [best + choice.cost for (best, _), choice in zip(before, choices, strict=True)]
            origin = [at for _, at in before]
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
