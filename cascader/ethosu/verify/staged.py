"""Staged constants as a check sees them: the units of 16 bytes that a copy moves, packed one after the other."""

from __future__ import annotations

from npu_model.program import KernelOperation
from npu_model.program.alignment import ALIGNMENT


def _runs(operation: KernelOperation) -> list[tuple[int, int]]:
    """First and last (exclusive) of the units that hold bytes of the operation's weights or scales, run by run."""
    runs: list[tuple[int, int]] = []
    for low, high in sorted((span.start // ALIGNMENT, -(-span.end // ALIGNMENT)) for span in (*operation.weights, *operation.scales)):
        first = max(low, runs[-1][1]) if runs else low
        if first < high:
            runs.append((first, high))
    return runs


def copied_bytes(operation: KernelOperation) -> int:
    """Bytes of the arena that a copy of the operation's weights and scales takes; 0 if it has none."""
    return ALIGNMENT * sum(high - low for low, high in _runs(operation))


def copied_content(operation: KernelOperation, constants: bytes) -> bytes:
    """The bytes of that copy; those behind the end of ``constants`` are left out."""
    return b"".join(constants[ALIGNMENT * low : ALIGNMENT * high] for low, high in _runs(operation))
