"""The choice of one cascaded schedule: the fastest that fits a budget, or the one that needs least memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from fractions import Fraction
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.search.best import Best
from cascader.ethosu.search.floor import interface_floor, require_room
from cascader.ethosu.search.proofs import Prover, Rounds, has_proof
from cascader.ethosu.search.proven import DEFAULT_LIMITS, Limits, Proof
from cascader.ethosu.search.replays import (
    QUICK_EFFORT,
    REACH,
    WHOLE_EFFORT,
    changed_by_replays,
    close,
    made_elsewhere,
    promising,
    replayed,
    starting_places,
)
from cascader.ethosu.search.search import Explored, Found, explore, new_candidates, search
from cascader.ethosu.search.task import Candidate, Choice, Point, Price, Seen, Show, Task, silent, unseen
from cascader.ethosu.search.wish import EVERYTHING, Wish
from cascader.ethosu.verify.check import check_schedule
from npu_model.errors import InputError

_UNBOUNDED = 1 << 60


EVEN = Fraction(201, 200)
"""Largest multiple of the best schedule's cycles (or bytes, if these count) at which another one is changed by replays, too."""


class Aim(Struct, frozen=True):
    """Aim of a choice: the fastest schedule of at most ``budget`` bytes (None: any number), or with ``smallest`` the smallest.

    Of equally fast ones the smallest is chosen, of equally small ones the fastest. With ``thorough`` the search is that of a frontier,
    every limit searched to its end, with the budget as one more limit. Without it only limits near the budget are searched; if nothing
    that fits is found there, those of a frontier are searched, too. With a ``prover`` every schedule of a stated class is bounded or
    replayed besides, if the network is small. With a ``price`` every limit of a frontier is searched, and of what is replayed the
    cheapest is chosen: what was not expected to be fast or small in its bytes is not replayed, and blocks and copies are changed for
    cycles alone.
    """

    budget: int | None = None
    smallest: bool = False
    thorough: bool = False
    prover: Prover | None = None
    price: Price | None = None


