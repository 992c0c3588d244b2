"""The search for cascaded schedules: every form of a network is planned, its limits are tried, and promising drafts are replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from fractions import Fraction
from math import ceil
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cascader.draft.draft import Draft
from cascader.ethosu.forms.spread import Thunk
from cascader.ethosu.search.cuts import CycleBound
from cascader.ethosu.search.floor import Floor
from cascader.ethosu.search.form import Form, FormRank
from cascader.ethosu.search.hopeful import ANYWHERE, QUICK_CYCLES, STEPS, hopeful, of_better_core, ratio
from cascader.ethosu.search.limits import LimitRequest
from cascader.ethosu.search.remote_calls import (
    FormLimits,
    at_limit,
    least_bytes,
    least_of_plans,
    outline,
    promise,
    ready,
    rewritten,
    smallest,
    unbounded,
    without_blocks,
)
from cascader.ethosu.search.task import Origin, Progress, Task, ignored, silent
from cascader.search.workers import begin, in_order, prepare

T = TypeVar("T")

SMALLER = Fraction(99, 100)
"""A form that only saves bytes is searched if it needs at most this part of all other forms' bytes."""

WORTH_AGAIN = Fraction(105, 100)
"""Forms that recompute are made if the expected cycles are this many times those with more room: recomputing takes cycles itself."""

WORTH_BYTES = Fraction(1002, 1000)
"""Like WORTH_AGAIN, for forms that only save bytes and recompute nothing, if only the cycles in a budget count."""

_TINY = 8
"""Parts up to which all limits are searched to the end: that takes a moment, and estimates are far off there."""


OnDraft = Callable[[Form, Draft], None]
"""Callback for each new draft of a form."""

BestSoFar = Callable[[], int]
"""A function that gives the fewest cycles of any replayed schedule that is an equally good answer."""


def nothing_known() -> int:
    """More cycles than any schedule takes."""
    return 1 << 62


class SearchSpace(Struct, frozen=True):
    """The forms in which a network is searched, each with its ladder of memory limits (bytes)."""

    forms: tuple[Form, ...]
    """The forms. The forms that only save bytes come last."""
    usual: int
    """Number of the first forms, which may also save cycles."""
    ladders: tuple[tuple[int, ...], ...]
    bounds: tuple[CycleBound, ...]
    """For each form a lower bound of its schedules' cycles; empty if bounds were not requested."""
    most_bytes: int
    """Bytes of the arena; no schedule of any form needs more."""
    floor: Floor
    """The floor of a budget: the lowest floor of all forms."""
    gain: Fraction | None = None
    """Expected cycles in the budget as a multiple of those in more bytes; None if other things than the cycles count."""

    @property
    def has_room(self) -> bool:
        """Whether no more bytes than the budget would save expected cycles (at least 0.2 %)."""
        return self.gain is not None and self.gain <= WORTH_BYTES

    @property
    def usual_alone(self) -> SearchSpace:
        """The same without the forms that only save bytes."""
        return replace(self, forms=self.forms[: self.usual], ladders=self.ladders[: self.usual], bounds=self.bounds[: self.usual])

    def least_cycles(self, arena: int | None) -> int:
        """Cycles that every schedule of every form takes in an arena of the given bytes (None: any number); 0 without bounds."""
        return min((bound.at(arena) for bound in self.bounds), default=0)

    @property
    def is_tiny(self) -> bool:
        """Whether every form has so few parts that all limits are searched to the end."""
        return max(len(form.network.graph.parts) for form in self.forms) <= _TINY

    def useful(self, arena: int | None) -> int | None:
        """The budget, capped at the largest arena that any schedule can use. A far larger arena would be divided into coarse parts."""
        return None if arena is None else min(arena, self.most_bytes)

    def open(self, limits: Sequence[tuple[Form, int]], cycles: int) -> list[tuple[Form, int]]:
        """The forms and limits at which a schedule may take at most ``cycles``; all of them if no schedule is known to."""
        if not self.bounds:
            return list(limits)
        bounds = dict(zip(self.forms, self.bounds, strict=True))
        return [(form, limit) for form, limit in limits if bounds[form].at(limit) <= cycles] or list(limits)

    def form_of(self, draft: Draft) -> Form:
        """The form of a draft."""
        return next(form for form in self.forms if form.rank.number == draft.form)

    def least_of(self, form: Form) -> int:
        """The lowest memory limit of one of the forms, in bytes."""
        return self.ladders[self.forms.index(form)][0]

    @property
    def least_live_bytes(self) -> int:
        """Bytes that every schedule of the kinds that are searched holds at some step."""
        return min(limits[0] for limits in self.ladders)


