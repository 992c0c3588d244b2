"""Staged weights: the bytes of the constants that a kernel streams, packed where a DMA has copied them."""

from __future__ import annotations

from cascader.ethosu.network.network import ARENA, CONSTANTS
from npu_model.program import ByteRange, KernelOperation
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up


def weight_ranges(operation: KernelOperation) -> tuple[ByteRange, ...]:
    """The operation's weights and scales in ascending order, joined where they touch, in whole units of 16 bytes."""
    spans: list[ByteRange] = []
    for span in sorted((*operation.weights, *operation.scales), key=lambda span: span.start):
        start, end = span.start // ALIGNMENT * ALIGNMENT, round_up(span.end, ALIGNMENT)
        if spans and start <= spans[-1].end:
            spans[-1] = ByteRange(span.region, spans[-1].start, max(spans[-1].end, end))
        else:
            spans.append(ByteRange(span.region, start, end))
    return tuple(spans)


def staged_bytes(operation: KernelOperation) -> int:
    """Bytes of the arena that a copy of the operation's weights and scales takes; 0 if it has none."""
    return sum(span.length for span in weight_ranges(operation))


def staged_content(operation: KernelOperation, constants: bytes) -> tuple[bytes, ...]:
    """The bytes of each range of the operation's weights and scales: operations for which they are equal may share a copy."""
    return tuple(constants[span.start : span.end] for span in weight_ranges(operation))


def with_staged_weights(operation: KernelOperation, address: int) -> KernelOperation:
    """The operation reading weights and scales from ``address`` of the arena, where its ranges lie one after the other."""
    shifts = []
    for span in weight_ranges(operation):
        shifts.append((span, address - span.start))
        address += span.length

    def moved(span: ByteRange) -> ByteRange:
        shift = next(shift for whole, shift in shifts if whole.start <= span.start and span.end <= whole.end)
        return ByteRange(ARENA, span.start + shift, span.end + shift) if span.region == CONSTANTS else span

    return operation.having(weights=tuple(map(moved, operation.weights)), scales=tuple(map(moved, operation.scales)))
