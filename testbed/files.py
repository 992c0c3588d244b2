"""Files at the edge: read within bounds, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from npu_model.errors import InputError

MAX_BYTES = 1 << 31
"""Bound of a file that is read: flatbuffers have 31-bit offsets, and no schedule comes near."""


def _reason(error: OSError | ValueError) -> str:
    return str(getattr(error, "strerror", None) or error).lower()


def read_file(path: str | Path, what: str) -> bytes:
    """The bytes of a regular, non-empty file; ``what`` is what the error calls it ("Model", "Schedule")."""
    file = Path(path)
    try:
        if file.is_dir():
            raise InputError(f"{what} {str(path)!r} is a directory: give the path of a file.")
        if file.exists() and not file.is_file():
            raise InputError(f"{what} {str(path)!r} is no regular file: copy it to a file first.")
        size = file.stat().st_size
        if size > MAX_BYTES:
            raise InputError(f"{what} {str(path)!r} has {size} bytes: {MAX_BYTES} is the most that is read; give a smaller file.")
        data = file.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{what} {str(path)!r} cannot be read ({_reason(error)}): give the path of a readable file.") from None
    if not data:
        raise InputError(f"{what} {str(path)!r} has 0 bytes: give a file with content.")
    return data


def read_text(path: str | Path, what: str) -> str:
    """The text of a UTF-8 file, bounded as :func:`read_file` is."""
    try:
        return read_file(path, what).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{what} {str(path)!r} is no text from byte {error.start} on: give a UTF-8 file.") from None


def require_writable(path: str | Path, *sources: str | Path) -> None:
    """InputError if :func:`write_file` could not write there, or would overwrite one of the ``sources``.

    Asked before long work, so that it is not done in vain.
    """
    target = Path(path)
    try:
        for source in sources:
            if target.exists() and Path(source).exists() and target.samefile(source):
                raise InputError(f"Output {str(path)!r} is the input {str(source)!r}: give another file, or it would be overwritten.")
        if target.is_dir() or not target.name:
            raise InputError(f"Output {str(path)!r} is a directory: give the path of a file.")
        folder = target.resolve().parent
        if not folder.is_dir():
            raise InputError(f"Output {str(path)!r} cannot be written, as {str(folder)!r} is no directory: make it first.")
        special = target.exists() and not target.is_file()
        if not os.access(target if special else folder, os.W_OK):
            raise InputError(f"Output {str(path)!r} cannot be written (permission denied): choose another place.")
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"Output {str(path)!r} cannot be written ({_reason(error)}): choose another place.") from None


def require_folder(path: str | Path) -> None:
    """Make the folder if it is not there; InputError if that, or writing into it, cannot be done."""
    folder = Path(path)
    try:
        folder.mkdir(exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise InputError(f"Folder {str(path)!r} cannot be written to (permission denied): choose another place.")
    except (OSError, ValueError) as error:
        raise InputError(f"Folder {str(path)!r} cannot be made ({_reason(error)}): choose another place.") from None


def write_file(path: str | Path, data: bytes) -> None:
    """Write a temporary file beside the target and rename it, so that the target is whole or as it was.

    A target that is no regular file (a pipe, /dev/null) is written to directly. InputError if it cannot be done.
    """
    require_writable(path)
    target = Path(path).resolve()
    special = target.exists() and not target.is_file()
    temporary = target if special else target.with_name(f".{target.name[:100]}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        if not special:
            temporary.replace(target)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"Output {str(path)!r} cannot be written ({_reason(error)}): choose another place.") from None
    finally:
        if not special:
            temporary.unlink(missing_ok=True)
