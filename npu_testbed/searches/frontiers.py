"""Frontier: the schedules of a network that no other schedule beats in memory and cycles, each replayed."""

from __future__ import annotations

from concurrent.futures import Executor
from functools import cached_property
from pathlib import Path

from msgspec.structs import replace

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.job.staging import staged_bytes
from cascader.ethosu.network.network import ethosu_part
from cascader.ethosu.schedule.file import digest
from cascader.ethosu.search.floor import require_interface
from cascader.ethosu.search.frontier import LowerBounds, frontier_of
from cascader.ethosu.search.limits import EVERYTHING
from cascader.ethosu.search.request import Request, Run
from cascader.ethosu.search.search import SearchResult, explore, search
from cascader.ethosu.search.task import Point, Task
from cascader.search.workers import processes_for, workers
from npu_model.brief import Brief
from npu_model.errors import BudgetError, SearchedError
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.devices.memory_options import memory_system_sha256
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.ground.versions import Tools
from npu_testbed.models.legalise import load_task
from npu_testbed.searches.other_ways import with_other_ways
from npu_testbed.searches.resume import Resumed, resumed

_ALONE = Run(None)


class FrontierPoint(Brief, frozen=True, dict=True):
    """One schedule of the frontier: ``memory`` is the arena to set aside in bytes, and ``cycles`` are the replay's.

    The arena goes from its base to the end of the highest buffer, including tensors of CPU operators, rounded up to 16. ``estimate`` is the
    search's estimate of the cycles; ``schedule`` is self-contained.
    """

    unshown = ("schedule",)

    memory: int
    cycles: int
    estimate: int
    schedule: Schedule

    @property
    def jobs(self) -> int:
        """Stripe jobs: runs of a part for some rows."""
        return len(self.schedule.jobs)

    @cached_property
    def groups(self) -> int:
        """Part groups: the groups into which the parts fall if parts with interleaved jobs stay together."""
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

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates of all kernels."""
        return self.schedule.network.macs

    @property
    def recomputed_macs(self) -> int:
        """Recomputed multiply-accumulates, from tiles and recomputed skips."""
        return self.schedule.network.recomputed_macs

    @property
    def homes(self) -> tuple[str, ...]:
        """The tensors whose home is outside the arena."""
        return tuple(home.tensor for home in self.schedule.network.homes)

    @property
    def estimate_error(self) -> float:
        """Relative error of the search's estimate."""
        return self.estimate / self.cycles - 1

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the schedule, which its file also contains."""
        return digest(self.schedule)


class Frontier(Brief, frozen=True):
    """The Pareto points of a network by ascending memory, with the terms of their search and replay."""

    unshown = ("near",)

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
    near: tuple[FrontierPoint, ...] = ()
    """Schedules that are at most a per cent worse than a point. One may replace the point if its claim holds under more timings."""

    def within(self, memory: int) -> FrontierPoint | None:
        """The fastest point that needs at most ``memory`` bytes; None if there is none."""
        return max((point for point in self.points if point.memory <= memory), key=lambda point: point.memory, default=None)

    def at_most(self, cycles: int) -> FrontierPoint | None:
        """The smallest point with at most ``cycles``; None if there is none."""
        return min((point for point in self.points if point.cycles <= cycles), key=lambda point: point.memory, default=None)


def within_bound(found: Frontier, bound: int | None) -> Frontier:
    """The points that need at most ``bound`` bytes (None: all); SearchedError that names the smallest arena if there is none."""
    if bound is None:
        return found
    points = tuple(point for point in found.points if point.memory <= bound)
    if not points:
        raise SearchedError(
            f"No schedule was found that fits into {bound} bytes: {found.points[0].memory} bytes are the smallest arena reached; "
            "allow that much, by --arena-cache-size or by the memory mode."
        )
    return replace(found, points=points, near=tuple(point for point in found.near if point.memory <= bound))


def replayed_frontier(
    task: Task,
    found: SearchResult,
    executor: Executor,
    budgets: tuple[int, ...] = (),
    targets: tuple[int, ...] = (),
    show: Progress = silent,
) -> Frontier:
    """The frontier of a search's results, as :func:`~cascader.ethosu.search.frontier.frontier_of` makes it, with its origin."""

    def point(found: Point) -> FrontierPoint:
        return FrontierPoint(found.memory, found.cycles, found.estimate, found.schedule)

    culled = frontier_of(task, found, executor, budgets, targets, show)
    provenance = task.provenance
    return Frontier(
        model=provenance.model,
        model_sha256=provenance.model_sha256,
        accelerator=task.accelerator,
        memory_system=task.system.name,
        memory_system_sha256=memory_system_sha256(task.system),
        clock_hz=task.system.clock_hz,
        tools=provenance.tools,
        points=tuple(map(point, culled.points)),
        bounds=culled.bounds,
        candidates=culled.drafts,
        replayed=culled.replayed,
        timing=provenance.timing,
        near=tuple(map(point, culled.near)),
    )


def frontier(request: Request, run: Run = _ALONE, schedules: Path | None = None) -> Frontier:
    """The frontier of a request: all schedules within its budget that no other schedule beats.

    ``schedules`` is a folder for the schedules, and during the search for the best so far. An interrupted search continues from this
    folder. InputError if the model or a name is wrong, or no point fits.
    """
    task = load_task(request, run.show)
    try:
        require_interface(task, request)
        with workers(processes_for(len(task.network.graph.parts), run.processes), takes_part=True) as pool:
            executor = resumed(pool, task, schedules)
            everything = replace(EVERYTHING, thorough=request.thorough)
            made = search(explore(task, executor, run.show), everything, executor, run.show)
            budgets = () if request.budget is None else (request.budget,)
            found = within_bound(replayed_frontier(task, made, executor, budgets, show=run.show), request.budget)
            if isinstance(executor, Resumed):
                executor.finish({point.memory: point.schedule for point in found.points})
            return found
    except BudgetError as error:
        raise with_other_ways(error, request, run) from None
