"""Verdicts on a comparison: where Vela is ahead of our schedules in bytes, in cycles or in both."""

from __future__ import annotations

from dataclasses import dataclass

from cascader.pareto import pareto
from testbed.compare import Answer, Comparison, SweepRow
from testbed.frontier import FrontierPoint
from testbed.vela_points import VelaPoint

SLOWEST = 1.01
"""Most cycles per cycle of Vela's that count as no slower."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A schedule of Vela's that none of ours reaches: in at most its bytes none takes at most :data:`SLOWEST` of its cycles.

    ``closest`` is our fastest in at most its bytes, None if each of ours needs more. ``worse`` is our smallest that loses in both, by more
    bytes and more than :data:`SLOWEST` of the cycles; None if ours that need more bytes are as fast, so that there is a choice.
    """

    vela: VelaPoint
    closest: FrontierPoint | None
    worse: FrontierPoint | None


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What a comparison says against ours.

    ``lost``: Vela Size needs fewer bytes than ours at its cycles, or Vela Performance is faster in its bytes.
    ``gaps``: Vela's schedules that ours does not reach, by ascending bytes.
    ``slower``: arena sizes that Vela fits and at which ours is slower, or does not fit.
    """

    lost: bool
    gaps: tuple[Gap, ...]
    slower: tuple[SweepRow, ...]

    @property
    def worse(self) -> tuple[Gap, ...]:
        """Vela's schedules beside which one of ours is worse in both bytes and cycles."""
        return tuple(gap for gap in self.gaps if gap.worse is not None)

    @property
    def passed(self) -> bool:
        """Whether ours is not lost, nowhere worse in both, and slower at no arena size."""
        return not (self.lost or self.worse or self.slower)


def as_fast(ours: FrontierPoint, vela: VelaPoint) -> bool:
    """Whether ours takes at most :data:`SLOWEST` of Vela's cycles."""
    return ours.cycles / vela.cycles <= SLOWEST


def vela_fits(row: SweepRow) -> bool:
    """Whether one of Vela's cores keeps to the arena size."""
    return row.vela is not None and not row.vela.overflows


def _lost(answers: tuple[Answer, ...]) -> bool:
    """By the answers of :func:`testbed.compare.answers`."""
    at_size, _, _, at_bytes = answers
    smaller = at_size.memory_ratio is not None and at_size.memory_ratio <= 1
    faster = at_bytes.ours is not None and as_fast(at_bytes.ours, at_bytes.vela)
    return not (smaller and faster)


def gaps(comparison: Comparison) -> tuple[Gap, ...]:
    """The gaps beside all of Vela's schedules, those that overflow their arena too.

    A schedule of Vela's that another of its own beats is left out: whatever of ours reaches the better one reaches it, too.
    """
    frontier = comparison.frontier
    found = []
    for point in pareto(comparison.points):
        closest = frontier.within(point.memory)
        if closest is not None and as_fast(closest, point):
            continue
        losing = (ours for ours in frontier.points if ours.memory > point.memory and not as_fast(ours, point))
        found.append(Gap(point, closest, next(losing, None)))
    return tuple(found)


def verdicts(comparison: Comparison) -> Verdicts:
    """All verdicts on one comparison."""
    slower = (row for row in comparison.sweep if vela_fits(row) and (row.cycles_ratio is None or row.cycles_ratio > SLOWEST))
    return Verdicts(_lost(comparison.answers), gaps(comparison), tuple(slower))
