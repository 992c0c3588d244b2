"""The choice of one cascaded schedule: the fastest that fits a budget, or the one that needs least memory."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

from cascader.ethosu.cascade import Candidate
from cascader.ethosu.schedule.schedule import Schedule
from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from testbed.progress import Progress, silent
from testbed.scheduling import DEFAULT_EFFORT
from testbed.search import EVERYTHING, Task, Wish, close, promising, replayed, search, search_further

_UNBOUNDED = 1 << 60


def choose(
    task: Task,
    executor: Executor,
    *,
    arena_cache_size: int | None = None,
    optimise: str = "Performance",
    effort: str = DEFAULT_EFFORT,
    show: Progress = silent,
) -> Schedule:
    """The schedule for ``optimise`` Performance (the fastest in replay, of equals the smallest) or Size (the other way round).

    Its arena has at most ``arena_cache_size`` bytes. With ``effort`` thorough the search is that of ``npu-testbed frontier``, with the
    budget itself as one more memory limit, and so is one that finds nothing near the budget. InputError that names the smallest arena
    found if none fits.
    """
    if optimise == "Size":
        candidates = search(task, Wish(frontier=False, smallest=True), executor, show).candidates
        least = min(candidate.memory for candidate in candidates)
        _require_fit(least, arena_cache_size)
        return _fastest([candidate for candidate in candidates if candidate.memory == least], task.system, executor, show)
    fitting = _near(task, executor, arena_cache_size, show) if effort == DEFAULT_EFFORT else []
    return _fastest(fitting or _everywhere(task, executor, arena_cache_size, show), task.system, executor, show)


def _require_fit(least: int, arena_cache_size: int | None) -> None:
    if arena_cache_size is not None and least > arena_cache_size:
        raise InputError(
            f"No schedule was found that fits into --arena-cache-size {arena_cache_size}: {least} bytes are the smallest arena reached; "
            "allow that much."
        )


def _fitting(candidates: Sequence[Candidate], arena_cache_size: int | None) -> list[Candidate]:
    return [candidate for candidate in candidates if arena_cache_size is None or candidate.memory <= arena_cache_size]


def _near(task: Task, executor: Executor, arena_cache_size: int | None, show: Progress) -> Sequence[Candidate]:
    """What is worth a replay of the schedules found near the budget."""
    budgets = () if arena_cache_size is None else (arena_cache_size,)
    wish = Wish(frontier=False, budgets=budgets, near=arena_cache_size or _UNBOUNDED)
    return close(_fitting(search(task, wish, executor, show).candidates, arena_cache_size))


def _everywhere(task: Task, executor: Executor, arena_cache_size: int | None, show: Progress) -> Sequence[Candidate]:
    """What is worth a replay of the schedules of a whole frontier, and of those for the budget."""
    found = search(task, EVERYTHING, executor, show)
    candidates = found.candidates if arena_cache_size is None else search_further(found, (arena_cache_size,), executor, show)
    _require_fit(min(candidate.memory for candidate in candidates), arena_cache_size)
    # Whatever a frontier would replay is replayed here, too, where it fits: no point of it that does is faster.
    return _fitting((*promising(found.candidates), *candidates[len(found.candidates) :]), arena_cache_size)


def _fastest(candidates: Sequence[Candidate], system: MemorySystem, executor: Executor, show: Progress) -> Schedule:
    if len(candidates) == 1:
        return candidates[0].schedule
    return min(replayed(candidates, system, executor, show), key=lambda point: (point.cycles, point.memory)).schedule
