"""Placed bytes: what the addresses of a network's plans reach, and the parts that run there. Plans know live bytes, but no gaps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cascader.allocate import allocate
from cascader.allocate.extents import Extents
from cascader.ethosu.forms.planned import Peak, Plans, plans_at_peak, plans_within
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.wanted_homes import Wanted
from cascader.plan.buffers import buffers
from cascader.plan.depth_first import group_table
from npu_model.program.alignment import ALIGNMENT

MANY_PARTS = 128
"""Parts of a form from which on its addresses count. The addresses of fewer parts reach a few per cent above their plans at most."""
_MOVES = 30_000
"""Moves of the search for addresses. MobileNetV2-0.35 in 770 parts: 8,192 bytes after 600, 7,968 after 6,000 and 7,936 after 30,000."""


def placed_peak(network: Network, homes: Sequence[Wanted] = ()) -> Peak:
    """The bytes that addresses of the plans of :func:`cascader.ethosu.forms.planned.planned_peak` reach, and the parts that run there."""
    return _placed(network, plans_at_peak(network, homes))


def placed_within(network: Network, homes: Sequence[Wanted], most: int | None) -> Peak | None:
    """Like :func:`placed_peak`; None if the plans hold more than ``most`` bytes."""
    plans = plans_within(network, homes, most)
    return None if plans is None else _placed(network, plans)


def _placed(network: Network, plans: Plans) -> Peak:
    jobs = group_table(plans.scheduler, plans.groups)
    extents = buffers(plans.scheduler, jobs, plans.groups).extents
    size, addresses = allocate(extents, moves=_MOVES)
    high = _highest(extents, addresses, len(jobs)) > size - ALIGNMENT
    return Peak(size, tuple(network.graph.parts[part].name for part in np.unique(jobs[high, 0]).tolist()))


def _highest(extents: Extents, addresses: Sequence[int], steps: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The end of the live bytes at every job."""
    found = np.zeros(steps, dtype=np.int64)
    for extent, address in zip(extents, addresses, strict=True):
        span = slice(extent.start, extent.end)
        found[span] = np.maximum(found[span], np.where(extent.high > extent.low, address + extent.high, 0))
    return found
