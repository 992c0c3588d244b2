"""Extents: the bytes of buffers that are live, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Steps = npt.NDArray[np.int64]
NEVER = -(1 << 40)
"""The required gap between two buffers that are never live together."""


class Extent(Struct, frozen=True):
    """Bytes ``low[i]`` to ``high[i]`` (exclusive), from the buffer's base, are live at step ``start + i``; equal means none."""

    name: str
    start: int
    low: Steps
    high: Steps

    @property
    def end(self) -> int:
        """First step after the life."""
        return self.start + len(self.low)


def fixed(name: str, size: int, start: int, end: int) -> Extent:
    """A buffer whose ``size`` bytes are all live from step ``start`` until before step ``end``.

    >>> fixed("a", 32, 1, 3).high.tolist()
    [32, 32]
    """
    high = np.full(end - start, size, dtype=np.int64)
    return Extent(name, start, np.zeros_like(high), high)


class Extents(Struct, frozen=True, eq=False):
    """Extents as flat arrays, as the compiled core takes them.

    Extent i lives from step ``starts[i]`` until ``ends[i]`` (exclusive); its lows begin at ``offsets[i]`` of ``data``, its highs follow.
    """

    starts: Steps
    ends: Steps
    offsets: Steps
    data: Steps

    @staticmethod
    def of(extents: Sequence[Extent] | Extents) -> Extents:
        """The same extents as arrays."""
        if isinstance(extents, Extents):
            return extents
        lengths = [2 * len(extent.low) for extent in extents]
        data = [array for extent in extents for array in (extent.low, extent.high)]
        return Extents(
            starts=np.array([extent.start for extent in extents], dtype=np.int64),
            ends=np.array([extent.end for extent in extents], dtype=np.int64),
            offsets=np.cumsum([0, *lengths], dtype=np.int64)[:-1],
            data=np.concatenate(data).astype(np.int64) if data else np.empty(0, dtype=np.int64),
        )

    @property
    def arrays(self) -> tuple[Steps, Steps, Steps, Steps]:
        """All arrays in their order."""
        return self.starts, self.ends, self.offsets, self.data

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> Extent:
        """Extent number ``index``, without a name."""
        at, steps = int(self.offsets[index]), int(self.ends[index] - self.starts[index])
        return Extent("", int(self.starts[index]), self.data[at : at + steps], self.data[at + steps : at + 2 * steps])

    def __iter__(self) -> Iterator[Extent]:
        return (self[index] for index in range(len(self)))


NO_EXTENTS = Extents.of(())
"""An arena without buffers."""


def live_bytes(extents: Sequence[Extent] | Extents, steps: int) -> Steps:
    """Live bytes at every step: no allocation needs less than their maximum."""
    total = np.zeros(steps, dtype=np.int64)
    for extent in extents:
        total[extent.start : extent.end] += extent.high - extent.low
    return total
