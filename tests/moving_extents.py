"""Strategies for buffers whose live bytes move over the steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from cascader.allocate.extents import Extent


def extent(start: int, *spans: tuple[int, int], name: str = "") -> Extent:
    """A buffer that holds the bytes ``spans[i]`` at step ``start + i``."""
    return Extent(name, start, np.array([low for low, _ in spans], np.int64), np.array([high for _, high in spans], np.int64))


def extents(count: int, size: int, steps: int, *, least: int = 1, within: int | None = None) -> st.SearchStrategy[list[Extent]]:
    """``least`` to ``count`` buffers of up to ``size`` bytes that begin in one of ``steps`` steps and end by step ``within`` if given."""
    spans = st.tuples(st.integers(0, size), st.integers(0, size)).map(sorted).map(tuple)

    def lasting(start: int) -> st.SearchStrategy[Extent]:
        longest = steps if within is None else within - start
        return st.lists(spans, min_size=1, max_size=longest).map(lambda found: extent(start, *found))

    return st.lists(st.integers(0, steps - 1).flatmap(lasting), min_size=least, max_size=count)


def is_valid(found: Sequence[Extent], addresses: Sequence[int]) -> bool:
    """Byte by byte and step by step: no byte is live in two buffers."""
    for step in range(max(e.end for e in found)):
        taken: set[int] = set()
        for one, address in zip(found, addresses, strict=True):
            if one.start <= step < one.end:
                mine = {address + byte for byte in range(one.low[step - one.start], one.high[step - one.start])}
                if mine & taken:
                    return False
                taken |= mine
    return True
