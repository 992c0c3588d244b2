"""Plans of stripes along any axes, group by group, as a table and as values."""

from __future__ import annotations

from collections.abc import Sequence

from cascader.graph.cascader_graph import CascaderGraph
from cascader.plan.stripe_plans import StripePlan
from npu_model.printable import printable
from npu_testbed.documents.document import extended
from npu_testbed.documents.schedule import GroupEntry, StagingGroupEntry, StripeBufferEntry
from validation.layout import grid


def groups_json(graph: CascaderGraph, plans: Sequence[StripePlan]) -> tuple[GroupEntry, ...]:
    """The figures of each plan, in the RFC's nouns."""
    return tuple(_group(graph, plan) for plan in plans)


def staging_groups_json(graph: CascaderGraph, plans: Sequence[StripePlan]) -> tuple[StagingGroupEntry, ...]:
    """Like :func:`groups_json`, with the parts whose constants are staged while the group runs."""
    staged = (tuple(graph.parts[index].name for index in plan.staged) for plan in plans)
    return tuple(extended(StagingGroupEntry, _group(graph, plan), staged=names) for plan, names in zip(plans, staged, strict=True))


def _group(graph: CascaderGraph, plan: StripePlan) -> GroupEntry:
    group = plan.group
    return GroupEntry(
        parts=tuple(part.name for part in graph.parts[group.first : group.last + 1]),
        stripe=group.stripes.shape,
        stripes=group.stripes.stripes,
        order=group.stripes.order,
        memory_bytes=plan.memory,
        planned_cycles=plan.cycles,
        work=int(plan.work),
        buffers=tuple(StripeBufferEntry(one.tensor, one.mode.value, one.shape, one.copies, one.size) for one in plan.buffers),
    )


def groups_text(graph: CascaderGraph, plans: Sequence[StripePlan]) -> str:
    """A table of the groups: parts, stripe, number of stripes, bytes, cycles, buffers."""
    rows = []
    for plan in plans:
        parts = graph.parts[plan.group.first : plan.group.last + 1]
        names = parts[0].name if len(parts) == 1 else f"{parts[0].name} .. {parts[-1].name}"
        held = [f"{printable(one.tensor)} {one.mode.value} {one.size:,}" for one in plan.buffers]
        held += [f"constants of {printable(graph.parts[index].name)}" for index in plan.staged]
        buffers = ", ".join(held) or "none"
        shape = " x ".join(map(str, plan.group.stripes.shape))
        rows.append((printable(names), shape, str(plan.group.stripes.count), f"{plan.memory:,}", f"{plan.cycles:,}", buffers))
    return grid(("parts", "stripe", "stripes", "bytes", "cycles", "buffers"), rows, (True, True, False, False, False, True))
