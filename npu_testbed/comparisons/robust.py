"""Robust verdicts: both sides of a comparison replayed under every change of the timing model that public data cannot exclude."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.search.frontier import NEAR
from cascader.ethosu.verify.check import check_schedule
from npu_model.memory.system import MemorySystem
from npu_model.timing import TimingParameters
from npu_testbed.comparisons.answer import SLOWEST, SMALLEST, BestAnswer
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.replays.vela_runs import VelaRun, VelaTask, vela_network
from npu_testbed.searches.frontiers import Frontier, FrontierPoint
from sim import quick_cycles
from validation.fvp.undecided import Change, undecided

Timings = tuple[TimingParameters, ...]


def our_cycles(schedule: Schedule, system: MemorySystem, timings: Timings) -> tuple[int, ...]:
    """Cycles of a schedule under each of some timings."""
    network = lower(schedule)
    return tuple(quick_cycles(network, system, timing) for timing in timings)


def vela_cycles(task: VelaTask, run: VelaRun, timings: Timings) -> tuple[int, ...]:
    """Cycles of one compilation of Vela's under each of some timings."""
    network = vela_network(task, run)
    system = task.replayed_on(network)
    return tuple(quick_cycles(network, system, timing) for timing in timings)


class RobustAnswer(Struct, frozen=True):
    """The ratio of cycles, ours to Vela's, of one answer under every change of the model, and the changes that its claim depends on.

    ``ratio`` is the model's own, ``low`` and ``high`` are the ends of the range with it among them. ``bound`` is the ratio that the claim
    needs, None for a claim without cycles. ``against`` are the changes that break the bound: single changes before pairs, the worst first.
    ``holds_at`` is then the smallest larger arena of ours, below Vela's, whose schedule keeps the bound; None if there is none.
    ``instead_of`` is the best answer under the model's own timing, if its claim does not hold and this answer, at most a per cent worse,
    replaces it.
    """

    ratio: float
    low: float
    high: float
    bound: float | None
    against: tuple[str, ...]
    holds_at: int | None = None
    instead_of: FrontierPoint | None = None

    @property
    def holds(self) -> bool:
        """Whether the claim holds, if necessary with a larger arena that is still smaller than Vela's."""
        return self.bound is not None and (not self.against or self.holds_at is not None)

    @property
    def verdict(self) -> str:
        """Whether the claim holds under all changes, or the change that it depends on most.

        A single change is named before a pair.
        """
        if self.bound is None:
            return "-"
        if not self.against:
            best = self.instead_of
            return "holds" + ("" if best is None else f"; the best, {best.cycles:,} cycles in {best.memory:,} bytes, does not")
        return f"depends on: {self.against[0]}" + ("" if self.holds_at is None else f"; holds at {self.holds_at:,} bytes")


def needed_ratio(answer: BestAnswer) -> float | None:
    """The largest ratio of cycles, ours to Vela's, at which the claim of an answer stands; None if nothing is claimed of cycles.

    Within Vela's bytes, the claim is that ours is faster. Within Vela's cycles, the claim is fewer bytes, which stands up to
    :data:`~npu_testbed.comparisons.answer.SLOWEST`. The smallest schedule claims nothing about cycles.
    """
    if answer.ours is None or answer.cycles_ratio is None or answer.condition == SMALLEST:
        return None
    if answer.condition.endswith("cycles or fewer"):
        return SLOWEST
    return 1.0 if answer.cycles_ratio < 1 else None


def judged(answer: BestAnswer, changes: Sequence[Change], ours: Sequence[int], vela: Sequence[int]) -> RobustAnswer:
    """The verdict on an answer from the cycles of both sides under each of the changes."""
    ratio, bound = answer.cycles_ratio, needed_ratio(answer)
    assert ratio is not None  # noqa: S101  # there is a schedule of ours
    ratios = [one / other for one, other in zip(ours, vela, strict=True)]
    broken = [(len(change.names), -r, change.name) for change, r in zip(changes, ratios, strict=True) if bound is not None and r > bound]
    return RobustAnswer(ratio, min(ratio, *ratios), max(ratio, *ratios), bound, tuple(name for _, _, name in sorted(broken)))


