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


class _Progress:
    """Parts that are done, in their order, with what the next one would add to the live bytes."""

    def __init__(self, graph: CascaderGraph) -> None:
        self._graph = graph
        self._begun: set[str] = set()
        self._readers = {tensor.name: {part.name for part in graph.consumers(tensor.name)} for tensor in graph.tensors}
        self.order: list[str] = []

    def gain(self, name: str) -> int:
        """Bytes of results that are new with a part, less those of operands that nobody needs after it."""
        graph, part = self._graph, self._graph.parts[self._graph.index(name)]
        new = [tensor for tensor in dict.fromkeys(part.outputs) if tensor not in self._begun]
        used = [tensor for tensor in dict.fromkeys(part.inputs) if graph.tensor(tensor).kind is TensorKind.INTERMEDIATE]
        dead = [tensor for tensor in used if self._readers[tensor] <= {name}]
        return sum(graph.tensor(tensor).size for tensor in new) - sum(graph.tensor(tensor).size for tensor in dead)

    def do(self, name: str) -> None:
        """Make the part the last one that is done."""
        part = self._graph.parts[self._graph.index(name)]
        self._begun.update(part.outputs)
        for tensor in part.inputs:
            self._readers[tensor].discard(name)
        self.order.append(name)


def thrifty_order(graph: CascaderGraph, before: Mapping[str, AbstractSet[str]], blocks: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The parts of each of the ``blocks``, block after block: of those that may be next always the one that adds fewest live bytes.

    Ties go to the part that comes first in the graph. ``before`` are the parts that must be done before one, in its block or earlier ones.
    """
    progress = _Progress(graph)
    open_ones = {name: set(before[name]) for block in blocks for name in block}
    after: dict[str, list[str]] = {name: [] for name in open_ones}
    for name, earlier in open_ones.items():
        for other in earlier:
            after[other].append(name)
    for block in blocks:
        waiting = set(block)
        while waiting:
            ready = [name for name in waiting if not open_ones[name]]
            chosen = min(ready, key=lambda name: (progress.gain(name), graph.index(name)))
            waiting.remove(chosen)
            progress.do(chosen)
            for later in after[chosen]:
                open_ones[later].discard(chosen)
    return tuple(progress.order)
