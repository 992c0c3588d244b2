"""The documents of ``validate portfolio``."""

from __future__ import annotations

from typing import Annotated, Literal

from npu_testbed.documents.document import STRUCTURE, VERSION, Document, Entry, ProductVersion, meaning
from npu_testbed.documents.units import Cycles, Homes, OutsideBytes, RecomputedMacs


class BytesAndCyclesEntry(Entry, frozen=True):
    """A schedule's bytes and cycles."""

    memory: Annotated[int, meaning("Bytes of the arena to set aside.")]
    cycles: Cycles


class OursEntry(Entry, frozen=True):
    """Our schedules: null where none fits."""

    smallest: BytesAndCyclesEntry
    at_size_cycles: BytesAndCyclesEntry | None
    in_size_bytes: BytesAndCyclesEntry | None
    in_performance_bytes: BytesAndCyclesEntry | None
    outside_bytes: OutsideBytes
    recomputed_macs: RecomputedMacs


class VelaFiguresEntry(Entry, frozen=True):
    """Vela's schedules by strategy, the core that made each, and the runs that failed."""

    size: BytesAndCyclesEntry
    size_core: str
    performance: BytesAndCyclesEntry
    performance_core: str
    failures: tuple[str, ...]


class ExaminedEntry(Entry, frozen=True):
    """A network of the portfolio on an accelerator."""

    network: str
    group: str
    accelerator: str
    memory_system: str
    vela: VelaFiguresEntry | None
    ours: OursEntry | None
    check: Literal["exact", "differs, as named", "differs", "not verified", "not asked"]
    remark: str
    failure: str
    no_peer: str
    misses: tuple[str, ...]
    passed: bool


class ValidatePortfolioDocument(Document, frozen=True):
    """All findings, and by name those that miss a bar or fail."""

    passed: bool
    missed: tuple[str, ...]
    networks: tuple[ExaminedEntry, ...]
    command: Literal["validate portfolio"] = "validate portfolio"
    schema: Annotated[Literal[4], STRUCTURE] = 4
    version: ProductVersion = VERSION


class PortfolioNetworkEntry(Entry, frozen=True):
    """A network of the portfolio."""

    name: str
    group: str
    idiom: str
    precision: str
    exception: str
    sampled: bool
    homes: Homes


class ValidatePortfolioListDocument(Document, frozen=True):
    """The networks of the portfolio."""

    networks: tuple[PortfolioNetworkEntry, ...]
    command: Literal["validate portfolio --list"] = "validate portfolio --list"
    schema: Annotated[Literal[2], STRUCTURE] = 2
    version: ProductVersion = VERSION