TRIED = 8
"""Largest number of schedules that are tried when a claim does not hold."""


def tied(frontier: Frontier, answer: BestAnswer) -> tuple[FrontierPoint, ...]:
    """The schedules that may replace an answer, the nearest first.

    They keep the answer's condition, and are worse by at most :data:`~cascader.ethosu.search.frontier.NEAR`. All have passed the check.
    """
    ours, vela = answer.ours, answer.vela
    assert ours is not None  # noqa: S101  # only an answer has a verdict
    others = [point for point in (*frontier.points, *frontier.near) if point is not ours]
    if answer.condition.endswith("cycles or fewer"):
        most, cycles = int(ours.memory * (1 + NEAR)), vela.cycles
        order = attrgetter("memory", "cycles")
    else:
        most, cycles = vela.memory, int(ours.cycles * (1 + NEAR))
        order = attrgetter("cycles", "memory")
    found = {order(point): point for point in others if point.memory <= min(most, vela.memory) and point.cycles <= cycles}
    nearest = tuple(found[key] for key in sorted(found)[:TRIED])
    for point in nearest:
        check_schedule(point.schedule)
    return nearest


def _holding(
    points: Sequence[FrontierPoint],
    answer: BestAnswer,
    bound: float,
    theirs: Sequence[int],
    cycles_of: Callable[[FrontierPoint], tuple[int, ...]],
) -> int | None:
    """The smallest arena between an answer's and Vela's whose schedule keeps the bound under every change; None if there is none."""
    assert answer.ours is not None  # noqa: S101  # only an answer has a verdict
    for point in sorted(points, key=lambda one: one.memory):
        larger = answer.ours.memory < point.memory < answer.vela.memory
        if larger and all(one <= bound * other for one, other in zip(cycles_of(point), theirs, strict=True)):
            return point.memory
    return None


def robust_answers(
    answers: Sequence[BestAnswer], frontier: Frontier, task: VelaTask, executor: Executor, show: Progress = silent
) -> tuple[tuple[BestAnswer, RobustAnswer | None], ...]:
    """Each answer with its range and verdict, on the memories and around the timing of ``task``; None where ours has no schedule.

    An answer whose claim does not hold is replaced by an answer whose claim does and that is at most a per cent worse, if one exists. For a
    claim of bytes the next larger points of our frontier are tried then.
    """
    changes = undecided()
    timings = tuple(change.timing(task.timing) for change in changes)
    schedules = {answer.ours.digest: answer.ours.schedule for answer in answers if answer.ours is not None}
    runs = dict.fromkeys(answer.vela.run for answer in answers if answer.ours is not None)
    show(f"Replaying {len(schedules) + len(runs)} schedules under {len(changes)} changes of the model")
    ours = {name: executor.submit(our_cycles, schedule, task.system, timings) for name, schedule in schedules.items()}
    vela = {run: executor.submit(vela_cycles, task, run, timings) for run in runs}

    def cycles_of(point: FrontierPoint) -> tuple[int, ...]:
        return executor.submit(our_cycles, point.schedule, task.system, timings).result()

    found: list[tuple[BestAnswer, RobustAnswer | None]] = []
    for answer in answers:
        if answer.ours is None:
            found.append((answer, None))
            continue
        theirs = vela[answer.vela.run].result()
        verdict = judged(answer, changes, ours[answer.ours.digest].result(), theirs)
        others = (replace(answer, ours=point) for point in tied(frontier, answer)) if verdict.against else ()
        judgements = ((other, judged(other, changes, cycles_of(other.ours), theirs)) for other in others if other.ours is not None)
        better = next(((other, one) for other, one in judgements if one.bound is not None and not one.against), None)
        if better is not None:
            found.append((better[0], replace(better[1], instead_of=answer.ours)))
            continue
        if verdict.against and verdict.bound == SLOWEST:
            verdict = replace(verdict, holds_at=_holding(frontier.points, answer, SLOWEST, theirs, cycles_of))
        found.append((answer, verdict))
    return tuple(found)
