"""Cycle targets: schedules that miss a number of cycles by very little, and the changes that make up for it.

A search knows cycles to some tenths of a per cent. If less decides whether a schedule meets a number of cycles, its copies are issued later
and its groups are changed. A replay judges each change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from fractions import Fraction
from itertools import count

from msgspec import Struct, field

from cascader.draft.climb import climbed
from cascader.draft.draft import Draft
from cascader.draft.group_moves import Groups
from cascader.draft.replayed_moves import with_later_copies
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.remote_calls import Turn, replay
from cascader.ethosu.search.replayed import Replayed
from cascader.ethosu.search.task import Progress, Replay, idle, silent
from cascader.plan.pareto import pareto
from cascader.search.workers import Directed, drawn_ahead
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up

MISSED = Fraction(1, 1000)
"""The part of a number of cycles by which a point may miss it: changes help by about as much."""

FEW = 2
"""Points that are tried for each number of cycles, the smallest ones."""

ROOM = Fraction(1, 500)
"""Share by which an arena may be larger in which a point's groups are changed: with a few more bytes every copy fits."""

HALVINGS = 4
"""Number of times that the gap is halved between an arena whose schedule was made to meet the cycles and the next smaller point."""

LATER = 7_000_000_000
"""The most cycles that are replayed to find which copies of a near miss should be issued later: they take a minute.

MobileNetV1, which needs more than any other of the fourteen networks of the memory page that were measured, takes 6,080 million.
"""

AHEAD = 3
"""Replays that are requested at a time: some for another process, some for this one. One process alone runs only those that count."""

REPLAYED, FOLLOWED = 60, 24
"""Changes of a near miss that are replayed, and of a schedule that begins with groups that meet the cycles in a larger arena."""


def near_target(points: Sequence[Replayed], target: int) -> tuple[Replayed, ...]:
    """The :data:`FEW` smallest ``points`` that miss ``target`` by at most :data:`MISSED` in fewer bytes than the points that meet it."""
    meeting = least_meeting(points, target)
    missing = (p for p in points if target < p.cycles <= target * (1 + MISSED) and (meeting is None or p.memory < meeting))
    return tuple(sorted(missing, key=lambda point: point.memory)[:FEW])


def least_meeting(points: Sequence[Replayed], target: int) -> int | None:
    """Bytes of the smallest point of at most ``target`` cycles; None if there is none."""
    return min((point.memory for point in points if point.cycles <= target), default=None)


class _Search(Struct, frozen=True):
    """A search of one form for schedules of at most ``target`` cycles; replays decide the changes of their groups."""

    form: Form
    target: int
    judge: Replay
    executor: Executor
    show: Progress
    known: dict[object, Future[int]] = field(default_factory=dict)
    """Replays by their drafts' values; other searches of the same comparison use them, too."""
    line: Iterator[int] = field(default_factory=count)
    """Numbers of the requested replays."""
    meanwhile: Callable[[], None] = idle
    """A callback for times when other processes have no work."""

    def at(self, limit: int, most: int, begin: tuple[Groups, ...] = ()) -> Replayed | None:
        """The fastest draft for ``limit`` bytes, from the best one found there or from the groups ``begin``."""
        self.show(f"Changing groups by replays: {limit:,} bytes for {self.target:,} cycles")
        self.meanwhile()
        found = self.form.cascader.regrouped(limit, self.target, self._cycles_once, most, begin)
        return None if found is None else Replayed(self.form, *found)

    def _replayed(self, draft: Draft) -> Future[int]:
        return self.executor.submit(Directed(replay, Turn(next(self.line))), draft, self.form, self.judge)

    def _cycles_once(self, drafts: Iterable[Draft]) -> Iterator[int]:
        """The replayed cycles of drafts in their order. Drafts may recur, also for other groups; each is replayed once."""
        return drawn_ahead(map(self._replayed_once, drafts), AHEAD)

    def _replayed_once(self, draft: Draft) -> Future[int]:
        answer = self.known.get(draft.runs)
        if answer is None or answer.cancelled():
            answer = self.known[draft.runs] = self._replayed(draft)
        return answer

    def later(self, missed: Replayed) -> Replayed:
        """The draft with copies issued later, one after the other, until a replay shows that it meets the target.

        It also ends if no copy gains anything, or after :data:`LATER` replays.
        """

        def moves(best: Draft, judged: Sequence[int]) -> Iterator[tuple[int, Draft]]:
            return with_later_copies(best, judged[-1] if judged else 0)

        def costs(drafts: Iterable[Draft]) -> Iterator[int]:
            self.show(f"Issuing copies later: {missed.memory:,} bytes for {self.target:,} cycles")
            return drawn_ahead(map(self._replayed, drafts), AHEAD)

        return Replayed(self.form, *climbed(missed.draft, missed.cycles, moves, costs, LATER // missed.cycles, self.target))

    def smaller(self, low: int, high: int, groups: Groups) -> Iterator[Replayed]:
        """Find schedules in arenas between one that misses the target and one of some groups that meet it.

        They close up :data:`HALVINGS` times, or to :data:`ROOM` of their bytes, and once more from the beginning if the groups are others
        then: each arena is searched from the groups of the smallest that meets the target, too.
        """
        begun = groups
        for begin in (low, low):
            low = begin
            for _ in range(HALVINGS):
                size = (low + high) // 2 // ALIGNMENT * ALIGNMENT
                if high - size <= high * ROOM / 2:
                    break
                found = self.at(size, FOLLOWED, (groups,))
                if found is not None:
                    yield found
                if found is not None and found.cycles <= self.target:
                    high, groups = found.memory, found.draft.part_groups
                else:
                    low = size
            if groups == begun:
                break


def _made_up(points: Sequence[Replayed], target: int, search_in: Callable[[Replayed], _Search]) -> Iterator[Replayed]:
    """Mend the near misses of a target: each with its copies later, and others for somewhat more bytes, until one meets it."""
    meeting = least_meeting(points, target)
    for point in near_target(points, target):
        search = search_in(point)
        later = search.later(point)
        yield later
        if later.cycles <= target:
            return
        limit = round_up(int(point.memory * (1 + ROOM)), ALIGNMENT)
        found = search.at(limit if meeting is None or limit < meeting else point.memory, REPLAYED)
        if found is not None:
            yield found
            if found.cycles <= target:
                least = max((one.memory for one in pareto(points) if one.memory < found.memory), default=0)
                yield from search.smaller(least, found.memory, found.draft.part_groups)
                return


def made_up(  # Listeners and timers are no part of the terms of a search.
    points: Sequence[Replayed],
    targets: Sequence[int],
    judge: Replay,
    executor: Executor,
    show: Progress = silent,
    meanwhile: Callable[[], None] = idle,
) -> Iterator[Replayed]:
    """Mend the near misses of each target; ``meanwhile`` is called when other processes have no work."""
    known: dict[object, Future[int]] = {}
    for target in dict.fromkeys(targets):

        def search_in(point: Replayed, target: int = target) -> _Search:
            return _Search(point.form, target, judge, executor, show, known=known, meanwhile=meanwhile)

        yield from _made_up(points, target, search_in)
