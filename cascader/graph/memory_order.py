"""Order: the parts of a graph one after the other, so that few bytes are live at once when each runs whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from cascader.graph.cascader_graph import CascaderGraph, TensorKind


def live_peak(graph: CascaderGraph, order: Sequence[str]) -> int:
    """Most bytes that are live while one of the parts runs, in an order.

    A tensor lives from its first writer, or from the beginning, to its last use, or to the end.
    """
    steps = {name: step for step, name in enumerate(order)}
    live = [0] * len(order)
    for tensor in graph.tensors:
        if tensor.kind is TensorKind.CONSTANT:
            continue
        writers = [steps[part.name] for part in graph.producers(tensor.name)]
        users = writers + [steps[part.name] for part in graph.consumers(tensor.name)]
        first = 0 if tensor.kind.is_there_at_first else min(writers, default=0)
        last = len(order) - 1 if tensor.kind.stays_to_the_end else max(users, default=first)
        for step in range(first, last + 1):
            live[step] += tensor.size
    return max(live, default=0)


def _gain(graph: CascaderGraph, name: str, done: set[str]) -> int:
    """Bytes of results that are new with a part, less those of operands that nobody needs after it."""
    part = graph.parts[graph.index(name)]
    new = [tensor for tensor in dict.fromkeys(part.outputs) if not any(p.name in done for p in graph.producers(tensor))]
    used = [tensor for tensor in dict.fromkeys(part.inputs) if graph.tensor(tensor).kind is TensorKind.INTERMEDIATE]
    dead = [tensor for tensor in used if all(p.name in done or p.name == name for p in graph.consumers(tensor))]
    return sum(graph.tensor(tensor).size for tensor in new) - sum(graph.tensor(tensor).size for tensor in dead)


def thrifty_order(graph: CascaderGraph, before: Mapping[str, AbstractSet[str]], blocks: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The parts of each of the ``blocks``, block after block: of those that may be next always the one that adds fewest live bytes.

    Ties go to the part that comes first in the graph. ``before`` are the parts that must be done before one, in its block or earlier ones.
    """
    done: set[str] = set()
    order: list[str] = []
    for block in blocks:
        waiting = sorted(block, key=graph.index)
        while waiting:
            ready = [name for name in waiting if before[name] <= done]
            chosen = min(ready, key=lambda name: (_gain(graph, name, done), graph.index(name)))
            waiting.remove(chosen)
            done.add(chosen)
            order.append(chosen)
    return tuple(order)
