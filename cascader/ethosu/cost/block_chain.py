"""Blocks of all jobs together: kernels of one partition of the shared buffer overlap, so that neighbours had better agree on one."""

from __future__ import annotations

from collections.abc import Sequence

from cascader.ethosu.cost.block_option import BlockOption
from cascader.ethosu.cost.coupling import Coupling
from npu_model.accelerator import Accelerator
from npu_model.program import KernelOperation

_Options = Sequence[BlockOption]


def _first_least(costs: Sequence[int]) -> tuple[int, int]:
    """The least cost and its first place."""
    best = min(costs)
    return best, costs.index(best)


def choose_together(
    operations: Sequence[KernelOperation | None], options: Sequence[_Options], accelerator: Accelerator
) -> list[BlockOption | None]:
    """For each job the option that is best for all jobs together; None for a job on the CPU, which has no operation and no options.

    A dynamic program over the jobs in their order: cycles less what neighbours share are least, and the first job waits for its weights.
    """
    costs: list[list[int]] = []
    origins: list[list[int]] = []
    for step, (operation, choices) in enumerate(zip(operations, options, strict=True)):
        previous = operations[step - 1] if step else None
        if previous and operation and options[step - 1]:
            before = Coupling(previous, operation, accelerator).least(costs[-1], options[step - 1], choices)
        else:
            before = [_first_least(costs[-1]) if step else (choice.lead, 0) for choice in choices]
        row = [best + choice.cost for (best, _), choice in zip(before, choices, strict=True)]
        costs.append(row or [min(costs[-1], default=0) if costs else 0])
        origins.append([at for _, at in before] or [0])
    return _back(costs, origins, options)


def _back(costs: list[list[int]], origins: list[list[int]], options: Sequence[_Options]) -> list[BlockOption | None]:
    """The choices that lead to the least cost, from the last job to the first."""
    chosen: list[BlockOption | None] = []
    at = -1
    for row, origin, choices in zip(reversed(costs), reversed(origins), reversed(options), strict=True):
        at = row.index(min(row)) if at < 0 or not choices else at
        chosen.append(choices[at] if choices else None)
        at = origin[at] if choices else -1
    return chosen[::-1]
