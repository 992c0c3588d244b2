"""A search that can be interrupted: what each of its tasks answers is kept in a folder, and what was answered is not asked again.

Answers are JSON, checked as a schedule file is, under the digest of all that they follow from: the plans, the memory system and our own
sources. So a folder may be used for anything, and one from elsewhere can at worst be of no use.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path, PurePath
from threading import Lock
from typing import Any, TypeVar

from cascader.ethosu.cascade import Candidate
from cascader.ethosu.schedule.codec import from_plain, to_plain
from cascader.ethosu.schedule.schedule import Schedule
from cascader.ethosu.verify.check import check_schedule
from cascader.plan.jobs import Buffer, Copy, Job
from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from testbed import search
from testbed.files import require_folder, write_file
from testbed.models import ZOO
from testbed.scheduling import write_schedule
from testbed.versions import tool_versions
from validation.reading import read_text

T = TypeVar("T")

ANSWERS = ".npu-testbed-answers"
"""Folder of the answers, inside the one that is given; it is removed when the work is done."""

_MAX_ANSWER = 1 << 26
_DECISIONS: tuple[tuple[str, Any], ...] = (
    ("jobs", tuple[Job, ...]),
    ("buffers", tuple[Buffer, ...]),
    ("arena_size", int),
    ("copies", tuple[Copy, ...]),
)
"""What a candidate decides; its network is that of the plans that were asked."""


def point_name(stem: str, memory: int) -> str:
    """Name of the schedule file of a point: names sort by bytes.

    >>> point_name("net", 9280)
    'net_0000009280.json'
    """
    return f"{stem}_{memory:010d}.json"


@cache
def _sources() -> bytes:
    """Digest of the code that an answer follows from, and of what it rests on."""
    whole = sha256(repr(tool_versions(())).encode())
    for package in ("npu_model", "cascader", "sim"):
        root = Path(str(resources.files(package)))
        for path in sorted([*root.rglob("*.py"), *root.rglob("*.toml")]):
            whole.update(path.relative_to(root).as_posix().encode() + b"\0" + sha256(path.read_bytes()).digest())
    return whole.digest()


def _candidates_to_plain(candidates: tuple[Candidate, ...]) -> list[dict[str, Any]]:
    return [{"cycles": c.cycles} | {name: to_plain(getattr(c.schedule, name)) for name, _ in _DECISIONS} for c in candidates]


def _candidates_from_plain(pickled: bytes, plain: Any) -> tuple[Candidate, ...]:
    plans = search.kept(pickled)
    found = []
    for one in plain:
        decided = {name: from_plain(kind, one[name]) for name, kind in _DECISIONS}
        schedule = Schedule(plans.accelerator, plans.network, provenance=plans.provenance, **decided)
        check_schedule(schedule)
        found.append(Candidate(schedule, from_plain(int, one["cycles"])))
    return tuple(found)


def _replay_key(schedule: Schedule, system: MemorySystem) -> bytes:
    """The digest of a schedule, without compressing its constants as its file does."""
    plain = to_plain(replace(schedule, network=replace(schedule.network, constants=b"")))
    text = json.dumps([plain, to_plain(system)], sort_keys=True)
    return sha256(text.encode() + sha256(schedule.network.constants).digest()).digest()


class Resumed(Executor):
    """An executor that keeps the answers of a search in a folder, and the best schedules so far as files.

    InputError if the folder cannot be made or written to.
    """

    def __init__(self, executor: Executor, folder: Path, model: str) -> None:
        require_folder(folder)
        require_folder(folder / ANSWERS)
        self._executor, self._folder = executor, folder
        self._stem = PurePath(model.removeprefix(ZOO)).stem
        self._points: dict[tuple[int, int], Path] = {}
        self._lock = Lock()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """The answer that is known, or the one that is asked for now and kept."""
        if fn in (search.at_limit, search.smallest):
            key = sha256(_sources() + repr((fn.__name__, args[1])).encode() + args[0]).hexdigest()
            return self._ask(key, fn, args, _candidates_to_plain, lambda plain: _candidates_from_plain(args[0], plain))
        if fn is search.replay:
            key = sha256(_sources() + _replay_key(*args)).hexdigest()
            answer = self._ask(key, fn, args, lambda cycles: cycles, lambda plain: from_plain(int, plain))
            answer.add_done_callback(lambda done: self._replayed(args[0], done))
            return answer
        return self._executor.submit(fn, *args, **kwargs)

    def _ask(
        self, key: str, fn: Callable[..., Any], args: tuple[Any, ...], plain: Callable[[Any], Any], value: Callable[[Any], Any]
    ) -> Future[Any]:
        path = self._folder / ANSWERS / f"{key}.json"
        # An answer that is damaged is asked for again, whatever is wrong with it.
        with suppress(InputError, ValueError, LookupError, TypeError, RecursionError):
            known = value(json.loads(read_text(path, "Answer", _MAX_ANSWER)))
            answer: Future[Any] = Future()
            answer.set_result(known)
            return answer

        def keep(done: Future[Any]) -> None:
            # The work goes on where nothing can be kept: what is asked for is its result.
            with suppress(InputError):
                if not done.cancelled() and done.exception() is None:
                    write_file(path, json.dumps(plain(done.result())).encode("ascii"))

        asked = self._executor.submit(fn, *args)
        asked.add_done_callback(keep)
        return asked

    def _replayed(self, schedule: Schedule, done: Future[int]) -> None:
        """Write the schedule of a replay unless another one is better; take back those that it betters."""
        if done.cancelled() or done.exception() is not None:
            return
        memory, cycles = schedule.arena_size, done.result()
        # Answers arrive in the executor's thread, those that are known in the caller's.
        with self._lock, suppress(InputError, OSError):
            if any(size <= memory and fast <= cycles for size, fast in self._points):
                return
            path = self._folder / point_name(self._stem, memory)
            write_schedule(schedule, path)
            for one in [(size, slow) for size, slow in self._points if memory <= size and cycles <= slow]:
                old = self._points.pop(one)
                if old != path:
                    old.unlink(missing_ok=True)
            self._points[memory, cycles] = path

    def finish(self, schedules: Mapping[int, Schedule]) -> None:
        """Leave the schedules, by their bytes, and nothing else of ours."""
        final = {self._folder / point_name(self._stem, memory): schedule for memory, schedule in schedules.items()}
        for path in self._points.values():
            if path not in final:
                path.unlink(missing_ok=True)
        for path, schedule in final.items():
            write_schedule(schedule, path)
        shutil.rmtree(self._folder / ANSWERS, ignore_errors=True)
