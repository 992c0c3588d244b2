"""Groups alone: the bytes that consecutive parts hold if all their inputs and results lie in an outer memory.

Some parts get a row graph of their own. In it, a transfer brings the rows of each tensor from outside, and another transfer takes away each
tensor that is needed later. A tensor that may not leave the arena lies there whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.network.carried_rows import asking_also
from cascader.graph.cascader_graph import TensorKind
from cascader.graph.row_graph import RowGraph, RowPart
from cascader.graph.row_maps import RowPropagator
from cascader.plan.depth_first import DepthFirstScheduler, Group
from cascader.plan.group_bytes import group_bytes


class Alone(Struct, frozen=True):
    """Consecutive parts before part ``end``: their bytes, and the tensors (index) that come from outside and go there."""

    end: int
    bytes: int
    come: tuple[int, ...]
    go: tuple[int, ...]


class _Life(Struct, frozen=True):
    """The parts that first and last use a tensor, and those that first and last write it; an input is written by part -1."""

    begins: int
    ends: int
    written: int
    made: int


class GroupsAlone:
    """The groups of one row graph, each alone; ``movable`` holds the tensors (index) that may leave the arena."""

    def __init__(self, graph: RowGraph, movable: Collection[int]) -> None:
        self._graph, self._movable = graph, movable
        self._lives = [
            self._life(tensor, [part for part, _ in written], [part for part, _ in read])
            for tensor, (written, read) in enumerate(zip(graph.writers(), graph.readers(), strict=True))
        ]

    def _life(self, tensor: int, written: list[int], read: list[int]) -> _Life:
        kind, made = self._graph.tensors[tensor].kind, max(written, default=-1)
        begins = -1 if kind.is_there_at_first else min(written, default=-1)
        ends = len(self._graph.parts) if kind.stays_to_the_end else max((*read, made))
        return _Life(begins, ends, min(written, default=-1), made)

    def _is_whole(self, tensor: int, first: int, last: int) -> bool:
        """Whether a tensor lies whole in the arena while some parts run: it may not leave, or these parts and earlier ones make it."""
        life = self._lives[tensor]
        is_own = first <= life.begins and life.ends <= last
        return (
            not is_own and life.begins <= last and life.ends >= first and (tensor not in self._movable or life.written < first <= life.made)
        )

    def of(self, first: int, last: int) -> Alone:
        """The parts from the ``first`` to the ``last`` one, which is asked for a row at a time."""
        graph, lives = self._graph, self._lives
        whole = {tensor for tensor in range(len(graph.tensors)) if self._is_whole(tensor, first, last)}
        own = graph.parts[first : last + 1]
        used = dict.fromkeys(tensor for part in own for tensor in (*(read for read, _ in part.inputs), *part.outputs))
        come = tuple(tensor for tensor in used if tensor not in whole and lives[tensor].made < first)
        go = tuple(tensor for tensor in used if tensor not in whole and first <= lives[tensor].written and last < lives[tensor].ends)
        numbers = {tensor: number for number, tensor in enumerate(used)}
        scheduler = DepthFirstScheduler(self._small(first, own, numbers, come, go, whole))
        asked = (Group(0, len(scheduler.graph.parts) - 1, 1, inner) for inner in (0, 1))
        held = min(group_bytes(scheduler, group, in_place=True) for group in asked)
        return Alone(last + 1, held + sum(graph.tensors[tensor].size for tensor in whole), come, go)

    def _small(  # The parts, and the tensors that arrive, leave and stay.
        self,
        first: int,
        own: tuple[RowPart, ...],
        numbers: Mapping[int, int],
        come: tuple[int, ...],
        go: tuple[int, ...],
        whole: Collection[int],
    ) -> RowGraph:
        """The row graph of some parts between transfers; their tensors have other ``numbers``.

        Tensors that lie whole take no bytes in it.
        """
        facts = [replace(self._graph.tensors[tensor], kind=TensorKind.INTERMEDIATE) for tensor in numbers]
        tensors = [replace(one, row_bytes=0) if tensor in whole else one for tensor, one in zip(numbers, facts, strict=True)]
        parts = [RowPart("bring", (), (numbers[tensor],), tensors[numbers[tensor]].rows) for tensor in come]
        places, taking = dict[int, int](), list[tuple[int, int, int]]()
        for at, part in enumerate(own, first):
            places[at] = len(parts)
            parts.append(_renumbered(part, numbers, places))
            for tensor in go:
                if self._lives[tensor].made == at:
                    source, target = numbers[tensor], len(tensors)
                    rows = tensors[source].rows
                    tensors.append(replace(tensors[source], row_bytes=0))
                    taking.append((len(parts), source, target))
                    parts.append(RowPart("take", ((source, RowPropagator(rows)),), (target,), rows))
        for number, source, target in taking:
            asking_also(parts, number, source, target)
        return RowGraph(tuple(parts), tuple(tensors))


def _renumbered(part: RowPart, tensors: Mapping[int, int], parts: Mapping[int, int]) -> RowPart:
    """A part with the numbers of other tensors and earlier parts. Earlier parts without a number are done before."""
    return replace(
        part,
        inputs=tuple((tensors[tensor], needs) for tensor, needs in part.inputs),
        outputs=tuple(tensors[tensor] for tensor in part.outputs),
        after=tuple(parts[other] for other in part.after if other in parts),
        in_place=tensors.get(-1 if part.in_place is None else part.in_place),
    )
