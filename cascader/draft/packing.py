"""Packing: groups whose buffers leave fewer gaps than those with the fewest live bytes.

Plans know only live bytes. If addresses need more, groups that are a change or two away may need fewer with the same live bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

from cascader.draft.group_moves import Groups, Neighbourhood
from cascader.draft.placement import Placement

_PLACED = 64
"""Number of groups whose addresses are searched. SqueezeNet with its input outside the arena needs 48: 110,768 bytes instead of 112,976."""
_PLACED_AT_PEAK = 120
"""Number of groups from changes at the peak whose addresses are searched. YOLO in tiles: 24,192 bytes instead of 29,952 after 71 groups."""
_STILL_LOOSE = Fraction(102, 100)
"""Ratio of address bytes to the least live bytes above which more groups at the peak are placed."""
_PLACED_IF_LOOSE = 480
"""Number of these groups. MobileNetV2-0.35 at ``--recompute 1.1``: 9,856 bytes instead of 10,320, and its plans hold 9,781."""
_WIDTH = 40
"""Number of groups of a round, those with the fewest bytes, whose changes are tried in the next round."""


class Packed(NamedTuple):
    """Groups, and the bytes that their buffers reach."""

    groups: Groups
    peak: int


class _Walk:
    """Known groups nearby, and the best of them."""

    def __init__(self, start: Packed, least: int, placement: Placement, changes: Neighbourhood, moves: int) -> None:
        self.best, self.known, self.least = start, {start.groups}, least
        self._placement, self._changes, self._moves = placement, changes, moves
        self._reached = dict[Groups, tuple[int, int]]()

    def made(self, base: Groups, *, at_peak: bool) -> Iterator[Packed]:
        """The new groups that one change makes, without those that have at least the best's bytes live."""
        parts = self._placement.at_peak(base, self._moves) if at_peak else None
        for groups in self._changes.of(base, parts):
            if groups not in self.known:
                self.known.add(groups)
                if groups not in self._reached:
                    self._reached[groups] = self._placement.reached(groups, self.best.peak, self._moves)
                live, peak = self._reached[groups]
                if live < self.best.peak:
                    made = Packed(groups, peak)
                    self.best = made if made.peak < self.best.peak else self.best
                    yield made

    def at_peak(self) -> Iterator[Packed]:
        """Repeated changes at the peak, beginning with the groups of the fewest bytes."""
        waiting = [(self.best.peak, 0, self.best.groups)]
        while waiting:
            for made in self.made(heappop(waiting)[2], at_peak=True):
                heappush(waiting, (made.peak, len(self.known), made.groups))
                yield made

    def anywhere(self) -> Iterator[Packed]:
        """Round by round, all changes of the previous round's groups with the fewest bytes."""
        nearby = [self.best.groups]
        while nearby:
            round_ = list[Packed]()
            for made in (one for base in nearby for one in self.made(base, at_peak=False)):
                round_.append(made)
                yield made
            nearby = [one.groups for one in sorted(round_, key=lambda one: one.peak)[:_WIDTH]]

    def walk(self, groups: Iterator[Packed], most: int) -> None:
        """Place at most ``most`` groups."""
        for _ in islice(groups, most if self.best.peak > self.least else 0):
            if self.best.peak <= self.least:
                return


def packed_closer(start: Packed, least: int, placement: Placement, changes: Neighbourhood, moves: int) -> Packed:
    """The groups that pack into the fewest bytes among those that ``changes`` make, beginning at ``start``; ``least`` bytes end the search.

    First the groups at the peak are changed: those whose buffers end there, and those of the buffers below. That takes longer if much more
    than ``least`` is left. Then, round by round, all changes of the previous round's groups are placed. The search for addresses has
    ``moves`` moves. Among groups that need equally few bytes, the first wins, and the start comes first.
    """
    walk = _Walk(start, least, placement, changes, moves)
    at_peak = walk.at_peak()
    walk.walk(at_peak, _PLACED_AT_PEAK)
    walk.walk(at_peak, _PLACED_IF_LOOSE if walk.best.peak > least * _STILL_LOOSE else 0)
    walk.known = {start.groups, walk.best.groups}
    walk.walk(walk.anywhere(), _PLACED)
    return walk.best
