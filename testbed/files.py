"""Files that are written: whole or not at all. How they are read is :mod:`validation.reading`'s."""

from __future__ import annotations

import os
from pathlib import Path

from npu_model.errors import InputError
from validation.reading import reason_of


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
        raise InputError(f"Output {str(path)!r} cannot be written ({reason_of(error)}): choose another place.") from None


def require_folder(path: str | Path) -> None:
    """Make the folder if it is not there; InputError if that, or writing into it, cannot be done."""
    folder = Path(path)
    try:
        folder.mkdir(exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise InputError(f"Folder {str(path)!r} cannot be written to (permission denied): choose another place.")
    except (OSError, ValueError) as error:
        raise InputError(f"Folder {str(path)!r} cannot be made ({reason_of(error)}): choose another place.") from None


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
        raise InputError(f"Output {str(path)!r} cannot be written ({reason_of(error)}): choose another place.") from None
    finally:
        if not special:
            temporary.unlink(missing_ok=True)
