"""The vocabulary of allocation: Buffer, Problem, Solution, and the geometry of conflicts between buffers.

Four buffers in ten steps, and the best that can be done with them::

    bytes
     48 +-----+  +--------------+        a  size 32, steps 0 to 4
        |  b  |  |      c       |        b  size 16, steps 0 to 2
     32 +-----+--+--+-----------+        c  size 16, steps 3 to 10
        |     a     |     d     |        d  size 32, steps 4 to 10
        |           |           |
      0 +-----------+-----------+
        0     2  3  4          10  step

A solver chooses the height of each box; time is given.

Only :func:`gap` and :func:`stack_height` know what keeps two buffers apart. The search works with gaps: of two buffers
in conflict, one lies above the other by at least their gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from npu_model.errors import InputError
from npu_model.shapes import round_up

DEFAULT_ALIGNMENT = 16
"""Bytes. The strictest alignment of a tensor that the Ethos-U55 has (NHCWB16 bases; core driver)."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """``size`` bytes that are needed from step ``start`` until before step ``end``, at a multiple of ``alignment``."""

    name: str
    size: int
    start: int
    end: int
    alignment: int = DEFAULT_ALIGNMENT

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"Buffer {self.name!r} has {self.size} bytes: at least 1 is needed.")
        if self.start >= self.end:
            raise InputError(f"Buffer {self.name!r} lives from step {self.start} until before {self.end}: the end must be later.")
        if self.alignment < 1:
            raise InputError(f"Buffer {self.name!r} has alignment {self.alignment}: at least 1 is needed.")


@dataclass(frozen=True, slots=True)
class Problem:
    """Buffers to place; with a ``capacity``, no byte may lie at or beyond it."""

    buffers: tuple[Buffer, ...]
    capacity: int | None = None


@dataclass(frozen=True, slots=True)
class Solution:
    """Addresses in the order of the problem's buffers, and the end of the highest buffer in bytes."""

    addresses: tuple[int, ...]
    peak: int


def gap(below: Buffer, above: Buffer) -> int | None:
    """Bytes that ``above`` must lie higher than ``below`` if it lies above it at all; None if they never meet.

    >>> gap(Buffer("a", 32, 0, 4), Buffer("b", 16, 0, 2)), gap(Buffer("b", 16, 0, 2), Buffer("a", 32, 0, 4))
    (32, 16)
    >>> gap(Buffer("b", 16, 0, 2), Buffer("d", 32, 4, 10)) is None
    True
    """
    return below.size if below.start < above.end and above.start < below.end else None


def stack_height(live: Iterable[Buffer]) -> int:
    """Least bytes that buffers which are all live at one step can take, whatever their order.

    Every buffer but the topmost one fills up to the alignment that all have in common; on top goes the one that saves most.

    >>> stack_height([Buffer("a", 20, 0, 1), Buffer("b", 10, 0, 1)])
    36
    """
    buffers = tuple(live)
    if not buffers:
        return 0
    common = math.gcd(*(buffer.alignment for buffer in buffers))
    padded = [round_up(buffer.size, common) for buffer in buffers]
    return sum(padded) - max(full - buffer.size for full, buffer in zip(padded, buffers, strict=True))


def sections(buffers: tuple[Buffer, ...]) -> tuple[tuple[int, ...], ...]:
    """The largest sets of buffers (by index) that are live at one step: no set is part of another one.

    Such a set is complete when a buffer dies after one was born; so only those steps are looked at.
    """
    events = sorted((step, born, index) for index, b in enumerate(buffers) for step, born in ((b.start, True), (b.end, False)))
    live: set[int] = set()
    found = []
    grown = False
    for _, born, index in events:
        if born:
            live.add(index)
        else:
            if grown:
                found.append(tuple(sorted(live)))
            live.discard(index)
        grown = born
    return tuple(found)


def lower_bound(problem: Problem) -> int:
    """Bytes that no solution can do without: the most that is live at one step.

    >>> lower_bound(Problem((Buffer("a", 32, 0, 4), Buffer("b", 16, 0, 2), Buffer("c", 16, 3, 10), Buffer("d", 32, 4, 10))))
    48
    """
    buffers = problem.buffers
    return max((stack_height(buffers[index] for index in section) for section in sections(buffers)), default=0)
