"""The execution of sweeps: points on executors of any kind, each answer kept as soon as it is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.network.homes import home_bytes
from cascader.ethosu.schedule.file import digest
from cascader.ethosu.search.request import SIZE, Request, Run
from cascader.frontends.vela import Legalised, legalised
from cascader.search.workers import as_completed, default_processes, workers
from npu_model.accelerator import accelerator
from npu_model.documents import typed
from npu_model.errors import InputError
from npu_testbed.comparisons.sweeps.cluster import Cluster, distributed
from npu_testbed.comparisons.sweeps.points import key_of_point, point_json
from npu_testbed.documents.sweep import Answer
from npu_testbed.ground.answers import Answers
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.models.legalise import load_task
from npu_testbed.replays.scheduling import choice_of
from sim import counted_network

AHEAD = 2
"""Points in the queue of a local process: it never waits for its next point, and has no long queue at the end."""


class Result(Struct, frozen=True):
    """A point with its answer."""

    point: Request
    answer: Answer

    @property
    def milliseconds(self) -> float:
        """Time of one inference at the memory system's clock."""
        return self.answer.cycles / self.point.memory.clock_hz * 1000


@lru_cache(maxsize=2)
def _compiled(data: bytes, device: str, ignore_ops: tuple[str, ...]) -> Legalised:
    """Vela's legalised form of a model, which is the same on every memory system and for every budget."""
    return legalised(data, device, ignore_ops)


def answer_of(point: Request) -> Answer:
    """Schedule one point in this process and replay it. A refusal of the input is an answer, too."""
    try:
        task = load_task(point, legaliser=_compiled)
        plan = choice_of(task, point, Run()).point.schedule
    except InputError as error:
        return Answer(refused=str(error))
    replay = counted_network(lower(plan), task.system, point.timing)
    width, beats = accelerator(point.device).port_bytes_per_cycle, replay.beats
    return Answer(
        arena_bytes=plan.arena_size,
        outside_bytes=home_bytes(plan.network),
        macs=plan.network.macs,
        recomputed_macs=plan.network.recomputed_macs,
        cycles=replay.cycles,
        axi0_bytes=(beats.axi0_read + beats.axi0_write) * width,
        axi1_bytes=(beats.axi1_read + beats.axi1_write) * width,
        schedule_sha256=digest(plan),
    )


def _kept(value: Any) -> Answer:
    """The answer in a kept file; ValueError (InputError), TypeError or LookupError if it holds none."""
    found = typed(Answer, value["answer"])
    if not found.refused and found.cycles < 1:
        raise ValueError("It is not an answer.")
    return found


def _worked_out(points: Sequence[Request], executor: Executor, window: int) -> Iterator[tuple[Request, Answer]]:
    """Yield the points with their answers as they come, at most ``window`` points at a time."""
    waiting = iter(points)
    running: dict[Future[Answer], Request] = {}
    while True:
        for point in waiting:
            running[executor.submit(answer_of, point)] = point
            if len(running) >= window:
                break
        if not running:
            return
        done = next(as_completed(running))
        yield running.pop(done), done.result()


def _is_worth_more(kept: Result, result: Result) -> bool:
    """Whether a smaller budget's answer is better than a larger budget's own.

    With a tolerance, the smaller of two close arenas is better.
    """
    within = result.point.within
    if within and result.answer.cycles <= kept.answer.cycles * (1 + within):
        return kept.answer.arena_bytes < result.answer.arena_bytes and kept.answer.cycles <= result.answer.cycles
    return _rank(kept) <= _rank(result)


def _rank(result: Result) -> tuple[int, int]:
    """Sort key; a smaller one is better: cycles and then bytes, or with Size bytes and then cycles."""
    answer = result.answer
    return (answer.arena_bytes, answer.cycles) if result.point.optimise == SIZE else (answer.cycles, answer.arena_bytes)


def handed_on(results: Sequence[Result]) -> tuple[Result, ...]:
    """The results, each with the best answer of all points that differ from its own in a smaller budget alone.

    A schedule for a smaller budget also fits a larger one. A search with a larger budget takes another path, which may end worse.
    """
    alike: dict[Request, list[Result]] = {}
    for result in results:
        alike.setdefault(replace(result.point, budget=None), []).append(result)
    best: dict[Request, Answer] = {}
    for some in alike.values():
        kept: Result | None = None
        for result in sorted(some, key=lambda one: (one.point.budget is None, one.point.budget or 0)):
            if not result.answer.refused and (kept is None or not _is_worth_more(kept, result)):
                kept = result
            best[result.point] = result.answer if kept is None else kept.answer
    return tuple(Result(result.point, best[result.point]) for result in results)


def sweep(
    points: Sequence[Request],
    *,
    results: Path | None = None,
    processes: int | None = None,
    cluster: Cluster | None = None,
    progress: Progress = silent,
) -> tuple[Result, ...]:
    """The answers of all points, in their order, from this machine's processes or those of a Dask ``cluster``.

    A larger budget takes a smaller budget's answer if that is better: :func:`handed_on`. The folder ``results`` keeps each point's own
    answer in a file as soon as it is known, and kept answers are not computed again.
    """
    kept = None if results is None else Answers(results, packed=False)
    keys = {point: key_of_point(point) for point in points}
    found: dict[Request, Answer] = {}
    if kept is not None:
        known = ((point, kept.find(key, _kept)) for point, key in keys.items())
        found |= {point: answer for point, answer in known if answer is not None}
    todo = [point for point in keys if point not in found]
    already = f", {len(found)} of them known already" if found else ""
    if not todo:
        return handed_on([Result(point, found[point]) for point in points])
    count = min(default_processes() if processes is None else processes, len(todo))
    with workers(count) if cluster is None else distributed(cluster) as executor:
        progress(f"Sweeping: {len(found)} of {len(keys)} points{already}")
        for point, answer in _worked_out(todo, executor, AHEAD * count if cluster is None else len(todo)):
            found[point] = answer
            if kept is not None:
                kept.keep(keys[point], {"point": point_json(point), "answer": asdict(answer)})
            progress(f"Sweeping: {len(found)} of {len(keys)} points{already}")
    return handed_on([Result(point, found[point]) for point in points])
