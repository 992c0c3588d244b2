"""The choice among plans of stripes: the frontier of the generic planner, each of its proposals as a schedule of the NPU, replayed.

A schedule of plans is the unrolled network layer by layer. Rolling tensors have buffers of their live rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from cascader.allocate.extents import Extent, fixed
from cascader.allocate.moving import allocate
from cascader.draft.draft import COPY
from cascader.draft.outline import Outlines
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.layouts import pixel_layouts
from cascader.ethosu.job.schedule import UNKNOWN, Provenance, Schedule
from cascader.ethosu.job.staging import staged_bytes
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.operators import NHWC_AXES
from cascader.ethosu.network.propagators import affine_graph
from cascader.ethosu.network.rows import known_row_graph
from cascader.ethosu.schedule.drafts import schedule_of
from cascader.ethosu.search.task import Point, Progress, Task, silent
from cascader.ethosu.striped.unroll import unrolled
from cascader.ethosu.verify.check import check_schedule
from cascader.graph.cascader_graph import CascaderGraph
from cascader.plan.buffers import Buffers, storages
from cascader.plan.depth_first import DepthFirstScheduler, Group
from cascader.plan.plan import BufferMode
from cascader.plan.proposals import Proposal, frontier
from cascader.plan.stripe_plans import StripeOptions, StripePlan, StripeRates, all_plans
from cascader.plan.stripe_trace import StripedGroup
from npu_model.accelerator import Accelerator, accelerator
from npu_model.errors import InputError


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


_FEW = 8
"""The most parts of a network that is cut along several axes at once: planning it takes some seconds."""

FINE = StripeOptions(orders=False, mixed=2)
"""The options for networks of few parts."""

COARSE = StripeOptions(factors=3, several_axes=False, orders=False, mixed=0)
"""The options for other networks: one axis at a time, and one mode for all tensors of a group."""


_STAGINGS = 4
"""Number of sets of staged constants that are tried for each proposal."""


class StripedPoint(Struct, frozen=True):
    """A replayed schedule, its plans, and the graph whose parts and tensors the plans name."""

    point: Point
    graph: CascaderGraph
    plans: tuple[StripePlan, ...]


def rolls_here(plan: StripePlan) -> bool:
    """Whether the NPU can roll the buffers of a plan: along rows, or along columns of an image that is not in bricks."""
    rolling = [one for one in plan.buffers if one.mode is BufferMode.ROLLING]
    return all(
        one.axis == Axis.ROWS.number or (one.axis == Axis.COLUMNS.number and len(one.shape) == NHWC_AXES) or plan.group.stripes.count == 1
        for one in rolling
    )


def proposals(graph: CascaderGraph, macs: int) -> tuple[Proposal[StripedGroup], ...]:
    """The plans that cover a network's affine graph, by ascending bytes.

    No plan has more bytes and more cycles at ``macs`` a cycle than another.
    """
    chosen = FINE if len(graph.parts) <= _FEW else COARSE
    rates = StripeRates(work_per_cycle=macs)
    return frontier([[plan for plan in ending if rolls_here(plan)] for ending in all_plans(graph, chosen, rates)])


def _staging(network: Network, graph: CascaderGraph, plans: Sequence[StripePlan]) -> Iterator[tuple[StripePlan, ...]]:
    """The plans without copies, then with more and more of the constants staged that most stripes read, the fewest bytes first."""
    yield tuple(plans)
    sizes = {name: staged_bytes(kernel.operation) for name, kernel in network.kernels.items()}
    worth = [
        (-plan.group.stripes.count, sizes[name], number, index)
        for number, plan in enumerate(plans)
        for index in range(plan.group.first, plan.group.last + 1)
        if sizes.get(name := graph.parts[index].name) and plan.group.stripes.count > 1
    ]
    ordered = sorted(worth)
    for count in sorted({len(ordered) * step // _STAGINGS for step in range(1, _STAGINGS + 1)} - {0}):
        chosen = ordered[:count]
        made = []
        for number, plan in enumerate(plans):
            own = [(index, size) for _, size, at, index in chosen if at == number]
            staged = tuple(sorted(index for index, _ in own))
            made.append(replace(plan, staged=staged, memory=plan.memory + sum(size for _, size in own)))
        yield tuple(made)


def _points(network: Network, task: Task) -> Iterator[StripedPoint]:
    device, graph = accelerator(task.accelerator), affine_graph(network)
    for proposal in proposals(graph, device.macs):
        for plans in _staging(network, graph, proposal.plans):
            sources = (Sources.staged if any(plan.staged for plan in plans) else Sources.direct)(task.system, task.provenance.timing)
            try:
                schedule = striped_schedule(network, plans, device, sources, provenance=task.provenance)
            except InputError:
                break  # a plan that the NPU cannot do
            cycles = task.replay(lower(schedule)) if task.decides_by_replays else proposal.cycles
            yield StripedPoint(Point(schedule.arena_size, cycles, proposal.cycles, schedule), graph, plans)


def striped_choice(task: Task, budget: int | None, *, smallest: bool = False, show: Progress = silent) -> StripedPoint:
    """The fastest schedule in replay of plans of stripes within a budget of bytes (None: any number), or the smallest one.

    The network is planned in its legalised layout, and with every tensor in pixels. InputError, with the fewest bytes found, if none fits.
    InputError if tensors live outside the arena, because plans of stripes count their bytes.
    """
    if task.homes or task.spills is not None:
        raise InputError("Plans of stripes were asked for with homes outside the arena, which they do not know: drop --home and --spill.")
    show(f"Planning stripes of {len(task.network.graph.parts)} parts along any axes")
    pixels = pixel_layouts(task.network)
    networks = (task.network,) if pixels == task.network else (task.network, pixels)
    found = [one for network in networks for one in _points(network, task)]
    fitting = [one for one in found if budget is None or one.point.memory <= budget]
    if not fitting:
        least = min((one.point.memory for one in found), default=0)
        raise InputError(f"No plan of stripes fits into {budget} bytes: the smallest that is reached takes {least}; allow that much.")

    def rank(one: StripedPoint) -> tuple[int, int]:
        return (one.point.memory, one.point.cycles) if smallest else (one.point.cycles, one.point.memory)

    best = min(fitting, key=rank)
    return replace(best, point=task.settled(best.point))
