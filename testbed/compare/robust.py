"""Robust verdicts: both sides of a comparison replayed under every change of the timing model that public data cannot exclude."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.schedule import Schedule
from npu_model.memory.system import MemorySystem
from npu_model.timing import TimingParameters
from sim import quick_cycles
from testbed.compare.comparison import Answer
from testbed.compare.vela_points import VelaRun, VelaTask, vela_network
from testbed.compare.verdicts import SLOWEST
from testbed.frontier import FrontierPoint
from testbed.progress import Progress, silent
from validation.fvp.undecided import Change, undecided

Timings = tuple[TimingParameters, ...]


def our_cycles(schedule: Schedule, system: MemorySystem, timings: Timings) -> tuple[int, ...]:
    """Cycles of a schedule with each of some timings."""
    network = lower(schedule)
    return tuple(quick_cycles(network, system, timing) for timing in timings)


def vela_cycles(task: VelaTask, run: VelaRun, timings: Timings) -> tuple[int, ...]:
    """Cycles of one compilation of Vela's with each of some timings."""
    network = vela_network(task, run)
    return tuple(quick_cycles(network, task.system, timing) for timing in timings)


@dataclass(frozen=True, slots=True)
class RobustAnswer:
    """The ratio of cycles, ours to Vela's, of one answer under every change of the model, and what its claim depends on.

    ``ratio`` is the model's own, ``low`` and ``high`` are the ends of the range with it among them. ``bound`` is the ratio that the claim
    needs, None if nothing is claimed of cycles. ``against`` are the changes under which it is exceeded, those alone before pairs, the worst
    first. ``holds_at`` is then the smallest larger arena of ours, below Vela's, whose schedule keeps the bound; None if there is none.
    """

    ratio: float
    low: float
    high: float
    bound: float | None
    against: tuple[str, ...]
    holds_at: int | None = None

    @property
    def holds(self) -> bool:
        """Whether the claim holds, if need be with a larger arena that is still smaller than Vela's."""
        return self.bound is not None and (not self.against or self.holds_at is not None)

    @property
    def verdict(self) -> str:
        """Whether the claim holds under all changes, or the change that it depends on most.

        One change alone is named before two together.
        """
        if self.bound is None:
            return "-"
        if not self.against:
            return "holds"
        return f"depends on: {self.against[0]}" + ("" if self.holds_at is None else f"; holds at {self.holds_at:,} bytes")


def needed_ratio(answer: Answer) -> float | None:
    """The largest ratio of cycles, ours to Vela's, at which the claim of an answer stands; None if nothing is claimed of cycles.

    In at most Vela's bytes the claim is that ours is faster. In at most Vela's cycles the claim is fewer bytes, which stands up to
    :data:`~testbed.compare.verdicts.SLOWEST`. The smallest is claimed to be nothing but small.
    """
    if answer.ours is None or answer.cycles_ratio is None or answer.condition == "smallest":
        return None
    if answer.condition.endswith("cycles or fewer"):
        return SLOWEST
    return 1.0 if answer.cycles_ratio < 1 else None


def judged(answer: Answer, changes: Sequence[Change], ours: Sequence[int], vela: Sequence[int]) -> RobustAnswer:
    """The verdict on an answer from the cycles of both sides under each of the changes."""
    ratio, bound = answer.cycles_ratio, needed_ratio(answer)
    assert ratio is not None  # noqa: S101  # there is a schedule of ours
    ratios = [one / other for one, other in zip(ours, vela, strict=True)]
    broken = [(len(change.names), -r, change.name) for change, r in zip(changes, ratios, strict=True) if bound is not None and r > bound]
    return RobustAnswer(ratio, min(ratio, *ratios), max(ratio, *ratios), bound, tuple(name for _, _, name in sorted(broken)))


def _holding(
    points: Sequence[FrontierPoint],
    answer: Answer,
    bound: float,
    theirs: Sequence[int],
    cycles_of: Callable[[FrontierPoint], tuple[int, ...]],
) -> int | None:
    """The smallest arena above an answer's and below Vela's whose schedule keeps the bound under every change; None if there is none."""
    assert answer.ours is not None  # noqa: S101  # only an answer has a verdict
    for point in sorted(points, key=lambda one: one.memory):
        larger = answer.ours.memory < point.memory < answer.vela.memory
        if larger and all(one <= bound * other for one, other in zip(cycles_of(point), theirs, strict=True)):
            return point.memory
    return None


def robust_answers(
    answers: Sequence[Answer], points: Sequence[FrontierPoint], task: VelaTask, executor: Executor, show: Progress = silent
) -> tuple[RobustAnswer | None, ...]:
    """For each answer its range and verdict, on the memories and around the timing of ``task``; None where ours has no schedule.

    For a claim of bytes that does not hold, the next larger of our ``points`` are tried.
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

    found: list[RobustAnswer | None] = []
    for answer in answers:
        if answer.ours is None:
            found.append(None)
            continue
        theirs = vela[answer.vela.run].result()
        verdict = judged(answer, changes, ours[answer.ours.digest].result(), theirs)
        if verdict.against and verdict.bound == SLOWEST:
            verdict = replace(verdict, holds_at=_holding(points, answer, SLOWEST, theirs, cycles_of))
        found.append(verdict)
    return tuple(found)
