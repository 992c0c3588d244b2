"""The schedules of a frontier as files in a folder: the best so far during the search, and the points at the end, named by their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from threading import Lock

from cascader.ethosu.job.schedule import Schedule
from npu_model.errors import InputError
from npu_testbed.ground.files import remove_leftovers, require_folder, write_file
from npu_testbed.models.sources import ZOO
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
        # Answers arrive in the executor's thread, those that are known in the caller's.
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
