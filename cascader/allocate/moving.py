"""Allocation of buffers whose used part moves over time: two buffers may share bytes if they never use them at the same step.

Buffer a may lie below buffer b if at every step at which both are live pos(b) - pos(a) is at least (top of a's live bytes) - (bottom of b's
live bytes). A tensor that is consumed from its first row can thus make room for a tensor that grows after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cascader.allocate.extents import Extent, Extents
from cascader.allocate.first_fit import every_placement, search
from npu_model.native import native
from npu_model.program.alignment import ALIGNMENT

_NATIVE = native("cascader")


def allocate(
    extents: Sequence[Extent] | Extents, *, alignment: int = ALIGNMENT, moves: int = 2000, seed: int = 1
) -> tuple[int, tuple[int, ...]]:
    """Peak (a multiple of ``alignment``) and addresses: greedy orders, then ``moves`` seeded moves at each of two heats.

    Stops at the lower bound, the most live bytes at one step.
    """
    found = Extents.of(extents)
    if not len(found):
        return 0, ()
    if _NATIVE is None:
        return search(tuple(found), alignment, moves, seed)
    addresses = np.empty(len(found), dtype=np.int64)
    peak = _NATIVE.allocate(*found.arrays, np.array([alignment, moves, seed], dtype=np.int64), addresses)
    return int(peak), tuple(addresses.tolist())


def placements(
    extents: Sequence[Extent] | Extents, limit: int, *, alignment: int = ALIGNMENT, most: int = 720
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Every (peak, addresses) of at most ``limit`` bytes from first fit over several orders, without repeats.

    The first ``most`` orders are tried: all orders if there are at most six buffers.
    """
    found = Extents.of(extents)
    if _NATIVE is None:
        return tuple(dict.fromkeys(every_placement(tuple(found), limit, alignment, most)))
    raw = np.frombuffer(_NATIVE.placements(*found.arrays, np.array([alignment, limit, most], dtype=np.int64)), dtype=np.int64)
    return tuple(dict.fromkeys((line[0], tuple(line[1:])) for line in raw.reshape(-1, len(found) + 1).tolist()))
