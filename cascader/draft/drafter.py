"""Drafts: the fastest ways found to run a row graph in an arena of a given size, with addresses for tensors and copies.

The search starts from the proposals of the dynamic program, which only know whether a copy is staged. In a draft, every copy has its time
and address. Groups are packed, and copies fill the free bytes. Then groups and copies are changed one at a time while cycles fall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache, cached_property
from itertools import islice
from operator import itemgetter

from msgspec import Struct

from cascader.allocate.moving import placements
from cascader.draft.climb import Costs, Moves, climb, climbed
from cascader.draft.draft import Draft
from cascader.draft.group_moves import Groups, Neighbourhood, divisions
from cascader.draft.job_costs import Overlap
from cascader.draft.packing import Packed, packed_closer
from cascader.draft.placement import Addresses, Placement
from cascader.draft.placer import Placer
from cascader.draft.trials import Trials
from cascader.plan.depth_first import DepthFirstScheduler, Group
from cascader.plan.group_costs import CostModel
from cascader.plan.plans import PlanOptions
from cascader.plan.proposals import PlanTable, propose, smallest_limit

_TRUST = (Fraction(0), Fraction(1, 2), Fraction(1))
"""Shares of the copies' cycles that plans count as not hidden; each share is tried for every limit."""
_SHARES = tuple(Fraction(percent, 100) for percent in (100, 96, 92, 88, 84, 78, 70, 60))
"""Limits for the plans of one budget, as parts of it: addresses may need more than the live bytes, and copies need bytes, too."""
_SMALLEST_TRIES = 24
"""Limits near the smallest that are tried for the smallest arena."""
_NO_LIMIT = 1 << 60
_PARTS = 100
"""Number of parts of the graph for which the effort figures are given. A smaller graph is quicker, so it gets more effort."""
_PATIENT = 30
"""Factor of the address moves for the smallest arena, which is searched only once."""
_STUBBORN = 30
"""Factor of these moves if that arena is still larger than the plan's bytes."""
_MANY_MOVES = 50
"""Factor of the moves for each of the closest groups of a graph of more than ``_PARTS`` parts. MobileNetV2-0.35 in 292 parts holds 8,663
bytes: 600 moves reach 9,456, 50 times as many 8,944."""
_CLOSEST = 3
"""Number of groups, those with the fewest live bytes, whose addresses are searched with that many moves."""
_UNSURE = Fraction(99, 100)
"""Factor of the cycles from a search for copies with unlimited bytes: no arena is expected to take fewer."""
_CLIMBED = 2
"""Drafts for a budget that a judge improves, the best first. If one leads to no further change, another may."""
HOPE = Fraction(1, 500)
"""Share of the expected cycles that a change may add and still be judged, because estimates of neighbours are inexact."""
_LOOSE = Fraction(101, 100)
"""Ratio of address bytes to the least live bytes above which closer-packing groups are searched."""
_NEAR_SMALLEST = Fraction(5, 4)
"""Limits up to this many times the smallest may pack into the smallest arena."""


class DraftOptions(Struct, frozen=True):
    """Effort of the search: ``moves`` of the address search, drafts per budget that are ``polished``, ``regroupings`` tried for each.

    ``polished`` and ``regroupings`` are the numbers for a graph of 100 parts; a smaller graph has more. A regrouping asks a group's last
    part for any of ``stripe_rows``, which are closer together than the plans' rows. It may bound the rows that earlier parts make at a time
    by any of ``inner_rows``. Without ``prefetch``, a copy is issued only right before its first job; without ``ends``, all copies lie as
    low as possible. In graphs with at most ``every`` parts, every division is tried. The polished drafts of a budget have at most ``rows``
    rows together, over all forms of a network, because many rows need many jobs.
    """

    moves: int = 600
    polished: int = 1
    rows: int = 24_000
    regroupings: int = 60
    stripe_rows: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
    inner_rows: tuple[int, ...] = (1, 4)
    prefetch: bool = True
    ends: bool = True
    every: int = 5


