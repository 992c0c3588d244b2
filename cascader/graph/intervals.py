"""Boxes: one half-open interval of elements per axis of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

Interval = tuple[int, int]
"""First element, and end (exclusive); empty if they are equal."""

Box = tuple[Interval, ...]


def whole(shape: Sequence[int]) -> Box:
    """All elements of a tensor.

    >>> whole((2, 3))
    ((0, 2), (0, 3))
    """
    return tuple((0, extent) for extent in shape)


def clip(box: Box, within: Box) -> Box:
    """The part of ``box`` that lies inside ``within``. An axis without a common element becomes an empty interval inside ``within``.

    >>> clip(((-1, 4), (5, 9)), ((0, 8), (0, 3)))
    ((0, 4), (3, 3))
    """
    clipped = []
    for (low, high), (first, last) in zip(box, within, strict=True):
        start = min(max(low, first), last)
        clipped.append((start, max(start, min(high, last))))
    return tuple(clipped)


def lengths(box: Box) -> tuple[int, ...]:
    """Elements along each axis."""
    return tuple(high - low for low, high in box)


def elements(box: Box) -> int:
    """Number of elements.

    >>> elements(((0, 4), (2, 5)))
    12
    """
    count = 1
    for low, high in box:
        count *= high - low
    return count


def is_empty(box: Box) -> bool:
    """Whether there is no element.

    >>> is_empty(((0, 4), (2, 2)))
    True
    """
    for low, high in box:  # noqa: SIM110  # a generator takes three times as long, and plans ask by the million
        if low >= high:
            return True
    return False


def hull(first: Box, second: Box) -> Box:
    """The smallest box that holds both; an empty box adds nothing.

    >>> hull(((0, 2), (0, 2)), ((1, 4), (0, 1)))
    ((0, 4), (0, 2))
    """
    if is_empty(first):
        return second
    if is_empty(second):
        return first
    return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(first, second, strict=True))
