"""Replays: the choice of drafts that are worth one, and their replayed cycles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from fractions import Fraction
from itertools import accumulate
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from cascader.draft.draft import Draft
from cascader.ethosu.cascade import rooms
from cascader.ethosu.search.form import OTHER_COSTS, Form
from cascader.ethosu.search.hopeful import QUICKEST_CYCLES
from cascader.ethosu.search.remote_calls import (
    AHEAD,
    Anywhere,
    Share,
    at_limit,
    change,
    in_blocks,
    issued_later,
    less_room,
    other_starts,
    replay,
)
from cascader.ethosu.search.replayed import Replayed
from cascader.ethosu.search.search import SearchSpace, answers, distinct
from cascader.ethosu.search.task import Progress, Replay, ignored, silent
from cascader.search.workers import Directed, Takers

GAIN = 0.002
"""Share of its cycles that a schedule must be expected to save, next to all schedules with no more memory, to be replayed in any case."""

EFFORT = 200_000_000
"""Expected cycles up to which less promising schedules are replayed too, the most promising first.

Estimates are off by a few per cent, and by up to a fifth for small networks. A small network is replayed in a moment, so all of its
schedules are. Replays take most of the time of a large network. On one processor this is about a minute.
"""


REACH = 1.04
"""Largest ratio to the fewest expected cycles within the same bytes at which a schedule may still be a point of a frontier.

