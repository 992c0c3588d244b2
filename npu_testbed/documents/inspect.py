"""The document of ``inspect``."""

from __future__ import annotations

from typing import Annotated, Literal

from npu_testbed.documents.document import STRUCTURE, VERSION, Document, ProductVersion


class InspectDocument(Document, frozen=True):
    """A program as text."""

    text: str
    command: Literal["inspect"] = "inspect"
    schema: Annotated[Literal[1], STRUCTURE] = 1
    version: ProductVersion = VERSION
