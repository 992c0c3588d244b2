"""Pareto culling on memory and cycles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar


class Costed(Protocol):
    """Any value with a memory in bytes and a number of cycles."""

    @property
    def memory(self) -> int:
        """Bytes."""

    @property
    def cycles(self) -> int:
        """Cycles."""


C = TypeVar("C", bound=Costed)


def _own_cycles(candidate: Costed) -> int:
    return candidate.cycles


def pareto(candidates: Iterable[C], cycles: Callable[[C], int] = _own_cycles) -> tuple[C, ...]:
    """The candidates that no other one beats in one cost without losing in the other, by ascending memory.

    The first of equal candidates is kept. ``cycles`` may name another cost than the candidate's own cycles.

    >>> from collections import namedtuple
    >>> P = namedtuple("P", "memory cycles")
    >>> pareto([P(3, 5), P(1, 9), P(2, 9), P(4, 1), P(3, 6)])
    (P(memory=1, cycles=9), P(memory=3, cycles=5), P(memory=4, cycles=1))
    """
    front: list[C] = []
    for candidate in sorted(candidates, key=lambda c: (c.memory, cycles(c))):
        if not front or cycles(candidate) < cycles(front[-1]):
            front.append(candidate)
    return tuple(front)
