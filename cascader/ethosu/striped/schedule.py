"""Schedules of plans of stripes: the unrolled network layer by layer. Rolling tensors have buffers of their live rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cascader.allocate.extents import Extent, fixed
from cascader.allocate.moving import allocate
from cascader.draft.draft import COPY
from cascader.draft.outline import Outlines
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.job.schedule import UNKNOWN, Provenance, Schedule
from cascader.ethosu.job.staging import staged_bytes
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import known_row_graph
from cascader.ethosu.schedule.drafts import schedule_of
from cascader.ethosu.striped.unroll import unrolled
from cascader.ethosu.verify.check import check_schedule
from cascader.plan.buffers import Buffers, storages
from cascader.plan.depth_first import DepthFirstScheduler, Group
from cascader.plan.stripe_plans import StripePlan
from npu_model.accelerator import Accelerator


def striped_schedule(
    network: Network, plans: Sequence[StripePlan], accelerator: Accelerator, sources: Sources, *, provenance: Provenance = UNKNOWN
) -> Schedule:
    """The schedule that executes plans of the network's affine graph on the NPU, checked.

    Its jobs are the boxes of the plans' parts, in their order. A tensor inside a group has a buffer of the plan's bytes; results may take
    over the bytes of operands that die, so that the arena may be smaller than the plans' memory. Constants that a plan stages lie in the
    arena while its group runs, copied before its first job. InputError if the NPU cannot execute a plan.
    """
    made = unrolled(network, plans, accelerator, sources)
    scheduler = DepthFirstScheduler(known_row_graph(made.network, made.units))
    kernels, graph = made.network.kernels, made.network.graph
    groups, staged, first = list[Group](), list[tuple[list[int], Extent]](), 0
    for size, constants in zip(made.groups, made.staged, strict=True):
        end = first + size
        groups.append(Group(first, end - 1, scheduler.graph.parts[end - 1].rows))
        for names in constants:
            held = fixed(names[0], staged_bytes(kernels[names[0]].operation), first, end)
            staged.append(([graph.index(name) for name in names], held))
        first = end
    jobs = np.array([(index, 0, part.rows) for index, part in enumerate(scheduler.graph.parts)], dtype=np.int64).reshape(-1, 3)
    tensors = storages(scheduler, jobs, groups)
    _, addresses = allocate([*(store.extent for store in tensors), *(held for _, held in staged)])
    places, copied = addresses[: len(tensors)], addresses[len(tensors) :]
    copies = [(held.start, at, parts[0], reader) for (parts, held), at in zip(staged, copied, strict=True) for reader in parts]
    top = max((at + int(held.high[0]) for (_, held), at in zip(staged, copied, strict=True)), default=0)
    outline = Outlines(scheduler.graph).of(groups, jobs, Buffers.of(tensors, len(jobs)))
    draft = outline.draft(places, np.array(copies, dtype=np.int64).reshape(-1, COPY), top, 0)
    schedule = schedule_of(draft, made.network, accelerator.name, provenance)
    check_schedule(schedule)
    return schedule
