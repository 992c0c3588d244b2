"""The outcome of ``npu-testbed export``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from npu_model.printable import printable
from npu_testbed.documents.export import ExportDocument
from npu_testbed.outcomes.outcome import Outcome
from npu_testbed.runtimes.runtime_use import BARE, EXECUTORCH, TFLM, RuntimeUse
from npu_testbed.runtimes.runtime_words import notes, runtimes_json
from validation.layout import filled

_RUNTIMES = {"tflite": TFLM, "raw": EXECUTORCH}
"""Runtimes of the formats that are not for firmware of one's own."""


class ExportOutcome(Outcome, frozen=True):
    """The files that were written, by path, from the file ``source`` in a ``form``."""

    source: str
    form: str
    files: Mapping[Path, bytes]
    runtimes: tuple[RuntimeUse, ...]
    """The bytes that each runtime sets aside for the network."""

    @property
    def command(self) -> str:
        """``export``."""
        return "export"

    def document(self) -> ExportDocument:
        """The bytes of each file."""
        return ExportDocument(
            self.source, self.form, {str(path): len(data) for path, data in self.files.items()}, runtimes_json(self.runtimes)
        )

    def text(self) -> str:
        """A line for each file, and what the runtime of its format sets aside."""
        files = [f"{printable(str(path))}: {len(data):,} bytes" for path, data in self.files.items()]
        runtime = _RUNTIMES.get(self.form, BARE)
        return "\n".join([*files, *(filled(said) for one in self.runtimes if one.runtime == runtime for said in notes(one))])
