"""The search for cascaded schedules: every variant of a network planned, its limits tried, and what is promising replayed."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import inf

from cascader.ethosu.cascade import Candidate, Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.network.network import Network
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.rewrites import variants
from cascader.ethosu.schedule.schedule import Provenance, Schedule
from npu_model.memory.system import MemorySystem
from sim import quick_cycles
from testbed.progress import Progress, silent

GAIN = 0.002
"""What part of its cycles a schedule must be expected to save, beside all that need no more memory, to be replayed in any case."""

EFFORT = 200_000_000
"""Expected cycles up to which schedules that promise less are replayed too, the most promising first.

What the search expects is off by a few per cent, of small networks by up to a fifth. Those are replayed in a moment, so that
all of their schedules are; of a large network replays take most of the time. On one processor this is about a minute.
"""

_PLANS = 8
"""Layouts whose plans a process keeps, with all that was worked out for earlier limits."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A network with where it came from."""

    network: Network = field(repr=False)
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Task:
    """What is searched: a network for a device with its memories, and how. The device's timing is that of the ``provenance``.

    ``others`` are other networks of the same mathematics, from another legaliser, that are searched too.
    """

    network: Network = field(repr=False)
    accelerator: str
    system: MemorySystem
    provenance: Provenance
    options: CascadeOptions = field(default_factory=CascadeOptions)
    others: tuple[Origin, ...] = ()

    def variants(self) -> tuple[Origin, ...]:
        """Every network as it is searched."""
        origins = (Origin(self.network, self.provenance), *self.others)
        return tuple(
            Origin(network, origin.provenance)
            for origin in origins
            for network in variants(origin.network, self.accelerator, self.system, self.options, origin.provenance.timing)
        )


@dataclass(frozen=True, slots=True)
class Point:
    """A replayed schedule: ``memory`` is its arena in bytes, ``cycles`` are the replay's, ``estimate`` those that the search expected."""

    memory: int
    cycles: int
    estimate: int
    schedule: Schedule = field(repr=False)


@dataclass(frozen=True, slots=True)
class Wish:
    """Which schedules a search makes.

    With ``frontier`` those of every limit of the ladder, with ``smallest`` the one that needs least memory; ``budgets``
    are arenas in bytes for each of which the best that fits is wanted too. ``near`` asks for those limits of the ladder alone that a
    budget of so many bytes may be met by.
    """

    frontier: bool = True
    smallest: bool = False
    budgets: tuple[int, ...] = ()
    near: int | None = None

    def limits(self, ladder: Sequence[int]) -> tuple[int, ...]:
        """The limits of a ladder that are wished for."""
        if self.near is not None:
            return near_limits(ladder, self.near)
        return tuple(ladder) if self.frontier else ()


NEAR = Fraction(3, 4)
"""From what part of a budget on limits are tried for it."""


def near_limits(ladder: Sequence[int], budget: int) -> tuple[int, ...]:
    """The limits at which schedules for a budget are looked for: those a little below it, and the next one above.

    A schedule may need less than its limit, so that one of the limit above may fit.

    >>> near_limits((100, 150, 200, 300, 400), 290), near_limits((100, 150, 200), 1000)
    ((300,), (150, 200))
    """
    top = min(budget, ladder[-1])
    low = [limit for limit in ladder if NEAR * top <= limit <= top]
    return (*low, *[limit for limit in ladder if limit > top][:1])


EVERYTHING = Wish(frontier=True, smallest=True)
"""What a frontier asks for."""


def _plan(task: Task, origin: Origin) -> Cascader:
    return Cascader(origin.network, task.accelerator, task.system, task.options, origin.provenance)


@lru_cache(maxsize=_PLANS)
def kept(pickled: bytes) -> Cascader:
    """The plans as this process has them: what was worked out for one limit is there for the next, and changes no answer."""
    found = pickle.loads(pickled)  # noqa: S301  # made by this program a moment ago
    assert isinstance(found, Cascader)  # noqa: S101  # as above
    return found


def at_limit(pickled: bytes, limit: int) -> tuple[Candidate, ...]:
    """The candidates of pickled plans at one memory limit (bytes)."""
    return kept(pickled).schedules_at(limit)


def smallest(pickled: bytes, limits: tuple[int, ...]) -> tuple[Candidate, ...]:
    """The smallest, and with it those of the least limit, which mostly come to the same."""
    plans = kept(pickled)
    return (plans.smallest(), *(candidate for limit in limits for candidate in plans.schedules_at(limit)))


