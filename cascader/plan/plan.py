"""Plan (RFC 0037): a part group with its stripes, its buffers and its copies, in bytes and cycles; modes of buffers."""

from __future__ import annotations

from enum import Enum
from fractions import Fraction
from math import prod
from typing import Generic, Protocol, TypeVar

from msgspec import Struct


class BufferMode(Enum):
    """Ways to keep the stripes of a tensor in the cascade memory.

    RECOMPUTE holds one stripe. Elements that the next stripe has in common with it are recomputed or copied again, unless the next stripe
    lies inside it. ROLLING holds the elements that are still needed and makes or copies each element once: on one axis addresses are modulo
    the buffer, on the others the tensor is whole. DOUBLE is for tensors at home in another memory: two stripes, of which one is copied
    while the other one is used.
    """

    RECOMPUTE = "recompute"
    ROLLING = "rolling"
    DOUBLE = "double"


class StripeBuffer(Struct, frozen=True):
    """Room for ``copies`` arrays of ``shape``; rows of ``axis`` (None: none) lie at their index modulo the shape.

    ``origin`` is the tensor's element at the first position of a rolling buffer, except along ``axis``.
    """

    tensor: str
    mode: BufferMode
    shape: tuple[int, ...]
    element_size: int
    axis: int | None = None
    origin: tuple[int, ...] = ()
    copies: int = 1

    @property
    def size(self) -> int:
        """Bytes."""
        return self.copies * prod(self.shape) * self.element_size


class PartGroup(Protocol):
    """Consecutive parts that are executed together, stripe by stripe."""

    @property
    def first(self) -> int:
        """The first part's position."""

    @property
    def last(self) -> int:
        """The last part's position."""


G = TypeVar("G", bound=PartGroup)


class Plan(Struct, Generic[G], frozen=True):
    """One way to execute a part group; the group says its stripes and their order.

    ``staged`` holds the parts whose constants are copied whole into the cascade memory. ``memory`` counts everything that is live while the
    group runs, tensors that pass by too. ``cycles`` count all copies as hidden by earlier work, as far as the home memory's bandwidth
    allows. ``cold_cycles`` count the first copy as issued when the group begins. ``buffers`` holds the stripe buffers if the group gives
    their modes; rolling buffers of single rows follow from the jobs. ``work`` is the work of the parts in their own unit; 0 if the device
    counts only cycles.
    """

    group: G
    staged: tuple[int, ...]
    memory: int
    cycles: int
    cold_cycles: int
    buffers: tuple[StripeBuffer, ...] = ()
    work: Fraction = Fraction(0)
