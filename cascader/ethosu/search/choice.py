"""The choice of one cascaded schedule: the fastest that fits a budget, or the one that needs least memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from cascader.draft.draft import Draft
from cascader.ethosu.codegen.flash import flash_bytes
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.search.best import Best
from cascader.ethosu.search.exhaustive import MOST_PARTS, MOST_SCHEDULES, has_few_parts, search_classes
from cascader.ethosu.search.floor import interface_floor, require_interface, require_room
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.frontier import frontier_of
from cascader.ethosu.search.hopeful import NEAR, QUICK_CYCLES
from cascader.ethosu.search.limits import EVERYTHING, LimitRequest
from cascader.ethosu.search.remote_calls import Anywhere, ready
from cascader.ethosu.search.remote_calls import smallest as smallest_draft
from cascader.ethosu.search.replayed import Replayed
from cascader.ethosu.search.replays import (
    COPIES_ALONE,
    QUICK_EFFORT,
    REACH,
    WHOLE_EFFORT,
    changed_by_replays,
    close,
    in_its_bytes,
    in_less_room,
    in_their_blocks,
    is_quick,
    promising,
    replayed,
    room_near,
    started_otherwise,
    with_later_copies,
    worth_a_start,
)
from cascader.ethosu.search.request import unseen
from cascader.ethosu.search.search import (
    SearchResult,
    SearchSpace,
    answers,
    distinct,
    explore,
    new_drafts,
    proven_bytes,
    search,
)
from cascader.ethosu.search.task import Choice, Point, Proof, Size, Task, idle
from cascader.ethosu.search.tolerance import Tolerance, smallest_within, worth_a_tolerance
from cascader.ethosu.verify.check import check_schedule
from cascader.search.workers import begin
from npu_model.errors import SearchedError

if TYPE_CHECKING:
    from cascader.ethosu.search.request import Request, Run

EVEN = Fraction(105, 100)
"""Largest ratio to the best draft's cycles at which replays change another draft, too (to its bytes, if bytes count).

Other blocks saved up to a tenth of a small network's cycles. :class:`Effort` says how many drafts are changed.
"""

EVEN_IF_QUICK = Fraction(108, 100)
"""The same ratio of cycles for a quick network (:func:`is_quick`): its changes save most, and take least."""


LESS_ROOM = tuple(Fraction(part, 16) for part in range(15, 7, -1))
"""Shares of the fastest draft's bytes. A network of few parts is searched in these bytes, too: its estimates are off by several per cent.

The few parts may be those of one form. If more than :data:`QUICK_CYCLES` are expected in a form of many parts, that form's estimates are
close, and the network is not searched in less room.
"""


EQUAL_BYTES = Fraction(101, 100)
"""Multiple of the fewest bytes up to which a form with a smaller stream is preferred if bytes count."""
FINER = Fraction(105, 100)
"""Ratio of the bytes of a form's plans to those of its smallest draft: finer rows than those of plans may hold fewer bytes."""
LESS_FLASH = Fraction(99, 100)
"""Part of the bytes of flash of the form of fewest bytes that such a form takes at most."""


def of_least_flash(sizes: Sequence[int]) -> int:
    """The place of the least bytes of flash, if these are worth more bytes of the arena than the first ones have; 0 otherwise.

    >>> of_least_flash([1000, 991]), of_least_flash([1000, 991, 990])
    (0, 2)
    """
    least = min(range(len(sizes)), key=sizes.__getitem__)
    return least if sizes[least] <= sizes[0] * LESS_FLASH else 0


