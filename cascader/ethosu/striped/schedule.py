"""Schedules of plans of stripes: the unrolled network layer by layer, whose rolling tensors have buffers of the rows that are live."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cascader.allocate.extents import fixed
from cascader.allocate.moving import allocate
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.job.schedule import UNKNOWN, Provenance, Schedule
from cascader.ethosu.job.staging import staged_bytes
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import known_row_graph
from cascader.ethosu.schedule.cascaded import make_schedule
from cascader.ethosu.striped.unroll import unrolled
from cascader.plan.buffers import Buffers, storages
from cascader.plan.depth_first import DepthFirstScheduler, Group, stripe_jobs
from cascader.plan.jobs import Copy
from cascader.plan.stripe_plans import StripePlan
from npu_model.accelerator import Accelerator


def striped_schedule(
    network: Network, plans: Sequence[StripePlan], accelerator: Accelerator, sources: Sources, *, provenance: Provenance = UNKNOWN
) -> Schedule:
    """The schedule that executes plans of the network's affine graph on the NPU, checked.

    Its jobs are the boxes of the plans' parts, in their order. A tensor inside a group has a buffer of the plan's bytes; results may take
    over the bytes of operands that die, so that the arena may be smaller than the plans' memory. Constants that a plan stages lie in the
    arena while its group runs, copied before its first job. InputError if the NPU cannot do what a plan says.
    """
    made = unrolled(network, plans, accelerator, sources)
    scheduler = DepthFirstScheduler(known_row_graph(made.network, made.units))
    groups, staged, first = [], [], 0
    for size, constants in zip(made.groups, made.staged, strict=True):
        end = first + size
        groups.append(Group(first, end - 1, scheduler.graph.parts[end - 1].rows))
        staged += [(names, fixed(names[0], staged_bytes(made.network.kernels[names[0]].operation), first, end)) for names in constants]
        first = end
    jobs = np.array([(index, 0, part.rows) for index, part in enumerate(scheduler.graph.parts)], dtype=np.int64).reshape(-1, 3)
    tensors = storages(scheduler, jobs, groups)
    _, addresses = allocate([*(store.extent for store in tensors), *(extent for _, extent in staged)])
    copies = [
        Copy(names[0], extent.start, address, names[1:]) for (names, extent), address in zip(staged, addresses[len(tensors) :], strict=True)
    ]
    stores = Buffers.of(tensors, len(jobs))
    return make_schedule(
        made.network,
        accelerator.name,
        scheduler.graph,
        stripe_jobs(jobs),
        stores,
        addresses[: len(tensors)],
        copies,
        provenance=provenance,
    )
