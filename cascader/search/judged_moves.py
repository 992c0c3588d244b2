"""Judged moves: groups changed one at a time by what a judge says of each change, as a replay does, and not by what is expected of it.

What is expected of two drafts is off by some tenths of a per cent, and not alike where stripes are of other heights. Where so much decides,
the search has gone the wrong way, or has seen no way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from cascader.search.builder import Draft
from cascader.search.local_moves import Groups
from npu_model.values import dataclass

HOPE = Fraction(1, 500)
"""The part of the expected cycles that a change may add and still be judged: expectations of neighbours are off by as much."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A draft and its cycles by the judge."""

    draft: Draft
    cycles: int


@dataclass(frozen=True, slots=True)
class Moves:
    """The changes of a draft: other groups, of which a draft is ``made`` for the same arena (None if they do not fit)."""

    neighbours: Callable[[Groups], Iterable[Groups]]
    made: Callable[[Draft, Groups], Draft | None]


def climbed(start: Judged, moves: Moves, judge: Callable[[Draft], int], target: int, most: int) -> Judged:
    """The draft of fewest judged cycles that one change after the other reaches from ``start``.

    It ends with at most ``target`` cycles, after ``most`` judgements, or where no change helps. No groups are judged twice.
    """
    best, left, tried = start, most, {start.draft.groups}
    changes = iter(moves.neighbours(best.draft.groups))
    while left and best.cycles > target:
        groups = next((groups for groups in changes if groups not in tried), None)
        if groups is None:
            break
        tried.add(groups)
        draft = moves.made(best.draft, groups)
        if draft is None or draft.cycles > best.draft.cycles * (1 + HOPE):
            continue
        left -= 1
        cycles = judge(draft)
        if cycles < best.cycles:
            best = Judged(draft, cycles)
            changes = iter(moves.neighbours(groups))
    return best
