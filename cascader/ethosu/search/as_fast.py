"""The smallest schedule that takes at most some cycles. A frontier has far more limits than this question needs.

A larger arena is expected to take fewer cycles. So bisection finds the smallest arena in which some form surely meets the target. Larger
arenas cannot win. Smaller ones are searched as long as their expected cycles are near the target.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, Future
from fractions import Fraction

from msgspec import Struct

from cascader.draft.draft import Draft
from cascader.ethosu.search.cycle_targets import MISSED, made_up
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.frontier import beyond
from cascader.ethosu.search.remote_calls import at_limit, check, promise, smallest, smallest_within
from cascader.ethosu.search.replayed import Replayed
from cascader.ethosu.search.replays import FEWEST_REPLAYS, WHOLE_EFFORT, changed_by_replays, replayed, started_otherwise, worth_a_start
from cascader.ethosu.search.search import SearchSpace, answers, distinct
from cascader.ethosu.search.task import Point, Progress, Task, silent
from cascader.plan.pareto import pareto
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up

SURE = Fraction(96, 100)
"""Part of the target that a limit is expected to take at most if it surely meets it: estimates are up to 4 % too low."""

FAR = Fraction(115, 100)
"""Multiple of the target up to which changes of a limit's drafts may make up for the difference."""

NEAR = Fraction(104, 100)
"""The same for drafts after :data:`EARLY` of the changes, which leaves the error of estimates.

It does not rule out the form that is expected to be fastest: copies are placed best at the end, which saves MobileNetV2 up to 6 %.
"""

EARLY = Fraction(1, 4)
"""Part of the changes after which forms are compared."""

EVEN = Fraction(105, 100)
"""Largest ratio to the target at which replays change a schedule that misses it: other blocks save up to about as much."""

TOLD = 3
"""Replays of a form after which the lowest of their ratios to early estimates stands for the error of further ones."""

FORMS = 3
"""Forms of a limit whose drafts are replayed: those with the fewest expected cycles."""

CLOSE = Fraction(1, 256)
"""Share of its bytes to which the smallest arena that meets the target and the next one below close up."""


STEPS = 12
"""Arenas that are searched below the smallest one that bisection finds, each a :data:`STEP` smaller."""

STEP = Fraction(1, 128)
"""Share of its bytes. Cycles jump by some per cent from one arena to the next: with steps of 1/32 MobileNetV2 takes 2.3 % more bytes."""


class _Ladder(Struct):
    """The limits of a form in ascending order: those before ``low`` surely miss the target, and those from ``high`` on surely meet it."""

    form: Form
    limits: list[int]
    low: int
    high: int

    def goes_on(self, most: int) -> bool:
        """Whether limits below ``most`` bytes are undecided."""
        self.high = min(self.high, max(self.low, bisect_left(self.limits, most)))
        return self.low < self.high


