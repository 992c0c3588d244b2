"""Files that are written whole or not at all. :mod:`validation.reading` reads files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

from npu_model.errors import InputError
from validation.reading import reason_of

_TEMPORARY = ".npu-testbed"
"""Beginning of a temporary file's name; the process, a random part and a number follow."""


def token_hex(size: int) -> str:
    """A number of random bytes as text. The module ``secrets`` has the same function, but is slow to import."""
    return os.urandom(size).hex()


@contextmanager
def _refused(what: str, path: str | PathLike[str], done: str) -> Iterator[None]:
    """Turn what the system refuses into an InputError with the reason."""
    try:
        yield
    except (InputError, BrokenPipeError):
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{what} {str(path)!r} cannot be {done} ({reason_of(error)}): choose another place.") from None


def require_writable(path: str | PathLike[str], *sources: object) -> None:
    """InputError if :func:`write_files` could not write there, or would overwrite one of the ``sources``.

    Called before long work, so that the work is not wasted.
    """
    target = Path(path)
    with _refused("Output", path, "written"):
        with suppress(FileNotFoundError):
            # Path.exists reports these as absent: a link to itself, a name that is too long.
            os.stat(target)  # noqa: PTH116  # the same for every kind of path
        for source in map(str, sources):
            if target.exists() and Path(source).exists() and target.samefile(source):
                raise InputError(f"Output {str(path)!r} is the input {source!r}: give another file, or it would be overwritten.")
        if target.is_dir() or not target.name:
            raise InputError(f"Output {str(path)!r} is a directory: give the path of a file.")
        if target.resolve().is_fifo():
            raise InputError(f"Output {str(path)!r} is a named pipe, whose reader would be waited for: give a file, or /dev/stdout.")
        folder = target.resolve().parent
        if not folder.is_dir():
            raise InputError(f"Output {str(path)!r} cannot be written, as {str(folder)!r} is not a directory: make it first.")
        if not os.access(target if _is_special(target) else folder, os.W_OK):
            raise InputError(f"Output {str(path)!r} cannot be written (permission denied): choose another place.")


def require_picture(path: str | PathLike[str], *sources: object) -> None:
    """InputError unless a picture can be written to the path: its format must be SVG."""
    if not str(path).lower().endswith(".svg") and not _is_special(Path(path)):
        raise InputError(f"Picture {str(path)!r} does not end in .svg, which is the format that is written: name it so, and convert it.")
    require_writable(path, *sources)


def require_page(path: str | PathLike[str], *sources: object) -> None:
    """Like :func:`require_writable`; InputError also if the name is not an HTML file's."""
    if not str(path).lower().endswith(".html") and not _is_special(Path(path)):
        raise InputError(f"Report {str(path)!r} does not end in .html, which is the format that is written: name it so.")
    require_writable(path, *sources)


def _require_access(path: str | PathLike[str], folder: Path) -> None:
    if not os.access(folder, os.W_OK):
        raise InputError(f"Folder {str(path)!r} cannot be written to (permission denied): choose another place.")


def require_folder(path: str | PathLike[str]) -> None:
    """Make the folder if necessary; InputError if the folder cannot be made or written."""
    with _refused("Folder", path, "made"):
        Path(path).mkdir(exist_ok=True)
        _require_access(path, Path(path))


def require_makeable(path: str | Path) -> None:
    """InputError if :func:`make_folder` could not make the folder, or files in it. Called before long work."""
    with _refused("Folder", path, "made"):
        there = next(folder for folder in (Path(path).absolute(), *Path(path).absolute().parents) if os.path.lexists(folder))
        if not there.is_dir():
            raise InputError(f"Folder {str(path)!r} cannot be made, as {str(there)!r} is not a directory: choose another place.")
        _require_access(path, there)