def _tasks(executor: Executor, cascader: Cascader, wish: Wish) -> list[Future[tuple[Candidate, ...]]]:
    pickled = pickle.dumps(cascader)
    limits = wish.limits(cascader.limits())
    tasks = []
    if wish.smallest:
        tasks.append(executor.submit(smallest, pickled, limits[:1]))
        limits = limits[1:]
    return tasks + [executor.submit(at_limit, pickled, limit) for limit in (*wish.budgets, *limits)]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search has made: its candidates in a fixed order, and the plans that further budgets can be asked of."""

    candidates: tuple[Candidate, ...]
    cascaders: tuple[Cascader, ...]

    @property
    def least_live_bytes(self) -> int:
        """Bytes that every schedule of the kinds that are searched holds at some step."""
        return min(cascader.smallest_limit for cascader in self.cascaders)


Answer = tuple[Network, Future[tuple[Candidate, ...]]]
"""Candidates of a variant that are being made."""


def search(task: Task, wish: Wish, executor: Executor, show: Progress = silent) -> Found:
    """Make the schedules that are wished for, variant by variant; the order does not depend on the executor."""
    origins = task.variants()
    plans = [executor.submit(_plan, replace(task, others=()), origin) for origin in origins]
    answers: list[Answer] = []
    cascaders = []
    for done, (origin, plan) in enumerate(zip(origins, plans, strict=True)):
        show(f"Planning stripes: {done} of {len(plans)} layouts")
        cascaders.append(plan.result())
        answers += [(origin.network, answer) for answer in _tasks(executor, cascaders[-1], wish)]
    return Found(_collect(answers, show), tuple(cascaders))


def new_candidates(
    found: Found, known: Sequence[Candidate], budgets: Sequence[int], executor: Executor, show: Progress = silent
) -> tuple[Candidate, ...]:
    """The candidates for ``budgets`` (bytes) that are not among the ``known`` ones."""
    wish = Wish(frontier=False, budgets=tuple(budgets))
    answers = [(cascader.network, answer) for cascader in found.cascaders for answer in _tasks(executor, cascader, wish)]
    return _distinct((*known, *_collect(answers, show)))[len(known) :]


def search_further(found: Found, budgets: Sequence[int], executor: Executor, show: Progress = silent) -> tuple[Candidate, ...]:
    """The candidates of ``found``, and after them those for more ``budgets`` (bytes) that are not among them."""
    return (*found.candidates, *new_candidates(found, found.candidates, budgets, executor, show))


def _collect(answers: Sequence[Answer], show: Progress) -> tuple[Candidate, ...]:
    found: list[Candidate] = []
    for done, (network, answer) in enumerate(answers):
        show(f"Scheduling: {done} of {len(answers)} memory limits")
        # Candidates from another process each bring a copy of the network; one is enough.
        found += [replace(c, schedule=replace(c.schedule, network=network)) for c in answer.result()]
    return _distinct(found)


def _distinct(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The candidates without repeats."""
    kept: dict[object, Candidate] = {}
    for c in candidates:
        # Variants of a network differ in how their tensors are stored, which their graphs say.
        kept.setdefault((c.schedule.network.graph, c.schedule.jobs, c.schedule.buffers, c.schedule.copies), c)
    return tuple(kept.values())


def promising(candidates: Sequence[Candidate], gain: float = GAIN, effort: int = EFFORT) -> tuple[Candidate, ...]:
    """The candidates that are worth a replay, by ascending memory.

    These are all that are expected to save ``gain`` of the cycles of every such one that needs no more memory, and as many
    others as have ``effort`` expected cycles together with them, first those that are least slower than what needs no more.
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
            kept.add(index)
            total += ordered[index].cycles
    return tuple(candidate for index, candidate in enumerate(ordered) if index in kept)


CLOSE = 1.03
"""How many times the fewest expected cycles a schedule may be expected to take to be replayed for a budget."""
FEW = 3
"""Schedules that are replayed for a budget whatever is expected of them."""


def close(candidates: Sequence[Candidate], effort: int = EFFORT // 10) -> tuple[Candidate, ...]:
    """The candidates for one budget that are worth a replay, the one expected to be fastest first.

    These are all that are expected to take at most :data:`CLOSE` times the fewest cycles, at least :data:`FEW`, and as many others as
    have ``effort`` expected cycles together with them: what the search expects of a small network is off by more.
    """
    ordered = sorted(candidates, key=lambda c: (c.cycles, c.memory))
    totals = accumulate(candidate.cycles for candidate in ordered)
    return tuple(
        candidate
        for index, (candidate, total) in enumerate(zip(ordered, totals, strict=True))
        if index < FEW or candidate.cycles <= CLOSE * ordered[0].cycles or total <= effort
    )


def replay(schedule: Schedule, system: MemorySystem) -> int:
    """Cycles with the timing that the schedule was made for."""
    return quick_cycles(lower(schedule), system, schedule.provenance.timing)


def replayed(candidates: Sequence[Candidate], system: MemorySystem, executor: Executor, show: Progress = silent) -> tuple[Point, ...]:
    """The candidates with what their replay shows, in their order."""
    answers = [executor.submit(replay, candidate.schedule, system) for candidate in candidates]
    points = []
    for done, (candidate, answer) in enumerate(zip(candidates, answers, strict=True)):
        show(f"Replaying: {done} of {len(candidates)} schedules")
        points.append(Point(candidate.memory, answer.result(), candidate.cycles, candidate.schedule))
    return tuple(points)
