"""Room: what the tensors leave free of an arena, job by job, and where in it a copy finds a place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from cascader.overlap import Extent
from npu_model.shapes import ceil_div, round_up

Steps = npt.NDArray[np.int64]

UNITS = 2048
"""Pieces that an arena is divided into at most: the last byte of a large one is not worth the time that it takes."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A free place: ``address`` in bytes, free from job ``start`` on."""

    address: int
    start: int


def _occupancy(extents: Sequence[Extent], addresses: Sequence[int], steps: int, unit: int, units: int) -> npt.NDArray[np.bool_]:
    """Whether a byte of a unit is live at a job; rows are jobs."""
    taken = np.zeros((steps, units), dtype=np.bool_)
    for extent, address in zip(extents, addresses, strict=True):
        low, high = (extent.low + address) // unit, -(-(extent.high + address) // unit)
        live = extent.high > extent.low
        changes = np.flatnonzero(np.diff(low) | np.diff(high) | np.diff(live)) + 1
        bounds = [0, *changes.tolist(), len(low)]
        for first, last in pairwise(bounds):
            if last > first and live[first]:
                taken[extent.start + first : extent.start + last, int(low[first]) : int(high[first])] = True
    return taken


def _highest_in_windows(values: Steps, width: int) -> Steps:
    """Maximum of every ``width`` neighbours.

    >>> _highest_in_windows(np.array([3, 1, 2, 0, 0]), 3)
    array([3, 2, 2])
    """
    done = 1
    while done < width:
        step = min(done, width - done)
        values = np.maximum(values[:-step], values[step:])
        done += step
    return values


class Room:
    """The free bytes of an arena of ``size`` bytes over ``steps`` jobs, in units that are multiples of ``alignment``."""

    def __init__(self, extents: Sequence[Extent], addresses: Sequence[int], steps: int, size: int, alignment: int = 16) -> None:
        self.unit = round_up(ceil_div(size, UNITS), alignment)
        self.units = size // self.unit
        taken = _occupancy(extents, addresses, steps, self.unit, max(self.units, *(1, *_tops(extents, addresses, self.unit))))
        ones = np.where(taken[:, : self.units], np.arange(steps)[:, None], -1)
        self._last_taken: npt.NDArray[np.int64] = np.maximum.accumulate(ones, axis=0) if steps else ones

    def copies(self) -> CopyRoom:
        """An empty set of copies in this room."""
        return CopyRoom(self)

    def last_taken(self, step: int) -> Steps:
        """For every unit the last job up to ``step`` at which a tensor holds it; -1 if none has."""
        row: Steps = self._last_taken[step]
        return row


def _tops(extents: Sequence[Extent], addresses: Sequence[int], unit: int) -> list[int]:
    return [ceil_div(address + int(extent.high.max()), unit) for extent, address in zip(extents, addresses, strict=True)]


class CopyRoom:
    """A room into which copies are put, one after the other, in the order of their first use."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._held_until: Steps = np.full(room.units, -1, dtype=np.int64)

    def gaps(self, size: int, first: int, last: int) -> Gaps | None:
        """The gaps of ``size`` bytes that are free at jobs ``first`` to ``last``; None if there is none."""
        room = self._room
        width = ceil_div(size, room.unit)
        if width > room.units:
            return None
        taken = np.maximum(room.last_taken(last), np.minimum(self._held_until, last))
        found = Gaps(room.unit, _highest_in_windows(taken, width) + 1)
        return found if found.first_start <= first else None

    def put(self, gap: Gap, size: int, last: int) -> None:
        """Take a gap up to job ``last``."""
        unit = self._room.unit
        span = slice(gap.address // unit, ceil_div(gap.address + size, unit))
        np.maximum(self._held_until[span], last, out=self._held_until[span])


class Gaps:
    """All places for one copy: ``free_from[i]`` is the job from which on the place at ``i`` units is free."""

    def __init__(self, unit: int, free_from: Steps) -> None:
        self._unit = unit
        self._free_from = free_from
        self.first_start = int(free_from.min())
        """The first job from which on any place is free."""

    def at(self, wish: int) -> Gap:
        """A gap that is free from ``wish`` on, or as soon after as there is one.

        Of several it is the one that was taken last, so that those which are free for longer stay so, and of those the lowest.
        """
        if self.first_start > wish:
            place = int(self._free_from.argmin())
        else:
            place = int(np.where(self._free_from <= wish, self._free_from, -1).argmax())
        return Gap(place * self._unit, int(self._free_from[place]))
