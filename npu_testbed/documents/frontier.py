"""The document of ``frontier``."""

from __future__ import annotations

from typing import Annotated, Literal

from npu_testbed.documents.document import STRUCTURE, VERSION, Document, Entry, ProductVersion
from npu_testbed.documents.units import Bytes, Cycles, InputsOutputs, Macs, MemorySystemEntry, RecomputedMacs, Timing, Tools


class LowerBoundsEntry(Entry, frozen=True):
    """Bytes below which no schedule fits."""

    any_schedule_bytes: Bytes
    this_search_bytes: Bytes


class FrontierPointEntry(Entry, frozen=True):
    """A schedule of the frontier; errors are ratios."""

    memory_bytes: Bytes
    cycles: Cycles
    expected_cycles: Cycles
    estimate_error: float
    stripe_jobs: int
    groups: int
    staged_bytes: Bytes
    macs: Macs
    recomputed_macs: RecomputedMacs
    schedule_sha256: str


class FrontierEntry(Entry, frozen=True):
    """A frontier: its points, its bounds, and the terms of its search."""

    model: str
    model_sha256: str
    accelerator: str
    memory_system: MemorySystemEntry
    timing: Timing
    tools: Tools
    lower_bounds: LowerBoundsEntry
    candidates: int
    replayed: int
    points: tuple[FrontierPointEntry, ...]


class FrontierDocument(FrontierEntry, Document, frozen=True):
    """A frontier, with the inputs and outputs of its network."""

    inputs_outputs: InputsOutputs
    command: Literal["frontier"] = "frontier"
    schema: Annotated[Literal[6], STRUCTURE] = 6
    version: ProductVersion = VERSION
