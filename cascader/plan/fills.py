"""Fills: the elements of a tensor that are made or copied at each of its stripes, and the room that they take."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from cascader.graph.intervals import Box, clip, hull, is_empty, lengths
from cascader.plan.plan import BufferMode


def fills(wanted: Sequence[Box], mode: BufferMode) -> list[Box]:
    """The boxes of a tensor that are newly made, or copied, at each stripe."""
    return _new_boxes(wanted) if mode is BufferMode.ROLLING else _changed_boxes(wanted)


class _Grid:
    """A grid of all borders of some boxes, so that every box is whole cells; ``have`` marks the taken cells."""

    def __init__(self, boxes: Sequence[Box]) -> None:
        self.borders = [sorted({border for box in boxes for border in box[axis]}) for axis in range(len(boxes[0]))]
        self._places = [{border: place for place, border in enumerate(own)} for own in self.borders]
        self.have = np.zeros([max(1, len(own) - 1) for own in self.borders], dtype=bool)

    def cells(self, box: Box) -> tuple[slice, ...]:
        """The cells of a box."""
        return tuple(slice(place[low], place[high]) for place, (low, high) in zip(self._places, box, strict=True))


def covered(boxes: Sequence[Box]) -> int:
    """Elements of the union of boxes.

    >>> covered([((0, 3),), ((2, 5),), ((0, 1),)])
    5
    """
    grid = _Grid(boxes)
    for box in boxes:
        grid.have[grid.cells(box)] = True
    # An axis without any element has one empty cell.
    sizes = [np.diff(own) if len(own) > 1 else np.zeros(1, dtype=np.int64) for own in grid.borders]
    return int(reduce(np.multiply.outer, sizes)[grid.have].sum())


def _changed_boxes(wanted: Sequence[Box]) -> list[Box]:
    """Each stripe whole, or nothing if it lies inside the one that is held.

    >>> _changed_boxes([((0, 3),), ((1, 3),), ((1, 4),)])
    [((0, 3),), ((0, 0),), ((1, 4),)]
    """
    held: Box | None = None
    found = []
    for box in wanted:
        if is_empty(box) or (held is not None and clip(box, held) == box):
            found.append(tuple((0, 0) for _ in box))
        else:
            found.append(box)
            held = box
    return found


def _new_boxes(wanted: Sequence[Box]) -> list[Box]:
    """The hull of the elements of each stripe that no earlier stripe had.

    >>> _new_boxes([((0, 3), (0, 2)), ((0, 3), (1, 4)), ((2, 5), (0, 4))])
    [((0, 3), (0, 2)), ((0, 3), (2, 4)), ((3, 5), (0, 4))]
    """
    grid = _Grid(wanted)
    found: list[Box] = []
    for box in wanted:
        cells = grid.cells(box)
        new = np.argwhere(~grid.have[cells])
        grid.have[cells] = True
        if is_empty(box) or not len(new):
            found.append(tuple((0, 0) for _ in box))
            continue
        ends = zip(grid.borders, cells, new.min(axis=0), new.max(axis=0) + 1, strict=True)
        found.append(tuple((own[cell.start + first], own[cell.start + last]) for own, cell, first, last in ends))
    return found


def longest(boxes: Sequence[Box]) -> tuple[int, ...]:
    """The largest length of each axis."""
    return tuple(max(own) for own in zip(*(lengths(box) for box in boxes), strict=True))


def rolling_shape(axis: int, used: Sequence[Box]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and origin of a buffer that rolls along ``axis``: from the lowest index still used to the highest index used so far."""
    everything = reduce(hull, used)
    least: list[int] = []
    for box in reversed(used):
        low = everything[axis][1] if is_empty(box) else box[axis][0]
        least.append(min(low, least[-1]) if least else low)
    most = length = 0
    for box, low in zip(used, reversed(least), strict=True):
        most = most if is_empty(box) else max(most, box[axis][1])
        length = max(length, most - low)
    shape = tuple(length if own == axis else high - low for own, (low, high) in enumerate(everything))
    return shape, tuple(low for low, _ in everything)
