"""The document of ``frontier``."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import field

from npu_testbed.documents.document import STRUCTURE, VERSION, Entry, ProductVersion
from npu_testbed.documents.units import Bytes, Cycles, InputsOutputs, Macs, MemorySystemEntry, RecomputedMacs, Timing, Tools


class LowerBoundsEntry(Entry, frozen=True):
    """Bytes below which no schedule fits."""

    any_schedule: Bytes = field(name="any_schedule_bytes")
    this_search: Bytes = field(name="this_search_bytes")


class FrontierPointEntry(Entry, frozen=True):
    """A schedule of the frontier; errors are ratios."""

    memory: Bytes = field(name="memory_bytes")
    cycles: Cycles
    estimate: Cycles = field(name="expected_cycles")
    estimate_error: float
    jobs: int = field(name="stripe_jobs")
    groups: int
    staged_bytes: Bytes
    macs: Macs
    recomputed_macs: RecomputedMacs
    digest: str = field(name="schedule_sha256")


class FrontierEntry(Entry, frozen=True):
    """A frontier: its points, its bounds, and the terms of its search."""

    model: str
    model_sha256: str
    accelerator: str
    memory_system: MemorySystemEntry
    timing: Timing
    tools: Tools
    bounds: LowerBoundsEntry = field(name="lower_bounds")
    candidates: int
    replayed: int
    points: tuple[FrontierPointEntry, ...]


class FrontierDocument(FrontierEntry, frozen=True, tag_field="command", tag="frontier"):
    """A frontier, with the inputs and outputs of its network. It is no Document, as a Struct has the fields of one base."""

    inputs_outputs: InputsOutputs
    schema: Annotated[Literal[6], STRUCTURE] = 6
    version: ProductVersion = VERSION
