"""The document of ``sweep``."""

from __future__ import annotations

from typing import Annotated, Literal

from npu_testbed.documents.document import STRUCTURE, Document, Entry, meaning
from npu_testbed.documents.units import ArenaBytes, Bytes, Cycles, Homes, Macs, MemorySystemEntry, OutsideBytes, RecomputedMacs, Timing


class Answer(Entry, frozen=True):
    """Result of a point: the figures of its schedule in replay, or zeros and the reason in ``refused``.

    ``outside_bytes`` are the bytes of tensors outside the arena; ``recomputed_macs`` are the recomputed part of ``macs``.
    """

    arena_bytes: ArenaBytes = 0
    cycles: Cycles = 0
    axi0_bytes: Bytes = 0
    axi1_bytes: Bytes = 0
    schedule_sha256: str = ""
    refused: str = ""
    outside_bytes: OutsideBytes = 0
    macs: Macs = 0
    recomputed_macs: RecomputedMacs = 0


class SweepPointEntry(Answer, frozen=True, kw_only=True):
    """A point of a sweep with its answer."""

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
    milliseconds: Annotated[float | None, meaning("Time at the memory system's clock.")]


class SweepDocument(Document, frozen=True, tag="sweep"):
    """Every point of a sweep."""

    points: tuple[SweepPointEntry, ...]
    schema: Annotated[Literal[4], STRUCTURE] = 4
