"""Temporary folders that are removed at every ending. Folders of killed processes are removed at the next start.

A folder is locked as long as its process lives, so that no number of a process, which another one may have by now, is asked after.
Where the system has no such locks folders go with their process, as ever, unless it is killed.
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
"""Beginning of the name of a folder that is not locked yet."""

_NEW_SECONDS = 3600.0
"""Age beyond which a folder with such a name is nobody's."""


def _lock(folder: Path) -> int | None:
    """Lock a folder for this process; its descriptor, None if another process has it or the system has no locks."""
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
    """Remove our folders in ``parent`` whose process is gone, once in a process; those of other users are left alone."""
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
    """New empty folder ``path`` that only this user may enter; :meth:`remove` ends it."""

    def __init__(self) -> None:
        sweep(tempfile.gettempdir())
        new = Path(tempfile.mkdtemp(prefix=_NEW))
        self._held = _lock(new)
        # Whoever sees it by this name sees it locked.
        self.path = new.rename(new.with_name(f"{_PREFIX}{os.getpid()}-{new.name.removeprefix(_NEW)}"))

    def remove(self) -> None:
        """Remove the folder with what is in it, as far as the system lets us."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._held is not None:
            os.close(self._held)
            self._held = None


@contextmanager
def own_folder() -> Iterator[Path]:
    """A folder as :class:`OwnFolder` makes it, which is removed at the end."""
    folder = OwnFolder()
    try:
        yield folder.path
    finally:
        folder.remove()