class _Chooser(Struct, frozen=True):
    """A choice in progress. ``takers`` make changes by replays and other starts (None: the processes of the draft's form)."""

    explored: SearchSpace
    request: Request
    run: Run
    best: Best
    executor: Executor
    most: int
    takers: Anywhere | None

    def _fitting(self, drafts: Sequence[Draft]) -> list[Draft]:
        return [draft for draft in drafts if self.best.fits(draft)]

    def _found(self, request: LimitRequest) -> SearchResult:
        return search(self.explored, request, self.executor, self.run.show, self.best.came, self.best.known)

    def _require_fit(self, least: int) -> None:
        if self.request.budget is not None and least > self.request.budget:
            raise SearchedError(
                f"No schedule was found that fits into --arena-cache-size {self.request.budget}: {least} bytes are the smallest arena "
                "reached; allow that much."
            )

    @property
    def _budgets(self) -> tuple[int, ...]:
        return () if self.request.budget is None else (self.request.budget,)

    @property
    def _room(self) -> int:
        """The budget, or the largest number of bytes that any schedule needs."""
        return self.explored.most_bytes if self.request.budget is None else self.request.budget

    def smallest(self) -> list[Draft]:
        """The drafts of least bytes; those of a form that takes less flash if its arena is at most 1 % larger."""
        drafts = self._packed()
        least = min(draft.memory for draft in drafts)
        self._require_fit(least)
        firsts: dict[int, Draft] = {}
        for draft in sorted(self._fitting(drafts), key=lambda one: (one.memory, one.cycles)):
            if draft.memory <= least * EQUAL_BYTES:
                firsts.setdefault(draft.form, draft)
        alike = list(firsts.values())
        chosen = alike[of_least_flash(list(map(self._flash, alike))) if len(alike) > 1 else 0]
        moved = chosen is not alike[0]
        return [draft for draft in drafts if draft.memory == chosen.memory and (draft.form == chosen.form or not moved)]

    def _packed(self) -> tuple[Draft, ...]:
        """The smallest drafts, in the order of their forms. A form is left out if its plans hold too many bytes to be chosen.

        The forms whose plans hold the fewest bytes come first, two at a time.
        """
        ranked = sorted(zip(self.explored.forms, self.explored.ladders, strict=True), key=lambda pair: pair[1][0])
        found = dict[Form, Draft]()
        for some in (ranked[at : at + 2] for at in range(0, len(ranked), 2)):
            most = FINER * EQUAL_BYTES * min((draft.memory for draft in found.values()), default=ranked[-1][1][0])
            asked = [(form, self.executor.submit(smallest_draft, form)) for form, rungs in some if rungs[0] <= most]
            if not asked:
                break
            words = [form.description for form, _ in asked]
            made = answers([answer for _, answer in asked], "Packing: {} of {} forms", self.run.show, words)
            for (form, _), (draft,) in zip(asked, made, strict=True):
                found[form] = draft
                self.best.came(form, draft)
        return distinct([found[form] for form in self.explored.forms if form in found])

    def _flash(self, draft: Draft) -> int:
        """Bytes of constants and commands of a draft."""
        return flash_bytes(lower(self.explored.form_of(draft).schedule(draft), checked=False))

    def near(self) -> Sequence[Draft]:
        """The drafts that are worth a replay: those found for the budget and, in a network of few parts, those found for less room."""
        # A listener gets drafts on the way, with blocks. Otherwise blocks are chosen only for drafts that are replayed.
        blocks = self.run.seen is not unseen
        drafts = self._fitting(self._found(LimitRequest(frontier=False, budgets=(self._room,), fastest=True, blocks=blocks)).drafts)
        fastest = min(drafts, key=lambda one: (one.cycles, one.memory), default=None)
        if fastest is not None and has_few_parts(self.explored) and self._is_poorly_known(fastest):
            less = tuple(sorted({int(fastest.memory * share) for share in LESS_ROOM}))
            # With a budget, the forms that only save bytes have shown their worth; they hardly gain within fewer bytes.
            tried = self.explored if self.request.budget is None else self.explored.usual_alone
            request = LimitRequest(frontier=False, budgets=less, blocks=blocks, most=int(fastest.cycles * NEAR))
            drafts += self._fitting(search(tried, request, self.executor, self.run.show).drafts)
        chosen = close(drafts)
        return chosen if blocks else distinct(in_their_blocks(chosen, self.explored, self.executor, self.run.show))

    def _is_poorly_known(self, draft: Draft) -> bool:
        """Whether estimates of a draft's form are off by several per cent: those of a short network, or of few parts."""
        return draft.cycles <= QUICK_CYCLES or len(self.explored.form_of(draft).network.graph.parts) <= MOST_PARTS

    def everywhere(self) -> Sequence[Draft]:
        """The drafts of a whole frontier, and those for the budget, that fit and are worth a replay.

        With few forms a budget below the smallest draft of every form is refused at once.
        """
        if self.best.task.options.few_forms:
            self._require_fit(min(draft.memory for draft in self._packed()))
        found = self._found(replace(EVERYTHING, thorough=self.request.thorough))
        request = LimitRequest(frontier=False, budgets=self._budgets, thorough=self.request.thorough)
        more = new_drafts(self.explored, found.drafts, request, self.executor, self.run.show)
        self._require_fit(min(draft.memory for draft in (*found.drafts, *more)))
        # All drafts that a frontier would replay are replayed here, too, if they fit: no fitting point of a frontier is faster.
        reach = inf if found.whole or self.run.price is not None else REACH
        return self._fitting((*promising(found.drafts, reach=reach), *more))

    def chosen(self) -> Sequence[Draft]:
        """The drafts that are worth a replay for the aim."""
        if self.request.smallest:
            return self.smallest()
        return (() if self.request.thorough or self.run.price is not None else self.near()) or self.everywhere()

    def changed_by_replays(self, found: Iterable[Replayed]) -> Replayed:
        """The best of some drafts, with its blocks and copies changed as replays say.

        Equally good drafts are changed, too, if time allows. Only the first of several equally fast drafts is changed: usually they are one
        schedule in several arenas. A ``thorough`` search changes all of them.
        """
        ordered = sorted(found, key=self.best.rank)
        if not self.best.task.options.change_by_replays:
            return ordered[0]
        tried, effort = ordered, WHOLE_EFFORT
        if not self.request.thorough:
            times = EVEN_IF_QUICK if is_quick(ordered[0]) and not self.request.smallest else EVEN
            even = [one for one in ordered if self.best.rank(one)[0] <= self.best.rank(ordered[0])[0] * times]
            firsts: dict[int, Replayed] = {}
            for one in even:
                firsts.setdefault(one.cycles, one)
            tried, effort = list(firsts.values()), QUICK_EFFORT if self.best.task.options.change_blocks else COPIES_ALONE
        effort = replace(effort, takers=self.takers)
        changed = changed_by_replays(tried, self.best.task.replay, self.executor, self.run.show, effort, self.best.rank)
        return min((*self._taken(changed), ordered[0]), key=self.best.rank)

    def _taken(self, found: tuple[Replayed, ...]) -> tuple[Replayed, ...]:
        """Some drafts, each of which competes to be the best."""
        for one in found:
            self.best.take(one)
        return found

    def in_its_bytes(self, found: Sequence[Replayed]) -> tuple[Replayed, ...]:
        """Further drafts from searches in the bytes of the fastest one, and for a quick one in a little more."""
        near = in_its_bytes(found, self._room, self.explored.least_of, self.best.task.replay, self.executor, self.run.show)
        return self._taken(near)

    def in_less_room(self, found: Sequence[Replayed]) -> tuple[Replayed, ...]:
        """The fastest drafts. Each gets the copies that replay fastest, among the copies that are best within fewer bytes."""
        return self._taken(in_less_room(found, self._room, self.best.task.replay, self.executor, self.run.show))

    def with_later_copies(self, found: Sequence[Replayed]) -> tuple[Replayed, ...]:
        """The drafts. The fastest ones have their copies issued later where that is faster: each competes once."""
        later = with_later_copies(found, self.best.task.replay, self.executor, self.run.show, self.takers)
        for one in later.values():
            self.best.take(one)
        return tuple(later.get(one, one) for one in found)

    def started_otherwise(self, found: Sequence[Replayed]) -> tuple[Replayed, ...]:
        """Drafts that are best for other costs, in the form of the fastest drafts; a quick one's in little more than its bytes.

        For the smallest aim they take no more bytes than these.
        """
        room = min(one.memory for one in found) if self.request.smallest else self._room
        first = worth_a_start(found, room)
        near = [(one.form, room_near(one, room, self.explored.least_of(one.form))) for one in first[:1] if has_few_parts(self.explored)]
        limits = list(dict.fromkeys((*((one.form, room) for one in first), *near)))
        return self._taken(started_otherwise(limits, self.best.task.replay, self.executor, self.run.show, self.takers))

    def proven(self, fastest: Replayed) -> tuple[Replayed, Proof | None]:
        """The fastest draft that fits, found from a first one, and the result of an exhaustive search.

        Only small networks have such a search.
        """
        is_wanted = self.request.thorough and not self.request.smallest and self.run.price is None and self.best.task.decides_by_replays
        if not is_wanted or not has_few_parts(self.explored):
            return fastest, None
        found, proof = search_classes(self.explored, self.best, fastest, self.executor, self.run.show, self.most)
        if found is not fastest:
            found = self.changed_by_replays((found,))
        return found, replace(proof, least_cycles=found.cycles) if proof.complete else proof

    def smallest_within(self, fastest: Point) -> tuple[Point, Point]:
        """The smallest schedule that is nearly as fast as the fastest, and the fastest one; both fit the budget.

        The search covers the whole frontier, and looks more closely around the tolerated cycles.
        """
        found, tolerance = self._found(replace(EVERYTHING, smallest=False)), _tolerance(self.request)
        targets = (tolerance.cycles(fastest.cycles),)
        points = frontier_of(self.best.task, found, self.executor, targets=targets, show=self.run.show).points
        return smallest_within((fastest, *(one for one in points if one.memory <= self._room)), tolerance)

    def proven_bytes(self) -> int | None:
        """Bytes of the arena that every schedule takes.

        Nothing is known of forms that were left out, except that inputs and outputs have to fit. None if the bound is below a third of the
        bytes of the smallest plan: such a bound says nothing.
        """
        task, explored = self.best.task, self.explored
        is_whole = not (_leaves_out_small(task, self.request, self.run) or task.options.few_forms)
        least = proven_bytes(explored, self.executor, self.run.show) if is_whole else interface_floor(task.network).bytes
        return least if TELLING * least >= explored.least_live_bytes else None


