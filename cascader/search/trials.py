"""Trials: the drafts of given groups, and what is known of trials that were made in vain."""

from __future__ import annotations

from collections.abc import Iterable

from cascader.prefetch.copies import NO_LIMIT
from cascader.search.builder import SEARCH, Draft, Placer
from cascader.search.local_moves import Groups
from cascader.search.placement import PlacementSearch
from npu_model.native import native

_NATIVE = native("cascader")


class Trials:
    """Tries groups of one graph within budgets (bytes); addresses are searched for with so many ``moves``."""

    def __init__(self, placement_search: PlacementSearch, placer: Placer, moves: int) -> None:
        self._placement_search = placement_search
        self._placer = placer
        self._moves = moves
        self._beaten: dict[tuple[Groups, frozenset[int], int], int] = {}

    def trial(self, groups: Groups, staged: Iterable[frozenset[int]], budget: int, below: int = NO_LIMIT) -> Draft | None:
        """Groups with the best of some sets of copies, or all of them; None if they do not fit or take ``below`` cycles or more."""
        placement = self._placement_search.within(budget, groups, self._moves)
        return None if placement is None else self._placer.trial(groups, placement, staged, budget, below)

    def faster(self, groups: Groups, staged: frozenset[int], budget: int, below: int) -> Draft | None:
        """As :meth:`trial` with one set of copies, of which most are made in vain: it comes again with fewer cycles to beat."""
        key = groups, staged, budget
        if self._beaten.get(key, 0) >= below:
            return None
        found = self.trial(groups, [staged], budget, below) if self.cycles(groups, staged, budget) < below else None
        if found is None:
            self._beaten[key] = below
        return found

    def cycles(self, groups: Groups, staged: frozenset[int], budget: int) -> int:
        """The cycles of a trial with one set of copies, or with all of them.

        :data:`~cascader.prefetch.copies.NO_LIMIT` if more bytes are live than fit, :data:`~cascader.search.builder.SEARCH` if only a
        search for addresses can say.
        """
        if _NATIVE is None or self._placer.shares:
            return SEARCH
        return self._placer.tried(groups, staged, budget, in_place=self._placement_search.in_place)

    def cycles_in_python(self, groups: Groups, staged: frozenset[int], budget: int) -> int:
        """As :meth:`cycles`, without the compiled core."""
        placement = self._placement_search.greedily(groups)
        if placement.peak > budget:
            return NO_LIMIT if placement.live > budget else SEARCH
        found = self._placer.trial(groups, placement, [staged], budget)
        return NO_LIMIT if found is None else found.cycles