def regroupings(
    begun: Groups, neighbours: Callable[[Groups], Iterable[Groups]], made: Callable[[Groups, Draft], Draft | None]
) -> Moves[Draft, tuple[Groups, ...]]:
    """The moves of a draft with the groups ``begun``: other groups, each with its draft from ``made`` (None if they do not fit).

    The key of a change has its groups and the rejected groups before it. No groups are judged twice, except groups that were taken too
    early.
    """

    def moves(best: Draft, judged: Sequence[tuple[Groups, ...]]) -> Iterator[tuple[tuple[Groups, ...], Draft]]:
        tried, looked = {begun}.union(*judged), list[Groups]()
        for groups in dict.fromkeys(neighbours(best.part_groups)):
            if groups not in tried:
                looked.append(groups)
                changed = made(groups, best)
                if changed is not None and changed.cycles <= best.cycles * (1 + HOPE):
                    yield tuple(looked), changed
                    looked.clear()

    return moves


class _Improvement:
    """A draft under improvement: the best after a number of changes, whichever number is asked for first."""

    def __init__(self, best: Draft, changes: Iterator[Draft]) -> None:
        self._bests = [best]
        self._changes = changes

    def after(self, count: int) -> Draft:
        """The best after ``count`` changes, or after all if there are fewer."""
        self._bests += islice(self._changes, max(0, count + 1 - len(self._bests)))
        return self._bests[min(count, len(self._bests) - 1)]


class _Loose(Struct, frozen=True):
    """A draft near the ``least`` bytes of plans that reaches ``peak`` bytes.

    It was chosen from ``groups`` by so many ``moves`` of buffers.
    """

    draft: Draft
    peak: int
    least: int
    groups: tuple[Groups, ...]
    moves: int


