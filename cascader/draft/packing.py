"""Packing: other groups than those of the fewest live bytes, whose buffers leave fewer gaps between them.

Plans know live bytes alone. Where addresses need more, groups that are a change or two away may need less, though as many bytes are live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from cascader.draft.group_moves import Groups
from cascader.draft.placement import Placement


class Packed(NamedTuple):
    """Groups, and the bytes that their buffers reach."""

    groups: Groups
    peak: int


def packed_closer(start: Packed, least: int, placement: Placement, changes: Callable[[Groups], Iterator[Groups]], moves: int) -> Packed:
    """The groups that pack into the fewest bytes, of those that a descent from a ``start`` on finds; ``least`` are enough.

    Round by round all ``changes`` of the best groups so far are placed with so many ``moves``, but for those of as many live bytes as the
    best reaches; a round that gains nothing is the last. Of several that need as few bytes the first is taken, the start before all.
    """
    best, known = start, {start.groups}
    while True:
        base = best
        for groups in changes(base.groups):
            if groups in known or placement.live(groups) >= best.peak:
                continue
            known.add(groups)
            peak = placement.searched(groups, moves)[0]
            best = Packed(groups, peak) if peak < best.peak else best
            if best.peak <= least:
                return best
        if best is base:
            return best
