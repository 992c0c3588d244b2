"""The result of a command: a value with its report as text, as a JSON document and in a notebook."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from msgspec import Struct, to_builtins

from npu_model.front import later
from npu_testbed.documents.document import Entry
from npu_testbed.documents.export import InspectDocument

with later():
    import html  # Only a notebook shows an outcome like this.
    import json  # documents alone have it


class Outcome(Struct, frozen=True):
    """The findings of a command. The command prints its text, or with ``--json`` its document; a verb of the Python API returns it."""

    coloured: ClassVar[bool] = True
    """Whether a terminal shows the text in colour."""

    @abstractmethod
    def document(self) -> Entry:
        """The document of the command, with its facts."""

    @abstractmethod
    def text(self) -> str:
        """The report as a terminal shows it."""

    def deadline_text(self, milliseconds: float) -> str:  # noqa: ARG002  # most outcomes know no time
        """The verdict on a time per inference, in a sentence; "" for an outcome without a time, or with a bar for it."""
        return ""

    def within_text(self, within: float) -> str:  # noqa: ARG002  # a schedule's own text says what it took
        """The smallest schedule within a share of the fastest one's cycles, in a sentence; "" for an outcome without several schedules."""
        return ""

    @property
    def passed(self) -> bool:
        """Whether no bar is missed; an outcome without bars passes."""
        return True

    @property
    def status(self) -> int:
        """The exit status of the command: 0, or 1 if the outcome does not pass."""
        return 0 if self.passed else 1

    @property
    def headline(self) -> str:
        """The answer in one line: the first line of the text."""
        return self.text().partition("\n")[0]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline}>"

    def to_dict(self) -> dict[str, Any]:
        """The document as ``--json`` prints it, as dictionaries and lists."""
        found: dict[str, Any] = json.loads(self.to_json())
        return found

    def to_json(self) -> str:
        """The document as text, with a final newline."""
        return json.dumps(to_builtins(self.document()), indent=1, sort_keys=True) + "\n"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """The report for a notebook."""
        return f"<pre>{html.escape(self.text())}</pre>"


class TextOutcome(Outcome, frozen=True):
    """A text that is printed unchanged."""

    words: str

    coloured: ClassVar[bool] = False

    def document(self) -> InspectDocument:
        """The text."""
        return InspectDocument(self.words)

    def text(self) -> str:
        """The text."""
        return self.words
