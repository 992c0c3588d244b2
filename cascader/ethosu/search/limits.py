"""Limits: the arenas for which a search looks for schedules."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class LimitRequest(Struct, frozen=True):
    """The schedules that a search should find.

    ``frontier`` asks for every limit of the ladder, ``smallest`` for the schedule that needs the least memory. For each arena in
    ``budgets`` (bytes) the best fitting schedule is wanted too; with ``fastest`` only the best of all. Without ``thorough`` a limit is
    searched to its end only if that is promising. Without ``blocks`` the blocks of drafts are not chosen yet. With ``most`` cycles, a limit
    is left out at which a form is expected to take more before any change.
    """

    frontier: bool = True
    smallest: bool = False
    budgets: tuple[int, ...] = ()
    fastest: bool = False
    thorough: bool = False
    blocks: bool = True
    most: int | None = None

    def limits(self, ladder: Sequence[int]) -> tuple[int, ...]:
        """The requested limits of a ladder."""
        return tuple(ladder) if self.frontier else ()


EVERYTHING = LimitRequest(frontier=True, smallest=True)
"""The request of a frontier: every limit of the ladder, and the schedule that needs least memory."""
