"""Temporary folders that are removed at every ending. Folders of killed processes are removed at the next start.

A process holds a lock on its folder as long as it lives. A process number would not do, because another process may have it by now. Without
locks in the system, the folders of a killed process stay.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # asked for below

_PREFIX = "npu-testbed-"
_NEW = f"{_PREFIX}new-"
"""First letters of the name of a folder that is not locked yet."""

_NEW_SECONDS = 3600.0
"""Age in seconds after which a folder with such a name belongs to no live process."""


def _lock(folder: Path) -> int | None:
    """Lock a folder for this process and return its descriptor: None if another process has the lock or the system has no locks."""
    if fcntl is None:
        return None
    descriptor = None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if descriptor is not None:
            os.close(descriptor)
        return None
    return descriptor


@cache
def sweep(parent: str) -> None:
    """Remove our folders in ``parent`` whose process is gone. Each process does this once and leaves the folders of other users alone."""
    if fcntl is None:
        return
    for folder in Path(parent).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = folder.lstat()
            is_new = folder.name.startswith(_NEW) and time.time() - status.st_mtime < _NEW_SECONDS
            if status.st_uid != os.getuid() or is_new:
                continue
            held = _lock(folder)
            if held is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(held)


class OwnFolder:
    """A new empty folder ``path`` that only this user may enter; :meth:`remove` removes it."""

    def __init__(self) -> None:
        sweep(tempfile.gettempdir())
        new = Path(tempfile.mkdtemp(prefix=_NEW))
        self._held = _lock(new)
        # A process that sees the folder by this name sees it locked.
        self.path = new.rename(new.with_name(f"{_PREFIX}{os.getpid()}-{new.name.removeprefix(_NEW)}"))

    def remove(self) -> None:
        """Remove the folder and its contents, as far as the system permits."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._held is not None:
            os.close(self._held)
            self._held = None


@contextmanager
def own_folder() -> Iterator[Path]:
    """A folder of :class:`OwnFolder`, which is removed at the end of the ``with`` block."""
    folder = OwnFolder()
    try:
        yield folder.path
    finally:
        folder.remove()
