"""Plan (RFC 0037): a part group with its stripes, its buffers and its copies, in bytes and cycles."""

from __future__ import annotations

from fractions import Fraction
from typing import Generic, Protocol, TypeVar

from cascader.plan.buffer_modes import StripeBuffer
from npu_model.values import dataclass


class PartGroup(Protocol):
    """Consecutive parts that are executed together, stripe by stripe."""

    @property
    def first(self) -> int:
        """The first part's position."""

    @property
    def last(self) -> int:
        """The last part's position."""


G = TypeVar("G", bound=PartGroup)


@dataclass(frozen=True, slots=True)
class Plan(Generic[G]):
    """One way to execute a part group; the group says its stripes and their order.

    ``staged`` are the parts whose constants are copied into the cascade memory whole. ``memory`` counts everything that is live while the
    group runs, tensors that pass by too. ``cycles`` are those with all copies hidden behind earlier work, as far as the home memory's
    bandwidth allows, ``cold_cycles`` those with the first copy issued when the group begins. ``buffers`` are the stripe buffers where the
    group says their modes; rolling buffers of single rows are made of the jobs. ``work`` is what the parts do, in the unit of their own
    work; 0 where the device counts cycles alone.
    """

    group: G
    staged: tuple[int, ...]
    memory: int
    cycles: int
    cold_cycles: int
    buffers: tuple[StripeBuffer, ...] = ()
    work: Fraction = Fraction(0)
