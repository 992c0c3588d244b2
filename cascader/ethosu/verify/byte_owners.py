"""Owners of the bytes of the arena: the map on which the byte checker runs a schedule."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from cascader.ethosu.verify.windows import Span


class ByteAccess(Struct, frozen=True):
    """Bytes that belong, or will belong, to one turn of a tensor. For a copy: its part's weights, turn None."""

    tensor: str
    turn: int | None
    span: Span

    @property
    def name(self) -> str:
        """Name of the content, for a sentence."""
        return f"tensor {self.tensor!r}" if self.turn is not None else f"the weights of {self.tensor!r}"


class ByteOwners:
    """Owner of every byte of the arena: the number (label) of an entry of ``owners``, 0 without an owner."""

    def __init__(self, size: int) -> None:
        self.labels = np.zeros(size, np.int32)
        self.owners: list[tuple[str, int | None, int]] = [("", None, 0)]
        self._numbers: dict[tuple[str, int | None, int], int] = {}

    def _label(self, access: ByteAccess, version: int) -> int:
        key = (access.tensor, access.turn, version)
        if key not in self._numbers:
            self._numbers[key] = len(self.owners)
            self.owners.append(key)
        return self._numbers[key]

    def take(self, access: ByteAccess, version: int = 0) -> None:
        """The bytes are now the access's."""
        access.span.of(self.labels)[...] = self._label(access, version)

    def missing(self, access: ByteAccess, version: int = 0) -> tuple[int, int, str] | None:
        """The first row and address of the access with bytes of another owner, and these bytes' content; None if all bytes are its own."""
        label = self._label(access, version)
        found = access.span.of(self.labels)
        if (found == label).all():
            return None
        span = access.span
        for row in range(span.counts[0]):
            one = Span(span.start + row * span.strides[0], span.counts[1:], span.strides[1:], span.width, span.row)
            if (one.of(self.labels) != label).any():
                return span.row + row, *self._found(access, one, label)
        # Rows that lie over each other are taken as one range, gaps included.
        return span.row, *self._found(access, Span(span.start, (), (), span.end - span.start, span.row), label)

    def _found(self, access: ByteAccess, one: Span, label: int) -> tuple[int, str]:
        """Address of the first byte with another label, and its owner."""
        view = one.of(self.labels)
        index = tuple(int(i) for i in np.argwhere(view != label)[0])
        strides = (*one.strides, 1) if view.ndim > 1 else (1,)
        owner, turn, _ = self.owners[int(view[index])]
        what = f"tensor {owner!r} lies" if turn is not None else f"the weights of {owner!r} lie" if owner else "nothing was written"
        if owner == access.tensor and turn is not None and access.turn is not None:
            what = "another row of it lies"
        return one.start + sum(i * stride for i, stride in zip(index, strides, strict=True)), what
