"""The documents of ``validate portfolio``."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import field

from npu_testbed.documents.document import STRUCTURE, Document, Entry, meaning
from npu_testbed.documents.units import Cycles, Homes, OutsideBytes, RecomputedMacs


class BytesAndCycles(Entry, frozen=True):
    """A schedule: the arena in bytes, and cycles of its replay."""

    memory: Annotated[int, meaning("Bytes of the arena to set aside.")]
    cycles: Cycles


class Ours(Entry, frozen=True):
    """Points of our frontier: the smallest, and the best within each of Vela's figures (None: none is within it).

    For the smallest, also its bytes outside the arena and its recomputed multiply-accumulates.
    """

    smallest: BytesAndCycles
    at_size_cycles: BytesAndCycles | None
    in_size_bytes: BytesAndCycles | None
    in_performance_bytes: BytesAndCycles | None
    outside_bytes: OutsideBytes = 0
    recomputed_macs: RecomputedMacs = 0


class VelaFigures(Entry, frozen=True):
    """The bytes and cycles of Vela's Size and Performance, each on the better core, and the failed runs with their reasons."""

    size: BytesAndCycles
    size_core: str
    performance: BytesAndCycles
    performance_core: str
    failures: tuple[str, ...] = ()


class ExaminedEntry(Entry, frozen=True):
    """A network of the portfolio on an accelerator."""

    network: str
    group: str
    accelerator: str
    memory_system: str
    vela: VelaFigures | None
    ours: Ours | None
    check: Literal["exact", "differs, as named", "differs", "not verified", "not asked"]
    remark: str
    failure: str
    no_peer: str
    misses: tuple[str, ...]
    passed: bool


class ValidatePortfolioDocument(Document, frozen=True, tag="validate portfolio"):
    """All findings, and by name those that miss a bar or fail."""

    passed: bool
    missed: tuple[str, ...]
    findings: tuple[ExaminedEntry, ...] = field(name="networks")
    schema: Annotated[Literal[4], STRUCTURE] = 4


class PortfolioNetworkEntry(Entry, frozen=True):
    """A network of the portfolio."""

    name: str
    group: str
    idiom: str
    precision: str
    exception: str
    sampled: bool
    homes: Homes


class ValidatePortfolioListDocument(Document, frozen=True, tag="validate portfolio --list"):
    """The networks of the portfolio."""

    networks: tuple[PortfolioNetworkEntry, ...]
    schema: Annotated[Literal[2], STRUCTURE] = 2
