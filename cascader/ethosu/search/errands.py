"""Errands: what a search hands out to processes. Each is a function of values that can be pickled, and so are its answers."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cascade import Candidate
from cascader.ethosu.forms.spread import Thunk
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.search.byte_bound import least_floor
from cascader.ethosu.search.cuts import CycleBound, cycle_bound
from cascader.ethosu.search.divisions import Divisions
from cascader.ethosu.search.floor import Floor
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.proven import MOST_DIVIDED
from cascader.ethosu.search.replayed_changes import with_replayed_blocks, with_replayed_copies
from cascader.ethosu.search.task import Replay
from cascader.ethosu.verify.check import check_schedule
from cascader.plan.jobs import Buffer, Copy, Job

T = TypeVar("T")


class Decisions(Struct, frozen=True):
    """A candidate without its network, which whoever asks has: small enough to be sent."""

    cycles: int
    jobs: tuple[Job, ...]
    buffers: tuple[Buffer, ...]
    arena_size: int
    copies: tuple[Copy, ...]

    @classmethod
    def of(cls, candidate: Candidate) -> Decisions:
        """The decisions of a candidate."""
        made = candidate.schedule
        return cls(candidate.cycles, made.jobs, made.buffers, made.arena_size, made.copies)

    def schedule(self, form: Form) -> Schedule:
        """The schedule of a form with these decisions."""
        return Schedule(form.accelerator, form.network, self.jobs, self.buffers, self.arena_size, form.provenance, self.copies)

    def candidate(self, form: Form) -> Candidate:
        """The candidate with its network."""
        return Candidate(self.schedule(form), self.cycles)


class Outline(Struct, frozen=True):
    """Outline of a planned form: its memory limits (bytes) from the least on, and bounds of the cycles and the bytes of its schedules.

    More than ``most_bytes`` of arena serve none of them. ``floor`` are ``least_bytes`` or fewer, with the tensors that take them.
    """

    limits: tuple[int, ...]
    bound: CycleBound
    least_bytes: int
    most_bytes: int
    floor: Floor


def ready() -> None:
    """Nothing is done: a process that is asked has imported the search then."""


def rewritten(thunk: Thunk[T]) -> T:
    """A form of the network, or what is asked of one on the way."""
    return thunk()


def outline(form: Form) -> Outline:
    """The outline of a form."""
    plans = form.cascader
    bound = cycle_bound(form.network, plans.scheduler, form.accelerator, form.system, form.provenance.timing)
    is_small = len(form.network.graph.parts) <= MOST_DIVIDED
    floor = least_floor(plans.scheduler)
    fewest = Divisions(plans).least_of_all() if is_small else floor.bytes
    return Outline(plans.limits(), bound, fewest, plans.most_bytes(), floor)


def promise(form: Form, limit: int, part: Fraction) -> int | None:
    """The cycles that a form promises at a limit (bytes) when that part of the search there is done; None if nothing fits."""
    return form.cascader.promise(limit, part)


def at_limit(form: Form, limit: int) -> tuple[Decisions, ...]:
    """The candidates of a form at one memory limit (bytes)."""
    return tuple(map(Decisions.of, form.cascader.schedules_at(limit)))


def smallest(form: Form) -> tuple[Decisions, ...]:
    """The candidate of a form that needs least memory."""
    return (Decisions.of(form.cascader.smallest()),)


def check(decisions: Decisions, form: Form) -> None:
    """Check a candidate that is reported: InputError if it breaks a rule of schedules."""
    check_schedule(decisions.schedule(form))


def replay(decisions: Decisions, form: Form, judge: Replay) -> int:
    """Cycles of a candidate in replay; any process may do that, so that its form does not come first."""
    return form.judge(judge).cycles(decisions.schedule(form))


KEPT = 2
"""Schedules of a form that were made for other costs and are changed by replays."""


def elsewhere(form: Form, limit: int, judge: Replay, effort: int) -> tuple[tuple[Decisions, int], ...]:
    """The schedules for ``limit`` bytes that were made for other costs and take the fewest cycles in replay, with these.

    The replays take ``effort`` cycles at most.
    """
    found: dict[Decisions, int] = {}
    for other in form.others:
        for candidate in form.cascader.made_for(other, limit):
            decided = Decisions.of(candidate)
            if decided.arena_size <= limit and decided not in found and effort > 0:
                found[decided] = form.judge(judge).cycles(candidate.schedule)
                effort -= found[decided]
    return tuple(sorted(found.items(), key=lambda one: (one[1], one[0].arena_size))[:KEPT])


class Turn(Struct, frozen=True):
    """The place of an errand in a line of errands that this process makes one by one while they are worked on."""

    number: int

    def homes(self, processes: int) -> range:
        """Numbers of the processes that may take it, of which the first is this one: it has less time for errands than others have.

        To make an errand takes about a quarter of what a replay takes. Of two processes this one takes every second, of more none.
        """
        takes_part = processes == 1 or (processes == 2 and self.number % 2 == 1)
        return range(1) if takes_part else range(1, processes)


ELSEWHERE = Turn(0)
"""The place of an errand that is no work for this process, if there are others."""


def replay_in_turn(_turn: Turn, decisions: Decisions, form: Form, judge: Replay) -> int:
    """As :func:`replay`, in a process that has its turn."""
    return replay(decisions, form, judge)


def check_in_turn(_turn: Turn, decisions: Decisions, form: Form) -> None:
    """As :func:`check`, in a process that has its turn."""
    check(decisions, form)


def change(form: Form, decisions: Decisions, cycles: int, judge: Replay, effort: int) -> tuple[Decisions, int]:
    """A candidate of so many cycles with its blocks, and then its copies, changed as replays say, and its cycles then.

    The replays of blocks take ``effort`` cycles at most, those of copies half as many.
    """
    made, fewer = with_replayed_blocks(form, decisions.schedule(form), cycles, judge, effort)
    found, fewest = with_replayed_copies(form, made, fewer, judge, effort // 2)
    return replace(decisions, jobs=found.jobs, copies=found.copies), fewest
