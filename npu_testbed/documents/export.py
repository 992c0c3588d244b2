"""The document of ``export``."""

from __future__ import annotations

from typing import Annotated, Literal

from npu_testbed.documents.document import STRUCTURE, Document, Entry, meaning
from npu_testbed.documents.units import Files, Runtimes


class InspectDocument(Document, frozen=True, tag="inspect"):
    """A program as text."""

    text: str
    schema: Annotated[Literal[1], STRUCTURE] = 1


class LostInputEntry(Entry, frozen=True):
    """An input that a run overwrites."""

    input: Annotated[str, meaning("Name of the input.")]
    outputs: Annotated[tuple[str, ...], meaning("Outputs that lie over the input; none if another tensor does.")]


class ExportDocument(Document, frozen=True, tag="export"):
    """The files that a schedule was written to."""

    source: str
    format: str
    files: Files
    runtimes: Runtimes
    lost_inputs: Annotated[tuple[LostInputEntry, ...], meaning("Inputs that a run writes over: write them before each run.")]
    schema: Annotated[Literal[3], STRUCTURE] = 3
