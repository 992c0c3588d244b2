"""The frontier of a network: the schedules that no other one beats in memory and replayed cycles, and bytes that must be there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, Future
from fractions import Fraction
from itertools import islice
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.network.network import Network
from cascader.ethosu.search.cycle_targets import made_up
from cascader.ethosu.search.limits import LimitRequest
from cascader.ethosu.search.remote_calls import FOR_OTHERS, check
from cascader.ethosu.search.replayed import Replayed
from cascader.ethosu.search.replays import REACH, changed_by_replays, promising, replayed, started_otherwise, within_reach, worth_a_start
from cascader.ethosu.search.search import SearchResult, new_drafts
from cascader.ethosu.search.task import Point, Progress, Task, silent
from cascader.plan.pareto import pareto
from cascader.search.workers import Directed, in_order
from npu_model.shapes import round_up


class LowerBounds(Struct, frozen=True):
    """Proven lower bounds of bytes.

    ``any_schedule``: the arena holds all inputs of the network before the first operation and all its outputs after the last, whatever runs
    between. ``this_search``: no division of the network into the search's groups of consecutive parts and stripes needs fewer bytes, even
    if packed perfectly. The search's changes try a few more rows, and other kinds of schedules may need fewer bytes.
    """

    any_schedule: int
    this_search: int


class FoundFrontier(Struct, frozen=True):
    """The Pareto points by ascending memory, the bounds of bytes, and how many schedules were found and replayed for them."""

    points: tuple[Point, ...]
    bounds: LowerBounds
    drafts: int
    replayed: int
    least_cycles: int
    """Cycles that every schedule takes, in any arena."""
    near: tuple[Point, ...] = ()
    """Further points that are within :data:`NEAR` of the best in their bytes or for their cycles, by memory and cycles."""


def lower_bounds(network: Network, least_live_bytes: int) -> LowerBounds:
    """The bounds of a network whose search found that its plans hold ``least_live_bytes`` at one step at least."""
    outside = {home.tensor for home in network.homes}
    ends = ([port for port in ports if port.tensor not in outside] for ports in (network.inputs, network.outputs))
    held = (sum(size for _, _, size in {(p.tensor, p.offset, p.size) for p in ports}) for ports in ends)
    return LowerBounds(any_schedule=max(held), this_search=least_live_bytes)


NEAR = Fraction(1, 100)
"""The part of the cycles, or of the bytes, by which a schedule may lag behind the best one and still be as good to a user."""


def near(points: Sequence[Replayed], frontier: Sequence[Replayed]) -> tuple[Replayed, ...]:
    """The ``points`` that the ``frontier`` beats by no more than :data:`NEAR` in cycles or in bytes, by memory and cycles."""

    def is_near(point: Replayed) -> bool:
        fastest = min(one.cycles for one in frontier if one.memory <= point.memory)
        smallest = min(one.memory for one in frontier if one.cycles <= point.cycles)
        return point.cycles <= fastest * (1 + NEAR) or point.memory <= smallest * (1 + NEAR)

    best = set(frontier)
    return tuple(sorted((p for p in points if p not in best and is_near(p)), key=lambda p: (p.memory, p.cycles)))


REFINEMENTS = 2
"""Number of times that the arenas on either side of a requested number of cycles are searched more closely."""

_BETWEEN = 3
"""Arenas that are tried between two others."""


def closer(points: Sequence[Replayed], cycles: Iterable[int]) -> tuple[int, ...]:
    """Arenas in bytes that lie between the smallest point within some ``cycles`` and the next smaller one, evenly spaced.

    ``points`` are by ascending memory and descending cycles.
    """
    found: set[int] = set()
    for target in cycles:
        at = next((i for i, point in enumerate(points) if point.cycles <= target), None)
        if at:
            low, high = points[at - 1].memory, points[at].memory
            found.update((low + (high - low) * part // (_BETWEEN + 1)) // 16 * 16 for part in range(1, _BETWEEN + 1))
    return tuple(sorted(found - {point.memory for point in points}))


_NEAR = Fraction(3, 400)
"""The part of a number of cycles by which a point may miss it and still have somewhat larger arenas searched: two searches differ by about
that.
"""

_FEW = 2
"""The number of points, the smallest ones, for which somewhat larger arenas are searched, for each number of cycles."""

_BEYOND = (Fraction(1, 500), Fraction(1, 100), Fraction(1, 50))
"""Shares of its bytes by which each of these arenas is larger."""


def beyond(points: Sequence[Replayed], cycles: Iterable[int]) -> tuple[int, ...]:
    """Arenas in bytes somewhat larger than points that miss some ``cycles`` by little, but smaller than the smallest that meets them.

    A few bytes more may send the search another way. ``points`` are by ascending memory and descending cycles.
    """
    found: set[int] = set()
    for target in cycles:
        meets = next((point.memory for point in points if point.cycles <= target), None)
        if meets is not None:
            missing = [point.memory for point in points if target < point.cycles <= target * (1 + _NEAR)][:_FEW]
            found.update(size for memory in missing for part in _BEYOND if (size := round_up(int(memory * (1 + part)), 16)) < meets)
    return tuple(sorted(found - {point.memory for point in points}))


_BELOW = (Fraction(1, 32), Fraction(1, 16), Fraction(3, 32))
"""Shares by which the searched arenas are smaller than the smallest that meets some cycles."""


def below(points: Sequence[Replayed], cycles: Iterable[int]) -> tuple[int, ...]:
    """Arenas in bytes some per cent smaller than the smallest point within some ``cycles``, but larger than the smallest of all.

    A search in a clearly smaller arena may end better than a search in a slightly smaller one. ``points`` are by ascending memory and
    descending cycles.
    """
    meeting = [next((point.memory for point in points if point.cycles <= target), 0) for target in cycles]
    sizes = {round_up(int(memory * (1 - part)), 16) for memory in meeting for part in _BELOW}
    return tuple(sorted(size for size in sizes - {point.memory for point in points} if points and size > points[0].memory))


def beside(points: Sequence[Replayed], cycles: Iterable[int]) -> tuple[int, ...]:
    """The arenas of :func:`beyond` and of :func:`below`."""
    targets = tuple(cycles)
    return tuple(sorted({*beyond(points, targets), *below(points, targets)}))


def _worth_changes(points: Sequence[Replayed], budgets: Iterable[int], targets: Iterable[int]) -> tuple[Replayed, ...]:
    """The points that replays change: first answers to a budget, then points that nearly meet a target, then from both ends.

    ``points`` are by ascending memory and descending cycles.
    """
    fastest = [[point for point in points if point.memory <= budget][-1:] for budget in sorted(budgets, reverse=True)]
    nearly = [[point for point in points if target < point.cycles <= target * (1 + NEAR)] for target in targets]
    ends = [point for pair in zip(points, points[::-1], strict=True) for point in pair]
    ordered = [point for some in (*fastest, *nearly, ends) for point in some]
    return tuple(dict.fromkeys(ordered))


CHECKED_AHEAD = 2
"""Checks that are requested while this process prepares results that others wait for: some 0.1 seconds, or two checks of a large network.
"""


class _Checks:
    """The checks of a frontier's points. Those of points that are ``likely`` to be reported may begin while other processes are idle."""

    def __init__(self, likely: Iterable[Replayed], executor: Executor) -> None:
        self._likely = iter(likely)
        self._executor = executor
        self._begun: dict[Replayed, Future[None]] = {}

    def ahead(self) -> None:
        """Ask other processes for a few checks that are likely to be needed."""
        for point in islice(self._likely, CHECKED_AHEAD):
            self._begun[point] = self._executor.submit(Directed(check, FOR_OTHERS), point.draft, point.form)

    def require(self, points: Iterable[Replayed]) -> None:
        """Wait for the checks of the points that are reported. InputError if one of them breaks a rule of schedules."""
        asked = [self._begun.get(point) or self._executor.submit(check, point.draft, point.form) for point in points]
        for _ in in_order(asked):
            pass


