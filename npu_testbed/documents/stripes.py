"""The document of ``schedule --device``, and plans of stripes, group by group, in the RFC's nouns."""

from __future__ import annotations

from typing import Annotated, Literal

from npu_testbed.documents.document import STRUCTURE, VERSION, Document, Entry, ProductVersion, meaning
from npu_testbed.documents.units import Bytes, PlannedCycles


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


class ScheduleDeviceDocument(Document, frozen=True):
    """A plan of stripes for your own device."""

    model: str
    device: str
    memory_bytes: Bytes
    planned_cycles: PlannedCycles
    alive_bytes: Annotated[int, meaning("Most bytes alive at once in the function that TVM compiled.")]
    groups: tuple[GroupEntry, ...]
    output: str
    command: Literal["schedule --device"] = "schedule --device"
    schema: Annotated[Literal[1], STRUCTURE] = 1
    version: ProductVersion = VERSION
