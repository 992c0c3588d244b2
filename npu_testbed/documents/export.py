"""The document of ``export``."""

from __future__ import annotations

from typing import Annotated, Literal

from npu_testbed.documents.document import STRUCTURE, VERSION, Document, Entry, ProductVersion, meaning
from npu_testbed.documents.units import Files, Runtimes


class InspectDocument(Document, frozen=True):
    """A program as text."""

    text: str
    command: Literal["inspect"] = "inspect"
    schema: Annotated[Literal[1], STRUCTURE] = 1
    version: ProductVersion = VERSION


class LostInputEntry(Entry, frozen=True):
    """An input that a run overwrites."""

    input: Annotated[str, meaning("Name of the input.")]
    outputs: Annotated[tuple[str, ...], meaning("Outputs that lie over the input; none if another tensor does.")]


class ExportDocument(Document, frozen=True):
    """The files that a schedule was written to."""

    source: str
    format: str
    files: Files
    runtimes: Runtimes
    lost_inputs: Annotated[tuple[LostInputEntry, ...], meaning("Inputs that a run writes over: write them before each run.")]
    command: Literal["export"] = "export"
    schema: Annotated[Literal[3], STRUCTURE] = 3
    version: ProductVersion = VERSION
