"""Replays: the choice of candidates that are worth one, and their replayed cycles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from itertools import accumulate
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.search.errands import Decisions, change, elsewhere, replay
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.search import answers
from cascader.ethosu.search.task import Candidate, Point, Replay, Show, ignored, silent

GAIN = 0.002
"""Least part of its cycles that a schedule must be expected to save, beside all that need no more memory, to be replayed in any case."""

EFFORT = 200_000_000
"""Expected cycles up to which schedules that promise less are replayed too, the most promising first.

What the search expects is off by a few per cent, of small networks by up to a fifth. A small network is replayed in a moment:
all of its schedules are. Of a large network replays take most of the time. On one processor this is about a minute.
"""


REACH = 1.04
"""Largest multiple of the fewest expected cycles, in as many bytes, at which a schedule may still be a point of a frontier.

What the search expects of one network is off by much the same for all of its schedules: of the frontiers of ten networks no point was
expected to take more than 1.022 times as many. Tiny networks and a thorough search have no such limit. Neither has a network layer by
layer with its constants at home: what is expected of it is a mere sum, up to a sixth too much.
"""


def _is_plain(candidate: Candidate) -> bool:
    """Whether every part runs whole, its constants at home."""
    made = candidate.schedule
    return not made.copies and len(made.jobs) == len(made.network.graph.parts)


def _may_be_best(candidate: Candidate, excess: float, reach: float) -> bool:
    """Whether a candidate may be the best although it is expected to take ``excess`` times the cycles of what needs no more memory."""
    return excess <= reach or _is_plain(candidate)


def promising(candidates: Sequence[Candidate], gain: float = GAIN, effort: int = EFFORT, reach: float = inf) -> tuple[Candidate, ...]:
    """The candidates that are worth a replay, by ascending memory.

    First come all that are expected to save ``gain`` of the cycles of every such one that needs no more memory. Others follow, first
    those that are least slower than what needs no more memory, until all together have ``effort`` expected cycles. None of the
    others is expected to be more than ``reach`` times as slow as what needs no more memory.
    """
    ordered = sorted(candidates, key=lambda c: (c.memory, c.cycles))
    excess, fastest = [], inf
    for candidate in ordered:
        excess.append(candidate.cycles / fastest)
        fastest = candidate.cycles if excess[-1] <= 1 - gain else fastest
    kept: set[int] = set()
    total = 0
    for index in sorted(range(len(ordered)), key=lambda i: (excess[i], i)):
        if excess[index] <= 1 - gain or total + ordered[index].cycles <= effort:
            if not _may_be_best(ordered[index], excess[index], reach):
                continue
            kept.add(index)
            total += ordered[index].cycles
    return tuple(candidate for index, candidate in enumerate(ordered) if index in kept)


def within_reach(some: Sequence[Candidate], found: Sequence[Candidate], reach: float = REACH) -> tuple[Candidate, ...]:
    """Those of ``some`` that take at most ``reach`` times the fewest expected cycles of all that were ``found`` in as many bytes."""
    fewest = [min(other.cycles for other in (one, *found) if other.memory <= one.memory) for one in some]
    return tuple(one for one, cycles in zip(some, fewest, strict=True) if _may_be_best(one, one.cycles / max(cycles, 1), reach))


CLOSE = 1.03
"""Largest multiple of the fewest expected cycles at which a schedule is replayed for a budget in any case."""
FEW = 3
"""Schedules that are replayed for a budget whatever is expected of them."""


def close(candidates: Sequence[Candidate], effort: int = EFFORT // 10) -> tuple[Candidate, ...]:
    """The candidates for one budget that are worth a replay, the one expected to be fastest first.

    These are all that are expected to take at most :data:`CLOSE` times the fewest cycles, and at least :data:`FEW`. Others follow until
    all together have ``effort`` expected cycles: what the search expects of a small network is off by more.
    """
    ordered = sorted(candidates, key=lambda c: (c.cycles, c.memory))
    totals = accumulate(candidate.cycles for candidate in ordered)
    return tuple(
        candidate
        for index, (candidate, total) in enumerate(zip(ordered, totals, strict=True))
        if index < FEW or candidate.cycles <= CLOSE * ordered[0].cycles or total <= effort
    )


Took = Callable[[Point], None]
"""Listener that is told of a point as soon as it is there."""


def replayed(
    candidates: Sequence[Candidate], forms: Sequence[Form], judge: Replay, executor: Executor, show: Show = silent, took: Took = ignored
) -> tuple[Point, ...]:
    """The candidates of some forms with what their replay shows, in their order; ``took`` is told of each."""
    form_of = {id(form.network): form for form in forms}
    asked = [executor.submit(replay, Decisions.of(c), form_of[id(c.schedule.network)], judge) for c in candidates]
    cycles = answers(asked, "Replaying: {} of {} schedules", show)
    points = []
    for candidate, answer in zip(candidates, cycles, strict=True):
        points.append(Point(candidate.memory, answer, candidate.cycles, candidate.schedule))
        took(points[-1])
    return tuple(points)


OTHERS = 12_000_000
"""Cycles that replays of schedules for other costs take at most for a form and a limit: a tenth of a second."""

USUAL_OTHERS = 15
"""Replays that these are expected to take: where they are not affordable, as of a large network, there are none."""


def starting_places(points: Iterable[Point], limit: int, forms: Sequence[Form]) -> list[tuple[Form, int]]:
    """The form of the fastest of some ``points`` of at most ``limit`` bytes, with that limit.

    None if its options have no other costs, or if their replays would take more than :data:`OTHERS`.
    """
    form_of = {id(form.network): form for form in forms}
    fastest = min((point for point in points if point.memory <= limit), key=lambda point: (point.cycles, point.memory), default=None)
    if fastest is None or USUAL_OTHERS * fastest.cycles > OTHERS:
        return []
    form = form_of[id(fastest.schedule.network)]
    return [(form, limit)] if form.options.other_costs else []


def made_elsewhere(places: Sequence[tuple[Form, int]], judge: Replay, executor: Executor, show: Show = silent) -> tuple[Point, ...]:
    """Replayed schedules that are best for other costs, in some forms and limits (bytes).

    What a search expects is off by some per cent. A schedule that is best where the decoder of weights is faster or slower is another
    start, which may end better.
    """
    tried = [executor.submit(elsewhere, form, limit, judge, OTHERS) for form, limit in places]
    found = zip(places, answers(tried, "Looking for other starts: {} of {} memory limits", show), strict=True)
    return tuple(Point(made.arena_size, cycles, made.cycles, made.schedule(form)) for (form, _), some in found for made, cycles in some)


USUAL_REPLAYS = 100
"""Replays that the changes of one schedule are expected to take."""


class Effort(Struct, frozen=True):
    """Effort of changes by replays: the cycles that those of one schedule's blocks take at most, and how many schedules take as much."""

    cycles: int
    points: int

    def affordable(self, points: Sequence[Point]) -> Sequence[Point]:
        """The first of some points: as many as take that effort together where each takes its usual replays; one at least."""
        totals = accumulate(min(self.cycles, USUAL_REPLAYS * point.cycles) for point in points)
        return points[: max(1, sum(total <= self.points * self.cycles for total in totals))]


WHOLE_EFFORT, QUICK_EFFORT = Effort(24_000_000, 10), Effort(12_000_000, 3)
"""Effort for a frontier, and for one schedule for a budget: a schedule takes some 0.2 and 0.1 seconds, and half as much for its copies."""


def changed_by_replays(
    points: Sequence[Point], forms: Sequence[Form], judge: Replay, executor: Executor, show: Show = silent, effort: Effort = WHOLE_EFFORT
) -> tuple[Point, ...]:
    """Those of the first points that other blocks or copies make faster, with these."""
    form_of = {id(form.network): form for form in forms}
    asked = [(form_of[id(point.schedule.network)], point) for point in effort.affordable(points)]
    tried = [executor.submit(change, form, Decisions.of(_candidate(p)), p.cycles, judge, effort.cycles) for form, p in asked]
    found = zip(asked, answers(tried, "Changing blocks and copies by replays: {} of {} schedules", show), strict=True)
    return tuple(
        replace(point, cycles=cycles, schedule=made.schedule(form)) for (form, point), (made, cycles) in found if cycles < point.cycles
    )


def _candidate(point: Point) -> Candidate:
    return Candidate(point.schedule, point.estimate)