class _Chooser(Struct, frozen=True):
    """A choice on its way."""

    explored: Explored
    aim: Aim
    best: Best
    executor: Executor
    show: Show
    limits: Limits

    def _fitting(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        return [candidate for candidate in candidates if self.best.fits(candidate)]

    def _found(self, wish: Wish) -> Found:
        return search(self.explored, wish, self.executor, self.show, self.best.came, self.best.known)

    def _require_fit(self, least: int) -> None:
        if self.aim.budget is not None and least > self.aim.budget:
            raise InputError(
                f"No schedule was found that fits into --arena-cache-size {self.aim.budget}: {least} bytes are the smallest arena reached; "
                "allow that much."
            )

    @property
    def _budgets(self) -> tuple[int, ...]:
        return () if self.aim.budget is None else (self.aim.budget,)

    def smallest(self) -> list[Candidate]:
        """The candidates of least bytes."""
        candidates = self._found(Wish(frontier=False, smallest=True)).candidates
        least = min(candidate.memory for candidate in candidates)
        self._require_fit(least)
        return [candidate for candidate in candidates if candidate.memory == least]

    def near(self) -> Sequence[Candidate]:
        """The schedules found near the budget that are worth a replay."""
        wish = Wish(frontier=False, budgets=self._budgets, near=self.aim.budget or _UNBOUNDED)
        return close(self._fitting(self._found(wish).candidates))

    def everywhere(self) -> Sequence[Candidate]:
        """The schedules of a whole frontier, and those for the budget, that fit and are worth a replay."""
        found = self._found(replace(EVERYTHING, thorough=self.aim.thorough))
        wish = Wish(frontier=False, budgets=self._budgets, thorough=self.aim.thorough)
        more = new_candidates(self.explored, found.candidates, wish, self.executor, self.show)
        self._require_fit(min(candidate.memory for candidate in (*found.candidates, *more)))
        # Whatever a frontier would replay is replayed here, too, where it fits: no point of it that does is faster.
        reach = inf if found.whole or self.aim.price is not None else REACH
        return self._fitting((*promising(found.candidates, reach=reach), *more))

    def chosen(self) -> Sequence[Candidate]:
        """The schedules that are worth a replay for the aim."""
        if self.aim.smallest:
            return self.smallest()
        return (() if self.aim.thorough or self.aim.price is not None else self.near()) or self.everywhere()

    def changed_by_replays(self, points: Iterable[Point]) -> Point:
        """The best of some schedules, its blocks and copies changed as replays say; where time allows so are those that are as good.

        Of several that are as fast, mostly one schedule in several arenas, the first is changed. With ``thorough`` all others are, too.
        """
        ordered = sorted(points, key=self.best.rank)
        if not self.best.task.options.change_by_replays:
            return ordered[0]
        tried, effort = ordered, WHOLE_EFFORT
        if not self.aim.thorough:
            even = [point for point in ordered if self.best.rank(point)[0] <= self.best.rank(ordered[0])[0] * EVEN]
            firsts: dict[int, Point] = {}
            for point in even:
                firsts.setdefault(point.cycles, point)
            tried, effort = list(firsts.values()), QUICK_EFFORT
        found = changed_by_replays(tried, self.explored.forms, self.best.task.replay, self.executor, self.show, effort)
        for point in found:
            self.best.take(point)
        return min((*found, ordered[0]), key=self.best.rank)

    def elsewhere(self, points: Sequence[Point]) -> tuple[Point, ...]:
        """Schedules that are the best for other costs, of the forms of the fastest points."""
        if self.aim.smallest:
            return ()
        limit = self.aim.budget or max(ladder[-1] for ladder in self.explored.ladders)
        places = starting_places(points, limit, self.explored.forms)
        found = made_elsewhere(places, self.best.task.replay, self.executor, self.show)
        for point in found:
            self.best.take(point)
        return found

    def proven(self, point: Point) -> tuple[Point, Proof | None]:
        """The fastest schedule that fits, beginning with ``point``, and what is proven of it; nothing but of small networks."""
        prover = self.aim.prover
        if prover is None or self.aim.smallest or self.aim.price is not None or not has_proof(self.explored):
            return point, None
        rounds = Rounds(self.explored, self.best, point, prover, self.limits, self.executor, self.show)
        rounds.run()
        if rounds.point is not point:
            point = self.changed_by_replays((rounds.point,))
        return point, rounds.proof(point.cycles)


ROOM = Fraction(11, 10)
"""Multiple of the bytes that few forms hold at least, at and above which a budget is searched in these alone."""


def _is_only_fast(aim: Aim) -> bool:
    """Whether nothing but cycles counts."""
    return aim.budget is None and not (aim.smallest or aim.thorough or aim.price)


def _explored(task: Task, aim: Aim, executor: Executor, show: Show, meanwhile: Callable[[], None]) -> Explored:
    """The forms of a task: few, if it asks for that and they fit, or all of them.

    Where bytes do not count none of the forms that are there for their bytes is made: none of them is faster but in few bytes.
    """
    options = task.options
    if _is_only_fast(aim):
        options = replace(options, streamed_pools=False, recompute=Fraction(1))
    every = replace(task, options=replace(options, few_forms=False))
    if aim.smallest or not options.few_forms:
        return explore(every, executor, show, meanwhile)
    explored = explore(replace(task, options=options), executor, show, meanwhile)
    fits = aim.budget is None or aim.budget >= explored.least_live_bytes * ROOM
    return explored if fits else explore(every, executor, show)


def choose(task: Task, aim: Aim, executor: Executor, show: Show = silent, seen: Seen = unseen, limits: Limits = DEFAULT_LIMITS) -> Choice:
    """The schedule for an aim, replayed and checked; ``limits`` are those of the proof of a small network.

    ``seen`` is told of each schedule that is better than those before, the network layer by layer the first of them if that fits.
    InputError that names the smallest arena found if none fits; before anything is searched, if the budget is below what every schedule
    needs.
    """
    require_room(aim.budget, interface_floor(task.network))
    best = Best(task, aim.budget, aim.smallest, seen, price=aim.price)
    explored = _explored(task.within(aim.budget, smallest=aim.smallest), aim, executor, show, best.begin)
    require_room(aim.budget, explored.floor)
    aim = replace(aim, budget=explored.useful(aim.budget))
    best.least_cycles = explored.least_cycles(aim.budget)
    chooser = _Chooser(explored, aim, best, executor, show, limits)
    candidates = chooser.chosen()
    missing = [candidate for candidate in candidates if id(candidate.schedule) not in best.points]
    known = [best.points[id(candidate.schedule)] for candidate in candidates if id(candidate.schedule) in best.points]
    points = replayed(missing, explored.forms, task.replay, executor, show, best.take)
    points = (*known, *points)
    chosen, proof = chooser.proven(chooser.changed_by_replays((*points, *chooser.elsewhere(points))))
    check_schedule(chosen.schedule)
    # Of forms that were left out nothing is known but that inputs and outputs have to fit.
    floor = interface_floor(task.network).bytes if _is_only_fast(aim) or task.options.few_forms else explored.least_bytes
    return Choice(chosen, best.least_cycles, proof, floor)
