"""Compilations that a folder keeps: the files and the text of each command line, under the digest of all their inputs."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from msgspec import Struct, convert

from cascader.ethosu.search.request import Request
from npu_model.documents import plain, typed
from npu_testbed.compilation.compile_options import Target
from npu_testbed.documents.replay import CompileDocument
from npu_testbed.ground.answers import Answers, key_of_request
from npu_testbed.outcomes.outcome import Outcome
from npu_testbed.reports.headline import deadline_sentence
from validation.reading import read_file


class StoredCompilation(Outcome, frozen=True):
    """A compilation from a folder: its document and its text, without its networks and its replay."""

    facts: dict[str, object]
    words: str
    cycles: int
    clock_hz: int

    def document(self) -> CompileDocument:
        """The stored document."""
        return convert(self.facts, CompileDocument)

    def text(self) -> str:
        """The stored text."""
        return self.words

    def deadline_text(self, milliseconds: float) -> str:
        """Whether the schedule meets a time of one inference."""
        return deadline_sentence(self.cycles, self.clock_hz, milliseconds)


class FilesAndWords(Struct, frozen=True):
    """A compilation in the store: its outcome, and its files by their paths."""

    outcome: StoredCompilation
    files: dict[str, bytes]


class CompilationStore:
    """The compilations in a folder; InputError if the folder cannot be made or written to."""

    def __init__(self, folder: Path) -> None:
        self._answers = Answers(folder)

    @staticmethod
    def key(request: Request, target: Target, *others: object) -> str:
        """The key of a compilation of a model. ``others`` are further JSON values on which its files or its text depend."""
        config = request.names.config
        read = "" if config is None else sha256(read_file(config, "Configuration file")).hexdigest()
        return key_of_request("compile", request, plain(target), read, *others)

    def find(self, key: str) -> FilesAndWords | None:
        """The kept compilation; None if there is none, or if it is damaged."""
        return self._answers.find(key, lambda value: typed(FilesAndWords, value))

    def keep(self, key: str, outcome: Outcome, cycles: int, clock_hz: int, files: Mapping[Path, bytes]) -> None:
        """Keep a compilation."""
        found = StoredCompilation(plain(outcome.document()), outcome.text(), cycles, clock_hz)
        self._answers.keep(key, plain(FilesAndWords(found, {str(path): data for path, data in files.items()})))
