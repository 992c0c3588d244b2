"""Blocks of all jobs together: kernels of one partition of the shared buffer overlap, so that neighbours had better agree on one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cascader.ethosu.cost.block_option import BlockOption
from cascader.ethosu.cost.coupling import Coupling
from npu_model.accelerator import Accelerator
from npu_model.program import KernelOperation

_Options = Sequence[BlockOption]
_Job = tuple[KernelOperation, _Options]


def _first_least(costs: Sequence[int]) -> tuple[int, int]:
    """The least cost and its first place."""
    best = min(costs)
    return best, costs.index(best)


_MOST = 20_000
"""Steps of chains that are kept before all are forgotten: some 20 megabytes."""

_Least = list[tuple[int, int]]
"""For each block of a kernel the least cost of what comes before, and the place of its block."""


class KnownSteps:
    """Steps of chains that come again, for kernels of other schedules, too, of which a ``pair`` is all that couples the two.

    What counts is how much more each block before costs than the first one, not how long the chain is. Options are known by their
    identity, and are kept. A pair of which nothing is known is None.
    """

    def __init__(self, pair: Callable[[KernelOperation, KernelOperation], object]) -> None:
        self._pair = pair
        self._found: dict[object, tuple[_Least, object]] = {}

    def least(self, costs: list[int], one: _Job, two: _Job, accelerator: Accelerator) -> _Least:
        """As :meth:`Coupling.least`, for the blocks of the second of two kernels in a row with their options."""
        pair = self._pair(one[0], two[0])
        if pair is None:
            return Coupling(one[0], two[0], accelerator).least(costs, one[1], two[1])
        key = pair, id(one[1]), id(two[1]), *(cost - costs[0] for cost in costs)
        known = self._found.get(key)
        if known is None:
            if len(self._found) >= _MOST:
                self._found.clear()
            least = Coupling(one[0], two[0], accelerator).least(costs, one[1], two[1])
            known = self._found[key] = [(cost - costs[0], at) for cost, at in least], (one[1], two[1])
        return [(cost + costs[0], at) for cost, at in known[0]]


def choose_together(
    operations: Sequence[KernelOperation | None],
    options: Sequence[_Options],
    accelerator: Accelerator,
    known: KnownSteps | None = None,
) -> list[BlockOption | None]:
    """For each job the option that is best for all jobs together; None for a job on the CPU, which has no operation and no options.

    A dynamic program over the jobs in their order: cycles less what neighbours share are least, and the first job waits for its weights.
    What is ``known`` of steps is not worked out again.
    """
    known = KnownSteps(_unknown) if known is None else known
    costs: list[list[int]] = []
    origins: list[list[int]] = []
    for step, (operation, choices) in enumerate(zip(operations, options, strict=True)):
        previous = operations[step - 1] if step else None
        if previous and operation and options[step - 1]:
            before = known.least(costs[-1], (previous, options[step - 1]), (operation, choices), accelerator)
        else:
            before = [_first_least(costs[-1]) if step else (choice.lead, 0) for choice in choices]
        row = [best + choice.cost for (best, _), choice in zip(before, choices, strict=True)]
        costs.append(row or [min(costs[-1], default=0) if costs else 0])
        origins.append([at for _, at in before] or [0])
    return _back(costs, origins, options)


def _unknown(_one: KernelOperation, _two: KernelOperation) -> object:
    return None


def _back(costs: list[list[int]], origins: list[list[int]], options: Sequence[_Options]) -> list[BlockOption | None]:
    """The choices that lead to the least cost, from the last job to the first."""
    chosen: list[BlockOption | None] = []
    at = -1
    for row, origin, choices in zip(reversed(costs), reversed(origins), reversed(options), strict=True):
        at = row.index(min(row)) if at < 0 or not choices else at
        chosen.append(choices[at] if choices else None)
        at = origin[at] if choices else -1
    return chosen[::-1]
