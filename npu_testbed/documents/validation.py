"""The documents of ``validate all``, ``validate litert`` and ``validate vela-estimate``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from npu_testbed.documents.document import STRUCTURE, VERSION, Document, Entry, ProductVersion
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


class ValidateAllDocument(Document, frozen=True):
    """All bars, and what no bar sees."""

    passed: bool
    blind: tuple[str, ...]
    promises: tuple[SuitePromiseEntry, ...]
    command: Literal["validate all"] = "validate all"
    schema: Annotated[Literal[2], STRUCTURE] = 2
    version: ProductVersion = VERSION


class LitertScoreEntry(Entry, frozen=True):
    """The outputs of a network, and LiteRT's."""

    network: str
    accelerator: str
    optimise: str
    differing: DifferingBytes
    size: Bytes
    verdict: str
    passed: bool


class ValidateLitertDocument(Document, frozen=True):
    """Outputs of Vela's streams, and LiteRT's."""

    passed: bool
    networks: tuple[LitertScoreEntry, ...]
    command: Literal["validate litert"] = "validate litert"
    schema: Annotated[Literal[1], STRUCTURE] = 1
    version: ProductVersion = VERSION


class TallyEntry(Entry, frozen=True):
    """Values of Vela's estimate that ours equals."""

    key: str
    total: int
    equal: int
    within_one: int
    held: int


class ValidateVelaEstimateDocument(Document, frozen=True):
    """Counts by column and operator, and every deviation."""

    passed: bool
    vela_versions: tuple[str, ...]
    columns: tuple[TallyEntry, ...]
    operators: tuple[TallyEntry, ...]
    deviations: tuple[dict[str, Any], ...]
    command: Literal["validate vela-estimate"] = "validate vela-estimate"
    schema: Annotated[Literal[1], STRUCTURE] = 1
    version: ProductVersion = VERSION
