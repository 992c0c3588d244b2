"""Drafts: the fastest ways found to run a row graph in an arena of a given size, with addresses for tensors and copies.

The search starts from the proposals of the dynamic program, which only know whether a copy is staged. In a draft every copy has its time
and address. Groups are packed, and copies fill the free bytes. Then groups and copies are changed one at a time as long as that saves
cycles.
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
"""Parts of the copies' cycles that the plans' cycles count as not hidden; each is tried for every limit."""
_SHARES = tuple(Fraction(percent, 100) for percent in (100, 96, 92, 88, 84, 78, 70, 60))
"""Limits for the plans of one budget, in parts of it: addresses may need more than is live, and copies need room."""
_SMALLEST_TRIES = 24
"""Limits near the smallest that are tried for the smallest arena."""
_NO_LIMIT = 1 << 60
_PARTS = 100
"""Parts of the graph for which the numbers of drafts and regroupings are given. Those of a smaller graph are quicker, so it has more."""
_PATIENT = 30
"""Factor of the moves for the addresses of the smallest arena: it is searched for only once."""
_STUBBORN = 30
"""Factor of these moves where that arena is still larger than the plan's bytes."""
_MANY_MOVES = 300
"""Factor of the moves for each of the closest groups of a graph of more than ``_PARTS`` parts. MobileNetV2-0.35 in 292 parts holds 8,663
bytes: 600 moves reach 10,704, 20 times as many 9,504, 300 times as many 9,040."""
_CLOSEST = 3
"""Groups, those of fewest live bytes, whose addresses are searched for with so many moves."""
_UNSURE = Fraction(99, 100)
"""Factor of the cycles that a search for copies with boundless room finds: no arena is expected to take fewer."""
_CLIMBED = 2
"""Drafts for a budget that a judge has changed, the best first: where one leads to no further change, another may."""
HOPE = Fraction(1, 500)
"""The part of the expected cycles that a change may add and still be judged: expectations of neighbours are off by as much."""
_LOOSE = Fraction(101, 100)
"""Bytes that addresses need, as a multiple of the least live ones, above which groups are looked for that pack closer."""
_NEAR_SMALLEST = Fraction(5, 4)
"""Limits up to this many times the smallest may pack into the smallest arena."""


class DraftOptions(Struct, frozen=True):
    """Effort of the search: ``moves`` of the address search, drafts per budget that are ``polished``, ``regroupings`` tried for each.

    ``polished`` and ``regroupings`` are the numbers for a graph of 100 parts; a smaller graph has more. A regrouping asks a group's
    last part for any of ``stripe_rows``, which are closer together than those of the plans. It bounds the rows that the parts before
    it make at a time by any of ``inner_rows``, or not at all. ``prefetch`` off issues a copy only right before the first job that uses
    it, ``ends`` off puts all copies as low as they go. Of graphs with at most ``every`` parts every division is tried. The drafts that
    are polished at a budget have at most so many ``rows`` together, all forms of a network counted: one of many rows takes many jobs.
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
    """The moves of a draft of the groups ``begun``: other groups, each with the draft that is ``made`` from them (None if they do not fit).

    A change is known by its groups and those before it that were no good. No groups are judged twice, but those that were drawn too early.
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
    """A draft on its way: the best after so many changes, in whatever order the numbers of changes are asked for."""

    def __init__(self, best: Draft, changes: Iterator[Draft]) -> None:
        self._bests = [best]
        self._changes = changes

    def after(self, count: int) -> Draft:
        """The best after ``count`` changes, or after all if there are fewer."""
        self._bests += islice(self._changes, max(0, count + 1 - len(self._bests)))
        return self._bests[min(count, len(self._bests) - 1)]


