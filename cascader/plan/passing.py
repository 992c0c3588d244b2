"""Bytes that are live between parts: those that pass by every group, and those that bound its bytes from below.

Between two groups each tensor lies whole, as far as the parts before have made it and the parts behind want it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise

import numpy as np

from cascader.plan.depth_first import DepthFirstScheduler

_FAR = 1 << 40


def _stretches(scheduler: DepthFirstScheduler, number: int) -> Iterator[tuple[int, int, int]]:
    """The stretches of parts between which a tensor holds the same bytes: the first part, the last one (exclusive), the bytes."""
    graph, tensor = scheduler.graph, scheduler.graph.tensors[number]
    writers, readers = scheduler.writers[number], scheduler.consumers[number]
    is_kept, is_there = tensor.kind.stays_to_the_end, tensor.kind.is_there_at_first
    begin = 0 if is_there else writers[0][0] if writers else len(graph.parts)
    end = len(graph.parts) if is_kept else readers[-1][0] if readers else 0
    if begin >= end:
        return
    made, wanted = dict[int, int](), dict[int, int]()
    for part, output in writers:
        low, _ = graph.parts[part].written(output, 0, 1, tensor.rows)
        _, high = graph.parts[part].written(output, 0, scheduler.needed[part], tensor.rows)
        made[part], wanted[part] = max(made.get(part, 0), min(tensor.rows, high)), min(wanted.get(part, _FAR), low)
    for part, propagator in readers:
        wanted[part] = min(wanted.get(part, _FAR), propagator.demand(0, 1)[0])
    borders = sorted({begin, end, *made, *wanted})
    rows = accumulate((made.get(part, 0) for part in borders), max)
    lows = [*accumulate((wanted.get(part, _FAR) for part in reversed(borders)), min)][::-1]
    for (first, last), ready, low in zip(pairwise(borders), rows, lows[1:], strict=False):
        if begin <= first < end:
            yield first, last, max(0, (tensor.rows if is_there else ready) - (0 if is_kept else low)) * tensor.row_bytes


class PassingBytes:
    """The bytes between each part of a graph and the next one."""

    def __init__(self, scheduler: DepthFirstScheduler) -> None:
        self._graph = scheduler.graph
        self._stretches = [list(_stretches(scheduler, number)) for number in range(len(self._graph.tensors))]
        changes = [0] * (len(self._graph.parts) + 1)
        for first, last, size in (one for some in self._stretches for one in some):
            changes[first] += size
            changes[last] -= size
        self.sizes = [*accumulate(changes)][:-1]
        """Bytes of all tensors after each part."""

    def least(self) -> list[int]:
        """Bytes that each group holds at least which ends with a part, or begins with the next one.

        Tensors of which one overwrites the other may share bytes in a group. The largest of them counts.
        """
        found = np.array(self.sizes, dtype=np.int64)
        for family in self._families():
            held = np.zeros((len(family), len(found)), dtype=np.int64)
            for line, tensor in zip(held, family, strict=True):
                for first, last, size in self._stretches[tensor]:
                    line[first:last] = size
            found -= held.sum(axis=0) - held.max(axis=0)
        sizes: list[int] = found.tolist()
        return sizes

    def _families(self) -> Iterable[list[int]]:
        """The tensors that may share a buffer."""
        family: dict[int, list[int]] = {}
        for part in self._graph.parts:
            if part.in_place is not None:
                one, other = (family.setdefault(tensor, [tensor]) for tensor in (part.in_place, part.outputs[0]))
                if one is not other:
                    one += other
                    family |= dict.fromkeys(other, one)
        return {id(one): one for one in family.values()}.values()
