"""The end of everything that operations access in each region."""

from __future__ import annotations

from collections.abc import Iterable

from npu_model.program.feature_map import ByteRange
from npu_model.program.operations import DmaOperation, KernelOperation


def accesses(operation: object) -> tuple[tuple[ByteRange, ...], tuple[ByteRange, ...]]:
    """The byte ranges that an operation reads and writes."""
    if isinstance(operation, (KernelOperation, DmaOperation)):
        return tuple(operation.reads()), tuple(operation.writes())
    return (), ()


def extents_of(operations: Iterable[object]) -> dict[int, int]:
    """By region, the end of all reads and writes of operations."""
    found: dict[int, int] = {}
    for operation in operations:
        for span in (part for some in accesses(operation) for part in some):
            found[span.region] = max(found.get(span.region, 0), span.end)
    return found
