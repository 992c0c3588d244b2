"""The layer-by-layer schedule, of groups of one part: the baseline for cascading."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cascader.allocate.moving import allocate
from cascader.draft.draft import COPY, Draft
from cascader.draft.outline import Outlines
from cascader.ethosu.job.schedule import UNKNOWN, Provenance, Schedule
from cascader.ethosu.network.homes import home_addresses
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.schedule.drafts import in_own_blocks, schedule_of
from cascader.ethosu.verify.check import check_schedule
from cascader.graph.row_graph import RowPart
from cascader.plan.buffers import buffers
from cascader.plan.depth_first import DepthFirstScheduler, Group, StripeJob
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.errors import InputError


def _stripes(index: int, part: RowPart) -> Iterator[StripeJob]:
    """All rows of a part, in the fewest possible stripes."""
    step = part.chunk(part.rows)
    return (StripeJob(index, start, min(part.rows, start + step)) for start in range(0, part.rows, step))


def draft_layer_by_layer(network: Network, scheduler: DepthFirstScheduler, cycles: int = 0, *, in_place: bool = True) -> Draft:
    """Every part whole, its constants at home, in its own block: a draft with ``cycles`` as estimate."""
    graph = scheduler.graph
    groups = [Group(index, index, part.rows) for index, part in enumerate(graph.parts)]
    # Every part computes all of its rows, even unread ones, as a compiler's schedule does.
    jobs = np.array([job for index, part in enumerate(graph.parts) for job in _stripes(index, part)], dtype=np.int64).reshape(-1, 3)
    stores = buffers(scheduler, jobs, groups, in_place=in_place)
    _, addresses = allocate(stores.extents)
    outline = Outlines(graph, home_addresses(network)).of(groups, jobs, stores)
    return in_own_blocks(outline.draft(addresses, np.empty((0, COPY), dtype=np.int64), 0, cycles), network)


def schedule_layer_by_layer(
    network: Network,
    accelerator: str,
    *,
    arena_cache_size: int | None = None,
    in_place: bool = True,
    provenance: Provenance = UNKNOWN,
    checked: bool = True,
) -> Schedule:
    """Every part whole, in the network's order, at addresses that are reused as tensors die.

    With ``in_place`` an elementwise output takes over the storage of an operand that dies with it. A ``checked`` schedule has passed
    :func:`~cascader.ethosu.verify.check.check_schedule`. InputError if the accelerator is unknown or the arena would exceed
    ``arena_cache_size`` bytes.
    """
    find_accelerator(accelerator)
    draft = draft_layer_by_layer(network, DepthFirstScheduler(row_graph(network)), in_place=in_place)
    schedule = schedule_of(draft, network, accelerator, provenance)
    if checked:
        check_schedule(schedule)
    size = schedule.arena_size
    if arena_cache_size is not None and size > arena_cache_size:
        raise InputError(
            f"The layer-by-layer schedule needs {size} bytes, {size - arena_cache_size} more than the arena cache size of "
            f"{arena_cache_size}: allow {size}, the smallest that it reaches, or cascade."
        )
    return schedule
