"""Frontier: the schedules of a network that no other one beats in memory and cycles, each replayed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from cascader.ethosu.network.network import Network, ethosu_part
from cascader.ethosu.schedule.file import digest
from cascader.ethosu.schedule.schedule import Schedule
from cascader.ethosu.schedule.staging import staged_bytes
from cascader.plan.pareto import pareto
from npu_model.accelerator import DEFAULT_ACCELERATOR
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from testbed.legalise import load_task
from testbed.memory_options import NO_OPTIONS, MemoryOptions, memory_system_sha256
from testbed.progress import Progress, silent
from testbed.resume import Resumed, resumed
from testbed.search import EVERYTHING, Found, Point, Task, new_candidates, promising, replayed, search, search_further
from testbed.versions import Tools
from testbed.workers import processes_for, workers


@dataclass(frozen=True)
class FrontierPoint:
    """One schedule of the frontier: ``memory`` is its arena, the bytes that a user sets aside, ``cycles`` those of the replay.

    The arena goes from its base to the end of the highest buffer, tensors of CPU operators included, rounded up to 16.
    ``estimate`` is what the search expected, ``schedule`` is self-contained.
    """

    memory: int
    cycles: int
    estimate: int
    schedule: Schedule = field(repr=False)

    @property
    def jobs(self) -> int:
        """Stripe jobs: runs of a part for some rows."""
        return len(self.schedule.jobs)

    @cached_property
    def groups(self) -> int:
        """Part groups: the pieces into which the parts fall if those whose jobs interleave stay together."""
        spans: dict[str, list[int]] = {}
        for step, job in enumerate(self.schedule.jobs):
            spans.setdefault(job.part, []).append(step)
        count, end = 0, -1
        for steps in sorted(spans.values()):
            count += steps[0] > end
            end = max(end, steps[-1])
        return count

    @cached_property
    def staged_bytes(self) -> int:
        """Bytes of weights and scales that are copied into the arena, each copy counted."""
        parts = {part.name: ethosu_part(part) for part in self.schedule.network.graph.parts}
        copied = (parts[copy.part] for copy in self.schedule.copies)
        return sum(staged_bytes(part.operation) for part in copied if part is not None)

    @property
    def estimate_error(self) -> float:
        """Relative distance of the search's expectation from the replay."""
        return self.estimate / self.cycles - 1

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the schedule, the one that its file carries."""
        return digest(self.schedule)


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """Bytes that are proven to be needed.

    ``any_schedule``: the arena holds all inputs of the network before the first operation and all its outputs after the
    last, whatever runs between. ``this_search``: for no way to part the network into groups of consecutive parts and
    stripes that the search knows do fewer bytes suffice, packed perfectly; other kinds of schedules may need fewer.
    """

    any_schedule: int
    this_search: int


@dataclass(frozen=True, slots=True)
class Frontier:
    """The Pareto points of a network by ascending memory, and on what they were found and replayed."""

    model: str
    model_sha256: str
    accelerator: str
    memory_system: str
    memory_system_sha256: str
    clock_hz: int
    tools: Tools
    points: tuple[FrontierPoint, ...]
    bounds: LowerBounds
    candidates: int
    replayed: int
    timing: TimingParameters = DEFAULT_TIMING

    def within(self, memory: int) -> FrontierPoint | None:
        """The fastest point that needs at most ``memory`` bytes; None if there is none."""
        return max((point for point in self.points if point.memory <= memory), key=lambda point: point.memory, default=None)

    def at_most(self, cycles: int) -> FrontierPoint | None:
        """The smallest point that takes at most ``cycles``; None if there is none."""
        return min((point for point in self.points if point.cycles <= cycles), key=lambda point: point.memory, default=None)


def lower_bounds(network: Network, least_live_bytes: int) -> LowerBounds:
    """The bounds of a network whose search found that its plans hold ``least_live_bytes`` at one step at least."""
    held = (sum(size for _, _, size in {(p.tensor, p.offset, p.size) for p in ports}) for ports in (network.inputs, network.outputs))
    return LowerBounds(any_schedule=max(held), this_search=least_live_bytes)


REFINEMENTS = 2
"""Number of times that the arenas on either side of a number of cycles that is asked for are searched more closely."""

_BETWEEN = 3
"""Arenas that are tried between two others."""


def closer(points: Sequence[Point], cycles: Iterable[int]) -> tuple[int, ...]:
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


def replayed_frontier(
    task: Task,
    found: Found,
    executor: Executor,
    budgets: tuple[int, ...] = (),
    targets: tuple[int, ...] = (),
    show: Progress = silent,
) -> Frontier:
    """Replay what is promising of ``found`` and of what fits into further ``budgets`` (bytes), and cull.

    For each of the ``targets`` (cycles) the arenas around the smallest that meets it are searched more closely.
    """
    candidates = search_further(found, budgets, executor, show) if budgets else found.candidates
    chosen = promising(candidates)
    points = pareto(replayed(chosen, task.system, executor, show))
    tried = set(budgets)
    for _ in range(REFINEMENTS if targets else 0):
        sizes = tuple(size for size in closer(points, targets) if size not in tried)
        tried.update(sizes)
        more = new_candidates(found, candidates, sizes, executor, show)
        candidates, chosen = (*candidates, *more), (*chosen, *more)
        points = pareto((*points, *replayed(more, task.system, executor, show)))
    provenance = task.provenance
    return Frontier(
        model=provenance.model,
        model_sha256=provenance.model_sha256,
        accelerator=task.accelerator,
        memory_system=task.system.name,
        memory_system_sha256=memory_system_sha256(task.system),
        clock_hz=task.system.clock_hz,
        tools=provenance.tools,
        points=tuple(FrontierPoint(p.memory, p.cycles, p.estimate, p.schedule) for p in points),
        bounds=lower_bounds(task.network, found.least_live_bytes),
        candidates=len(candidates),
        replayed=len(chosen),
        timing=provenance.timing,
    )


def frontier(
    source: str,
    accelerator_config: str = DEFAULT_ACCELERATOR,
    *,
    rungs: int | None = None,
    memory: MemoryOptions = NO_OPTIONS,
    timing: TimingParameters = DEFAULT_TIMING,
    processes: int | None = None,
    progress: Progress = silent,
    schedules: Path | None = None,
) -> Frontier:
    """The frontier of a model (a path or ``zoo:NAME``), from ``rungs`` memory limits per layout (None: the search's default).

    ``processes`` change how long it takes and nothing else. ``schedules`` is a folder that has the schedules when they are all known and
    the best so far before that; if it was left before its end, the search goes on from there. InputError if the model or a name is wrong.
    """
    task = load_task(source, accelerator_config, memory, rungs=rungs, timing=timing, progress=progress)
    with workers(processes_for(task.network, processes)) as pool:
        executor = resumed(pool, task, schedules)
        found = replayed_frontier(task, search(task, EVERYTHING, executor, progress), executor, show=progress)
        if isinstance(executor, Resumed):
            executor.finish({point.memory: point.schedule for point in found.points})
        return found
