"""The document of ``schedule``."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType, field

from npu_testbed.documents.document import STRUCTURE, Document, Entry, meaning
from npu_testbed.documents.inference import CpuOperations, FindingEntry, Inferred
from npu_testbed.documents.units import (
    ArenaBytes,
    Bytes,
    CarriedBytes,
    Cycles,
    InputsOutputs,
    Macs,
    PlannedCycles,
    RecomputedMacs,
    Runtimes,
    Timing,
    Tools,
)


class StripeBufferEntry(Entry, frozen=True):
    """A buffer that holds stripes of a tensor."""

    tensor: str
    mode: Literal["recompute", "rolling", "double"]
    shape: Annotated[tuple[int, ...], meaning("Elements of a buffer along each axis.")]
    copies: Annotated[int, meaning("Arrays of this shape: 2 in a double buffer.")]
    buffer_bytes: Annotated[int, meaning("Bytes of a stripe buffer.")]


class GroupEntry(Entry, frozen=True):
    """The plan of a group of parts."""

    parts: tuple[str, ...]
    stripe: Annotated[tuple[int, ...], meaning("Elements of a stripe of the group's output along each axis.")]
    stripes: Annotated[tuple[int, ...], meaning("Stripes along each axis.")]
    order: Annotated[tuple[int, ...], meaning("Place of each axis among the loops, 1 the outermost, 0 none.")]
    memory_bytes: Bytes
    planned_cycles: PlannedCycles
    work: Annotated[int, meaning("Units of work, such as multiply-accumulates, those done again too.")]
    buffers: tuple[StripeBufferEntry, ...]


class StagingGroupEntry(GroupEntry, frozen=True):
    """The plan of a group whose constants may be staged."""

    staged: Annotated[tuple[str, ...], meaning("Parts whose constants lie in the arena while the group runs.")]


class ScheduleDeviceDocument(Document, frozen=True, tag="schedule --device"):
    """A plan of stripes for your own device."""

    model: str
    device: str
    memory_bytes: Bytes
    planned_cycles: PlannedCycles
    alive_bytes: Annotated[int, meaning("Most bytes alive at once in the function that TVM compiled.")]
    groups: tuple[GroupEntry, ...]
    output: str
    schema: Annotated[Literal[1], STRUCTURE] = 1


_LEAST = meaning("NPU cycles that every schedule of the class takes at least: those of the answer if the proof is complete.")
_TRIED = meaning("Schedules of the class that were tried: all of them, or none if they are too many.")


class ProofEntry(Entry, frozen=True):
    """The search of a whole class of schedules."""

    complete: bool
    least_cycles: Annotated[int, _LEAST] = field(name="class_least_cycles")
    members: Annotated[int, meaning("Schedules of the class, those included that do not fit.")] = field(name="class_schedules")
    replayed: Annotated[int, meaning("Schedules of the class that were replayed.")] = field(name="proof_replays")
    tried: Annotated[int, _TRIED] = field(name="proof_steps")


class TradeEntry(Entry, frozen=True):
    """Another schedule that trades bytes for cycles."""

    memory: ArenaBytes = field(name="arena_bytes")
    cycles: Cycles


_PROOF = meaning(
    "What is proven of a small network with --effort thorough: none of the schedules of a class takes fewer cycles, "
    "if the proof is complete."
)


class ScheduleDocument(Document, frozen=True, tag="schedule"):
    """A schedule's figures, bounds and findings."""

    model: str
    accelerator: str
    memory_system: str
    timing: Timing
    parts: int
    jobs: int
    cascaded: bool
    mended: tuple[str, ...]
    arena_bytes: ArenaBytes
    inputs_outputs: InputsOutputs
    carried_bytes: CarriedBytes
    cycles: Cycles
    stopped: Annotated[str, meaning("What ended the search early; empty if nothing did.")]
    output: str
    tools: Tools
    inference: Inferred
    runtimes: Runtimes
    macs: Macs
    recomputed_macs: RecomputedMacs
    flash_bytes: Annotated[int, meaning("Bytes of weights, scales, tables and command streams.")]
    groups: tuple[StagingGroupEntry, ...] | UnsetType = UNSET
    least_cycles_of_search: (
        Annotated[int, meaning("Least NPU cycles, proven, of the schedules that the search can make at this effort.")] | UnsetType
    ) = UNSET
    least_bytes_of_search: (
        Annotated[int, meaning("Least bytes of the arena, proven, of the schedules that the search can make at this effort.")] | UnsetType
    ) = UNSET
    proof: Annotated[ProofEntry, _PROOF] | UnsetType = UNSET
    flash_bytes_layer_by_layer: (
        Annotated[int, meaning("Bytes of flash, as flash_bytes, of Vela's kernels layer by layer, if a search ended.")] | UnsetType
    ) = UNSET
    fastest: Annotated[TradeEntry, meaning("With --within: the fastest schedule that fits.")] | UnsetType = UNSET
    smaller: (
        Annotated[TradeEntry, meaning("A schedule that is at most 1 % slower and needs far fewer bytes, if the search came upon one.")]
        | UnsetType
    ) = UNSET
    cpu_operations: CpuOperations | UnsetType = UNSET
    findings: tuple[FindingEntry, ...] | UnsetType = UNSET
    schema: Annotated[Literal[20], STRUCTURE] = 20
