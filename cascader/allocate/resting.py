"""Resting buffers: the buffers of an allocation that reach its peak, and those that they lie on, down to the lowest one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cascader.allocate.extents import NEVER, Extents
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up


def _gap(extents: Extents, below: int, above: int) -> int:
    """Bytes by which the buffer ``above`` has to lie higher than the one ``below``; NEVER if they are never live together."""
    one, two = extents[below], extents[above]
    start, end = max(one.start, two.start), min(one.end, two.end)
    high, bottom = (some[start - one.start : end - one.start] for some in (one.high, one.low))
    top, low = (some[start - two.start : end - two.start] for some in (two.high, two.low))
    live = (high > bottom) & (top > low)
    return int((high - low)[live].max(initial=NEVER))


def _under(extents: Extents, addresses: Sequence[int], buffer: int, alignment: int) -> Iterator[int]:
    """The buffers that one lies on: it could go lower if one of them did."""
    places, at = np.asarray(addresses), addresses[buffer]
    together = (extents.starts < extents.ends[buffer]) & (extents.ends > extents.starts[buffer])
    for other in np.flatnonzero(together & (places < at)).tolist():
        gap = _gap(extents, other, buffer)
        if gap != NEVER and round_up(gap, alignment) == at - addresses[other]:
            yield other


def resting(extents: Extents, addresses: Sequence[int], *, alignment: int = ALIGNMENT) -> tuple[int, ...]:
    """The buffers (indices) that end where the allocation does, and those that they lie on: unless one changes, nothing gets lower."""
    tops = [addresses[number] + int(extent.high.max(initial=0)) for number, extent in enumerate(extents)]
    found = [number for number, top in enumerate(tops) if top > max(tops) - alignment]
    for buffer in found:  # it grows meanwhile
        found += [other for other in _under(extents, addresses, buffer, alignment) if other not in found]
    return tuple(sorted(found))