The search errs by about the same factor for all schedules of a network. On the frontiers of ten networks the estimate of each point was at
most 1.022 times the lowest estimate. Tiny networks and a thorough search have no such limit. Neither has a network layer by layer with its
constants at home: its estimate is a plain sum, up to a sixth too high.
"""


def _may_be_best(draft: Draft, excess: float, reach: float) -> bool:
    """Whether a draft may be the best. It is expected to take ``excess`` times the cycles of the drafts that need no more memory."""
    return excess <= reach or draft.is_plain


def promising(drafts: Sequence[Draft], gain: float = GAIN, effort: int = EFFORT, reach: float = inf) -> tuple[Draft, ...]:
    """The drafts that are worth a replay, by ascending memory.

    A draft is always replayed if it is expected to save ``gain`` of the cycles of every such draft with no more memory. Other drafts
    follow, in the order of their expected excess over the drafts with no more memory. They end where all drafts together take ``effort``
    expected cycles, or where the excess is above ``reach``.
    """
    ordered = sorted(drafts, key=lambda one: (one.memory, one.cycles))
    excess, fastest = [], inf
    for draft in ordered:
        excess.append(draft.cycles / max(fastest, 1))
        fastest = draft.cycles if excess[-1] <= 1 - gain else fastest
    chosen: set[int] = set()
    total = 0
    for index in sorted(range(len(ordered)), key=lambda i: (excess[i], i)):
        if excess[index] <= 1 - gain or total + ordered[index].cycles <= effort:
            if not _may_be_best(ordered[index], excess[index], reach):
                continue
            chosen.add(index)
            total += ordered[index].cycles
    return tuple(draft for index, draft in enumerate(ordered) if index in chosen)


def within_reach(some: Sequence[Draft], found: Sequence[Draft], reach: float = REACH) -> tuple[Draft, ...]:
    """The schedules in ``some`` that take at most ``reach`` times the fewest estimated cycles that were ``found`` in the same bytes."""
    fewest = [min(other.cycles for other in (one, *found) if other.memory <= one.memory) for one in some]
    return tuple(one for one, cycles in zip(some, fewest, strict=True) if _may_be_best(one, one.cycles / max(cycles, 1), reach))


CLOSE = 1.03
"""Largest multiple of the fewest expected cycles at which a schedule is replayed for a budget in any case."""
FEW = 3
"""Schedules that are replayed for a budget regardless of their estimates."""


def close(drafts: Sequence[Draft], effort: int = EFFORT // 10) -> tuple[Draft, ...]:
    """The drafts for one budget that are worth a replay, the one expected to be fastest first.

    All drafts within :data:`CLOSE` times the fewest expected cycles are replayed, and at least :data:`FEW`. More drafts follow until all
    together take ``effort`` expected cycles, because estimates of a small network are off by more.
    """
    ordered = sorted(drafts, key=lambda one: (one.cycles, one.memory))
    totals = accumulate(draft.cycles for draft in ordered)
    return tuple(
        draft
        for index, (draft, total) in enumerate(zip(ordered, totals, strict=True))
        if index < FEW or draft.cycles <= CLOSE * ordered[0].cycles or total <= effort
    )


def in_their_blocks(drafts: Sequence[Draft], explored: SearchSpace, executor: Executor, show: Progress = silent) -> tuple[Draft, ...]:
    """Drafts without chosen blocks, each in the blocks that are fastest together."""
    asked = [executor.submit(in_blocks, explored.form_of(draft), draft) for draft in drafts]
    return tuple(answers(asked, "Choosing blocks: {} of {} schedules", show))


Took = Callable[[Replayed], None]
"""Callback for each new replayed draft."""


def replayed(
    drafts: Sequence[Draft], explored: SearchSpace, judge: Replay, executor: Executor, show: Progress = silent, took: Took = ignored
) -> tuple[Replayed, ...]:
    """The replayed drafts, in their order; ``took`` is called with each."""
    pairs = [(explored.form_of(draft), draft) for draft in drafts]
    asked = [executor.submit(replay, draft, form, judge) for form, draft in pairs]
    found = []
    for (form, draft), cycles in zip(pairs, answers(asked, "Replaying: {} of {} schedules", show), strict=True):
        found.append(Replayed(form, draft, cycles))
        took(found[-1])
    return tuple(found)


OTHERS = 12_000_000
"""The most cycles for replays of schedules for other costs, for a form and a limit: a tenth of a second."""

USUAL_OTHERS = 15
"""Expected number of these replays. If they are not affordable, as for a large network, there are none."""


MOST_FORMS = 2
"""Number of forms that have other starts."""

SECOND = Fraction(101, 100)
"""Largest ratio to the fewest replayed cycles at which the fastest draft of another form gets other starts."""


def _leading(found: Iterable[Replayed], limit: int) -> list[Replayed]:
    """The fastest draft in ``limit`` bytes, and the fastest of another form if it is close.

    Two forms whose fastest drafts take equally many bytes and cycles count as one: mostly they have the same kernels. Empty if the replays
    of other starts would take more than :data:`OTHERS`.
    """
    fitting = sorted((one for one in found if one.memory <= limit), key=lambda one: (one.cycles, one.memory))
    if not fitting or USUAL_OTHERS * fitting[0].cycles > OTHERS:
        return []
    firsts: dict[Form, Replayed] = {}
    for one in fitting:
        if one.cycles <= SECOND * fitting[0].cycles and USUAL_OTHERS * one.cycles <= OTHERS:
            firsts.setdefault(one.form, one)
    others: dict[tuple[int, int], Replayed] = {}
    for one in firsts.values():
        others.setdefault((one.cycles, one.memory), one)
    return list(others.values())


def worth_a_start(found: Iterable[Replayed], limit: int) -> list[Replayed]:
    """The fastest drafts in ``limit`` bytes, each of another form, that get other starts; empty if the options have no other costs."""
    return [one for one in _leading(found, limit) if one.form.options.other_costs][:MOST_FORMS]


def is_quick(draft: Replayed) -> bool:
    """Whether a draft takes so few cycles that its estimate errs most, and that more replays take little time."""
    return draft.cycles <= QUICKEST_CYCLES


def room_near(first: Replayed, limit: int, least: int) -> int:
    """The room in which a draft's form is searched again: for a quick draft the next one above its bytes, otherwise the ``limit``.

    Rooms begin at ``least`` bytes (:func:`~cascader.ethosu.cascade.rooms`), so they are the same for every limit, and what is found there
    is not lost in more room.
    """
    return next((room for room in rooms(least, limit) if room > first.memory), limit) if is_quick(first) else limit


def less_room_of(first: Replayed, least: int) -> list[int]:
    """The last room but one below the bytes of a quick draft, if there is one: a seventh fewer bytes by mean.

    Estimates of few groups, which many bytes permit, are off by up to 2 % next to those of more groups.
    """
    return list(rooms(least, first.memory))[-2:-1] if is_quick(first) else []


def in_its_bytes(
    found: Sequence[Replayed],
    limit: int,
    least: Callable[[Form], int],
    judge: Replay,
    executor: Executor,
    show: Progress = silent,
) -> tuple[Replayed, ...]:
    """Faster drafts from a search of the fastest draft's form in just its bytes, where divisions are drawn from other plans.

    So an answer is as good as one for a budget of just these bytes. A quick draft's form is searched in a little more room, too, and in
    less, which smaller and larger budgets share (:func:`room_near`, :func:`less_room_of`; ``least`` gives the lowest limit of a form).
    Of these drafts the slower ones stay as well: replays may change them into the fastest.
    """
    first = next(iter(_leading(found, limit)), None)
    if first is None:
        return ()
    lowest = least(first.form)
    limits = sorted({first.memory, room_near(first, limit, lowest), *less_room_of(first, lowest)} - {limit})
    asked = [executor.submit(at_limit, first.form, room) for room in limits]
    made = distinct(draft for some in answers(asked, "Searching about the fastest draft's bytes: {} of {} arenas", show) for draft in some)
    known = {one.draft.runs for one in found}
    new = [draft for draft in made if draft.runs not in known]
    tried = [executor.submit(replay, draft, first.form, judge) for draft in new]
    told = zip(new, answers(tried, "Replaying: {} of {} schedules", show), strict=True)
    return tuple(Replayed(first.form, draft, cycles) for draft, cycles in told if is_quick(first) or cycles < first.cycles)


def in_less_room(found: Sequence[Replayed], limit: int, judge: Replay, executor: Executor, show: Progress = silent) -> tuple[Replayed, ...]:
    """The fastest drafts. Each gets the copies that replay fastest, among the copies that are best within fewer bytes."""
    asked = _leading(found, limit)[:MOST_FORMS]
    tried = [executor.submit(less_room, one.form, one.draft, limit, judge, OTHERS) for one in asked]
    made = zip(asked, answers(tried, "Looking for copies in less room: {} of {} schedules", show), strict=True)
    return tuple(Replayed(one.form, draft, cycles) for one, some in made for draft, cycles in some if cycles < one.cycles)


MOST_STARTS = 2
"""Drafts of a form and a limit that were made for other costs and are changed by replays."""


class _Start(Struct, frozen=True):
    """A replayed draft of a form for a limit (bytes), which is best for the other costs of that number."""

    form: Form
    number: int
    limit: int
    draft: Draft
    cycles: int


def started_otherwise(
    limits: Sequence[tuple[Form, int]], judge: Replay, executor: Executor, show: Progress = silent, takers: Anywhere | None = None
) -> tuple[Replayed, ...]:
    """Replayed drafts that are best for other costs, in some forms and limits (bytes).

    Estimates are off by some per cent. A draft that is best for a faster or slower weight decoder is another start, and may end better.
    If the fastest one of a form and a limit is faster with its best copies within fewer bytes, that draft counts, too. The ``takers``
    make the drafts, those for the same costs in one process (None: the processes of each form).
    """

    def taken(form: Form, number: int) -> Takers:
        return form if takers is None else replace(takers, number=number)

    terms = judge, OTHERS // OTHER_COSTS
    asked = [(form, number, limit) for form, limit in limits for number in range(OTHER_COSTS)]
    tried = [executor.submit(Directed(other_starts, taken(*one[:2])), *one, *terms) for one in asked]
    made = zip(asked, answers(tried, "Looking for other starts: {} of {} costs", show), strict=True)
    every = [_Start(*one, draft, cycles) for one, some in made for draft, cycles in some]
    ranked = [_fastest([one for one in every if (one.form, one.limit) == place]) for place in limits]
    firsts = [starts[0] for starts in ranked if starts]
    tried = [
        executor.submit(Directed(less_room, taken(one.form, one.number)), one.form, one.draft, one.limit, *terms, one.number)
        for one in firsts
    ]
    less = zip(firsts, answers(tried, "Looking for copies in less room: {} of {} schedules", show), strict=True)
    sooner = [Replayed(one.form, draft, cycles) for one, some in less for draft, cycles in some if cycles < one.cycles]
    return (*sooner, *(Replayed(one.form, one.draft, one.cycles) for starts in ranked for one in starts))


def _fastest(starts: Sequence[_Start]) -> Sequence[_Start]:
    """The drafts of a form and a limit with the fewest cycles; drafts that replay equally count once."""
    distinct_starts: dict[tuple[object, int], _Start] = {}
    for one in starts:
        distinct_starts.setdefault((one.draft.runs, one.draft.cycles), one)
    return sorted(distinct_starts.values(), key=lambda one: (one.cycles, one.draft.memory))[:MOST_STARTS]


_LATER = 6
"""Drafts, those with the fewest cycles, whose copies are issued later."""


def with_later_copies(
    found: Iterable[Replayed], judge: Replay, executor: Executor, show: Progress = silent, takers: Takers | None = None
) -> dict[Replayed, Replayed]:
    """For some of the fastest drafts the same with all its copies issued later, if that saves :data:`GAIN` of its cycles in replay.

    Changes of single copies find what saves less. Of drafts with equally many cycles only the first counts. The replays of a draft take at
    most :data:`OTHERS`. The ``takers`` make them (None: the processes of the draft's form).
    """
    firsts: dict[int, Replayed] = {}
    for one in sorted(found, key=lambda one: (one.cycles, one.memory)):
        firsts.setdefault(one.cycles, one)
    asked = [one for one in list(firsts.values())[:_LATER] if len(AHEAD) * one.cycles <= OTHERS]
    tried = [executor.submit(Directed(issued_later, takers or one.form), one.form, one.draft, one.cycles, judge) for one in asked]
    made = zip(asked, answers(tried, "Issuing copies later: {} of {} schedules", show), strict=True)
    return {one: Replayed(one.form, draft, cycles) for one, (draft, cycles) in made if cycles <= one.cycles * (1 - GAIN)}


USUAL_REPLAYS = 100
"""Expected number of replays for the changes of one schedule."""


class Effort(Struct, frozen=True):
    """Effort of changes by replays: the most cycles for the replays of a draft's blocks, and the number of drafts that get this effort.

    Copies get half of it. With ``turns`` the drafts compete: each gets its part of the effort, then the faster half gets another part, and
    so on. Two drafts are left at the end, for which at most ``more`` turns follow while they gain. Without ``blocks`` copies alone are
    changed. The ``takers`` make the changes (None: the processes of the draft's form).
    """

    cycles: int
    drafts: int
    turns: int = 1
    more: int = 0
    blocks: bool = True
    takers: Takers | None = None

    def affordable(self, found: Sequence[Replayed]) -> Sequence[Replayed]:
        """The first drafts that together take that effort if each takes its usual number of replays; at least one."""
        totals = accumulate(min(self.cycles, USUAL_REPLAYS * one.cycles) for one in found)
        return found[: max(1, sum(total <= self.drafts * self.cycles for total in totals))]


WHOLE_EFFORT, QUICK_EFFORT = Effort(24_000_000, 10), Effort(36_000_000, 1, 2, 2)
"""Effort for a frontier, and for one schedule for a budget: a schedule takes some 0.2 seconds, and half that for its copies.

VWW has time for two drafts. Three drafts with a third of these cycles in a turn take 0.2 to 0.5 % more cycles in four of five arenas.
"""

COPIES_ALONE = Effort(8_000_000, 2, blocks=False)
"""Effort of a quick search: some hundredths of a second, and next to nothing for a large network."""


_FINALISTS = 2
"""Drafts that are left for the last turns: the faster of two is often known late."""


FEWEST_REPLAYS = 9
"""Replays in a turn below which blocks are not changed. With a few, of hundreds of blocks, three networks gained at most 0.03 %."""


class _Turn(Struct, frozen=True):
    """A turn of drafts that compete for changes by replays: the drafts that are ``left``, and the ``first`` draft of all as it is now."""

    effort: Effort
    left: Sequence[Replayed]
    first: Replayed
    number: int = 0
    gained: bool = True
    """Whether the previous turn made one of these drafts faster."""

    @property
    def goes_on(self) -> bool:
        """Whether this turn takes place."""
        return self.number < self.effort.turns + (self.effort.more if self.gained else 0)

    def share(self, one: Replayed) -> Share:
        """A draft's share of the effort. Drafts that compete have copies changed once they lead.

        Their blocks stay if there is time for fewer than :data:`FEWEST_REPLAYS`.
        """
        effort = self.effort
        blocks = effort.cycles if effort.turns == 1 else effort.cycles // 2
        copies = effort.cycles // 2 if self.number or effort.turns == 1 else 0
        tried = blocks if effort.blocks and (effort.turns == 1 or blocks >= FEWEST_REPLAYS * one.cycles) else 0
        return Share(tried, copies, self.number * blocks, None if one is self.first else effort.cycles)

    def next(self, after: Sequence[Replayed], rank: Callable[[Replayed], tuple[float, ...]]) -> _Turn:
        """The next turn: the better half of the drafts that are left, but two at least, as they are ``after`` this turn.

        Drafts that have become one schedule count as one.
        """
        first = next((new for old, new in zip(self.left, after, strict=True) if old is self.first), self.first)
        others: dict[object, Replayed] = {}
        for one in sorted(after, key=rank):
            others.setdefault(one.draft.runs, one)
        left = list(others.values())[: max(_FINALISTS, (len(after) + 1) // 2)]
        gained = any(new.cycles < old.cycles for old, new in zip(self.left, after, strict=True))
        return _Turn(self.effort, left, first, self.number + 1, gained)


def _by_cycles(one: Replayed) -> tuple[float, ...]:
    return one.cycles, one.memory


def changed_by_replays(
    found: Sequence[Replayed],
    judge: Replay,
    executor: Executor,
    show: Progress = silent,
    effort: Effort = WHOLE_EFFORT,
    rank: Callable[[Replayed], tuple[float, ...]] = _by_cycles,
) -> tuple[Replayed, ...]:
    """The drafts that other blocks or copies make faster, with these blocks and copies; the least ``rank`` is the best.

    If there is no time for a block of each part, only the first draft gets other blocks.
    """
    left, made = effort.affordable(found), list[Replayed]()
    if not left:
        return ()
    turn = _Turn(effort, left, left[0])

    def sent(one: Replayed) -> Future[tuple[Draft, int]]:
        return executor.submit(Directed(change, effort.takers or one.form), one.form, one.draft, one.cycles, judge, turn.share(one))

    while turn.goes_on:
        asked = list(map(sent, turn.left))
        changed = answers(asked, "Changing blocks and copies by replays: {} of {} schedules", show)
        after = [
            one if cycles == one.cycles and draft.runs == one.draft.runs else Replayed(one.form, draft, cycles)
            for one, (draft, cycles) in zip(turn.left, changed, strict=True)
        ]
        made += [new for old, new in zip(turn.left, after, strict=True) if new is not old]
        turn = turn.next(after, rank)
    return tuple(made)
