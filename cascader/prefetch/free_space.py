"""Room: the bytes of an arena that tensors leave free, job by job, and the addresses for copies in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from cascader.allocate.extents import Extent
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import ceil_div, round_up

Steps = npt.NDArray[np.signedinteger[Any]]
"""Numbers of jobs, in the smallest integer type that holds them, because there are many."""

UNITS = 2048
"""The most units of an arena of more than :data:`EXACT` bytes: finer units are not worth their time."""

EXACT = 128 * 1024
"""Bytes of an arena up to which every :data:`ALIGNMENT` bytes are a unit."""

FINEST = 16384
"""The most units of an arena for a patient search: every 16 bytes of 256 KiB are one."""


def most_units(size: int, alignment: int = ALIGNMENT, *, patient: bool = False) -> int:
    """The most units into which an arena of ``size`` bytes is divided."""
    exact = max(1, ceil_div(size, alignment))
    if patient:
        return min(exact, FINEST)
    return UNITS if size > EXACT else exact


class Gap(Struct, frozen=True):
    """A gap: ``address`` in bytes, free from job ``start`` on."""

    address: int
    start: int


def _runs(extents: Sequence[Extent], addresses: Sequence[int], unit: int) -> Iterator[tuple[int, int, int, int]]:
    """First and last job, first and last unit (both ends exclusive) of consecutive jobs at which a tensor holds the same units."""
    lengths = [len(extent.low) for extent in extents]
    steps = np.concatenate([np.arange(extent.start, extent.end) for extent in extents])
    bases = np.repeat(np.asarray(addresses, dtype=np.int64), lengths)
    lows, highs = (np.concatenate([getattr(extent, end) for extent in extents]) for end in ("low", "high"))
    live = highs > lows
    low, high = (bases + lows) // unit, -(-(bases + highs) // unit)
    changes = np.ones(len(steps) + 1, dtype=np.bool_)
    changes[1:-1] = (np.diff(low) != 0) | (np.diff(high) != 0) | (live[1:] != live[:-1])
    changes[np.cumsum(lengths)] = True
    bounds = np.flatnonzero(changes)
    firsts, lasts = bounds[:-1][live[bounds[:-1]]], bounds[1:][live[bounds[:-1]]]
    return zip(*(part.tolist() for part in (steps[firsts], steps[lasts - 1] + 1, low[firsts], high[firsts])), strict=True)


def _free_from(extents: Sequence[Extent], addresses: Sequence[int], steps: int, unit: int, units: int) -> Steps:
    """For every job (rows) and unit, the job after the last job so far at which a byte of the unit is live; 0 if none was."""
    kind = np.int16 if steps < np.iinfo(np.int16).max else np.int64
    behind = np.arange(1, steps + 1, dtype=kind)[:, None]
    found = np.zeros((steps, units), dtype=kind)
    for first, last, low, high in _runs(extents, addresses, unit) if extents else ():
        found[first:last, low:high] = behind[first:last]
    for before, row in pairwise(found):
        np.maximum(before, row, out=row)
    return found


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

    def __init__(
        self,
        extents: Sequence[Extent],
        addresses: Sequence[int],
        steps: int,
        size: int,
        alignment: int = ALIGNMENT,
        *,
        patient: bool = False,
    ) -> None:
        """``patient`` uses the number of units from :func:`most_units` for a patient search."""
        self.unit = round_up(ceil_div(size, most_units(size, alignment, patient=patient)), alignment)
        self.units = size // self.unit
        self.free_from = _free_from(extents, addresses, steps, self.unit, self.units)
        """For every job and unit the job after the last one, up to it, at which a tensor holds the unit."""

    def copies(self) -> CopyRoom:
        """An empty set of copies in this room."""
        return CopyRoom(self, np.zeros(self.units, dtype=self.free_from.dtype))


class CopyRoom:
    """A room into which copies are put, one after the other, in the order of their first use."""

    def __init__(self, room: Room, free_from: Steps) -> None:
        self._room = room
        self._free_from = free_from

    def gaps(self, size: int, first: int, last: int) -> Gaps | None:
        """The gaps of ``size`` bytes that are free at jobs ``first`` to ``last``; None if there is none."""
        room = self._room
        width = ceil_div(size, room.unit)
        if width > room.units:
            return None
        # Bytes that other copies hold beyond the last job need no look: they are not free at the first job either.
        found = Gaps(room.unit, _highest_in_windows(np.maximum(room.free_from[last], self._free_from), width))
        return found if found.first_start <= first else None

    def put(self, gap: Gap, size: int, last: int) -> None:
        """Take a gap up to job ``last``."""
        unit = self._room.unit
        span = self._free_from[gap.address // unit : ceil_div(gap.address + size, unit)]
        np.maximum(span, last + 1, out=span)


class Gaps:
    """All gaps for one copy: ``free_from[i]`` is the job from which on the gap at ``i`` units is free."""

    def __init__(self, unit: int, free_from: Steps) -> None:
        self._unit = unit
        self._free_from = free_from
        self.first_start = int(free_from[free_from.argmin()])
        """The first job from which on any gap is free."""

    def at(self, wanted: int, *, highest: bool = False) -> Gap:
        """A gap that is free from ``wanted`` on, or as soon as possible after it.

        If there are several, the most recently used one is taken, so that gaps which have been free for longer stay free. In a tie it is
        the lowest, or the ``highest``.
        """
        if self.first_start > wanted:
            place = int(self._free_from.argmin())
        else:
            # Bytes that are not free yet would be a negative distance ahead; as unsigned numbers they are hugely far ahead.
            ahead = (wanted - self._free_from).view(f"u{self._free_from.itemsize}")
            place = len(ahead) - 1 - int(ahead[::-1].argmin()) if highest else int(ahead.argmin())
        return Gap(place * self._unit, int(self._free_from[place]))
