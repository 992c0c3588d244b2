"""Schedules made of stripe jobs, buffers and copies that a test has chosen itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cascader.draft.draft import COPY
from cascader.draft.outline import Outlines
from cascader.ethosu.job.schedule import UNKNOWN, Provenance, Schedule
from cascader.ethosu.job.staging import staged_bytes
from cascader.ethosu.network.network import Network, ethosu_part
from cascader.ethosu.schedule.drafts import schedule_of
from cascader.ethosu.verify.check import check_schedule
from cascader.graph.row_graph import RowGraph
from cascader.plan.buffers import Buffers
from cascader.plan.depth_first import StripeJob
from cascader.plan.jobs import Copy


def make_schedule(  # what a schedule is made of
    network: Network,
    accelerator: str,
    graph: RowGraph,
    jobs: Sequence[StripeJob],
    stores: Buffers,
    addresses: Sequence[int],
    copies: Sequence[Copy] = (),
    *,
    provenance: Provenance = UNKNOWN,
) -> Schedule:
    """The schedule of ``jobs`` on ``graph``, which is the row graph of ``network``; it has passed :func:`check_schedule`.

    ``stores`` are the buffers of the tensors that the jobs touch, at ``addresses`` of the arena. A buffer that holds all rows that are
    made does not roll. ``copies`` are in the order of their steps. A job is in its part's own block. InputError if the accelerator is
    unknown or the schedule is wrong.
    """
    numbers = {part.name: number for number, part in enumerate(network.graph.parts)}
    lines = [(copy.step, copy.address, numbers[copy.part], numbers[reader]) for copy in copies for reader in copy.readers]
    parts = [(copy, ethosu_part(network.graph.parts[numbers[copy.part]])) for copy in copies]
    end = max((copy.address + (staged_bytes(part.operation) if part else 0) for copy, part in parts), default=0)
    outline = Outlines(graph).of((), np.array(jobs, dtype=np.int64).reshape(-1, 3), stores)
    draft = outline.draft(addresses, np.array(lines, dtype=np.int64).reshape(-1, COPY), end, 0)
    schedule = schedule_of(draft, network, accelerator, provenance)
    check_schedule(schedule)
    return schedule
