"""Packing: other groups than those of the fewest live bytes, whose buffers leave fewer gaps between them.

Plans know live bytes alone. If addresses need more bytes, groups that are a change or two away may need fewer, with equally many live
bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from cascader.draft.group_moves import Groups
from cascader.draft.placement import Placement

_PLACED = 64
"""Groups whose addresses are searched for. SqueezeNet with its input off the arena needs 48: 110,768 bytes in place of 112,976."""
_WIDTH = 40
"""Groups of a round, those of fewest bytes, whose changes are tried in the next one."""


class Packed(NamedTuple):
    """Groups, and the bytes that their buffers reach."""

    groups: Groups
    peak: int


def packed_closer(start: Packed, least: int, placement: Placement, changes: Callable[[Groups], Iterator[Groups]], moves: int) -> Packed:
    """The groups that pack into the fewest bytes, of some that ``changes`` make of others, from a ``start`` on; ``least`` are enough.

    Round by round all changes of the groups of the round before are placed with so many ``moves``, but for those of as many live bytes
    as the best reaches. Among groups that need equally few bytes, the first wins, and the start comes first.
    """
    best, known = start, {start.groups}

    def others() -> Iterator[Packed]:
        """Other groups, round by round."""
        nearby = [start.groups]
        while nearby:
            made = list[Packed]()
            for groups in (one for base in nearby for one in changes(base)):
                if groups not in known:
                    known.add(groups)
                    if placement.live(groups) < best.peak:
                        made.append(Packed(groups, placement.searched(groups, moves)[0]))
                        yield made[-1]
            nearby = [one.groups for one in sorted(made, key=lambda one: one.peak)[:_WIDTH]]

    for other in islice(others(), _PLACED):
        best = other if other.peak < best.peak else best
        if best.peak <= least:
            break
    return best