TELLING = 3
"""Largest ratio of the smallest plan's bytes to the proven bytes; beyond it the bound says nothing."""


ROOM = Fraction(11, 10)
"""Multiple of the fewest bytes of the few forms. A budget of at least that much is searched in these forms alone."""

WORTH_ALL = Fraction(3, 2)
"""A budget is searched in all forms if the few forms are expected to take this many times the cycles that they take with more room.

All forms take 1.1 to 12 times the CPU time of the few. In 37 quick searches below this ratio they saved 1.2 % of the cycles by mean, in
16 above it 2.5 %, and at most 22 %. Later `portfolio:mnist_two_pools` was seen to save 30 % in 5,424 bytes, for twice the CPU time.
"""


def _tolerance(request: Request) -> Tolerance:
    return Tolerance(request.within, request.most_cycles)


def _counts_cycles(request: Request, run: Run) -> bool:
    """Whether nothing but the cycles within the budget counts."""
    return not (request.smallest or request.thorough or run.price or request.within)


def _leaves_out_small(task: Task, request: Request, run: Run) -> bool:
    """Whether the search leaves out forms that only save bytes, because only cycles count.

    A network of few parts keeps them: there, estimates cannot tell which form is faster.
    """
    return request.budget is None and _counts_cycles(request, run) and len(task.network.graph.parts) > MOST_PARTS


