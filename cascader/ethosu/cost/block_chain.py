"""Blocks of all jobs together: kernels of one partition of the shared buffer overlap, so that neighbours had better agree on one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from cascader.ethosu.cost.block_option import BlockOption
from cascader.ethosu.cost.coupling import Coupling
from npu_model.accelerator import Accelerator
from npu_model.program import KernelOperation

K = TypeVar("K")

_Options = Sequence[BlockOption]
_Job = tuple[K, _Options]


_MOST = 20_000
"""Steps of chains that are kept before all are forgotten: some 20 megabytes."""


class _Row:
    """For each block of a job how much more the cheapest chain up to it costs than that of the first block.

    Rows are known by their identity: of one :class:`KnownSteps` none that are equal are two.
    """

    __slots__ = ("costs", "least")

    def __init__(self, costs: tuple[int, ...]) -> None:
        self.costs = costs
        self.least = costs.index(min(costs))
        """First place of the least."""


_Step = tuple[_Row, tuple[int, ...]]
"""The row of a job, and for each of its blocks the place of the block before; no place for a job without blocks."""


class KnownSteps(Generic[K]):
    """Steps of chains that come again, for kernels of other schedules, too, of which a ``pair`` is all that couples the two.

    What counts is how much more each block before costs than the first one, not how long the chain is. Options are known by their
    identity, and are kept. A pair of which nothing is known is None. ``operation`` gives the kernel's if it is something else.
    """

    def __init__(self, pair: Callable[[K, K], object], operation: Callable[[K], KernelOperation]) -> None:
        self._pair, self._operation = pair, operation
        self._forget()

    def _forget(self) -> None:
        self._found: dict[object, tuple[_Step, object]] = {}
        self._rows: dict[tuple[int, ...], _Row] = {}

    def row(self, costs: Sequence[int]) -> _Row:
        """The row of some costs."""
        more = tuple([cost - costs[0] for cost in costs])
        return self._rows.get(more) or self._rows.setdefault(more, _Row(more))

    def step(self, row: _Row, one: _Job[K], two: _Job[K], accelerator: Accelerator) -> _Step:
        """The step from a job of that row to the next one; both are kernels with options."""
        pair = self._pair(one[0], two[0])
        if pair is None:
            return self._step(row, one, two, accelerator)
        key = row, pair, id(one[1]), id(two[1])
        known = self._found.get(key)
        if known is None:
            if len(self._found) >= _MOST:
                self._forget()
            known = self._found[key] = self._step(row, one, two, accelerator), (one[1], two[1])
        return known[0]

    def _step(self, row: _Row, one: _Job[K], two: _Job[K], accelerator: Accelerator) -> _Step:
        coupling = Coupling(self._operation(one[0]), self._operation(two[0]), accelerator)
        least = coupling.least(row.costs, one[1], two[1])
        return self.row([cost + choice.cost for (cost, _), choice in zip(least, two[1], strict=True)]), tuple([at for _, at in least])


def choose_together(
    kernels: Sequence[K | None],
    options: Sequence[_Options],
    accelerator: Accelerator,
    known: KnownSteps[K],
) -> list[BlockOption | None]:
    """For each job the option that is best for all jobs together; None for a job on the CPU, which has no kernel and no options.

    A dynamic program over the jobs in their order: cycles less what neighbours share are least, and the first job waits for its weights.
    What is ``known`` of steps is not worked out again.
    """
    steps: list[_Step] = []
    one: _Job[K] | None = None
    for kernel, choices in zip(kernels, options, strict=True):
        two = None if kernel is None or not len(choices) else (kernel, choices)
        if one is not None and two is not None:
            steps.append(known.step(steps[-1][0], one, two, accelerator))
        elif steps:
            steps.append((known.row([choice.cost for choice in choices] or [0]), (steps[-1][0].least,) * len(choices)))
        else:
            steps.append((known.row([choice.lead + choice.cost for choice in choices] or [0]), (0,) * len(choices)))
        one = two
    return _back(steps, options)


def _back(steps: Sequence[_Step], options: Sequence[_Options]) -> list[BlockOption | None]:
    """The choices that lead to the least cost, from the last job to the first."""
    chosen: list[BlockOption | None] = []
    at = -1
    for (row, origins), choices in zip(reversed(steps), reversed(options), strict=True):
        at = row.least if at < 0 else at
        chosen.append(choices[at] if origins else None)
        at = origins[at] if origins else -1
    return chosen[::-1]