def require_sizes(path: str | PathLike[str], *sources: object) -> None:
    """Like :func:`require_writable`; InputError also if the name is neither a header's nor a Kconfig fragment's."""
    if not str(path).endswith((".h", ".hpp", ".conf")):
        raise InputError(f"--sizes {str(path)!r} is neither a header nor a Kconfig fragment: give a name that ends with .h or .conf.")
    require_writable(path, *sources)


REQUIRED: Mapping[str, Callable[..., None]] = {
    "file": require_writable,
    "picture": require_picture,
    "page": require_page,
    "sizes": require_sizes,
}
"""The check of an output by the kind of its file."""


def make_folder(path: str | Path) -> None:
    """Make the folder and its parents if necessary; InputError if that is impossible."""
    require_makeable(path)
    with _refused("Folder", path, "made"):
        Path(path).mkdir(parents=True, exist_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of :func:`write_files` whose process was killed while it wrote."""
    if os.name != "posix":
        return  # where asking after a process would end it
    with suppress(OSError):
        for file in folder.glob(f"{_TEMPORARY}.*.tmp"):
            number = file.name[len(_TEMPORARY) + 1 :].partition(".")[0]
            if number.isdecimal() and len(number) < 10 and not _runs(int(number)):
                file.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
"""A temporary file belongs to us alone: an existing file or link of its name is not written."""


def _write_new(file: Path, data: bytes, *, durable: bool) -> None:
    with os.fdopen(os.open(file, _NEW, 0o666), "wb") as stream:
        stream.write(data)
        stream.flush()
        if durable:
            os.fsync(stream.fileno())


def _settle(folders: Iterable[Path]) -> None:
    """Have the system keep the names in these folders even if power fails, if it can."""
    for folder in folders:
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _is_special(path: Path) -> bool:
    """Whether the path is a pipe or a device, which is written in place."""
    return path.exists() and not path.is_file()


def write_files(files: Mapping[Path, bytes], *, durable: bool = True, follow: bool = True) -> None:
    """Write all files or none: each into a temporary file next to its target. They are renamed once all are complete.

    A ``durable`` file is on the disk before it takes its name, so that a loss of power leaves the old file or the new one. A link is
    followed, because a user who names a link means its target. Without ``follow``, for our own names, the file replaces the link. A target
    that is not a regular file (a pipe, /dev/null) is written to directly, before the others. InputError if it cannot be done.
    """
    for path in files:
        require_writable(path)
    targets = {path: path.resolve() if follow else path.parent.resolve() / path.name for path in files}
    special = [path for path in files if follow and _is_special(path)]  # The target of /dev/stdout may have no path of its own.
    temporary = {
        path: target.with_name(f"{_TEMPORARY}.{os.getpid()}.{token_hex(8)}.{index}.tmp")
        for index, (path, target) in enumerate(targets.items())
        if path not in special
    }
    renamed: list[Path] = []
    new = {path for path in temporary if not targets[path].exists()}
    try:
        for path in special:
            with _refused("Output", path, "written"):
                path.write_bytes(files[path])
        for path, file in temporary.items():
            with _refused("Output", path, "written"):
                _write_new(file, files[path], durable=durable)
        for path, file in temporary.items():
            with _refused("Output", path, "written"):
                file.replace(targets[path])
            renamed.append(path)
        _settle({target.parent for target in targets.values()} if durable else ())
    finally:
        if len(renamed) < len(temporary):
            for path in new.intersection(renamed):
                targets[path].unlink(missing_ok=True)
        for file in temporary.values():
            file.unlink(missing_ok=True)


def write_file(path: str | Path, data: bytes, *, durable: bool = True, follow: bool = True) -> None:
    """Write one file, whole or not at all, as :func:`write_files` does."""
    write_files({Path(path): data}, durable=durable, follow=follow)


def asked_files(*files: tuple[str | PathLike[str] | None, Callable[[], bytes]]) -> dict[Path, bytes]:
    """The content of each file whose path is given."""
    return {Path(path): content() for path, content in files if path is not None}
