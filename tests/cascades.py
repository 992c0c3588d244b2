"""Cascaded schedules that several test files use, made from groups with the plainest address search, and what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
from made_schedules import make_schedule
from row_graphs import schedule_groups
from scheduling import DEFAULT, network, schedule

from cascader.allocate.extents import Extent
from cascader.allocate.moving import allocate
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.job.staging import staged_bytes
from cascader.ethosu.network.network import EthosuPart, Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.graph.row_graph import RowGraph
from cascader.plan.buffers import Buffers, storages
from cascader.plan.depth_first import DepthFirstScheduler, Group, StripeJob
from cascader.plan.jobs import Copy
from npu_model.compiled.network import CompiledNetwork
from npu_model.memory.system import MemorySystem
from sim.functional import FilterCache, run

FILTERS = FilterCache()
"""Decoded weights, which all runs of one network share."""


def outputs(network: CompiledNetwork, seed: int = 1, filters: FilterCache = FILTERS) -> dict[str, bytes]:
    """Output bytes for seeded inputs, in an arena that holds garbage and knows of every byte whether it was written."""
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(b.dtype.minimum, b.dtype.maximum + 1, b.shape).astype(str(b.dtype)) for b in network.inputs]
    return {name: values.tobytes() for name, values in run(network, inputs, filters=filters).items()}


@cache
def expected(name: str) -> dict[str, bytes]:
    """Outputs of the network, computed layer by layer."""
    return outputs(lower(schedule(name)))


@cache
def graph_of(name: str, accelerator: str = DEFAULT) -> RowGraph:
    return row_graph(network(name, accelerator))


def cuts(name: str, borders: Sequence[int], stripe_rows: int) -> tuple[Group, ...]:
    """Groups that end before the parts ``borders`` and at the end, all asked for ``stripe_rows`` rows at a time."""
    edges = [0, *sorted(set(borders)), len(graph_of(name).parts)]
    return tuple(Group(first, last - 1, stripe_rows) for first, last in pairwise(edges) if first < last)


def _copies(network: Network, jobs: Sequence[StripeJob], staged: Sequence[int], ahead: int) -> list[tuple[str, Extent]]:
    """Parts whose weights are staged, in order of issue, with the steps at which their bytes are taken."""
    found = []
    for part in staged:
        own = network.graph.parts[part]
        steps = [step for step, job in enumerate(jobs) if job.part == part]
        if isinstance(own.payload, EthosuPart) and staged_bytes(own.payload.operation):
            start = max(0, steps[0] - ahead)
            size = np.full(steps[-1] + 1 - start, staged_bytes(own.payload.operation), dtype=np.int64)
            found.append((own.name, Extent(f"weights of {own.name}", start, np.zeros_like(size), size)))
    return sorted(found, key=lambda item: item[1].start)


def cascade_of(
    network: Network, graph: RowGraph, groups: Sequence[Group], *, staged: Sequence[int] = (), ahead: int = 2, accelerator: str = DEFAULT
) -> Schedule:
    """The groups one after the other; the weights of the parts ``staged`` are copied ``ahead`` jobs before their first use."""
    jobs = schedule_groups(DepthFirstScheduler(graph), groups)
    stores = storages(DepthFirstScheduler(graph), jobs, groups)
    copies = _copies(network, jobs, staged, ahead)
    _, addresses = allocate([store.extent for store in stores] + [extent for _, extent in copies], moves=20)
    return make_schedule(
        network,
        accelerator,
        graph,
        jobs,
        Buffers.of(stores, len(jobs)),
        addresses[: len(stores)],
        [Copy(part, extent.start, address) for (part, extent), address in zip(copies, addresses[len(stores) :], strict=True)],
    )


def cascade(name: str, groups: Sequence[Group], *, staged: Sequence[int] = (), ahead: int = 2, accelerator: str = DEFAULT) -> Schedule:
    """The same for a network by its name."""
    graph = graph_of(name, accelerator)
    return cascade_of(network(name, accelerator), graph, groups, staged=staged, ahead=ahead, accelerator=accelerator)


def smallest(form: Network, system: MemorySystem, accelerator: str = DEFAULT) -> Schedule:
    """The schedule with the smallest arena that is found for a form."""
    plans = Cascader(form, accelerator, system)
    return plans.schedule(plans.smallest())


def require_same_bytes(before: Network, after: Network, system: MemorySystem) -> None:
    """The outputs of a form, layer by layer and in its smallest arena, are those of the network layer by layer; AssertionError if not."""
    wanted = outputs(lower(schedule_layer_by_layer(before, DEFAULT)), filters=FilterCache())
    filters = FilterCache()
    least = smallest(after, system)
    check_schedule(least)
    for made in (schedule_layer_by_layer(after, DEFAULT), least):
        assert outputs(lower(made), filters=filters) == wanted


@cache
def tight(name: str) -> Schedule:
    """The whole network as one group of single rows, every constant staged."""
    return cascade(name, cuts(name, [], 1), staged=range(len(graph_of(name).parts)))
