"""Answers: results kept in a folder, so that interrupted work continues from there.

An answer is a JSON value. Its key is a digest of everything that determines it: the question, the versions of the tools and our own
sources. So one folder may serve for anything, and a foreign folder is at worst useless. Each answer is written whole or not at all, as soon
as it is known. An interruption loses only the answers in progress. It carries a digest of its key and of its content, so that a damaged or
changed answer is recomputed.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from cascader.ethosu.search.request import ModelSource, Request
from npu_model.documents import plain
from npu_model.errors import InputError
from npu_model.front import later
from npu_model.registered import FORMS, registered_tools
from npu_testbed.ground.files import remove_leftovers, require_folder, write_file
from npu_testbed.ground.versions import tool_versions
from validation.reading import read_file

with later():
    from importlib import metadata  # Most commands keep no answers, and the import takes a fortieth of a second.

T = TypeVar("T")

FOLDER = ".npu-testbed-answers"
"""Folder of answers inside a folder that serves another purpose."""

MAX_BYTES = 1 << 26
"""Bound of an answer, decompressed."""

_DIGEST, _VALUE = "sha256", "value"
"""Keys of a kept answer."""

_PACKAGES = ("npu_model", "cascader", "sim", "validation", "npu_testbed")
_SOURCES = ("*.py", "*.c", "*.h", "*.toml", "*.csv")
_TOOLS = ("ethos-u-vela", "ai-edge-litert", "numpy")


def _version(package: str) -> str:

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


@cache
def _foundation() -> bytes:
    """Digest of our sources and the versions of the tools, which determine every answer."""
    whole = sha256(repr(tool_versions(tuple((package, _version(package)) for package in _TOOLS))).encode())
    whole.update(repr(registered_tools(FORMS)).encode() if registered_tools(FORMS) else b"")
    root = Path(__file__).parents[2]
    for package in _PACKAGES:
        for path in sorted(path for pattern in _SOURCES for path in (root / package).rglob(pattern)):
            whole.update(path.relative_to(root).as_posix().encode() + b"\0" + sha256(path.read_bytes()).digest())
    return whole.digest()


def key_of(question: object, *data: bytes) -> str:
    """The key of a question (a JSON value) about some data."""
    whole = sha256(_foundation() + json.dumps(question, sort_keys=True).encode())
    for part in data:
        whole.update(sha256(part).digest())
    return whole.hexdigest()


def key_of_request(kind: str, request: Request, *others: object) -> str:
    """The key of an answer of some kind to a Request about a model."""
    source = request.source
    assert isinstance(source, ModelSource)  # noqa: S101  # what is kept is about models
    said = {name: getattr(request, name) for name in request.__struct_fields__ if name not in ("source", "switches")}
    names = {**plain(replace(request.names, config=None)), "config": str(request.names.config)}
    return key_of([kind, source.name, plain(said | {"names": names}), *others], source.data)


def _content_digest(key: str, value: Any) -> str:
    """The digest of an answer under its key."""
    return sha256(f"{key}\n{json.dumps(value, sort_keys=True)}".encode()).hexdigest()


class Answers:
    """A folder of answers, ``packed`` or readable for people; InputError if it cannot be made or written."""

    def __init__(self, folder: Path, *, packed: bool = True) -> None:
        require_folder(folder)
        remove_leftovers(folder)
        self.folder, self._packed = folder, packed

    def path(self, key: str) -> Path:
        """The file of an answer."""
        return self.folder / (f"{key}.json.z" if self._packed else f"{key}.json")

    def find(self, key: str, value: Callable[[Any], T]) -> T | None:
        """The answer, which ``value`` makes from its JSON form; None if there is none, or if it is damaged in any way."""
        with suppress(InputError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, zlib.error):
            data = read_file(self.path(key), "Answer", MAX_BYTES)
            kept = json.loads(zlib.decompressobj().decompress(data, MAX_BYTES) if self._packed else data)
            if kept[_DIGEST] == _content_digest(key, kept[_VALUE]):
                return value(kept[_VALUE])
        return None

    def keep(self, key: str, value: Any) -> None:
        """Write an answer. If it cannot be written, the work continues, because only the result is needed."""
        with suppress(InputError):
            kept = {_DIGEST: _content_digest(key, value), _VALUE: value}
            text = json.dumps(kept, sort_keys=True, indent=None if self._packed else 1)
            data = zlib.compress(text.encode("ascii")) if self._packed else f"{text}\n".encode("ascii")
            # Searches have thousands of answers; a lost one is soon computed again.
            write_file(self.path(key), data, durable=not self._packed, follow=False)

    def known(self, key: str, written: Callable[[T], Any], value: Callable[[Any], T], work: Callable[[], T]) -> T:
        """The kept answer, or the answer of ``work``, which is then kept."""
        found = self.find(key, value)
        if found is None:
            found = work()
            self.keep(key, written(found))
        return found

    def remove(self) -> None:
        """Remove all answers, because they are no longer needed."""
        shutil.rmtree(self.folder, ignore_errors=True)