class Drafter:
    """Makes the drafts of one graph; what several budgets have in common is worked out once."""

    def __init__(  # noqa: PLR0913  # what drafts are made of
        self,
        scheduler: DepthFirstScheduler,
        cost: CostModel,
        table: PlanTable[Group],
        plans: PlanOptions,
        options: DraftOptions,
        overlap: Overlap | None = None,
        homes: Sequence[int] = (),
    ) -> None:
        """``homes`` are the addresses of tensors outside the arena, 0 of all others."""
        self._graph = scheduler.graph
        self._table = table
        self._plans = plans
        self._options = options
        self.placement = Placement(scheduler, in_place=plans.in_place, homes=homes)
        self._placer = Placer(scheduler, self.placement, cost, overlap, prefetch=options.prefetch, ends=options.ends)
        self._neighbourhood = Neighbourhood(self._graph, options.stripe_rows, options.inner_rows)
        self._unbounded = cache(self._placer.unbounded)
        """Cycles of a division whose copies have all the room that they want: no arena makes it faster."""
        self._improved, self._layer_by_layer = cache(self._improvements), cache(self._plain)
        self.trials = Trials(self.placement, self._placer, options.moves)

    def _regrouping(self, start: Draft, budget: int) -> Iterator[Draft]:
        """The best so far after each change of the groups, one after the other, round and round as long as any helps."""

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
        """Groups that are worth a try under a budget, with the sets of parts that their plans stage."""
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
        """Every division with the cycles that it takes if copies hide wholly and neighbours share nothing, the fewest first."""
        every = divisions(self._graph, self._plans.stripe_rows, self._plans.inner_rows)
        order = sorted((self._placer.least(groups), at, groups) for at, groups in enumerate(every))
        return [(least, groups) for least, _, groups in order]

    def _best_of_every(self, budget: int, cycles: int) -> Draft | None:
        """The fastest draft of less than ``cycles`` of every division and every order of its buffers; None if there is none."""
        best = None
        for least, groups in self._every:
            if least >= cycles:
                break
            if self._unbounded(groups) * _UNSURE >= cycles:
                continue
            search = self._placer.search(groups, budget)
            for _, addresses in placements(self.placement.stored(groups)[1].extents, budget):
                timeline = search.best(addresses, [search.every], improve=True, ends=self._options.ends, below=cycles)
                if timeline is not None:
                    best, cycles = self._placer.draft(groups, addresses, timeline, shares=False), timeline.cycles
                if cycles <= self._unbounded(groups):
                    break
        return best

    def _improvements(self, budget: int) -> list[_Improvement]:
        """The proposals that fit a budget and are to be improved, the one expected to be fastest first."""
        fitting = self.trials.fastest(self._proposals(budget), budget, self._polished)
        return [_Improvement(trial, self._regrouping(trial, budget)) for trial in fitting]

    @cached_property
    def _polished(self) -> int:
        """Number of proposals that are improved at a budget."""
        parts = self._graph.parts
        return max(1, min(self._options.polished * _PARTS // len(parts), self._options.rows // sum(part.rows for part in parts)))

    def promise(self, budget: int, part: Fraction) -> int | None:
        """Cycles that are expected of the best for an arena of ``budget`` bytes after that part of the changes; None if nothing fits.

        Before any change they are those of the proposals alone.
        """
        changes = self._options.regroupings * _PARTS // len(self._graph.parts)
        promised = [one.after(int(changes * part)) for one in self._improved(budget)]
        plain = self._layer_by_layer(budget) if part else None
        return min((draft.cycles for draft in (*promised, *([plain] if plain else []))), default=None)

    def climbed(self, budget: int, judge: Costs[Draft], target: int, most: int, begin: Iterable[Groups] = ()) -> tuple[Draft, int] | None:
        """The best draft for a budget by what a ``judge`` says of it, and its cycles, after at most ``most`` changes that it judges.

        It begins with the search's drafts and with those of the groups to ``begin`` with; None if nothing fits. Copies are placed
        patiently: where so little decides every byte may.
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

    def again(self, draft: Draft, budget: int) -> Draft | None:
        """The groups of a draft of another drafter with the copies that are best here; None if they do not fit."""
        return self.trials.whole(draft.part_groups, [draft.copied], budget)

    def _plain(self, budget: int) -> Draft | None:
        """Every part on its own, in the network's order, as a compiler without cascades has it; None if that does not fit.

        Its copies are placed patiently: the bytes of such a compiler may be just enough for them.
        """
        groups = tuple(Group(number, number, part.rows) for number, part in enumerate(self._graph.parts))
        return self.trials.whole(groups, [frozenset()], budget, patient=True)

    def drafts(self, budget: int) -> tuple[Draft, ...]:
        """Drafts for an arena of ``budget`` bytes, the one expected to be fastest first; none if nothing that is tried fits.

        If it fits, the network layer by layer is one draft, even with a poor estimate: another compiler's order is then never slower than
        that compiler.
        """
        changes = self._options.regroupings * _PARTS // len(self._graph.parts)
        drafts: dict[bytes, Draft] = {}
        for improvement in self._improved(budget):
            best = self._placer.finished(improvement.after(changes), budget)
            drafts.setdefault(best.groups, best)
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
        """The draft in the smallest arena found: of plans near the least limit, as addresses may pack better there."""
        return self._packed[0]

    @cached_property
    def _packed(self) -> tuple[Draft, int]:
        """The same, and the bytes that its buffers reach."""
        least = smallest_limit(self._table)
        sizes = [size for size in self._table.sizes if least <= size <= least * _NEAR_SMALLEST]
        tried = sizes[:: max(1, len(sizes) // _SMALLEST_TRIES)]
        proposals = dict.fromkeys(propose(self._table, size) for size in tried)
        groups = dict.fromkeys(tuple(plan.group for plan in proposal.plans) for proposal in proposals if proposal is not None)
        moves = self._options.moves * _PATIENT * _PARTS // max(_PARTS, len(self._graph.parts))
        smallest = self.placement.smallest(tuple(groups), moves)
        trials = [(self._placer.trial(one, addresses, [], peak), peak) for one, (peak, addresses) in smallest.items()]
        draft, peak = min(((trial, peak) for trial, peak in trials if trial is not None), key=lambda pair: pair[0].cycles)
        if peak > least * _LOOSE:
            reached, addresses, closest = self._closest(Packed(draft.part_groups, peak), groups, least, moves)
            packed = self._placer.trial(closest, addresses, [], reached) if reached < peak else None
            draft, peak = (draft, peak) if packed is None else (packed, reached)
        return self._placer.finished(draft, peak), peak

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
