"""Tensors of arena addresses, read back from every range that a compiled network touches.

In a legalised compilation no two tensors share an address, so overlapping ranges belong to one tensor. That is the
whole rule: a concatenation is written in pieces that only its reader joins, a slice reads a part of what another wrote,
and a strided kernel reads less than its tensor.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from npu_model.errors import InputError
from npu_model.program.alignment import ALIGNMENT
from npu_model.values import dataclass


@dataclass(frozen=True, slots=True)
class AddressMap:
    """Disjoint extents (start, end) in address order; starts are multiples of 16."""

    extents: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> AddressMap:
        """Unite overlapping ranges; ranges that only touch stay apart."""
        extents: list[tuple[int, int]] = []
        for start, end in sorted((start // ALIGNMENT * ALIGNMENT, end) for start, end in ranges):
            if extents and start < extents[-1][1]:
                extents[-1] = (extents[-1][0], max(end, extents[-1][1]))
            else:
                extents.append((start, end))
        return cls(tuple(extents))

    def find(self, address: int) -> int:
        """Index of the extent that holds ``address``; InputError if none does."""
        index = bisect_right(self.extents, (address, 1 << 64)) - 1
        if index < 0 or address >= self.extents[index][1]:
            raise InputError(f"Arena address {address} belongs to no tensor of the compiled network: compile it again.")
        return index

    def start(self, index: int) -> int:
        """Address of the extent's first byte."""
        return self.extents[index][0]

    def size(self, index: int) -> int:
        """Bytes of the extent."""
        start, end = self.extents[index]
        return end - start
