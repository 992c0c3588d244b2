"""The choice of one cascaded schedule: the fastest that fits a budget, or the one that needs least memory."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

from cascader.ethosu.cascade import Candidate
from cascader.ethosu.schedule.schedule import Schedule
from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from testbed.progress import Progress, silent
from testbed.search import EVERYTHING, Task, promising, replayed, search, search_further


def choose(
    task: Task, executor: Executor, *, arena_cache_size: int | None = None, optimise: str = "Performance", show: Progress = silent
) -> Schedule:
    """The schedule for ``optimise`` Performance (the fastest in replay, of equals the smallest) or Size (the other way round).

    Its arena has at most ``arena_cache_size`` bytes. The search is that of ``npu-testbed frontier``, with the budget
    itself as one more memory limit. InputError that names the smallest arena found if none fits.
    """
    found = search(task, EVERYTHING, executor, show)
    candidates = found.candidates
    if arena_cache_size is not None:
        candidates = search_further(found, (arena_cache_size,), executor, show)
    least = min(candidate.memory for candidate in candidates)
    if arena_cache_size is not None and least > arena_cache_size:
        raise InputError(
            f"No schedule was found that fits into --arena-cache-size {arena_cache_size}: {least} bytes are the smallest arena reached; "
            "allow that much."
        )
    if optimise == "Size":
        return _fastest([candidate for candidate in candidates if candidate.memory == least], task.system, executor, show)
    # Whatever a frontier would replay is replayed here, too, where it fits: no point of it that does is faster.
    hopeful = (*promising(found.candidates), *candidates[len(found.candidates) :])
    fitting = [candidate for candidate in hopeful if arena_cache_size is None or candidate.memory <= arena_cache_size]
    return _fastest(fitting, task.system, executor, show)


def _fastest(candidates: Sequence[Candidate], system: MemorySystem, executor: Executor, show: Progress) -> Schedule:
    if len(candidates) == 1:
        return candidates[0].schedule
    return min(replayed(candidates, system, executor, show), key=lambda point: (point.cycles, point.memory)).schedule