class SearchResult(Struct, frozen=True):
    """The result of a search: its drafts in a fixed order, and the forms for questions on further budgets."""

    drafts: tuple[Draft, ...]
    explored: SearchSpace
    whole: bool = False
    """Whether every limit was searched exhaustively, without pruning by estimates."""


def explore(
    task: Task,
    executor: Executor,
    show: Progress = silent,
    meanwhile: Callable[[], None] | None = None,
    *,
    bounds: bool = True,
    room: int | None = None,
) -> SearchSpace:
    """Plan the task's network in every form. ``meanwhile`` is called once, as soon as other processes have work.

    A form that saves bytes is planned only if it holds fewer bytes than all other forms. If only the cycles in ``room`` bytes count, forms
    that recompute are made only if the bytes that they could save would also save cycles. Without ``bounds`` no bound is computed, and
    every form that only saves bytes is made only if more bytes would save cycles.
    """
    prepare(executor, ready)
    show("Rewriting the network")

    def spread(thunks: Sequence[Thunk[T]]) -> Iterable[T]:
        nonlocal meanwhile
        asked = [executor.submit(rewritten, thunk) for thunk in thunks]
        now, meanwhile = meanwhile, None
        if now is not None:
            now()
        return in_order(asked)

    usual, more, again = task.variants_in_turn(spread, show)
    origins = (*usual, *more()) if bounds or room is None else usual
    forms = _forms(task, origins)
    always = [form for form, origin in zip(forms, origins, strict=True) if not origin.smaller]
    always = always if bounds or room is None else worth_a_plan(always, room, executor, show)
    asked, others = _asked(executor, always, bounds=bounds), [form for form, origin in zip(forms, origins, strict=True) if origin.smaller]
    held = [executor.submit(least_of_plans, form) for form in others]
    outlines = list(answers(asked, "Planning stripes: {} of {} forms", show, [form.description for form in always]))
    smaller = _smaller(others, held, outlines, bounds, executor, show)
    gain = None if room is None else _gain_of_room(always, outlines, room, executor, show)
    if len(origins) == len(usual) and gain is not None and gain > WORTH_BYTES:
        origins = (*usual, *more())
        others = _forms(task, origins)[len(usual) :]
        smaller += _smaller(others, [executor.submit(least_of_plans, form) for form in others], outlines, bounds, executor, show)
    if gain is None or gain > WORTH_AGAIN:
        below = ceil(SMALLER * min(one.limits[0] for one in outlines))
        further = [_form(task, FormRank(number, number + 1), origin) for number, origin in enumerate(again(below), len(origins))]
        smaller += _smaller(further, [executor.submit(least_of_plans, form) for form in further], outlines, bounds, executor, show)
    forms, outlines = [*always, *(form for form, _ in smaller)], [*outlines, *(one for _, one in smaller)]
    most = max(one.most_bytes for one in outlines)
    floor = min((one.floor for one in outlines), key=lambda one: one.bytes)
    proven = tuple(one.bound for one in outlines if one.bound is not None)
    return SearchSpace(tuple(forms), len(always), tuple(one.limits for one in outlines), proven, most, floor, gain)