def _explored(task: Task, request: Request, run: Run, executor: Executor, meanwhile: Callable[[], None]) -> SearchSpace:
    """The forms of a task: a few, if the task asks for few, they fit, and hardly gain by more room; otherwise all."""
    budget, show, bounds = request.budget, run.show, run.bounds
    room = budget if _counts_cycles(request, run) else None
    wanted = replace(task, options=replace(task.options, small_forms=False)) if _leaves_out_small(task, request, run) else task
    every = replace(wanted, options=replace(wanted.options, few_forms=False))
    if request.smallest or not task.options.few_forms:
        return explore(every, executor, show, meanwhile, bounds=bounds, room=room)
    explored = explore(wanted, executor, show, meanwhile, bounds=bounds, room=room)
    gains = explored.gain is not None and explored.gain >= WORTH_ALL
    fits = budget is None or (budget >= explored.least_live_bytes * ROOM and not gains)
    return explored if fits else explore(every, executor, show, bounds=bounds, room=room)


def choose(task: Task, request: Request, executor: Executor, run: Run, most: int = MOST_SCHEDULES) -> Choice:
    """The schedule of a task that its request asks for, replayed and checked: the fastest of at most ``budget`` bytes, or the smallest.

    Of equally fast ones the smallest is chosen, of equally small ones the fastest. A thorough effort searches like a frontier, every limit
    to its end, with the budget as an extra limit. Otherwise only the budget is searched, and the limits of a frontier only if nothing
    fits. Then, if the network is small, every schedule of a stated class is replayed, too: at most ``most`` schedules of a form. With a
    price every limit of a frontier is searched, and the cheapest replayed schedule is chosen. Schedules that are expected to be neither
    fast nor small are not replayed. Blocks and copies are changed for cycles only.

    ``run.seen`` is told of each schedule that is better than those before, the network layer by layer the first of them if that fits.
    InputError that names the smallest arena found if none fits; before anything is searched, if the budget is below what every schedule
    needs.
    """
    budget, smallest = request.budget, request.smallest
    require_interface(task, request)
    best = Best(task, budget, smallest, run.seen, price=run.price)
    # A first schedule is for users who wait for one, or for bounds: limits that are proven slower are skipped.
    meanwhile = best.begin if run.bounds or run.seen is not unseen else idle
    explored = _explored(task.within(budget, smallest=smallest), request, run, executor, meanwhile)
    everywhere = begin(executor, explored.forms, ready)
    require_room(budget, explored.floor, of_forms=True)
    request = replace(request, budget=explored.useful(budget))
    best.least_cycles = explored.least_cycles(request.budget) if run.bounds else None
    chooser = _Chooser(explored, request, run, best, executor, most, Anywhere() if everywhere else None)
    drafts = chooser.chosen()
    known = [best.replayed[draft] for draft in drafts if draft in best.replayed]
    missing = [draft for draft in drafts if draft not in best.replayed]
    found = (*known, *replayed(missing, explored, task.replay, executor, run.show, best.take))
    if not smallest:
        found = (*found, *chooser.in_its_bytes(found))
        found = (*found, *chooser.in_less_room(found))
    found = (*found, *chooser.started_otherwise(found))
    if not smallest:
        found = chooser.with_later_copies(found)
    fastest, proof = chooser.proven(chooser.changed_by_replays(found))
    chosen = task.settled(fastest.answer())
    check_schedule(chosen.schedule)
    # Who wants no bounds is shown no flash either.
    whole = flash_bytes(lower(schedule_layer_by_layer(task.network, task.accelerator), checked=False)) if run.bounds else None
    choice = Choice(chosen, best.least_cycles, proof, chooser.proven_bytes() if run.bounds else None, whole_flash=whole)
    if request.within:
        point, first = chooser.smallest_within(chosen)
        return replace(choice, point=point, fastest=Size(first.memory, first.cycles))
    is_fastest = not smallest and run.price is None and task.decides_by_replays
    return replace(choice, smaller=worth_a_tolerance(chosen, found) if is_fastest else None)
