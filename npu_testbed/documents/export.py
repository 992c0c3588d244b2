"""The document of ``export``."""

from __future__ import annotations

from typing import Annotated, Literal

from npu_testbed.documents.document import STRUCTURE, VERSION, Document, ProductVersion
from npu_testbed.documents.runtimes import Runtimes
from npu_testbed.documents.units import Files


class ExportDocument(Document, frozen=True):
    """The files that a schedule was written to."""

    source: str
    format: str
    files: Files
    runtimes: Runtimes
    command: Literal["export"] = "export"
    schema: Annotated[Literal[2], STRUCTURE] = 2
    version: ProductVersion = VERSION
