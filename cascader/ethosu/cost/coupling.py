"""Coupling: the cycles that two consecutive kernels share, because the second may begin while the first one drains."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cached_property, lru_cache
from math import ceil

from cascader.ethosu.cost.block_option import BlockOption, Options
from cascader.ethosu.cost.blockdep import MAX_BLOCKDEP, Dependency, shares_tables
from cascader.ethosu.cost.kernel_flow import Pipeline
from cascader.ethosu.cost.memory_path import Sources
from npu_model.accelerator import Accelerator
from npu_model.native import native
from npu_model.program import KernelOperation
from npu_model.timing import DEFAULT_TIMING, BlockdepRule

_NATIVE = native("cascader.ethosu")
"""The compiled cycles that two kernels share in all of their blocks; None if they are not built."""

_RULES = {BlockdepRule.HONOURED: 0, BlockdepRule.IGNORED: 1, BlockdepRule.DRAINED: 2}
"""The rules of BLOCKDEP in the core's form."""

_NO_PAIR = array("q")
"""Stands for a pair of kernels whose blocks are not examined."""

_NO_COSTS = array("q")

NEAR = 8
"""Blocks at the end of a kernel and at the beginning of the next one that decide what both share."""


@lru_cache(maxsize=1 << 12)
def _ended(option: BlockOption) -> tuple[Pipeline, float, float]:
    """The units after the last blocks of a kernel whose first weights were there, when it is done, and for how long its path was idle.

    The path is idle behind the kernel's loads, but for its last stores. Reads of the next kernel that are requested ahead pass then.
    """
    pipeline, places, sources = Pipeline(option.latency), option.load.places, option.sources
    done = pipeline.run(option.load, sources, prefetched=True, first=max(0, places - NEAR))
    if not sources.access.ifm_ahead:
        return pipeline, done.cycles, 0.0
    behind, blocks = pipeline.behind_loads()
    _, stored, _ = option.load.words(places - blocks, places)
    return pipeline, done.cycles, max(0.0, behind - sources.moving(0, stored))


@lru_cache(maxsize=1 << 12)
def _begun(option: BlockOption) -> tuple[float, float]:
    """Cycles in which the words of a kernel's first blocks pass, and the end of these blocks if it runs alone.

    Its first weights are read then.
    """
    places, sources = min(NEAR, option.load.places), option.sources
    fetched, stored, constants = option.load.words(0, places)
    flow = Pipeline().run(option.load, sources, prefetched=True, last=places)
    return sources.moving(fetched + (constants if sources.shared else 0), stored), max(flow.cycles, constants * sources.weights.rate)


@lru_cache(maxsize=1 << 16)
def _shared(one: BlockOption, two: BlockOption, distance: int) -> int:
    """Cycles by which a kernel is done earlier than alone if it begins before the last ``distance`` blocks of another kernel are stored.

    Alone, its first weights are already read. The number is negative if they are not, and reading them costs more than the two share.
    """
    (pipeline, begin, idle), (moving, alone) = _ended(one), _begun(two)
    units = pipeline.unordered() if two.sources.timing.blockdep is BlockdepRule.IGNORED else pipeline.copied()
    done = units.run(two.load, two.sources, distance=distance, last=min(NEAR, two.load.places))
    behind = max(done.cycles - begin, moving - idle)
    return ceil(alone - behind) + two.latency


def further_responses(sources: Sources, latency: int) -> int:
    """Cycles that a kernel waits for a drained one beyond those that its costs allow for.

    They allow for the default timing's on a U55, as its replays confirm, and for none on a device that requests ahead.
    """
    known = 0 if sources.access.ifm_ahead else DEFAULT_TIMING.drain_responses
    return (sources.timing.drain_responses - known) * latency


class Coupling:
    """Coupling of two consecutive kernels, for any of their blocks."""

    def __init__(self, before: KernelOperation, after: KernelOperation, accelerator: Accelerator, *, reads: bool = True) -> None:
        """With ``reads`` off, the second kernel reads no result of the first one."""
        self._reads = reads
        self._kernels = before, after
        self._is_apart = shares_tables(before, after, accelerator)

    def shared(self, one: BlockOption, two: BlockOption) -> int:
        """Cycles that the two share: the second's fetches and MAC steps may begin while the first drains.

        A different partition waits until all is stored, and BLOCKDEP until all but a number of blocks are. The result is negative if the
        second kernel waits longer for its first weights than the two share. It reads some of these weights while the first kernel's decoder
        is idle.
        """
        waits, timing = max(0, two.lead - one.tail), two.sources.timing
        further = further_responses(two.sources, two.latency)
        if self._is_apart or (timing.shram_drains and one.shram != two.shram):
            return -waits - (further if further and not self._distance(one, two) else 0)
        distance = self._distance(one, two)
        return max(_shared(one, two, distance), -waits) if distance else -waits - further

    def least(self, costs: Sequence[int], ones: Sequence[BlockOption], twos: Sequence[BlockOption]) -> list[tuple[int, int]]:
        """For each block of the second kernel, the least of the first kernel's costs minus the shared cycles, with its first position."""
        if _NATIVE is not None and isinstance(ones, Options) and isinstance(twos, Options):
            found = self._compiled(ones, twos, array("q", costs))
            return list(zip(found[::2], found[1::2], strict=True))
        return [min((cost - self.shared(one, two), at) for at, (cost, one) in enumerate(zip(costs, ones, strict=True))) for two in twos]

    def together(self, ones: Sequence[BlockOption], twos: Sequence[BlockOption]) -> int:
        """Cycles of the two in the cheapest blocks; in a tie, the fewest cycles."""
        if _NATIVE is not None and isinstance(ones, Options) and isinstance(twos, Options):
            return self._compiled(ones, twos, _NO_COSTS)[0]
        pairs = ((one, two, self.shared(one, two)) for two in twos for one in ones)
        return min((one.cost + two.cost - shared, one.cycles + two.cycles - shared) for one, two, shared in pairs)[1]

    def _compiled(self, ones: Options, twos: Options, costs: array[int]) -> array[int]:
        """The cycles of :meth:`together` without costs; with costs, the least and its position from :meth:`least` for each block."""
        timing, limit, pair = twos.sources.timing, 0, _NO_PAIR
        further = further_responses(twos.sources, twos.latency)
        may_overlap = not self._is_apart and not (timing.shram_drains and ones.shrams.isdisjoint(twos.shrams))
        if timing.blockdep is BlockdepRule.HONOURED and (may_overlap or further):
            limit, pair = self._blocks.limit, self._blocks.pair
        options = ones.begin, twos.begin, len(ones), len(twos), ones.latency, twos.latency
        terms = array("q", (*options, limit, self._is_apart, timing.shram_drains, _RULES[timing.blockdep], further, NEAR))
        assert _NATIVE is not None  # noqa: S101  # whoever calls knows
        return array("q", _NATIVE.coupling(ones.flat, twos.flat, ones.sources.flat, twos.sources.flat, pair, terms, costs))

    @cached_property
    def _blocks(self) -> Dependency:
        """The dependency of the two; it is computed once two partitions agree."""
        return Dependency(*self._kernels) if self._reads else Dependency.none()

    def _distance(self, one: BlockOption, two: BlockOption) -> int:
        """Blocks of the first kernel that may be unfinished when the second one begins."""
        rule = two.sources.timing.blockdep
        if rule is not BlockdepRule.HONOURED:
            return MAX_BLOCKDEP if rule is BlockdepRule.IGNORED else 0
        return self._blocks.blocks(one.block, two.block)