def worth_a_plan(forms: Sequence[Form], room: int, executor: Executor, show: Progress = silent) -> list[Form]:
    """The forms that are worth a plan. If there is room, they are close to the fewest expected cycles in unlimited bytes.

    There is room if the quickest form, planned, expects hardly more cycles in ``room`` bytes. No other form is then quicker than it is in
    unlimited bytes, but for what changes save. Close forms are planned at the same time as the quickest one: they are needed in any case.

    If several forms of a network that is not quick are close, a second process that waits begins here. Other starts, for which both
    processes need the plans of one form, are made for quick networks only.
    """
    asked = [executor.submit(unbounded, form) for form in forms]
    least = list(answers(asked, "Estimating the cycles of {} of {} forms", show, [form.description for form in forms]))
    quickest, alike = forms[least.index(min(least))], [(form, room) for form in forms]
    close = [form for form, _ in hopeful(alike, least, ratio(least, 0, has_room=True))]
    if len(close) > 1 and min(least) > QUICK_CYCLES:
        begin(executor, forms, ready)
    planned: list[Future[Any]] = _asked(executor, close, bounds=False)
    told = answers([*planned, executor.submit(promise, quickest, room, Fraction(0))], "Planning stripes: {} of {} forms", show)
    expected: int | None = list(told)[-1]
    return close if expected is not None and expected <= WORTH_BYTES * min(least) else list(forms)


def _forms(task: Task, origins: Sequence[Origin]) -> list[Form]:
    return [_form(task, rank, origin) for rank, origin in zip(_ranks(origins), origins, strict=True)]


def _form(task: Task, rank: FormRank, origin: Origin) -> Form:
    return Form(rank, origin.network, task.accelerator, task.system, task.options, origin.provenance, origin.name)


def _smaller(
    others: Sequence[Form],
    held: Sequence[Future[int]],
    usual: Sequence[FormLimits],
    bounds: bool,  # noqa: FBT001  # it is handed on
    executor: Executor,
    show: Progress,
) -> list[tuple[Form, FormLimits]]:
    """The forms whose plans hold fewer bytes than all ``usual`` ones, with their outlines.

    ``held`` gives quick estimates of their bytes.
    """
    least = SMALLER * min(one.limits[0] for one in usual)
    # Few of these forms hold fewer bytes than the others do.
    fewer = [form for form, size in zip(others, in_order(held), strict=True) if size < least]
    found = answers(_asked(executor, fewer, bounds=bounds), "Planning stripes of smaller forms: {} of {}", show)
    return [(form, one) for form, one in zip(fewer, found, strict=True) if one.limits[0] < least]


def _gain_of_room(forms: Sequence[Form], outlines: Sequence[FormLimits], room: int, executor: Executor, show: Progress) -> Fraction:
    """Expected cycles in these bytes as a multiple of those in the bytes that forms which save bytes could add.

    The plans give the fewest bytes. A form with fewer bytes is at best as fast as one of these forms with that many more bytes.
    """
    spared, most = min(one.limits[0] for one in outlines), max(one.most_bytes for one in outlines)
    if room >= most:
        return Fraction(1)
    promised = _promised([(form, room) for form in forms], Fraction(0), executor, show)
    fewest, number = min((cycles, number) if cycles else (nothing_known(), number) for number, cycles in enumerate(promised))
    with_more = executor.submit(promise, forms[number], min(room + spared, most), Fraction(0)).result()
    return Fraction(fewest, with_more or 1)


def _asked(executor: Executor, forms: Sequence[Form], *, bounds: bool) -> list[Future[FormLimits]]:
    return [executor.submit(outline, form, bounds) for form in forms]


def proven_bytes(explored: SearchSpace, executor: Executor, show: Progress = silent) -> int:
    """Bytes of the arena that every schedule of every form takes."""
    asked = [executor.submit(least_bytes, form) for form in explored.forms]
    return min(answers(asked, "Bounding the bytes: {} of {} forms", show))


def _ranks(origins: Sequence[Origin]) -> list[FormRank]:
    """The ranks of forms by size. Forms that may not be searched come last, so that other ranks do not depend on them."""
    sure = sum(not origin.smaller for origin in origins)
    by_size = sorted(range(len(origins)), key=lambda number: (origins[number].smaller, -len(origins[number].network.graph.parts)))
    return [FormRank(at := by_size.index(number), max(sure, at + 1)) for number in range(len(origins))]


