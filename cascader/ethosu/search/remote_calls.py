"""Calls: functions that a search has processes call. Their arguments and answers are values that can be pickled."""

from __future__ import annotations

from fractions import Fraction
from operator import itemgetter
from typing import TypeVar

from msgspec import Struct

from cascader.draft.draft import Draft
from cascader.draft.replayed_moves import alike, with_copies_ahead
from cascader.ethosu.forms.planned import planned_limit
from cascader.ethosu.forms.spread import Thunk
from cascader.ethosu.search.byte_bound import least_floor
from cascader.ethosu.search.cuts import CycleBound, cycle_bound
from cascader.ethosu.search.divisions import Divisions
from cascader.ethosu.search.floor import Floor
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.replayed_changes import with_replayed_blocks, with_replayed_copies
from cascader.ethosu.search.task import Replay
from cascader.ethosu.verify.check import check_schedule

T = TypeVar("T")

MOST_DIVIDED = 20
"""The most parts of a form for which the bytes of all divisions are computed: that takes a moment."""


class FormLimits(Struct, frozen=True):
    """A planned form: its memory limits (bytes) from the least on, and bounds of its schedules' bytes and, if requested, cycles.

    No schedule uses more than ``most_bytes`` of arena. ``floor`` is the bytes that each schedule needs, with the tensors that take them.
    """

    limits: tuple[int, ...]
    bound: CycleBound | None
    most_bytes: int
    floor: Floor


def ready() -> None:
    """Does nothing. A process that runs it has imported the search afterwards."""


def rewritten(thunk: Thunk[T]) -> T:
    """A form of the network, or a question to it on the way to another process."""
    return thunk()


def least_of_plans(form: Form) -> int:
    """Bytes that the plans of a form hold at least, or a lower bound of them, before it is planned."""
    return planned_limit(form.network)


def outline(form: Form, bounds: bool) -> FormLimits:  # noqa: FBT001  # as it is sent
    """The outline of a form, with ``bounds`` of its cycles or without."""
    plans = form.cascader
    terms = form.network, plans.scheduler, form.accelerator, form.system, form.provenance.timing
    bound = cycle_bound(*terms) if bounds else None
    return FormLimits(plans.limits(), bound, plans.most_bytes(), least_floor(plans.scheduler))


def unbounded(form: Form) -> int:
    """Expected cycles of a form layer by layer with the best copies in unlimited bytes, before it is planned."""
    return form.cascader.drafter.unbounded


def least_bytes(form: Form) -> int:
    """Bytes of the arena that every schedule of a form takes: its floor, or for a small form the least over all divisions."""
    plans = form.cascader
    is_small = len(form.network.graph.parts) <= MOST_DIVIDED
    return Divisions(plans).least_of_all() if is_small else least_floor(plans.scheduler).bytes


def promise(form: Form, limit: int, part: Fraction) -> int | None:
    """The expected cycles of a form at a limit (bytes) after that part of the search there; None if nothing fits."""
    return form.cascader.promise(limit, part)


def at_limit(form: Form, limit: int) -> tuple[Draft, ...]:
    """The drafts of a form at one memory limit (bytes)."""
    return form.cascader.drafts_at(limit)


def without_blocks(form: Form, limit: int) -> tuple[Draft, ...]:
    """Like :func:`at_limit`, for drafts whose blocks are not chosen yet."""
    return form.cascader.drafts_at(limit, blocks=False)


def in_blocks(form: Form, draft: Draft) -> Draft:
    """A draft of :func:`without_blocks` in its blocks."""
    return form.cascader.blocked(draft)


def smallest(form: Form) -> tuple[Draft, ...]:
    """The draft of a form that needs least memory."""
    return (form.cascader.smallest(),)


def smallest_within(form: Form, cycles: int) -> tuple[Draft, ...]:
    """Like :func:`smallest`; empty if the draft is expected to take more than ``cycles`` before its addresses are packed closer."""
    draft = form.cascader.smallest_within(cycles)
    return () if draft is None else (draft,)


def check(draft: Draft, form: Form) -> None:
    """Check a reported draft: InputError if its Schedule breaks a rule."""
    check_schedule(form.schedule(draft))


def replay(draft: Draft, form: Form, judge: Replay) -> int:
    """Cycles of a draft in replay. The form is not the first argument, so any process may take this call."""
    return form.judge(judge).cycles(draft)