class FastSearch:
    """A search for schedules of at most ``target`` cycles in at most ``room`` bytes, by what it has found so far."""

    def __init__(self, task: Task, explored: SearchSpace, room: int, target: int, executor: Executor, show: Progress) -> None:
        self._task, self._explored, self._executor, self._show = task, explored, executor, show
        self.room, self.target = room, target
        self.found: tuple[Replayed, ...] = ()
        self._drafts: tuple[Draft, ...] = ()
        self._expected: dict[tuple[Form, int, Fraction], int | None] = {}
        self._least = {form: rungs[0] for form, rungs in zip(explored.forms, explored.ladders, strict=True)}
        self._needed: dict[tuple[Form, int], int] = {}
        """For each form and limit searched the bytes of the draft that is expected to be fastest there."""
        self._errors: dict[Form, list[Fraction]] = {}
        """For each form the replayed cycles of its searches, as multiples of those expected after :data:`EARLY` of the changes."""

    @property
    def best(self) -> Replayed | None:
        """The smallest schedule that meets the target; of equally small ones the fastest."""
        meeting = (one for one in self.found if one.cycles <= self.target and one.memory <= self.room)
        return min(meeting, key=lambda one: (one.memory, one.cycles), default=None)

    @property
    def bytes(self) -> int:
        """The bytes of the best schedule, or the room if there is none."""
        return self.room if self.best is None else self.best.memory

    def expected(self, some: Sequence[tuple[Form, int]], part: Fraction = Fraction(0)) -> list[int | None]:
        """The expected cycles of forms at limits after that part of the changes, each asked for once; None if nothing fits."""
        new = [one for one in dict.fromkeys(some) if (*one, part) not in self._expected]
        asked = [self._executor.submit(promise, *one, part) for one in new]
        told = answers(asked, "Looking at {} of {} memory limits", self._show)
        self._expected.update({(*one, part): cycles for one, cycles in zip(new, told, strict=True)})
        return [self._expected[one[0], one[1], part] for one in some]

    def _within(self, cycles: int | None, times: Fraction) -> bool:
        """Whether some expected cycles are at most so many times the target."""
        return cycles is not None and cycles <= times * self.target

    def least_sure(self) -> int:
        """The smallest limit of all ladders in which some form surely meets the target, or the room. Each round halves every ladder."""
        most = self.room
        left = [_Ladder(form, list(rungs), 0, len(rungs)) for form, rungs in zip(self._explored.forms, self._explored.ladders, strict=True)]
        while left := [one for one in left if one.goes_on(most)]:
            middles = [(one.low + one.high) // 2 for one in left]
            told = self.expected([(one.form, one.limits[at]) for one, at in zip(left, middles, strict=True)])
            for one, at, cycles in zip(left, middles, told, strict=True):
                if self._within(cycles, SURE):
                    one.high, most = at, min(most, one.limits[at])
                else:
                    one.low = at + 1
        return most

    def _may_meet(self, limit: int) -> list[tuple[Form, int]]:
        """The forms that have plans within a limit, without those that are expected to miss the target by far in a larger arena."""
        far = {form for (form, at, part), cycles in self._expected.items() if not part and at >= limit and not self._within(cycles, FAR)}
        return [(form, self._like(form, limit)) for form, least in self._least.items() if least <= limit and form not in far]

    def _like(self, form: Form, limit: int) -> int:
        """A larger limit whose fastest draft leaves bytes of this one, so no faster one is found here; else the limit itself."""
        return max((at for (one, at), size in self._needed.items() if one is form and size < limit <= at), default=limit)

    def _near(self, limits: Sequence[int]) -> list[list[tuple[Form, int]]]:
        """The forms that may meet the target at each limit, the one that is expected to be fastest first."""
        at_each = [self._may_meet(limit) for limit in limits]
        pairs = list(dict.fromkeys(one for some in at_each for one in some))
        pairs = [one for one, cycles in zip(pairs, self.expected(pairs), strict=True) if self._within(cycles, FAR)]
        early = zip(pairs, self.expected(pairs, EARLY), strict=True)
        known = {one: cycles for one, cycles in early if cycles is not None and self._within(cycles, FAR)}
        ranked = [sorted((one for one in some if one in known), key=known.__getitem__)[:FORMS] for some in at_each]
        return [[one for one in some if one == some[0] or self._within(known[one], self._near_for(one[0]))] for some in ranked]

    def _near_for(self, form: Form) -> Fraction:
        """:data:`NEAR`, or less if replays have told how far a form's estimates are off, and changes cannot make up for the rest."""
        errors, changes = self._errors.get(form, []), WHOLE_EFFORT.cycles >= FEWEST_REPLAYS * self.target
        return min(NEAR, (EVEN if changes else 1 + MISSED) / min(errors)) if len(errors) >= TOLD else NEAR

    def search(self, limits: Iterable[int]) -> None:
        """Replay the drafts at some limits that may meet the target, further forms only if the first one misses it."""
        some = sorted(set(limits))
        near = self._near(some)
        self._search([one for ranked in near for one in ranked[:1]])
        self._search(
            [one for limit, ranked in zip(some, near, strict=True) if limit < self.bytes or self.best is None for one in ranked[1:]]
        )

    def _search(self, some: Sequence[tuple[Form, int]]) -> None:
        new = [one for one in dict.fromkeys(some) if one not in self._needed]
        asked = [self._executor.submit(at_limit, *one) for one in new]
        found = list(answers(asked, "Scheduling: {} of {} memory limits", self._show))
        self._replay([draft for made in found for draft in made])
        replays = {one.draft: one.cycles for one in self.found}
        for (form, limit), made in zip(new, found, strict=True):
            first = min(made, key=lambda draft: draft.cycles, default=None)
            self._needed[form, limit] = limit if first is None else first.memory
            expected = self._expected.get((form, limit, EARLY))
            if first in replays and expected:
                self._errors.setdefault(form, []).append(Fraction(replays[first], expected))

    def _replay(self, drafts: Sequence[Draft]) -> None:
        """Replay the drafts that may meet the target in fewer bytes than the best schedule."""
        before = len(self._drafts)
        self._drafts = distinct((*self._drafts, *drafts))
        new = [one for one in self._drafts[before:] if one.memory <= self.bytes and (one.is_plain or self._within(one.cycles, NEAR))]
        self.found += replayed(new, self._explored, self._task.replay, self._executor, self._show)

    def close_in(self) -> None:
        """Halve the gap between the smallest arena that meets the target and the largest in which every form misses it by far."""
        self.search([self.least_sure()])
        low, high = self._missing // ALIGNMENT * ALIGNMENT, self.bytes
        while high - low > max(Fraction(ALIGNMENT), high * CLOSE):
            middle = round_up((low + high) // 2, ALIGNMENT)
            self.search([middle])
            low, high = (low, self.bytes) if self.bytes <= middle else (middle, high)
        # The fastest of equally small schedules is wanted.
        self._search(self._near([high])[0])

    @property
    def _missing(self) -> int:
        """Bytes in which every form is expected to miss the target by far, or has no plans."""
        missing = {form: least - 1 for form, least in self._least.items()}
        for (form, limit, part), cycles in self._expected.items():
            if not part and not self._within(cycles, FAR):
                missing[form] = max(missing[form], limit)
        return min(missing.values())

    def look_beside(self) -> None:
        """Search some smaller arenas, and some a little larger than schedules that nearly meet the target."""
        least = min(self._least.values())
        steps = (round_up(int(self.bytes * (1 - STEP * number)), ALIGNMENT) for number in range(1, STEPS + 1))
        self.search(limit for limit in steps if limit > least)
        self.search(beyond(pareto(self.found), (self.target,)))

    def start_otherwise(self) -> None:
        """Replay schedules that are best for other costs, in the arena of the schedule that misses the target by least."""
        missing = [one for one in pareto(self.found) if self.target < one.cycles <= self.target * EVEN and one.memory < self.bytes]
        starts = [(first.form, one.memory) for one in missing[-1:] for first in worth_a_start(self.found, one.memory)]
        self.found += started_otherwise(starts, self._task.replay, self._executor, self._show)

    def change(self) -> None:
        """Change schedules that miss the target by little, by replays, and the best one."""
        some = [one for one in reversed(pareto(self.found)) if one.cycles <= self.target * EVEN and one.memory <= self.bytes]
        self.found += changed_by_replays(some, self._task.replay, self._executor, self._show)
        points = pareto(self.found)
        self.found += tuple(made_up(points, (self.target,), self._task.replay, self._executor, self._show))

    def pack(self) -> None:
        """Replay the smallest draft of forms whose plans have fewer bytes than the best schedule.

        It takes no fewer cycles than drafts in larger arenas, so forms are left out that miss the target there.
        """
        slow = {form for (form, _, part), cycles in self._expected.items() if cycles and not self._within(cycles, NEAR if part else FAR)}
        left = [form for form, least in self._least.items() if form not in slow and round_up(least, ALIGNMENT) < self.bytes]
        self._replay_packed([self._executor.submit(smallest_within, form, int(self._near_for(form) * self.target)) for form in left])

    def _replay_packed(self, asked: Sequence[Future[tuple[Draft, ...]]]) -> None:
        self._replay([draft for some in answers(asked, "Packing: {} of {} forms", self._show) for draft in some])

    def try_all(self) -> None:
        """Search every limit of every ladder within the room, whatever is expected there."""
        ladders = zip(self._explored.forms, self._explored.ladders, strict=True)
        self._search([(form, limit) for form, rungs in ladders for limit in (*rungs, self.room) if rungs[0] <= limit <= self.room])
        self._replay_packed([self._executor.submit(smallest, form) for form in self._explored.forms])

    def settled(self) -> Point | None:
        """The smallest schedule, checked, whose final replay meets the target; None if there is none."""
        meeting = [one for one in pareto(self.found) if one.cycles <= self.target and one.memory <= self.room]
        for one in meeting:
            point = self._task.settled(one.answer())
            if point.cycles <= self.target:
                self._executor.submit(check, one.draft, one.form).result()
                return point
        return None


def smallest_as_fast(  # noqa: PLR0913  # a question, those who work on it, and those who listen
    task: Task,
    explored: SearchSpace,
    room: int,
    target: int,
    executor: Executor,
    show: Progress = silent,
    *,
    thorough: bool = False,
) -> Point | None:
    """The smallest schedule of at most ``target`` cycles in at most ``room`` bytes, checked; None if none was found.

    A ``thorough`` search tries every limit, and so does a search for a tiny network, or one that would find nothing: estimates are far off
    there.
    """
    search = FastSearch(task, explored, room, target, executor, show)
    search.close_in()
    search.pack()
    if thorough or explored.is_tiny or search.best is None:
        search.try_all()
    search.look_beside()
    search.start_otherwise()
    search.change()
    return search.settled()
