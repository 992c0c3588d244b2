"""Resting buffers: the buffers that reach the peak of an allocation, and the buffers below them, down to the lowest one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cascader.allocate.extents import NEVER, Extents
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up


def _gap(extents: Extents, below: int, above: int) -> int:
    """Bytes by which the buffer ``above`` must lie over the buffer ``below``; NEVER if they are never live together."""
    one, two = extents[below], extents[above]
    start, end = max(one.start, two.start), min(one.end, two.end)
    high, bottom = (some[start - one.start : end - one.start] for some in (one.high, one.low))
    top, low = (some[start - two.start : end - two.start] for some in (two.high, two.low))
    live = (high > bottom) & (top > low)
    return int((high - low)[live].max(initial=NEVER))


def _under(extents: Extents, addresses: Sequence[int], buffer: int, alignment: int) -> Iterator[int]:
    """The buffers directly below one: it could move down if one of them did."""
    places, at = np.asarray(addresses), addresses[buffer]
    together = (extents.starts < extents.ends[buffer]) & (extents.ends > extents.starts[buffer])
    for other in np.flatnonzero(together & (places < at)).tolist():
        gap = _gap(extents, other, buffer)
        if gap != NEVER and round_up(gap, alignment) == at - addresses[other]:
            yield other


def resting(extents: Extents, addresses: Sequence[int], *, alignment: int = ALIGNMENT) -> tuple[int, ...]:
    """The buffers (indices) at the end of the allocation, and the buffers below them: the peak falls only if one of them changes."""
    tops = [addresses[number] + int(extent.high.max(initial=0)) for number, extent in enumerate(extents)]
    found = [number for number, top in enumerate(tops) if top > max(tops) - alignment]
    for buffer in found:  # it grows meanwhile
        found += [other for other in _under(extents, addresses, buffer, alignment) if other not in found]
    return tuple(sorted(found))
