"""The documents of ``validate all`` and ``validate litert``."""

from __future__ import annotations

from typing import Annotated, Literal

from npu_testbed.documents.document import STRUCTURE, Document, Entry
from npu_testbed.documents.units import Bytes, DifferingBytes


class SuitePromiseEntry(Entry, frozen=True):
    """A bar of the suite, and whether it is met."""

    peer: str
    figure: str
    bound: str
    found: str
    count: int
    known: str
    passed: bool | None
    verdict: str


class ValidateAllDocument(Document, frozen=True, tag="validate all"):
    """All bars, and the errors that no bar would show."""

    passed: bool
    blind: tuple[str, ...]
    promises: tuple[SuitePromiseEntry, ...]
    schema: Annotated[Literal[2], STRUCTURE] = 2


class LitertScoreEntry(Entry, frozen=True):
    """The outputs of a network, and LiteRT's."""

    network: str
    accelerator: str
    optimise: str
    differing: DifferingBytes
    size: Bytes
    verdict: str
    passed: bool


class ValidateLitertDocument(Document, frozen=True, tag="validate litert"):
    """Outputs of Vela's streams, and LiteRT's."""

    passed: bool
    networks: tuple[LitertScoreEntry, ...]
    schema: Annotated[Literal[1], STRUCTURE] = 1
