"""The outcome of ``npu-testbed export``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from npu_model.printable import printable
from npu_testbed.documents.export import ExportDocument
from npu_testbed.outcomes.outcome import Outcome


class ExportOutcome(Outcome, frozen=True):
    """The files that were written, by path, from the file ``source`` in a ``form``."""

    source: str
    form: str
    files: Mapping[Path, bytes]

    @property
    def command(self) -> str:
        """``export``."""
        return "export"

    def document(self) -> ExportDocument:
        """The bytes of each file."""
        return ExportDocument(self.source, self.form, {str(path): len(data) for path, data in self.files.items()})

    def text(self) -> str:
        """A line for each file."""
        return "\n".join(f"{printable(str(path))}: {len(data):,} bytes" for path, data in self.files.items())
