"""The search for cascaded schedules: every form of a network planned, its limits tried, and what is promising replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from fractions import Fraction
from typing import TypeVar

from msgspec import Struct

from cascader.draft.draft import Draft
from cascader.ethosu.forms.spread import Thunk
from cascader.ethosu.search.calls import Outline, at_limit, least_bytes, outline, promise, ready, rewritten, smallest
from cascader.ethosu.search.cuts import CycleBound
from cascader.ethosu.search.floor import Floor
from cascader.ethosu.search.form import Form, Place
from cascader.ethosu.search.request import LimitRequest
from cascader.ethosu.search.task import Origin, Show, Task, ignored, silent
from cascader.search.workers import in_order, prepare

T = TypeVar("T")

HOPEFUL = ((Fraction(1, 4), Fraction(106, 100)), (Fraction(1, 2), Fraction(1015, 1000)))
"""Part of the search at a limit, and the largest multiple of the fewest cycles promised then, in as many bytes, at which it goes on."""

HOPEFUL_ANYWHERE = ((Fraction(1, 4), Fraction(115, 100)), (Fraction(1, 2), Fraction(108, 100)))
"""The same for a frontier: a limit's schedule may be a point of it although another limit promises fewer cycles in as many bytes."""

OF_A_FORM = Fraction(104, 100)
"""The same for the place of a form that promises most: what is expected of two forms is off by more than of two limits of one."""

HOPELESS = Fraction(11, 10)
"""Multiple of the fewest cycles of all first drafts for a budget above which a form that is offered for its bytes is not searched there.

A climb saves no such part: of the networks and budgets that were tried it saved at most a ninth, and only where others saved some too.
"""

SMALLER = Fraction(99, 100)
"""Part of the bytes of all other forms that a form which is offered for its bytes may need at most."""

_TINY = 8
"""Parts up to which all limits are searched to the end: that takes a moment, and what the search expects is far off there."""


Came = Callable[[Form, Draft], None]
"""Listener that is told of a form's draft as soon as it is there."""

Known = Callable[[], int]
"""Says the fewest cycles of any schedule that was replayed so far and is as good an answer."""


def nothing_known() -> int:
    """More cycles than anything takes."""
    return 1 << 62


class Explored(Struct, frozen=True):
    """The forms in which a network is searched, each with its ladder of memory limits (bytes)."""

    forms: tuple[Form, ...]
    ladders: tuple[tuple[int, ...], ...]
    bounds: tuple[CycleBound, ...]
    """For each form a lower bound of the cycles that its schedules take."""
    most_bytes: int
    """Bytes of the arena of which no schedule of any form needs more."""
    floor: Floor
    """Floor of a budget: that of the form which needs least."""
    sure: int = 1 << 30
    """Number of the first form that is there for its bytes; those before it are searched in any case."""

    def least_cycles(self, arena: int | None) -> int:
        """Cycles that every schedule of every form takes in an arena of so many bytes (None: of any number)."""
        return min(bound.at(arena) for bound in self.bounds)

    def useful(self, arena: int | None) -> int | None:
        """As many bytes of an arena as serve any schedule: one that is far too large would be divided into coarse pieces."""
        return None if arena is None else min(arena, self.most_bytes)

    def open(self, places: Sequence[tuple[Form, int]], cycles: int) -> list[tuple[Form, int]]:
        """Choose the places (form, limit) at which a schedule may take so many ``cycles`` or fewer; all of them if there is none."""
        bounds = dict(zip(self.forms, self.bounds, strict=True))
        return [(form, limit) for form, limit in places if bounds[form].at(limit) <= cycles] or list(places)

    def form_of(self, draft: Draft) -> Form:
        """The form of a draft."""
        return next(form for form in self.forms if form.place.number == draft.form)

    @property
    def least_live_bytes(self) -> int:
        """Bytes that every schedule of the kinds that are searched holds at some step."""
        return min(limits[0] for limits in self.ladders)


