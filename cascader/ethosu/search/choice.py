"""The choice of one cascaded schedule: the fastest that fits a budget, or the one that needs least memory."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace

from cascader.ethosu.schedule.schedule import Schedule
from cascader.ethosu.search.replays import close, promising, replayed
from cascader.ethosu.search.search import Explored, explore, new_candidates, search
from cascader.ethosu.search.task import Candidate, Show, Task, silent
from cascader.ethosu.search.wish import EVERYTHING, Wish
from npu_model.errors import InputError

_UNBOUNDED = 1 << 60


def choose(
    task: Task,
    executor: Executor,
    *,
    arena_cache_size: int | None = None,
    optimise: str = "Performance",
    thorough: bool = False,
    show: Show = silent,
) -> Schedule:
    """The schedule for ``optimise`` Performance (the fastest in replay, of equals the smallest) or Size (the other way round).

    Its arena has at most ``arena_cache_size`` bytes. With ``thorough`` the search is that of a frontier at every limit, with the
    budget itself as one more memory limit; one that finds nothing near the budget is that of a frontier, too. InputError that names the
    smallest arena found if none fits.
    """
    explored = explore(task, executor, show)
    if optimise == "Size":
        candidates = search(explored, Wish(frontier=False, smallest=True), executor, show).candidates
        least = min(candidate.memory for candidate in candidates)
        _require_fit(least, arena_cache_size)
        chosen: Sequence[Candidate] = [candidate for candidate in candidates if candidate.memory == least]
    else:
        chosen = () if thorough else _near(explored, executor, arena_cache_size, show)
        chosen = chosen or _everywhere(explored, executor, arena_cache_size, show, thorough=thorough)
    if len(chosen) == 1:
        return chosen[0].schedule
    points = replayed(chosen, explored.forms, task.replay, executor, show)
    return min(points, key=lambda point: (point.cycles, point.memory)).schedule


def _require_fit(least: int, arena_cache_size: int | None) -> None:
    if arena_cache_size is not None and least > arena_cache_size:
        raise InputError(
            f"No schedule was found that fits into --arena-cache-size {arena_cache_size}: {least} bytes are the smallest arena reached; "
            "allow that much."
        )


def _fitting(candidates: Sequence[Candidate], arena_cache_size: int | None) -> list[Candidate]:
    return [candidate for candidate in candidates if arena_cache_size is None or candidate.memory <= arena_cache_size]


def _near(explored: Explored, executor: Executor, arena_cache_size: int | None, show: Show) -> Sequence[Candidate]:
    """What is worth a replay of the schedules found near the budget."""
    budgets = () if arena_cache_size is None else (arena_cache_size,)
    wish = Wish(frontier=False, budgets=budgets, near=arena_cache_size or _UNBOUNDED)
    return close(_fitting(search(explored, wish, executor, show).candidates, arena_cache_size))


def _everywhere(explored: Explored, executor: Executor, arena_cache_size: int | None, show: Show, *, thorough: bool) -> Sequence[Candidate]:
    """What is worth a replay of the schedules of a whole frontier, and of those for the budget."""
    found = search(explored, replace(EVERYTHING, thorough=thorough), executor, show).candidates
    wish = Wish(frontier=False, budgets=() if arena_cache_size is None else (arena_cache_size,), thorough=thorough)
    more = new_candidates(explored, found, wish, executor, show)
    _require_fit(min(candidate.memory for candidate in (*found, *more)), arena_cache_size)
    # Whatever a frontier would replay is replayed here, too, where it fits: no point of it that does is faster.
    return _fitting((*promising(found), *more), arena_cache_size)
