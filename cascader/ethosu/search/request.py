"""Requests: the memory limits at which a search looks for schedules."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from msgspec import Struct

NEAR = Fraction(9, 10)
"""Least part of a budget at which limits are tried for it."""


class LimitRequest(Struct, frozen=True):
    """The schedules that a search is asked for.

    With ``frontier`` they are those of every limit of the ladder, with ``smallest`` the one that needs least memory. ``budgets``
    are arenas in bytes for each of which the best that fits is wanted too. With ``near`` only those limits of the ladder count at which
    a schedule for a budget of so many bytes is looked for. Without ``thorough`` a limit is searched to its end only where that promises
    anything.
    """

    frontier: bool = True
    smallest: bool = False
    budgets: tuple[int, ...] = ()
    near: int | None = None
    thorough: bool = False

    def limits(self, ladder: Sequence[int]) -> tuple[int, ...]:
        """The limits of a ladder that are asked for."""
        if self.near is not None:
            return near_limits(ladder, self.near)
        return tuple(ladder) if self.frontier else ()


def near_limits(ladder: Sequence[int], budget: int) -> tuple[int, ...]:
    """The limits at which schedules for a budget are looked for beside the budget itself: those a little below it.

    A search with a little less room goes another way, which may end better. Below the least limit there is nothing to look for.

    >>> near_limits((100, 150, 270, 300, 400), 290), near_limits((100, 190, 200), 1000), near_limits((100, 150), 90)
    ((270,), (190, 200), ())
    """
    top = min(budget, ladder[-1])
    return tuple(limit for limit in ladder if NEAR * top <= limit <= top)


EVERYTHING = LimitRequest(frontier=True, smallest=True)
"""The request of a frontier: every limit of the ladder, and the schedule that needs least memory."""