class Drafter:
    """Makes the drafts of one graph. Work that several budgets share is done once."""

    def __init__(  # noqa: PLR0913  # what drafts are made of
        self,
        scheduler: DepthFirstScheduler,
        cost: CostModel,
        table: Callable[[], PlanTable[Group]],
        plans: PlanOptions,
        options: DraftOptions,
        overlap: Overlap | None = None,
        homes: Sequence[int] = (),
    ) -> None:
        """``table`` makes the plans once a draft needs them. ``homes`` are the addresses of tensors outside the arena, 0 of all others."""
        self._graph = scheduler.graph
        self._make_table = table
        self._plans = plans
        self._options = options
        self.placement = Placement(scheduler, in_place=plans.in_place, homes=homes)
        self._placer = Placer(scheduler, self.placement, cost, overlap, prefetch=options.prefetch, ends=options.ends)
        self._neighbourhood = Neighbourhood(self._graph, options.stripe_rows, options.inner_rows)
        self._unbounded = cache(self._placer.unbounded)
        """Cycles of a division whose copies have unlimited bytes: no arena makes it faster."""
        self._improved, self._layer_by_layer = cache(self._improvements), cache(self._plain)
        self.trials = Trials(self.placement, self._placer, options.moves)

    @cached_property
    def _table(self) -> PlanTable[Group]:
        return self._make_table()

    @property
    def _whole(self) -> Groups:
        """The groups of a network layer by layer."""
        return tuple(Group(number, number, part.rows) for number, part in enumerate(self._graph.parts))

    @property
    def unbounded(self) -> int:
        """Expected cycles layer by layer with the best copies in unlimited bytes. No plan is made for it."""
        return self._unbounded(self._whole)

    def _regrouping(self, start: Draft, budget: int) -> Iterator[Draft]:
        """The best so far after each change of the groups, one after the other, in rounds while any change helps."""

        def moves(best: Draft, judged: Sequence[int]) -> Iterator[tuple[int, Draft]]:
            changes, at = list(self._neighbourhood.of(best.part_groups)), judged[-1] + 1 if judged else 0
            copied = best.copied
            for number in range(at, at + len(changes)):
                # A change that saves no cycles counts as none.
                yield number, self.trials.faster(changes[number % len(changes)], copied, budget, best.cycles) or best

        def costs(made: Iterable[Draft]) -> Iterator[int]:
            return (one.cycles for one in made)

        return (best for best, _ in climb(start, start.cycles, moves, costs))

    def _proposals(self, budget: int) -> dict[Groups, list[frozenset[int]]]:
        """Groups to try under a budget, with the sets of parts that their plans stage."""
        found: dict[Groups, list[frozenset[int]]] = {}
        for share in _SHARES:
            for cold in _TRUST:
                proposal = propose(self._table, int(budget * share), cold)
                if proposal is not None:
                    groups = tuple(plan.group for plan in proposal.plans)
                    found.setdefault(groups, []).append(frozenset(part for plan in proposal.plans for part in plan.staged))
        return found

    @cached_property
    def _every(self) -> list[tuple[int, Groups]]:
        """Every division with its cycles if copies hide completely and neighbours share nothing, the fewest first."""
        every = divisions(self._graph, self._plans.stripe_rows, self._plans.inner_rows)
        order = sorted((self._placer.least(groups), at, groups) for at, groups in enumerate(every))
        return [(least, groups) for least, _, groups in order]

    def _best_of_every(self, budget: int, cycles: int) -> Draft | None:
        """The fastest draft below ``cycles`` over every division and every order of its buffers; None if there is none."""
        best = None
        for least, groups in self._every:
            if least >= cycles:
                break
            if self._unbounded(groups) * _UNSURE >= cycles:
                continue
            search = self._placer.search(groups, budget)
            for _, addresses in placements(self.placement.stored(groups)[1].extents, budget):
                timeline = search.best(addresses, [search.every], self._placer.copy_effort, below=cycles)
                if timeline is not None:
                    best, cycles = self._placer.draft(groups, addresses, timeline, shares=False), timeline.cycles
                if cycles <= self._unbounded(groups):
                    break
        return best

    def _improvements(self, budget: int) -> list[_Improvement]:
        """The proposals within a budget that are to be improved, the one with the fewest expected cycles first."""
        fitting = self.trials.fastest(self._proposals(budget), budget, self._polished)
        return [_Improvement(trial, self._regrouping(trial, budget)) for trial in fitting]

    @cached_property
    def _polished(self) -> int:
        """Number of proposals to improve for a budget."""
        parts = self._graph.parts
        return max(1, min(self._options.polished * _PARTS // len(parts), self._options.rows // sum(part.rows for part in parts)))

    def promise(self, budget: int, part: Fraction) -> int | None:
        """Expected cycles of the best draft for an arena of ``budget`` bytes after a part of the changes; None if nothing fits.

        Before any change they are those of the proposals alone.
        """
        changes = self._options.regroupings * _PARTS // len(self._graph.parts)
        promised = [one.after(int(changes * part)) for one in self._improved(budget)]
        plain = self._layer_by_layer(budget) if part else None
        return min((draft.cycles for draft in (*promised, *([plain] if plain else []))), default=None)

    def climbed(
        self, budget: int, judge: Costs[Draft, int], target: int, most: int, begin: Iterable[Groups] = ()
    ) -> tuple[Draft, int] | None:
        """The best draft for a budget by a ``judge``, and its cycles, after at most ``most`` judged changes.

        It begins with the search's drafts and with drafts of the groups ``begin``; None if nothing fits. Copies are placed patiently,
        because every byte may decide here.
        """

        def made(groups: Groups, beside: Draft | None = None) -> Draft | None:
            return self.trials.whole(groups, [] if beside is None else [beside.copied], budget, patient=True)

        first = (*self.drafts(budget), *(draft for groups in begin if (draft := made(groups))))
        found: tuple[Draft, int] | None = None
        for start, cycles in sorted(zip(first, judge(first), strict=True), key=itemgetter(1))[:_CLIMBED]:
            moves = regroupings(start.part_groups, self._neighbourhood.of, made)
            reached = climbed(start, cycles, moves, judge, most, target)
            found = reached if found is None or reached[1] < found[1] else found
            if found[1] <= target:
                break
        return found

    def expected(self, draft: Draft) -> int:
        """Cycles of a draft with exactly its copies."""
        return self._placer.expected(draft)

    def again(self, draft: Draft, budget: int) -> Draft | None:
        """The groups of another drafter's draft, with the copies that are best here; None if they do not fit."""
        return self.trials.whole(draft.part_groups, [draft.copied], budget)

    def _elsewhere(self, draft: Draft, budget: int) -> Draft:
        """The draft with its buffers in another order of addresses, if its copies then take fewer cycles.

        The cycles in unlimited bytes are not the least: of a graph with 303 there, another order took 300.
        """
        groups, best = draft.part_groups, draft
        if draft.cycles <= self._placer.least(groups):
            return draft
        search, effort = self._placer.search(groups, budget, shares=draft.shares), self._placer.copy_effort
        for addresses in self.placement.every_order(groups, budget):
            timeline = search.best(addresses, [draft.copied, search.every], effort, below=best.cycles)
            best = best if timeline is None else self._placer.draft(groups, addresses, timeline, shares=draft.shares)
        return best

    def _plain(self, budget: int) -> Draft | None:
        """Every part on its own, in the network's order, as in a compiler without cascades; None if that does not fit.

        Its copies are placed patiently, because that compiler's bytes may barely suffice.
        """
        return self.trials.whole(self._whole, [frozenset()], budget, patient=True)

    def drafts(self, budget: int) -> tuple[Draft, ...]:
        """Drafts for an arena of ``budget`` bytes, the one with the fewest expected cycles first; none if no tried draft fits.

        If the network fits layer by layer, that is one of them, even with a poor estimate: so we are never slower than a compiler with that
        order.
        """
        changes = self._options.regroupings * _PARTS // len(self._graph.parts)
        drafts: dict[bytes, Draft] = {}
        for improvement in self._improved(budget):
            best = self._placer.finished(improvement.after(changes), budget)
            drafts.setdefault(best.groups, best)
        if drafts:
            best = self._elsewhere(min(drafts.values(), key=lambda draft: draft.cycles), budget)
            drafts[best.groups] = best
        if len(self._graph.parts) <= self._options.every:
            one = self._best_of_every(budget, min((draft.cycles for draft in drafts.values()), default=_NO_LIMIT))
            drafts |= {} if one is None else {one.groups: one}
        plain = self._layer_by_layer(budget)
        if plain is not None:
            drafts.setdefault(plain.groups, plain)
        if not drafts and self._packed[1] <= budget:
            return (self.smallest,)
        return tuple(sorted(drafts.values(), key=lambda draft: draft.cycles))

    @property
    def smallest(self) -> Draft:
        """The draft in the smallest arena found: of plans near the least limit, because their addresses may pack better."""
        return self._packed[0]

    def smallest_within(self, cycles: int) -> Draft | None:
        """The draft of :meth:`smallest`; None if it is expected to take more than ``cycles`` before its addresses are packed closer."""
        first = self._loosely_packed
        is_loose = first.peak > first.least * _LOOSE
        return None if is_loose and self._placer.finished(first.draft, first.peak).cycles > cycles else self.smallest

    @cached_property
    def _packed(self) -> tuple[Draft, int]:
        """The draft of :meth:`smallest`, and the bytes that its buffers reach."""
        first = self._loosely_packed
        draft, peak = first.draft, first.peak
        if peak > first.least * _LOOSE:
            reached, addresses, closest = self._closest(Packed(draft.part_groups, peak), first.groups, first.least, first.moves)
            packed = self._placer.trial(closest, addresses, [], reached) if reached < peak else None
            draft, peak = (draft, peak) if packed is None else (packed, reached)
        return self._placer.finished(draft, peak), peak

    @cached_property
    def _loosely_packed(self) -> _Loose:
        """The draft of plans near the least limit whose addresses reach the fewest bytes after a quick search."""
        least = smallest_limit(self._table)
        sizes = [size for size in self._table.sizes if least <= size <= least * _NEAR_SMALLEST]
        tried = sizes[:: max(1, len(sizes) // _SMALLEST_TRIES)]
        proposals = dict.fromkeys(propose(self._table, size) for size in tried)
        groups = tuple(dict.fromkeys(tuple(plan.group for plan in proposal.plans) for proposal in proposals if proposal is not None))
        moves = self._options.moves * _PATIENT * _PARTS // max(_PARTS, len(self._graph.parts))
        smallest = self.placement.smallest(groups, moves)
        trials = [(self._placer.trial(one, addresses, [], peak), peak) for one, (peak, addresses) in smallest.items()]
        draft, peak = min(((trial, peak) for trial, peak in trials if trial is not None), key=lambda pair: pair[0].cycles)
        return _Loose(draft, peak, least, groups, moves)

    def _closest(self, start: Packed, choices: Iterable[Groups], least: int, moves: int) -> tuple[int, Addresses, Groups]:
        """The groups that reach the fewest bytes, with their addresses: the ``start`` changed, or, of a large graph, one of the choices."""
        closer = packed_closer(start, least, self.placement, self._neighbourhood, self._options.moves)
        tried = ((closer.groups, some) for some in (self._options.moves, moves, moves * _STUBBORN))
        found = min(((*self.placement.searched(groups, some), groups) for groups, some in tried), key=itemgetter(0))
        if len(self._graph.parts) > _PARTS:
            # A walk has no time for the moves that hundreds of buffers take.
            for groups in sorted({closer.groups: None, **dict.fromkeys(choices)}, key=self.placement.live)[:_CLOSEST]:
                if found[0] > least * _LOOSE and found[0] > self.placement.live(groups):
                    peak, addresses = self.placement.searched(groups, self._options.moves * _MANY_MOVES)
                    found = min(found, (peak, addresses, groups), key=itemgetter(0))
        return found
