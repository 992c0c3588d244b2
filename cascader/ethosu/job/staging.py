"""Staged weights: the bytes of the constants that a kernel streams, packed at the target of the DMA's copy."""

from __future__ import annotations

from functools import lru_cache

from cascader.ethosu.job.constants import Packing
from cascader.ethosu.network.network import ARENA, CONSTANTS
from npu_model.program import ByteRange, KernelOperation

_packed = lru_cache(maxsize=1 << 10)(Packing.of)
"""The packing of some ranges. All stripes of a part have the same ones."""


def _packing(operation: KernelOperation) -> Packing:
    """The packing of the operation's weights and scales alone."""
    return _packed((*operation.weights, *operation.scales))


def weight_ranges(operation: KernelOperation) -> tuple[ByteRange, ...]:
    """The operation's weights and scales in ascending order, joined where they touch, in whole units of 16 bytes."""
    return tuple(ByteRange(CONSTANTS, start, end) for start, end in _packing(operation).kept)


def staged_bytes(operation: KernelOperation) -> int:
    """Bytes of the arena that a copy of the operation's weights and scales takes; 0 if it has none."""
    return sum(span.length for span in weight_ranges(operation))


def staged_content(operation: KernelOperation, constants: bytes) -> tuple[bytes, ...]:
    """The bytes of each range of the operation's weights and scales. Operations with equal bytes may share a copy."""
    return tuple(constants[span.start : span.end] for span in weight_ranges(operation))


def with_staged_weights(operation: KernelOperation, address: int) -> KernelOperation:
    """The operation reading weights and scales from ``address`` of the arena, where its ranges lie one after the other."""
    packing = _packing(operation)

    def moved(span: ByteRange) -> ByteRange:
        shift = address + packing.shift(span.start)
        return ByteRange(ARENA, span.start + shift, span.end + shift) if span.region == CONSTANTS else span

    return operation.having(weights=tuple(map(moved, operation.weights)), scales=tuple(map(moved, operation.scales)))
