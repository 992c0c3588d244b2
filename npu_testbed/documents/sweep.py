"""The document of ``sweep``."""

from __future__ import annotations

from typing import Annotated, Literal

from npu_testbed.documents.document import STRUCTURE, Document, Entry, meaning
from npu_testbed.documents.units import ArenaBytes, Bytes, Cycles, Homes, Macs, MemorySystemEntry, OutsideBytes, RecomputedMacs, Timing


class SweepPointEntry(Entry, frozen=True):
    """A point of a sweep with its answer: zeros and a reason in ``refused`` without a schedule."""

    model: str
    model_sha256: str
    accelerator: str
    memory_system: MemorySystemEntry
    settings: dict[str, str]
    budget_bytes: Annotated[int | None, meaning("Most bytes that the arena may take; null for no bound.")]
    optimise: str
    effort: str
    timing: Timing
    homes: Homes
    recompute: Annotated[
        float | None, meaning("Most multiply-accumulates, as a multiple of the network's; null for the search's own bound.")
    ]
    within_percent: Annotated[
        float, meaning("Per cent of the fastest schedule's cycles that the smallest arena may cost; 0 for the fastest.")
    ]
    arena_bytes: ArenaBytes
    cycles: Cycles
    axi0_bytes: Bytes
    axi1_bytes: Bytes
    schedule_sha256: str
    refused: str
    outside_bytes: OutsideBytes
    macs: Macs
    recomputed_macs: RecomputedMacs
    milliseconds: Annotated[float | None, meaning("Time at the memory system's clock.")]


class SweepDocument(Document, frozen=True, tag="sweep"):
    """Every point of a sweep."""

    points: tuple[SweepPointEntry, ...]
    schema: Annotated[Literal[4], STRUCTURE] = 4
