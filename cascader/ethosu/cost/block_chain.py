"""Blocks of all jobs together: kernels of one partition of the shared buffer overlap, so that neighbours had better agree on one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from cascader.ethosu.cost.blockdep import MAX_BLOCKDEP, Dependency, shares_tables
from cascader.ethosu.cost.kernel_flow import KernelLoad, Pipeline
from cascader.ethosu.cost.memory_path import Sources
from npu_model.accelerator import Accelerator
from npu_model.program import KernelOperation
from npu_model.program.operations import Shram
from npu_model.shapes import Shape3D
from npu_model.timing import DEFAULT_TIMING, BlockdepRule, TimingParameters


@dataclass(frozen=True, slots=True, eq=False)
class BlockOption:
    """A block that a job may be made in, and the partition of the shared buffer that it needs.

    ``load`` is what it asks of the units, with its data from ``sources``; ``cycles`` are the job's with nothing before and after it but
    with its first weights there, ``latency`` those until what it has stored may be read, ``burden`` what is set against it besides.
    It takes ``lead`` more if they are not there; in its last ``tail`` cycles the decoder reads for the next job already.
    """

    block: Shape3D
    shram: Shram
    cycles: int
    load: KernelLoad
    sources: Sources
    latency: int
    burden: int = 0
    lead: int = 0
    tail: int = 0

    @property
    def cost(self) -> int:
        """Cycles that the choice of blocks makes least: the job's own and its burden."""
        return self.cycles + self.burden


NEAR = 8
"""Blocks at the end of a kernel and at the beginning of the next one that decide what both share."""


@lru_cache(maxsize=1 << 12)
def _ended(option: BlockOption) -> tuple[Pipeline, float]:
    """The units behind the last blocks of a kernel whose first weights are there, and when it is done."""
    pipeline = Pipeline(option.latency)
    done = pipeline.run(option.load, option.sources, led=True, first=max(0, option.load.places - NEAR))
    return pipeline, done.cycles


@lru_cache(maxsize=1 << 12)
def _begun(option: BlockOption) -> tuple[float, float]:
    """Cycles in which the words of a kernel's first blocks pass, and when these are done on their own if the first weights are there."""
    places, sources = min(NEAR, option.load.places), option.sources
    fetched, stored, constants = option.load.words(0, places)
    flow = Pipeline().run(option.load, sources, led=True, last=places)
    return sources.moving(fetched + (constants if sources.shared else 0), stored), max(flow.cycles, constants * sources.constants.rate)


@lru_cache(maxsize=1 << 12)
def _most_shared(two: BlockOption) -> int:
    """Cycles that a kernel shares with any other one at most: its first blocks' words must pass behind whatever came before."""
    moving, alone = _begun(two)
    return max(0, ceil(alone - moving) + two.latency, -further_responses(two.sources.timing, two.latency))


@lru_cache(maxsize=1 << 16)
def _shared(one: BlockOption, two: BlockOption, distance: int) -> int:
    """Cycles that a kernel is done earlier than on its own if it begins before the last ``distance`` blocks of another are stored.

    On its own its first weights are there. Less than nothing if they are not, and that costs more than is shared.
    """
    (pipeline, begin), (moving, alone) = _ended(one), _begun(two)
    units = pipeline.unordered() if two.sources.timing.blockdep is BlockdepRule.IGNORED else pipeline.copied()
    done = units.run(two.load, two.sources, distance=distance, last=min(NEAR, two.load.places))
    behind = max(done.cycles - begin, moving)
    return ceil(alone - behind) + two.latency


def further_responses(timing: TimingParameters, latency: int) -> int:
    """Cycles that a kernel waits for a drained one beyond those of the default timing, for which replays confirm the costs of kernels."""
    return (timing.drain_responses - DEFAULT_TIMING.drain_responses) * latency


class Coupling:
    """Coupling of two kernels in a row, in any of their blocks."""

    def __init__(self, before: KernelOperation, after: KernelOperation, accelerator: Accelerator) -> None:
        # Dependencies are looked at once two partitions agree.
        self._dependency: Dependency | None = None
        self._kernels = before, after
        self._is_apart = shares_tables(before, after, accelerator)

    def shared(self, one: BlockOption, two: BlockOption) -> int:
        """Cycles that the two share: the second's fetches and MAC steps may begin while the first drains.

        A different partition waits until all is stored, and BLOCKDEP until all but so many blocks are. The number is
        negative if the second one waits longer for its first weights than the two share. It reads some of these weights while the first
        one's decoder has nothing left to do.
        """
        waits, timing = max(0, two.lead - one.tail), two.sources.timing
        further = further_responses(timing, two.latency)
        if self._is_apart or (timing.shram_drains and one.shram != two.shram):
            return -waits - (further if further and not self._distance(one, two) else 0)
        distance = self._distance(one, two)
        return max(_shared(one, two, distance), -waits) if distance else -waits - further

    @staticmethod
    def most_shared(two: BlockOption) -> int:
        """Cycles that the two share at most if the second one is made in block ``two``."""
        return _most_shared(two)

    def least(self, costs: Sequence[int], ones: Sequence[BlockOption], two: BlockOption) -> tuple[int, int]:
        """The least of some costs, one for each block of the first kernel, less what it shares with the second one in block ``two``.

        With the first place that has it. Blocks that cost more than they could share are not looked at.
        """
        most = self.most_shared(two)
        best, at = costs[0] - self.shared(ones[0], two), 0
        for number in range(1, len(ones)):
            if costs[number] - most < best:
                cost = costs[number] - self.shared(ones[number], two)
                best, at = (cost, number) if cost < best else (best, at)
        return best, at

    def together(self, ones: Sequence[BlockOption], twos: Sequence[BlockOption]) -> int:
        """Cycles of the two in the blocks that cost least together, of several those that take the fewest cycles."""
        best: tuple[int, int] | None = None
        for two in twos:
            most = self.most_shared(two)
            for one in ones:
                cost = one.cost + two.cost
                if best is None or cost - most <= best[0]:
                    shared = self.shared(one, two)
                    found = cost - shared, one.cycles + two.cycles - shared
                    best = found if best is None else min(best, found)
        assert best is not None  # noqa: S101  # a kernel has its own block at least
        return best[1]

    def _distance(self, one: BlockOption, two: BlockOption) -> int:
        """Blocks of the first kernel that may be unfinished when the second one begins."""
        rule = two.sources.timing.blockdep
        if rule is not BlockdepRule.HONOURED:
            return MAX_BLOCKDEP if rule is BlockdepRule.IGNORED else 0
        if self._dependency is None:
            self._dependency = Dependency(*self._kernels)
        return self._dependency.blocks(one.block, two.block)


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
            row, origin = [], []
            previous = operations[step - 1] if step else None
            coupling = Coupling(previous, operation, self.accelerator) if previous and operation else None
            for choice in choices:
                best, at = (0 if step else choice.lead), 0
                if step and options[step - 1]:
                    best, at = coupling.least(costs[-1], options[step - 1], choice) if coupling else _first_least(costs[-1])
                elif step:
                    best = min(costs[-1], default=0)
                row.append(best + choice.cost)
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
