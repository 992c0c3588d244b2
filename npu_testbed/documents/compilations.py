"""The document of ``compile --json`` for several networks."""

from __future__ import annotations

from typing import Annotated, Literal

from npu_testbed.documents.comparison import FailureEntry
from npu_testbed.documents.document import STRUCTURE, VERSION, Document, ProductVersion, meaning
from npu_testbed.documents.replay import CompileDocument


class CompilationsDocument(Document, frozen=True):
    """The compilations of several networks."""

    compilations: Annotated[tuple[CompileDocument, ...], meaning("The document of each network that was compiled, in their order.")]
    failures: tuple[FailureEntry, ...]
    command: Literal["compile MODEL MODEL"] = "compile MODEL MODEL"
    schema: Annotated[Literal[2], STRUCTURE] = 2
    version: ProductVersion = VERSION
