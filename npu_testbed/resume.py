"""A search that can be interrupted: what each of its errands answers is kept, and what was answered is not asked again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.search import errands
from cascader.ethosu.search.errands import Decisions
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.task import Task
from cascader.ethosu.verify.check import check_schedule
from npu_model.documents import plain, typed
from npu_testbed.answers import FOLDER, Answers, key_of
from npu_testbed.comparisons import vela_runs
from npu_testbed.point_files import PointFiles

T = TypeVar("T")


def _decisions_from_plain(given: Any, form: Form, *_: object) -> tuple[Decisions, ...]:
    found = typed(tuple[Decisions, ...], given)
    for decided in found:
        check_schedule(decided.schedule(form))
    return found


def _change_from_plain(given: Any, form: Form, *_: object) -> tuple[Decisions, int]:
    decided, cycles = typed(tuple[Decisions, int], given)
    check_schedule(decided.schedule(form))
    return decided, cycles


def _elsewhere_from_plain(given: Any, form: Form, *_: object) -> tuple[tuple[Decisions, int], ...]:
    found = typed(tuple[tuple[Decisions, int], ...], given)
    for decided, _cycles in found:
        check_schedule(decided.schedule(form))
    return found


@lru_cache(maxsize=8)
def _form(form: Form) -> str:
    """The key of a form: of what its plans follow from."""
    machine = form.accelerator, plain(form.system), plain(form.provenance.timing)
    return key_of([plain(replace(form.network, constants=b"")), *machine, repr(form.options)], form.network.constants)


def _form_key(form: Form, *wanted: object) -> str:
    return key_of([_form(form), repr(wanted)])


def _decisions_key(decisions: Decisions, form: Form, *wanted: object) -> str:
    return key_of([_form(form), plain(decisions), *map(repr, wanted)])


def _turn_key(_turn: errands.Turn, decisions: Decisions, form: Form, *wanted: object) -> str:
    """As :func:`_decisions_key`: no answer depends on which process has its turn."""
    return _decisions_key(decisions, form, *wanted)


def _change_key(form: Form, decisions: Decisions, *wanted: object) -> str:
    return _decisions_key(decisions, form, *wanted)


_COUNT: Any = int | None
"""An answer that may be none."""


class _Kind(Struct, frozen=True):
    """A kind of errand: the key of its arguments, its answer as JSON, and back with its arguments.

    An answer whose JSON form is None is not kept.
    """

    key: Callable[..., str]
    plain: Callable[[Any], Any]
    value: Callable[..., Any]


_KINDS: dict[object, _Kind] = {
    errands.outline: _Kind(_form_key, plain, lambda given, *_: typed(errands.Outline, given)),
    errands.promise: _Kind(_form_key, plain, lambda given, *_: typed(_COUNT, given)),
    errands.at_limit: _Kind(_form_key, plain, _decisions_from_plain),
    errands.smallest: _Kind(_form_key, plain, _decisions_from_plain),
    errands.elsewhere: _Kind(_form_key, plain, _elsewhere_from_plain),
    errands.change: _Kind(_change_key, plain, _change_from_plain),
    errands.replay: _Kind(_decisions_key, plain, lambda given, *_: typed(int, given)),
    errands.replay_in_turn: _Kind(_turn_key, plain, lambda given, *_: typed(int, given)),
    vela_runs.outcomes: _Kind(vela_runs.outcomes_key, vela_runs.outcomes_json, vela_runs.outcomes_of),
}


class Resumed(Executor):
    """An executor that keeps what its errands answer, and, with ``points``, the best schedules so far as files."""

    def __init__(self, executor: Executor, answers: Answers, points: PointFiles | None = None) -> None:
        self._executor, self._answers, self._points = executor, answers, points

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """The answer that is known, or the one that is asked for now and kept."""
        kind = _KINDS.get(fn)
        if kind is None:
            return self._executor.submit(fn, *args, **kwargs)
        answer = self._ask(fn.__name__, kind, fn, args)
        if fn in (errands.replay, errands.replay_in_turn) and self._points is not None:
            decisions, form, _ = args[-3:]
            answer.add_done_callback(partial(_replayed, self._points, decisions, form))
        return answer

    def _ask(self, name: str, kind: _Kind, fn: Callable[..., Any], args: tuple[Any, ...]) -> Future[Any]:
        key = key_of([name, kind.key(*args)])
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


def _replayed(points: PointFiles, decisions: Decisions, form: Form, done: Future[Any]) -> None:
    if _succeeded(done):
        points.replayed(decisions.schedule(form), done.result())


def _succeeded(done: Future[Any]) -> bool:
    return not done.cancelled() and done.exception() is None


def resumed(executor: Executor, task: Task, schedules: Path | None, results: Path | None = None) -> Executor:
    """The executor, with answers kept in ``results``, or while ``schedules`` are searched in a folder there; as it is without both."""
    points = None if schedules is None else PointFiles(schedules, task.provenance.model)
    if results is not None:
        return Resumed(executor, Answers(results), points)
    return executor if points is None else Resumed(executor, Answers(points.folder / FOLDER), points)
