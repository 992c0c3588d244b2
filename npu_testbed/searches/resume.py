"""A search that can be interrupted: the answer of each call is kept, and answered calls are not repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path, PurePath
from threading import Lock
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cascader.draft.draft import Draft
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.schedule.drafts import require_draft_of
from cascader.ethosu.search import remote_calls
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.task import Task
from cascader.ethosu.verify.check import check_schedule
from cascader.search.workers import Directed
from npu_model.documents import plain, typed
from npu_model.errors import InputError
from npu_testbed.ground.answers import FOLDER, Answers, key_of
from npu_testbed.ground.files import remove_leftovers, require_folder, write_file
from npu_testbed.models.sources import ZOO
from npu_testbed.replays import vela_runs
from npu_testbed.replays.scheduling import schedule_file


def point_name(stem: str, memory: int) -> str:
    """Name of the schedule file of a point: names sort by bytes.

    >>> point_name("net", 9280)
    'net_0000009280.json'
    """
    return f"{stem}_{memory:010d}.json"


def _write(schedule: Schedule, path: Path) -> None:
    """Write the file of a point, under a name of ours."""
    write_file(path, schedule_file(schedule), follow=False)


class PointFiles:
    """The files of one model's points; InputError if the folder cannot be made or written to."""

    def __init__(self, folder: Path, model: str) -> None:
        require_folder(folder)
        remove_leftovers(folder)
        self.folder = folder
        self._stem = PurePath(model.removeprefix(ZOO)).stem
        self._points: dict[tuple[int, int], Path] = {}
        # New answers arrive in the executor's thread, known answers in the caller's.
        self._lock = Lock()

    def replayed(self, schedule: Schedule, cycles: int) -> None:
        """Write a schedule unless another one is better; remove the schedules that it beats."""
        memory = schedule.arena_size
        with self._lock, suppress(InputError, OSError):
            if any(size <= memory and fast <= cycles for size, fast in self._points):
                return
            path = self.folder / point_name(self._stem, memory)
            _write(schedule, path)
            for one in [(size, slow) for size, slow in self._points if memory <= size and cycles <= slow]:
                old = self._points.pop(one)
                if old != path:
                    old.unlink(missing_ok=True)
            self._points[memory, cycles] = path

    def finish(self, schedules: Mapping[int, Schedule]) -> None:
        """Keep the schedules, named by their bytes, and remove our other files."""
        final = {self.folder / point_name(self._stem, memory): schedule for memory, schedule in schedules.items()}
        for path in self._points.values():
            if path not in final:
                path.unlink(missing_ok=True)
        for path, schedule in final.items():
            _write(schedule, path)


T = TypeVar("T")


def _read(kind: Any) -> Callable[..., Any]:
    """The reader of an answer of some type."""
    return lambda given, *_: typed(kind, given)


def _checked(kind: Any, drafts: Callable[[Any], Iterable[Draft]]) -> Callable[..., Any]:
    """The reader of an answer with ``drafts`` of a form; InputError if a draft breaks a rule of schedules."""

    def value(given: Any, form: Form, *_: object) -> Any:
        found = typed(kind, given)
        for draft in drafts(found):
            require_draft_of(draft, form.network)
            check_schedule(form.schedule(draft))
        return found

    return value


_DRAFTS = _checked(tuple[Draft, ...], iter)
_CHANGED = _checked(tuple[Draft, int], lambda found: found[:1])
_STARTS = _checked(tuple[tuple[Draft, int], ...], lambda found: (draft for draft, _cycles in found))


@lru_cache(maxsize=8)
def _form(form: Form) -> str:
    """The key of a form, from everything that determines its plans."""
    machine = form.accelerator, plain(form.system), plain(form.provenance.timing)
    return key_of([plain(replace(form.network, constants=b"")), *machine, repr(form.options)], form.network.constants)


def _form_key(form: Form, *wanted: object) -> str:
    return key_of([_form(form), repr(wanted)])


def _draft_key(draft: Draft, form: Form, *wanted: object) -> str:
    return key_of([_form(form), plain(draft), *map(repr, wanted)])


def _change_key(form: Form, draft: Draft, *wanted: object) -> str:
    return _draft_key(draft, form, *wanted)


class _Kind(Struct, frozen=True):
    """A kind of call: the key of its arguments, its answer as JSON, and back with its arguments.

    An answer whose JSON form is None is not kept.
    """

    key: Callable[..., str]
    plain: Callable[[Any], Any]
    value: Callable[..., Any]


_KINDS: dict[object, _Kind] = {
    remote_calls.outline: _Kind(_form_key, plain, _read(remote_calls.FormLimits)),
    remote_calls.least_of_plans: _Kind(_form_key, plain, _read(int)),
    remote_calls.unbounded: _Kind(_form_key, plain, _read(int)),
    remote_calls.least_bytes: _Kind(_form_key, plain, _read(int)),
    remote_calls.promise: _Kind(_form_key, plain, _read(int | None)),
    remote_calls.at_limit: _Kind(_form_key, plain, _DRAFTS),
    remote_calls.without_blocks: _Kind(_form_key, plain, _DRAFTS),
    remote_calls.in_blocks: _Kind(_change_key, plain, _checked(Draft, lambda draft: (draft,))),
    remote_calls.smallest: _Kind(_form_key, plain, _DRAFTS),
    remote_calls.other_starts: _Kind(_form_key, plain, _STARTS),
    remote_calls.less_room: _Kind(_change_key, plain, _STARTS),
    remote_calls.issued_later: _Kind(_change_key, plain, _CHANGED),
    remote_calls.change: _Kind(_change_key, plain, _CHANGED),
    remote_calls.replay: _Kind(_draft_key, plain, _read(int)),
    vela_runs.outcomes: _Kind(vela_runs.outcomes_key, vela_runs.outcomes_json, vela_runs.outcomes_of),
}


class Resumed(Executor):
    """An executor that keeps the answers of its calls and, with ``points``, the best schedules so far as files."""

    def __init__(self, executor: Executor, answers: Answers, points: PointFiles | None = None) -> None:
        self._executor, self._answers, self._points = executor, answers, points

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """The known answer, or a new one, which is then kept. No answer depends on the process that takes a call."""
        function = fn.function if isinstance(fn, Directed) else fn
        kind = _KINDS.get(function)
        if kind is None:
            return self._executor.submit(fn, *args, **kwargs)
        answer = self._ask(function.__name__, kind, fn, args)
        if function is remote_calls.replay and self._points is not None:
            draft, form, _ = args
            answer.add_done_callback(partial(_replayed, self._points, draft, form))
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
        """Keep the schedules, named by their bytes, and remove our other files in their folder."""
        if self._points is not None:
            self._points.finish(schedules)
            if self._answers.folder == self._points.folder / FOLDER:
                self._answers.remove()


def _replayed(points: PointFiles, draft: Draft, form: Form, done: Future[Any]) -> None:
    if _succeeded(done):
        points.replayed(form.schedule(draft), done.result())


def _succeeded(done: Future[Any]) -> bool:
    return not done.cancelled() and done.exception() is None


def resumed(executor: Executor, task: Task, schedules: Path | None, results: Path | None = None) -> Executor:
    """The executor, with answers kept in ``results``, or during a search in ``schedules``. Unchanged without both."""
    points = None if schedules is None else PointFiles(schedules, task.provenance.model)
    if results is not None:
        return Resumed(executor, Answers(results), points)
    return executor if points is None else Resumed(executor, Answers(points.folder / FOLDER), points)
