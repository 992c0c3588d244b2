"""Verdicts on a comparison: where Vela is ahead of our schedules in bytes, in cycles or in both."""

from __future__ import annotations

from msgspec import Struct

from cascader.plan.pareto import pareto
from npu_testbed.comparisons.answer import AT_SIZE_CYCLES, IN_PERFORMANCE_BYTES, SLOWEST
from npu_testbed.comparisons.comparison import Comparison, SweepRow
from npu_testbed.replays.vela_runs import VelaPoint
from npu_testbed.searches.frontiers import FrontierPoint


class Shortfall(Struct, frozen=True):
    """A schedule of Vela's that our frontier does not match: no point within its bytes takes at most :data:`SLOWEST` of its cycles.

    ``closest`` is our fastest point within its bytes, None if all of ours need more.
    """

    vela: VelaPoint
    closest: FrontierPoint | None


class Verdicts(Struct, frozen=True):
    """The findings of a comparison against ours. A better frontier never makes one of these worse.

    ``more_bytes``: ours needs more bytes than Vela Size at its cycles. ``more_cycles``: ours is slower than Vela Performance in its bytes.
    ``slower``: arena sizes that Vela fits and at which ours is slower, or does not fit.
    ``gaps``: Vela's schedules that ours does not match, by ascending bytes.
    """

    more_bytes: bool
    more_cycles: bool
    slower: tuple[SweepRow, ...]
    gaps: tuple[Shortfall, ...]

    @property
    def lost(self) -> bool:
        """Whether Vela is ahead in bytes or in cycles."""
        return self.more_bytes or self.more_cycles

    @property
    def worse_in_both(self) -> bool:
        """Whether Vela is ahead in bytes and in cycles."""
        return self.more_bytes and self.more_cycles

    @property
    def passed(self) -> bool:
        """Whether ours does not lose, and is slower at no arena size.

        Gaps do not count: they lie at the bytes that Vela happens to use, which ours did not aim at.
        """
        return not (self.lost or self.slower)


def as_fast(ours: FrontierPoint, vela: VelaPoint) -> bool:
    """Whether ours takes at most :data:`SLOWEST` of Vela's cycles."""
    return ours.cycles / vela.cycles <= SLOWEST


def vela_fits(row: SweepRow) -> bool:
    """Whether one of Vela's cores keeps to the arena size."""
    return row.vela is not None and not row.vela.overflows


def gaps(comparison: Comparison) -> tuple[Shortfall, ...]:
    """The gaps to all of Vela's schedules, including schedules that overflow their arena.

    A schedule that another of Vela's own beats is left out: a schedule of ours that matches the better one also matches it.
    """
    closest = ((point, comparison.frontier.within(point.memory)) for point in pareto(comparison.points))
    return tuple(Shortfall(point, ours) for point, ours in closest if ours is None or not as_fast(ours, point))


def verdicts(comparison: Comparison) -> Verdicts:
    """All verdicts on one comparison, the first two by its :func:`npu_testbed.comparisons.comparison.answers`.

    If both of Vela's cores fail, Vela is ahead nowhere.
    """
    answered = {answer.condition: answer for answer in comparison.answers}
    at_size, at_bytes = answered.get(AT_SIZE_CYCLES), answered.get(IN_PERFORMANCE_BYTES)
    slower = (row for row in comparison.sweep if vela_fits(row) and (row.cycles_ratio is None or row.cycles_ratio > SLOWEST))
    return Verdicts(
        more_bytes=at_size is not None and (at_size.memory_ratio is None or at_size.memory_ratio > 1),
        more_cycles=at_bytes is not None and (at_bytes.ours is None or not as_fast(at_bytes.ours, at_bytes.vela)),
        slower=tuple(slower),
        gaps=gaps(comparison),
    )
