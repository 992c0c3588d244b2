"""The outcome of ``npu-testbed export``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from npu_model.compiled.lost_inputs import LostInput
from npu_model.printable import printable
from npu_testbed.documents.export import ExportDocument, LostInputEntry
from npu_testbed.outcomes.outcome import Outcome
from npu_testbed.runtimes.runtime_use import BARE, EXECUTORCH, TFLM, RuntimeUse
from npu_testbed.runtimes.runtime_words import notes, run_text, runtimes_json
from validation.layout import filled

_RUNTIMES = {"tflite": TFLM, "raw": EXECUTORCH}
"""Runtimes of the formats that are not for your own firmware."""


class ExportOutcome(Outcome, frozen=True):
    """The written files by path, made from the file ``source`` in a ``file_format``."""

    source: str
    file_format: str
    files: Mapping[Path, bytes]
    runtimes: tuple[RuntimeUse, ...]
    """The bytes that each runtime sets aside for the network."""
    lost: tuple[LostInput, ...] = ()
    """The inputs that a run overwrites."""
    layouts: tuple[str, ...] = ()
    """Sentences on the inputs and outputs whose order differs from the model's."""

    def document(self) -> ExportDocument:
        """The bytes of each file."""
        sizes = {str(path): len(data) for path, data in self.files.items()}
        lost = tuple(LostInputEntry(one.name, one.names) for one in self.lost)
        return ExportDocument(self.source, self.file_format, sizes, runtimes_json(self.runtimes), lost)

    def text(self) -> str:
        """A line for each file, and the bytes, cycles and ports in the runtime of its format."""
        files = [f"{printable(str(path))}: {len(data):,} bytes" for path, data in self.files.items()]
        runtime = _RUNTIMES.get(self.file_format, BARE)
        said = [sentence for one in self.runtimes if one.runtime == runtime for sentence in (*notes(one), run_text(one)) if sentence]
        return "\n".join([*files, *map(filled, [*said, *self.layouts, *(printable(one.text, 1000) for one in self.lost)])])