def search(
    explored: SearchSpace,
    request: LimitRequest,
    executor: Executor,
    show: Progress = silent,
    came: OnDraft = ignored,
    known: BestSoFar = nothing_known,
) -> SearchResult:
    """Make the requested drafts, form by form, without repeats; the order does not depend on the executor.

    ``came`` is called with each draft. Limits at which every schedule is proven to take more than the ``known`` cycles are left out, and
    limits below the bytes of a form's plans: only its smallest draft could fit there.
    """
    pairs = zip(explored.forms, explored.ladders, strict=True)
    asked_of = ((form, rungs[0], dict.fromkeys((*request.budgets, *request.limits(rungs)))) for form, rungs in pairs)
    limits = [(form, limit) for form, least, some in asked_of for limit in some if limit >= least]
    if request.most is not None:
        promised = _promised(limits, STEPS[0], executor, show)
        limits = [one for one, cycles in zip(limits, promised, strict=True) if cycles is not None and cycles <= request.most]
    whole = request.thorough or explored.is_tiny
    if not whole:
        if request.fastest:
            if explored.has_room or explored.usual < len(explored.forms):
                limits = _worth_a_change(explored, limits, executor, show)
            for step, part in enumerate(STEPS[1:], 1):
                limits, promised = of_better_core(limits, _promised(limits, part, executor, show))
                limits = list(hopeful(limits, promised, ratio(promised, step, has_room=explored.has_room)))
        for part, most in () if request.fastest else ANYWHERE:
            limits = list(hopeful(limits, _promised(limits, part, executor, show), most))
    limits = explored.open(limits, known())
    asked = [(form, executor.submit(smallest, form)) for form in explored.forms] if request.smallest else []
    asked += [
        (form, executor.submit(at_limit, form, limit) if request.blocks else executor.submit(without_blocks, form, limit))
        for form, limit in limits
    ]
    words = [form.description for form in explored.forms] if request.smallest else []
    words += [_description(*one) for one in limits]
    made = answers([answer for _, answer in asked], "Scheduling: {} of {} memory limits", show, words)
    drafts = []
    for (form, _), some in zip(asked, made, strict=True):
        for draft in some:
            drafts.append(draft)
            came(form, draft)
    return SearchResult(distinct(drafts), explored, whole)


def new_drafts(
    explored: SearchSpace, known: Sequence[Draft], request: LimitRequest, executor: Executor, show: Progress = silent
) -> tuple[Draft, ...]:
    """The requested drafts that are not among the ``known`` ones."""
    return distinct((*known, *search(explored, request, executor, show).drafts))[len(known) :]


def _promised(limits: Sequence[tuple[Form, int]], part: Fraction, executor: Executor, show: Progress) -> list[int | None]:
    tried = [executor.submit(promise, *one, part) for one in limits]
    return list(answers(tried, "Looking at {} of {} memory limits", show, [_description(*one) for one in limits]))


def _worth_a_change(
    explored: SearchSpace, limits: Sequence[tuple[Form, int]], executor: Executor, show: Progress
) -> list[tuple[Form, int]]:
    """The limits. A form that only saves bytes loses its limits if its expected cycles, before any change, are far from the fewest.

    If there is room, every form does: changes mostly make up for scarce bytes.
    """
    promised = _promised(limits, STEPS[0], executor, show)
    kept = hopeful(limits, promised, ratio(promised, 0, has_room=explored.has_room))
    usual = () if explored.has_room else explored.forms[: explored.usual]
    stay = {id(form) for form in (*usual, *(form for form, _ in kept))}
    return [one for one in limits if id(one[0]) in stay]


def _description(form: Form, limit: int) -> str:
    return f"{form.description} in {limit:,} bytes"


def answers(asked: Sequence[Future[T]], doing: str, show: Progress, words: Sequence[str] = ()) -> Iterator[T]:
    """The answers in their order; ``doing`` is the text of the progress counter, ``words`` describes each answer."""

    def say(done: int) -> None:
        show(f"{doing.format(done, len(asked))}{f', now {words[done]}' if words else ''}")

    if not words or asked:
        say(0)
    for done, answer in enumerate(in_order(asked), 1):
        yield answer
        if done < len(asked):
            say(done)


def distinct(drafts: Iterable[Draft]) -> tuple[Draft, ...]:
    """The first of all drafts that replay equally."""
    known: dict[object, Draft] = {}
    for draft in drafts:
        known.setdefault(draft.runs, draft)
    return tuple(known.values())
