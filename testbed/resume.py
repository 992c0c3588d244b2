"""A search that can be interrupted: what each of its tasks answers is kept, and what was answered is not asked again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from cascader.ethosu.cascade import Candidate
from cascader.ethosu.schedule.codec import from_plain, to_plain
from cascader.ethosu.schedule.schedule import Schedule
from cascader.ethosu.verify.check import check_schedule
from cascader.plan.jobs import Buffer, Copy, Job
from npu_model.memory.system import MemorySystem
from testbed import search
from testbed.answers import FOLDER, Answers, key_of
from testbed.compare import vela_points
from testbed.point_files import PointFiles

T = TypeVar("T")

_DECISIONS: tuple[tuple[str, Any], ...] = (
    ("jobs", tuple[Job, ...]),
    ("buffers", tuple[Buffer, ...]),
    ("arena_size", int),
    ("copies", tuple[Copy, ...]),
)
"""The decisions of a candidate; its network is that of the plans that were asked."""


def _candidates_to_plain(candidates: tuple[Candidate, ...]) -> list[dict[str, Any]]:
    return [{"cycles": c.cycles} | {name: to_plain(getattr(c.schedule, name)) for name, _ in _DECISIONS} for c in candidates]


def _candidates_from_plain(plain: Any, pickled: bytes, _wanted: object) -> tuple[Candidate, ...]:
    plans = search.kept(pickled)
    found = []
    for one in plain:
        decided = {name: from_plain(kind, one[name]) for name, kind in _DECISIONS}
        schedule = Schedule(plans.accelerator, plans.network, provenance=plans.provenance, **decided)
        check_schedule(schedule)
        found.append(Candidate(schedule, from_plain(int, one["cycles"])))
    return tuple(found)


@lru_cache(maxsize=8)
def _plans(pickled: bytes) -> str:
    """The key of plans: of what they follow from, as the bytes of a pickle depend on what else their process has worked out."""
    plans = search.kept(pickled)
    plain = to_plain(replace(plans.network, constants=b""))
    return key_of([plain, plans.accelerator, repr(plans.options), to_plain(plans.provenance.timing)], plans.network.constants)


def _plans_key(system: MemorySystem, pickled: bytes, wanted: object) -> str:
    return key_of([_plans(pickled), to_plain(system), repr(wanted)])


def _replay_key(_system: MemorySystem, schedule: Schedule, system: MemorySystem) -> str:
    """The digest of a schedule, without compressing its constants as its file does."""
    plain = to_plain(replace(schedule, network=replace(schedule.network, constants=b"")))
    return key_of([plain, to_plain(system)], schedule.network.constants)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of task: the key of the search's memory system and its arguments, its answer as JSON, and back with its arguments.

    An answer whose JSON form is None is not kept.
    """

    key: Callable[..., str]
    plain: Callable[[Any], Any]
    value: Callable[..., Any]


_KINDS: dict[object, _Kind] = {
    search.at_limit: _Kind(_plans_key, _candidates_to_plain, _candidates_from_plain),
    search.smallest: _Kind(_plans_key, _candidates_to_plain, _candidates_from_plain),
    search.replay: _Kind(_replay_key, lambda cycles: cycles, lambda plain, *_: from_plain(int, plain)),
    vela_points.outcome: _Kind(
        lambda _, *args: vela_points.outcome_key(*args), vela_points.outcome_json, lambda plain, _, run: vela_points.outcome_of(plain, run)
    ),
}


class Resumed(Executor):
    """An executor that keeps what its tasks answer, and, with ``points``, the best schedules so far as files."""

    def __init__(self, executor: Executor, answers: Answers, system: MemorySystem, points: PointFiles | None = None) -> None:
        self._executor, self._answers, self._system, self._points = executor, answers, system, points

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """The answer that is known, or the one that is asked for now and kept."""
        kind = _KINDS.get(fn)
        if kind is None:
            return self._executor.submit(fn, *args, **kwargs)
        answer = self._ask(fn.__name__, kind, fn, args)
        if fn is search.replay and self._points is not None:
            answer.add_done_callback(partial(_replayed, self._points, args[0]))
        return answer

    def _ask(self, name: str, kind: _Kind, fn: Callable[..., Any], args: tuple[Any, ...]) -> Future[Any]:
        key = key_of([name, kind.key(self._system, *args)])
        known = self._answers.find(key, lambda plain: kind.value(plain, *args))
        if known is not None:
            answer: Future[Any] = Future()
            answer.set_result(known)
            return answer

        def keep(done: Future[Any]) -> None:
            plain = kind.plain(done.result()) if _succeeded(done) else None
            if plain is not None:
                self._answers.keep(key, plain)

        asked = self._executor.submit(fn, *args)
        asked.add_done_callback(keep)
        return asked

    def finish(self, schedules: Mapping[int, Schedule]) -> None:
        """Leave the schedules, by their bytes, and nothing else of ours in their folder."""
        if self._points is not None:
            self._points.finish(schedules)
            if self._answers.folder == self._points.folder / FOLDER:
                self._answers.remove()


def _replayed(points: PointFiles, schedule: Schedule, done: Future[Any]) -> None:
    if _succeeded(done):
        points.replayed(schedule, done.result())


def _succeeded(done: Future[Any]) -> bool:
    return not done.cancelled() and done.exception() is None


def resumed(executor: Executor, task: search.Task, schedules: Path | None, results: Path | None = None) -> Executor:
    """The executor, with answers kept in ``results``, or while ``schedules`` are searched in a folder there; as it is without both."""
    points = None if schedules is None else PointFiles(schedules, task.provenance.model)
    if results is not None:
        return Resumed(executor, Answers(results), task.system, points)
    return executor if points is None else Resumed(executor, Answers(points.folder / FOLDER), task.system, points)
