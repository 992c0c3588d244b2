"""The one reader of files that users name: only regular files, each up to a limit, with one sentence for any fault."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from npu_model.errors import InputError

MAX_BYTES = 1 << 31
"""Bound of any file: flatbuffers have 31-bit offsets."""

MAX_CONFIGURATION_BYTES = 1 << 18
"""Bound of a ``vela.ini`` or a profile: Vela's own has 9 kB, and 256 KiB of any text are parsed within a second."""

MAX_TABLE_BYTES = 1 << 24
"""Bound of a table of measurements: 100,000 lines fit."""

_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
"""Opening a pipe that took the file's place after it was looked at must not wait for a writer."""


def reason_of(error: OSError | ValueError) -> str:
    """The system's complaint about a file, in lower case."""
    return str(getattr(error, "strerror", None) or error).lower()


def _refuse(what: str, path: str | Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise InputError(f"{what} {str(path)!r} is a directory: give the path of a file.")
    if not stat.S_ISREG(mode):
        raise InputError(f"{what} {str(path)!r} is not a regular file: copy it to a file first.")


def _read(path: str | Path, what: str, bound: int) -> bytes:
    # Opening a device can have effects, so it is examined first.
    _refuse(what, path, os.stat(path).st_mode)  # noqa: PTH116  # Path("") is ".", which would be another complaint
    descriptor = os.open(path, _FLAGS)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        _refuse(what, path, status.st_mode)
        # A file may grow while it is read, and some files (/proc) report 0 bytes.
        data = b"" if status.st_size > bound else file.read(bound + 1)
    size = max(status.st_size, len(data))
    if size > bound:
        raise InputError(f"{what} {str(path)!r} has {size} bytes: {bound} is the most that is read; give a smaller file.")
    return data


def _instead(path: str) -> str:
    if path.startswith(("zoo:", "portfolio:")):
        return f"it names a network, and a file is needed, such as `npu-testbed schedule {path} -o SCHEDULE.json` writes"
    return "give the path of a readable file"


def read_file(path: str | Path, what: str, bound: int = MAX_BYTES) -> bytes:
    """The bytes of a regular, non-empty file of at most ``bound`` bytes; ``what`` is its name in the error ("Model", "Schedule")."""
    try:
        data = _read(path, what, bound)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{what} {str(path)!r} cannot be read ({reason_of(error)}): {_instead(str(path))}.") from None
    if not data:
        raise InputError(f"{what} {str(path)!r} has 0 bytes: give a file with content.")
    return data


def read_text(path: str | Path, what: str, bound: int = MAX_BYTES) -> str:
    """The text of a UTF-8 file, with or without a byte order mark, bounded as :func:`read_file` is."""
    try:
        return read_file(path, what, bound).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{what} {str(path)!r} is not text from byte {error.start} on: give a UTF-8 file.") from None


def read_configuration(path: str | Path, what: str) -> str:
    """The text of a configuration file or a profile, of at most :data:`MAX_CONFIGURATION_BYTES` bytes."""
    return read_text(path, what, MAX_CONFIGURATION_BYTES)