class Found(Struct, frozen=True):
    """Result of a search: its drafts in a fixed order, and the forms of which further budgets can be asked."""

    drafts: tuple[Draft, ...]
    explored: Explored
    whole: bool = False
    """Whether every limit was searched to its end, as nothing that is expected may decide."""


def explore(task: Task, executor: Executor, show: Show = silent, meanwhile: Callable[[], None] | None = None) -> Explored:
    """Plan the task's network in every form; ``meanwhile`` is called once, as soon as other processes have something to do."""
    prepare(executor, ready)
    show("Rewriting the network")

    def spread(thunks: Sequence[Thunk[T]]) -> Iterable[T]:
        nonlocal meanwhile
        asked = [executor.submit(rewritten, thunk) for thunk in thunks]
        now, meanwhile = meanwhile, None
        if now is not None:
            now()
        return in_order(asked)

    origins = task.variants(spread, show)
    forms = tuple(
        Form(place, origin.network, task.accelerator, task.system, task.options, origin.provenance, origin.name)
        for place, origin in zip(_places(origins), origins, strict=True)
    )
    asked = [executor.submit(outline, form) for form in forms]
    outlines = tuple(answers(asked, "Planning stripes: {} of {} forms", show, [form.in_words for form in forms]))
    chosen = _searched(origins, outlines)
    forms, outlines = tuple(forms[number] for number in chosen), tuple(outlines[number] for number in chosen)
    most = max(one.most_bytes for one in outlines)
    floor = min((one.floor for one in outlines), key=lambda one: one.bytes)
    sure = sum(not origin.smaller for origin in origins)
    return Explored(forms, tuple(one.limits for one in outlines), tuple(one.bound for one in outlines), most, floor, sure)


def proven_bytes(explored: Explored, executor: Executor, show: Show = silent) -> int:
    """Bytes of the arena that every schedule of every form takes."""
    asked = [executor.submit(least_bytes, form) for form in explored.forms]
    return min(answers(asked, "Bounding the bytes: {} of {} forms", show))


def _places(origins: Sequence[Origin]) -> list[Place]:
    """The places of forms, by size; those that may not be searched come behind all others, whose places do not depend on them."""
    sure = sum(not origin.smaller for origin in origins)
    by_size = sorted(range(len(origins)), key=lambda number: (origins[number].smaller, -len(origins[number].network.graph.parts)))
    return [Place(at := by_size.index(number), max(sure, at + 1)) for number in range(len(origins))]


def _searched(origins: Sequence[Origin], outlines: Sequence[Outline]) -> list[int]:
    """The numbers of the forms that are searched: of those that are offered for their bytes the ones that need fewer than all others."""
    least = min(made.limits[0] for origin, made in zip(origins, outlines, strict=True) if not origin.smaller)
    pairs = enumerate(zip(origins, outlines, strict=True))
    return [number for number, (origin, made) in pairs if not origin.smaller or made.limits[0] < least * SMALLER]


def search(
    explored: Explored, request: LimitRequest, executor: Executor, show: Show = silent, came: Came = ignored, known: Known = nothing_known
) -> Found:
    """Make the drafts that are asked for, form by form, without repeats; the order does not depend on the executor.

    ``came`` is told of each draft. Places at which every schedule is proven to take more cycles than are ``known`` are left.
    """
    pairs = zip(explored.forms, explored.ladders, strict=True)
    places = [(form, limit) for form, rungs in pairs for limit in dict.fromkeys((*request.budgets, *request.limits(rungs)))]
    whole = request.thorough or max(len(form.network.graph.parts) for form in explored.forms) <= _TINY
    if not whole and request.near is not None:
        places = _not_hopeless(explored, places, executor, show)
    if not whole:
        for part, times in HOPEFUL_ANYWHERE if request.near is None else HOPEFUL:
            tried = [executor.submit(promise, *place, part) for place in places]
            promised = answers(tried, "Looking at {} of {} memory limits", show, [_in_words(*place) for place in places])
            places = list(hopeful(places, list(promised), request, times))
    places = explored.open(places, known())
    asked = [(form, executor.submit(smallest, form)) for form in explored.forms] if request.smallest else []
    asked += [(form, executor.submit(at_limit, form, limit)) for form, limit in places]
    words = [form.in_words for form in explored.forms] if request.smallest else []
    words += [_in_words(*place) for place in places]
    made = answers([answer for _, answer in asked], "Scheduling: {} of {} memory limits", show, words)
    drafts = []
    for (form, _), some in zip(asked, made, strict=True):
        for draft in some:
            drafts.append(draft)
            came(form, draft)
    return Found(distinct(drafts), explored, whole)


