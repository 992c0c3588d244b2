"""Copy sets: the drafts of given groups with a given set of copies, one for each way in which the copies' times come out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cascader.allocate.moving import placements
from cascader.search.builder import Draft, Placer
from cascader.search.local_moves import Groups
from cascader.search.placement import Placement, PlacementSearch
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up

Staged = frozenset[int]


class CopySets:
    """Makes the drafts of one graph whose copies are those of a set: each as early as its place and the copier are free, at the lowest."""

    def __init__(self, placement_search: PlacementSearch, placer: Placer, moves: int) -> None:
        self._placement_search = placement_search
        self._placer = placer
        self._moves = moves

    @property
    def shares(self) -> bool:
        """Whether a copy may serve several parts."""
        return self._placer.shares

    def source(self, part: int, *, shares: bool) -> int:
        """The part whose copy serves a part: itself, or if parts share theirs the first with the same constants."""
        return self._placer.same_constants(part) if shares else part

    def room(self, groups: Groups) -> int:
        """Bytes in which groups have room for every copy from the beginning on."""
        copied = sum(round_up(size, ALIGNMENT) for size in self._placer.constants(groups)[:, 1].tolist())
        return self._placement_search.greedily(groups).peak + copied

    def fits(self, groups: Groups, budget: int) -> bool:
        """Whether addresses within ``budget`` are found for the groups' tensors."""
        return self._placement_search.within(budget, groups, self._moves) is not None

    def drafts(self, groups: Groups, staged: Staged, budget: int, *, shares: bool) -> Iterator[Draft]:
        """The drafts of some groups within ``budget`` in which all copies of a set find a place, by the jobs before which these are issued.

        Of drafts whose copies are issued before the same jobs the first counts.
        """
        known: set[tuple[tuple[int, int], ...]] = set()
        for placement in self._placements(groups, staged, budget):
            search = self._placer.search(groups, placement, budget, shares=shares)
            timeline = search.best(placement.addresses, [staged])
            if timeline is None or timeline.staged != staged:
                continue
            times = tuple((issue.constants.part, issue.step) for issue in timeline.issues)
            if times not in known:
                known.add(times)
                yield Draft(groups, placement, timeline, budget, shares)

    def _placements(self, groups: Groups, staged: Staged, budget: int) -> Iterator[Placement]:
        """Addresses that are worth a look: those of the search, and if these may hold up a copy those of every order of the buffers."""
        first = self._placement_search.within(budget, groups, self._moves)
        if first is None:
            return
        yield first
        if staged and budget < self.room(groups):
            for peak, addresses in placements(first.extents, budget):
                yield replace(first, peak=peak, addresses=addresses)
