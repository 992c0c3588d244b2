"""Plans of stripes along any axes, group by group, as a table and as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cascader.graph.cascader_graph import CascaderGraph
from cascader.plan.stripe_plans import StripePlan
from npu_model.printable import printable
from validation.layout import grid


def groups_json(graph: CascaderGraph, plans: Sequence[StripePlan]) -> list[dict[str, Any]]:
    """The figures of each plan, in the RFC's nouns."""
    return [_group(graph, plan) for plan in plans]


def staging_groups_json(graph: CascaderGraph, plans: Sequence[StripePlan]) -> list[dict[str, Any]]:
    """As :func:`groups_json`, with the parts whose constants are staged while the group runs."""
    return [_group(graph, plan) | {"staged": [graph.parts[index].name for index in plan.staged]} for plan in plans]


def _group(graph: CascaderGraph, plan: StripePlan) -> dict[str, Any]:
    group = plan.group
    return {
        "parts": [part.name for part in graph.parts[group.first : group.last + 1]],
        "stripe": list(group.stripes.shape),
        "stripes": list(group.stripes.stripes),
        "order": list(group.stripes.order),
        "memory_bytes": plan.memory,
        "planned_cycles": plan.cycles,
        "work": int(plan.work),
        "buffers": [
            {"tensor": one.tensor, "mode": one.mode.value, "shape": list(one.shape), "copies": one.copies, "buffer_bytes": one.size}
            for one in plan.buffers
        ],
    }


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