def _not_hopeless(explored: Explored, places: Sequence[tuple[Form, int]], executor: Executor, show: Show) -> list[tuple[Form, int]]:
    """The places for a budget without those of forms that are there for their bytes, and whose first drafts take far too many cycles."""
    if all(form.place.number < explored.sure for form, _ in places):
        return list(places)
    asked = [executor.submit(promise, *place, Fraction(0)) for place in places]
    first = list(answers(asked, "Drafting at {} of {} memory limits", show, [_in_words(*place) for place in places]))
    most = min((cycles for cycles in first if cycles is not None), default=0) * HOPELESS
    pairs = zip(places, first, strict=True)
    return [place for place, cycles in pairs if place[0].place.number < explored.sure or cycles is None or cycles <= most]


def new_drafts(
    explored: Explored, known: Sequence[Draft], request: LimitRequest, executor: Executor, show: Show = silent
) -> tuple[Draft, ...]:
    """The drafts that are asked for and not among the ``known`` ones."""
    return distinct((*known, *search(explored, request, executor, show).drafts))[len(known) :]


def hopeful(
    places: Sequence[tuple[Form, int]], promised: Sequence[int | None], request: LimitRequest, times: Fraction
) -> Iterator[tuple[Form, int]]:
    """The places (form, limit) that promise at most ``times`` the fewest cycles of all places with as few bytes.

    All limits near a budget count as having its bytes. Of each form that place stays, too, that promises the fewest cycles, if it is
    within :data:`OF_A_FORM`. A place that promises nothing stays if no place with as few bytes promises anything: a longer search may
    still find something there.
    """
    best: dict[int, int] = {}
    for (form, _), cycles in zip(places, promised, strict=True):
        if cycles is not None:
            best[id(form)] = min(cycles, best.get(id(form), cycles))
    room = max(request.budgets, default=0) if request.near is not None else 0
    known = [(limit, cycles) for (_, limit), cycles in zip(places, promised, strict=True) if cycles is not None]
    for (form, limit), cycles in zip(places, promised, strict=True):
        fewest = min((other for at, other in known if at <= max(limit, room)), default=None)
        reach = max(times, OF_A_FORM) if cycles == best.get(id(form)) else times
        if fewest is None or (cycles is not None and cycles <= reach * fewest):
            yield form, limit


def _in_words(form: Form, limit: int) -> str:
    return f"{form.in_words} in {limit:,} bytes"


def answers(asked: Sequence[Future[T]], doing: str, show: Show, words: Sequence[str] = ()) -> Iterator[T]:
    """The answers in their order; ``doing`` says how many of how many are there, ``words`` what each is about."""

    def say(done: int) -> None:
        show(f"{doing.format(done, len(asked))}{f', now {words[done]}' if words else ''}")

    if not words or asked:
        say(0)
    for done, answer in enumerate(in_order(asked), 1):
        yield answer
        if done < len(asked):
            say(done)


def distinct(drafts: Iterable[Draft]) -> tuple[Draft, ...]:
    """The first of all drafts that run alike."""
    known: dict[object, Draft] = {}
    for draft in drafts:
        known.setdefault(draft.runs, draft)
    return tuple(known.values())
