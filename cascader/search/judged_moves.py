"""Judged moves: groups changed one at a time by what a judge says of each change, as a replay does, and not by what is expected of it.

What is expected of two drafts is off by some tenths of a per cent, and not alike where stripes are of other heights. Where so much decides,
the search has gone the wrong way, or has seen no way.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from fractions import Fraction
from itertools import islice, tee

from msgspec import Struct

from cascader.search.builder import Draft
from cascader.search.local_moves import Groups

HOPE = Fraction(1, 500)
"""The part of the expected cycles that a change may add and still be judged: expectations of neighbours are off by as much."""


class Judged(Struct, frozen=True):
    """A draft and its cycles by the judge."""

    draft: Draft
    cycles: int


class Moves(Struct, frozen=True):
    """The changes of a draft: other groups, of which a draft is ``made`` for the same arena (None if they do not fit)."""

    neighbours: Callable[[Groups], Iterable[Groups]]
    made: Callable[[Draft, Groups], Draft | None]


Judge = Callable[[Iterable[Draft]], Iterator[int]]
"""Cycles of drafts, in their order. It may draw drafts before their turn, and judge them in vain."""

_Change = tuple[tuple[Groups, ...], Draft]
"""A changed draft, with its groups and those that were looked at before it for nothing."""


def _changes(draft: Draft, moves: Moves, tried: Container[Groups]) -> Iterator[_Change]:
    """The changes of a draft that are worth a judgement and were not tried."""
    looked: list[Groups] = []
    seen = set[Groups]()
    for groups in moves.neighbours(draft.groups):
        if groups in tried or groups in seen:
            continue
        seen.add(groups)
        looked.append(groups)
        changed = moves.made(draft, groups)
        if changed is not None and changed.cycles <= draft.cycles * (1 + HOPE):
            yield tuple(looked), changed
            looked.clear()


def climbed(start: Judged, moves: Moves, judge: Judge, target: int, most: int) -> Judged:
    """The draft of fewest judged cycles that one change after the other reaches from ``start``.

    It ends with at most ``target`` cycles, after ``most`` judgements, or where no change helps. No groups are judged twice, but those that
    the judge drew too early.
    """
    best, left, tried, improved = start, most, {start.draft.groups}, True
    while improved and best.cycles > target:
        improved = False
        changes, drawn = tee(islice(_changes(best.draft, moves, tried), left))
        for (looked, draft), cycles in zip(changes, judge(draft for _, draft in drawn), strict=True):
            tried.update(looked)
            left -= 1
            if cycles < best.cycles:
                best, improved = Judged(draft, cycles), True
                break
    return best
