"""The climb: one change after another as long as cycles fall, for any kind of change and any judge of cycles.

The search first climbs by estimates of drafts, and then by replays of schedules with other groups, other blocks, and copies that are left
out or issued later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, tee
from typing import TypeVar

T = TypeVar("T")
N = TypeVar("N")
C = TypeVar("C", int, tuple[int, int])
"""Cycles, or cycles and what decides between equally many."""

Moves = Callable[[T, Sequence[N]], Iterator[tuple[N, T]]]
"""The changes of a value, each with its key, in the order in which they are tried; changes that were judged before come last."""

Costs = Callable[[Iterable[T]], Iterator[C]]
"""Cycles of some changes, in order. It may take changes before their turn, and judge them in vain."""


def climb(start: T, cycles: C, moves: Moves[T, N], costs: Costs[T, C]) -> Iterator[tuple[T, C]]:
    """The best so far and its cycles after each judged change, from a start with known cycles. It ends when no change saves cycles."""
    best, judged, improved = start, list[N](), True
    while improved:
        improved = False
        changes, drawn = tee(moves(best, judged))
        for (known_by, change), found in zip(changes, costs(change for _, change in drawn), strict=True):
            judged.append(known_by)
            improved = found < cycles
            if improved:
                best, cycles = change, found
            yield best, cycles
            if improved:
                break


def climbed(start: T, cycles: C, moves: Moves[T, N], costs: Costs[T, C], most: int, target: C | None = None) -> tuple[T, C]:
    """The best after at most ``most`` judged changes, and its cycles: the first with at most ``target`` cycles, if there is a target.

    >>> def moves(value, judged):
    ...     return ((step, value + step) for step in (-1, 1, 3))
    >>> climbed(0, 49, moves, lambda values: ((value - 7) ** 2 for value in values), most=20)
    (7, 0)
    """
    best = start, cycles
    if target is None or cycles > target:
        for best in islice(climb(start, cycles, moves, costs), most):
            if target is not None and best[1] <= target:
                break
    return best


def from_place(count: int, first: int) -> Iterator[int]:
    """The numbers 0 to ``count`` - 1, starting from one of them and wrapping around.

    >>> list(from_place(4, 2))
    [2, 3, 0, 1]
    """
    yield from range(first, count)
    yield from range(min(first, count))