def frontier_of(
    task: Task,
    found: SearchResult,
    executor: Executor,
    budgets: tuple[int, ...] = (),
    targets: tuple[int, ...] = (),
    show: Progress = silent,
) -> FoundFrontier:
    """Replay promising drafts of ``found`` and of further ``budgets`` (bytes), and cull.

    For each of the ``targets`` (cycles) the arenas around the smallest that meets it are searched more closely. Then come some smaller
    arenas, some a little larger than points that nearly meet the target, and schedules that are best for other costs. At last a point that
    misses it by very little is changed step by step, and a replay judges each change.
    """
    explored, further = found.explored, LimitRequest(frontier=False)
    drafts = found.drafts
    if budgets:
        drafts = (*drafts, *new_drafts(explored, drafts, replace(further, budgets=budgets), executor, show))
    reach = inf if found.whole else REACH
    seen = replayed(promising(drafts, reach=reach), explored, task.replay, executor, show)
    count, points = len(seen), pareto(seen)
    tried = set(budgets)
    for look in (*[closer] * REFINEMENTS, beside) if targets else ():
        sizes = tuple(size for size in look(points, targets) if size not in tried)
        tried.update(sizes)
        more = new_drafts(explored, drafts, replace(further, budgets=sizes), executor, show)
        drafts = (*drafts, *more)
        seen = (*seen, *replayed(within_reach(more, drafts, reach), explored, task.replay, executor, show))
        count, points = len(seen), pareto(seen)
    starts = [(one.form, limit) for limit in (*budgets, *closer(points, targets)) for one in worth_a_start(seen, limit)]
    seen = (*seen, *started_otherwise(starts, task.replay, executor, show))
    points = pareto(seen)
    seen = (*seen, *changed_by_replays(_worth_changes(points, budgets, targets), task.replay, executor, show))
    points = pareto(seen)
    checks = _Checks(points, executor)
    seen = (*seen, *made_up(points, targets, task.replay, executor, show, checks.ahead))
    points = pareto(seen)
    checks.require(points)
    bounds, beside_them = lower_bounds(task.network, explored.least_live_bytes), near(seen, points)
    reported, others = (tuple(one.answer() for one in some) for some in (points, beside_them))
    if not task.decides_by_replays:
        reported, others = tuple(pareto([task.settled(point) for point in reported])), ()
    return FoundFrontier(reported, bounds, len(drafts), count, explored.least_cycles(None), others)