def other_starts(form: Form, number: int, limit: int, judge: Replay, effort: int) -> tuple[tuple[Draft, int], ...]:
    """The drafts of a form for ``limit`` bytes that are best for the other costs of that number, with their replayed cycles.

    The replays take ``effort`` cycles at most.
    """
    found: dict[tuple[object, int], tuple[Draft, int]] = {}
    for draft in form.cascader.made_for(form.others[number], limit):
        key = draft.runs, draft.cycles
        if effort <= 0:
            break
        if draft.memory <= limit and key not in found:
            found[key] = draft, form.judge(judge).cycles(draft)
            effort -= found[key][1]
    return tuple(found.values())


def less_room(form: Form, draft: Draft, limit: int, judge: Replay, effort: int, number: int | None = None) -> tuple[tuple[Draft, int], ...]:
    """The groups of a draft with the best copies within fewer bytes than ``limit``: the fastest in replay, with its cycles.

    The copies are best for the other costs of that ``number`` (None: for the usual ones). The replays take ``effort`` cycles at most.
    """
    best: tuple[int, int, Draft] | None = None
    known = {draft.runs}
    costs = form.cascader if number is None else form.others[number]
    for at, made in enumerate(form.cascader.in_less_room(costs, draft, limit)):
        if made.runs not in known and effort > 0 and made.memory <= limit:
            known.add(made.runs)
            cycles = form.judge(judge).cycles(made)
            effort -= cycles
            if best is None or cycles < best[0]:
                best = cycles, at, made
    return () if best is None else ((best[2], best[0]),)


AHEAD = (1, 2, 3, 4, 6, 8)
"""Jobs before its first reader at which each copy of a draft is issued at the earliest; each number is tried.

A draft issues copies as early as its bytes permit, where they hold up the feature maps of kernels that estimates take to be undisturbed.
"""


def issued_later(form: Form, draft: Draft, cycles: int, judge: Replay) -> tuple[Draft, int]:
    """A draft of ``cycles`` cycles with its copies issued later, as many jobs ahead as is fastest in replay, and its new cycles."""
    best, known = (draft, cycles), {draft.copies}
    for ahead in AHEAD:
        made = with_copies_ahead(draft, ahead)
        if made.copies not in known:
            known.add(made.copies)
            best = min(best, (made, form.judge(judge).cycles(made)), key=itemgetter(1))
    return best


class Turn(Struct, frozen=True):
    """The turn of a call in a line of calls that this process makes one by one while others work on them."""

    number: int

    def worker_processes(self, processes: int) -> range:
        """Numbers of the processes that may take it. The first is this process, which has less time for calls than others.

        Making a draft takes about a quarter of the time of its replay. With two processes this one takes every second call, with more it
        takes none.
        """
        takes_part = processes == 1 or (processes == 2 and self.number % 2 == 1)
        return range(1) if takes_part else range(1, processes)


FOR_OTHERS = Turn(0)
"""The turn of a call that other processes take, if there are any."""


class Anywhere(Struct, frozen=True):
    """The takers of a call that any process may take, because all have its form with its plans.

    Calls of one ``number`` go to the same process, which keeps what they share (None: calls share nothing).
    """

    number: int | None = None

    def worker_processes(self, processes: int) -> range:
        """Numbers of the processes that may take it."""
        return range(processes) if self.number is None else range(self.number % processes, self.number % processes + 1)


class Share(Struct, frozen=True):
    """A draft's share of the changes by replays: the most cycles for replays of its ``blocks``, and of its ``copies``.

    Changes of its blocks continue after those that replays of ``before`` cycles have tried. Blocks are left unchanged if replays of
    ``cover`` cycles do not suffice for one block of each part.
    """

    blocks: int
    copies: int
    before: int = 0
    cover: int | None = None


def change(form: Form, draft: Draft, cycles: int, judge: Replay, share: Share) -> tuple[Draft, int]:
    """A draft with the given cycles, after replays have changed its blocks and then its copies, and its new cycles."""
    made, fewer = draft, cycles
    if share.cover is None or share.cover // max(cycles, 1) >= len(alike(draft)):
        made, fewer = with_replayed_blocks(form, draft, cycles, judge, share.blocks, share.before)
    return with_replayed_copies(form, made, fewer, judge, share.copies)
