"""Trials: the drafts of given groups, with the best of some sets of copies, or with all placements of one set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from cascader.allocate.moving import placements
from cascader.draft.draft import Draft
from cascader.draft.group_moves import Groups
from cascader.draft.placement import Addresses, Placement
from cascader.draft.placer import SEARCH, Placer
from cascader.prefetch.copies import NO_LIMIT
from npu_model.native import native
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up

_NATIVE = native("cascader")

Staged = frozenset[int]
"""Parts whose constants are copied."""


class Trials:
    """Tries groups of one graph within budgets (bytes); addresses are searched with a number of ``moves``."""

    def __init__(self, placement: Placement, placer: Placer, moves: int) -> None:
        self._placement = placement
        self._placer = placer
        self._moves = moves
        self._beaten: dict[tuple[Groups, Staged, int], int] = {}

    def trial(self, groups: Groups, staged: Iterable[Staged], budget: int, below: int = NO_LIMIT) -> Draft | None:
        """Groups with the best of some sets of copies, or all of them; None if they do not fit or take ``below`` cycles or more."""
        addresses = self._placement.within(budget, groups, self._moves)
        return None if addresses is None else self._placer.trial(groups, addresses, staged, budget, below)

    def fastest(self, proposed: Mapping[Groups, Iterable[Staged]], budget: int, most: int) -> list[Draft]:
        """The :meth:`trial` of some groups, each with its sets of copies: at most ``count`` of the fastest."""
        places = ((groups, self._placement.within(budget, groups, self._moves), staged) for groups, staged in proposed.items())
        return self._placer.fastest([(groups, place, staged) for groups, place, staged in places if place is not None], budget, most)

    def whole(self, groups: Groups, staged: Iterable[Staged], budget: int, *, patient: bool = False) -> Draft | None:
        """Like :meth:`trial`, with the copies that are best then; ``patient`` places them in other ways, too."""
        addresses = self._placement.within(budget, groups, self._moves)
        return None if addresses is None else self._placer.whole(groups, addresses, staged, budget, patient=patient)

    def faster(self, groups: Groups, staged: Staged, budget: int, below: int) -> Draft | None:
        """Like :meth:`trial` with one set of copies. Most such trials find nothing, because each must beat fewer cycles."""
        key = groups, staged, budget
        if self._beaten.get(key, 0) >= below:
            return None
        found = self.trial(groups, [staged], budget, below) if self.cycles(groups, staged, budget) < below else None
        if found is None:
            self._beaten[key] = below
        return found

    def cycles(self, groups: Groups, staged: Staged, budget: int) -> int:
        """The cycles of a trial with one set of copies, or with all of them.

        :data:`~cascader.prefetch.copies.NO_LIMIT` if more bytes are live than fit, :data:`~cascader.draft.placer.SEARCH` if only a
        search for addresses can say.
        """
        if _NATIVE is None or self._placer.shares:
            return SEARCH
        return self._placer.tried(groups, staged, budget)

    def cycles_in_python(self, groups: Groups, staged: Staged, budget: int) -> int:
        """Like :meth:`cycles`, without the compiled core."""
        peak, addresses = self._placement.greedily(groups)
        if peak > budget:
            return NO_LIMIT if self._placement.live(groups) > budget else SEARCH
        found = self._placer.trial(groups, addresses, [staged], budget)
        return NO_LIMIT if found is None else found.cycles

    @property
    def shares(self) -> bool:
        """Whether a copy may serve several parts."""
        return self._placer.shares

    def source(self, part: int, *, shares: bool) -> int:
        """The part whose copy serves a part: itself, or the first part with the same constants if parts share copies."""
        return self._placer.same_constants(part) if shares else part

    def room(self, groups: Groups) -> int:
        """Bytes that hold the groups and every copy from the beginning on."""
        copied = sum(round_up(size, ALIGNMENT) for size in self._placer.constants(groups)[:, 1].tolist())
        return self._placement.greedily(groups)[0] + copied

    def fits(self, groups: Groups, budget: int) -> bool:
        """Whether addresses within ``budget`` are found for the groups' tensors."""
        return self._placement.within(budget, groups, self._moves) is not None

    def drafts(self, groups: Groups, staged: Staged, budget: int, *, shares: bool) -> Iterator[Draft]:
        """The drafts of some groups within ``budget`` in which all copies of a set find free bytes, each as early as possible.

        Drafts that issue the copies before the same jobs count once.
        """
        known: set[tuple[tuple[int, int], ...]] = set()
        search = self._placer.search(groups, budget, shares=shares)
        for addresses in self._placements(groups, staged, budget):
            timeline = search.best(addresses, [staged])
            if timeline is None or timeline.staged != staged:
                continue
            times = tuple((issue.constants.part, issue.step) for issue in timeline.issues)
            if times not in known:
                known.add(times)
                yield self._placer.draft(groups, addresses, timeline, shares=shares)

    def _placements(self, groups: Groups, staged: Staged, budget: int) -> Iterator[Addresses]:
        """Addresses to try: the search's, and if these may delay a copy, those of every order of the buffers."""
        first = self._placement.within(budget, groups, self._moves)
        if first is None:
            return
        yield first
        if staged and budget < self.room(groups):
            yield from (addresses for _, addresses in placements(self._placement.stored(groups)[1].extents, budget))
