"""Blocks of all jobs together: kernels of one partition of the shared buffer overlap, so neighbours should share a partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from cascader.ethosu.cost.block_option import BlockOption
from cascader.ethosu.cost.coupling import Coupling
from npu_model.accelerator import Accelerator
from npu_model.program import KernelOperation

_Options = Sequence[BlockOption]


class JobKernels:
    """The kernels of some jobs, None for a transfer and for a job on the CPU. ``made`` makes a job's kernel on the first request.

    ``pairs`` has a number for each job and its predecessor, which decides how the two overlap; -1 if either is not a kernel. It is None if
    pairs are unknown.
    """

    def __init__(self, made: Callable[[int], KernelOperation | None], pairs: Sequence[int] | None) -> None:
        self._made = cache(made)
        self.pairs = pairs

    def __getitem__(self, step: int) -> KernelOperation:
        """The kernel of a job that has one."""
        found = self._made(step)
        assert found is not None  # noqa: S101  # whoever asks knows
        return found

    def coupled(self, step: int) -> bool:
        """Whether a job and its predecessor are kernels."""
        if self.pairs is not None:
            return self.pairs[step] >= 0
        return step > 0 and self._made(step - 1) is not None and self._made(step) is not None


_MOST = 20_000
"""Steps of chains that the cache holds before it is emptied: about 20 megabytes."""


class _Row:
    """For each block of a job, the extra cost of the cheapest chain up to it over the chain to the first block.

    Rows are known by their identity: one :class:`KnownSteps` holds no two equal rows.
    """

    __slots__ = ("costs", "least")

    def __init__(self, costs: tuple[int, ...]) -> None:
        self.costs = costs
        self.least = costs.index(min(costs))
        """First position of the least value."""


_Step = tuple[_Row, tuple[int, ...]]
"""The row of a job, and for each of its blocks the position of the previous job's block; none for a job without blocks."""


class KnownSteps:
    """Steps of chains that recur, also for kernels of other schedules.

    A step depends on how much more each previous block costs than the first one, not on the length of the chain. Options are known by their
    identity, and are kept.
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._found: dict[object, tuple[_Step, object]] = {}
        self._rows: dict[tuple[int, ...], _Row] = {}

    def row(self, costs: Sequence[int]) -> _Row:
        """The row of some costs."""
        more = tuple([cost - costs[0] for cost in costs])
        return self._rows.get(more) or self._rows.setdefault(more, _Row(more))

    def step(self, row: _Row, kernels: JobKernels, at: int, ones: _Options, twos: _Options, accelerator: Accelerator) -> _Step:
        """The step to job ``at`` from its predecessor, which has the given row. Both jobs are kernels with options."""
        if kernels.pairs is None:
            return self._step(row, kernels, at, ones, twos, accelerator)
        key = row, kernels.pairs[at], id(ones), id(twos)
        known = self._found.get(key)
        if known is None:
            if len(self._found) >= _MOST:
                self._forget()
            known = self._found[key] = self._step(row, kernels, at, ones, twos, accelerator), (ones, twos)
        return known[0]

    def _step(self, row: _Row, kernels: JobKernels, at: int, ones: _Options, twos: _Options, accelerator: Accelerator) -> _Step:
        least = Coupling(kernels[at - 1], kernels[at], accelerator).least(row.costs, ones, twos)
        return self.row([cost + choice.cost for (cost, _), choice in zip(least, twos, strict=True)]), tuple([place for _, place in least])


def choose_together(
    kernels: JobKernels, options: Sequence[_Options], accelerator: Accelerator, known: KnownSteps
) -> list[BlockOption | None]:
    """For each job the option that is best for all jobs together; None for a job on the CPU, which has no kernel and no options.

    A dynamic program over the jobs in their order minimises the cycles minus those that neighbours share. The first job waits for its
    weights. ``known`` steps are not computed again.
    """
    steps: list[_Step] = []
    for at, choices in enumerate(options):
        if at and len(choices) and len(options[at - 1]) and kernels.coupled(at):
            steps.append(known.step(steps[-1][0], kernels, at, options[at - 1], choices, accelerator))
        elif steps:
            steps.append((known.row([choice.cost for choice in choices] or [0]), (steps[-1][0].least,) * len(choices)))
        else:
            steps.append((known.row([choice.lead + choice.cost for choice in choices] or [0]), (0,) * len(choices)))
    return _back(steps, options)


def _back(steps: Sequence[_Step], options: Sequence[_Options]) -> list[BlockOption | None]:
    """The choices with the least cost, from the last job to the first."""
    chosen: list[BlockOption | None] = []
    at = -1
    for (row, origins), choices in zip(reversed(steps), reversed(options), strict=True):
        at = row.least if at < 0 else at
        chosen.append(choices[at] if origins else None)
        at = origins[at] if origins else -1
    return chosen[::-1]
