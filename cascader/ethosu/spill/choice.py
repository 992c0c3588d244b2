"""The choice of spills: the tensors that leave the arena, so that plans fit a target and transfers move few bytes.

First, groups are chosen that each fit alone and share the fewest bytes; this choice is exact. All tensors that they share leave. Then
tensors come back, the largest first, as long as the plans still fit.

A group alone holds the bytes of consecutive parts if all their inputs and results lie in an outer memory. Such parts get a row graph of
their own. In it, a transfer brings the rows of each tensor from outside, and another transfer takes away each tensor that is needed later.
A tensor that may not leave the arena lies there whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.forms.planned import planned_limit
from cascader.ethosu.job.staging import staged_bytes
from cascader.ethosu.network.carried_rows import asking_also
from cascader.ethosu.network.homes import with_homes
from cascader.ethosu.network.network import EthosuPart, Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.network.wanted_homes import Outer, Wanted
from cascader.ethosu.spill.carried import Carried, CarriedCut, carried, is_dense, movable, read_once
from cascader.graph.cascader_graph import TensorKind
from cascader.graph.row_graph import RowGraph, RowPart
from cascader.graph.row_maps import RowPropagator
from cascader.plan.depth_first import DepthFirstScheduler, Group
from cascader.plan.group_bytes import group_bytes
from cascader.plan.plans import PlanOptions
from npu_model.accelerator import Accelerator


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


_LONGEST = PlanOptions().group_length
_CLOSE = 50
"""Resolution of the least target: one part in this number."""
_BEYOND = 3
"""Parts that are added to a group that does not fit: a longer group may hold less."""


class Spiller:
    """Moves tensors of one network to an outer memory. All tensors are in the arena except those in other ``homes``."""

    def __init__(self, network: Network, homes: Sequence[Wanted], outer: Outer, device: Accelerator) -> None:
        self._homes, self._outer, self._device = homes, outer, device
        placed = with_homes(network, homes)
        outside = [home.tensor for home in placed.homes]
        self._start = Carried(network, dict(zip(outside, outside, strict=True)))
        self._graph = row_graph(placed)
        self.parts = len(self._graph.parts)
        self._sizes = [network.graph.tensor(tensor.name).size for tensor in self._graph.tensors]
        free = {name for name in movable(network) if is_dense(network, name)}
        numbers = frozenset(number for number, tensor in enumerate(self._graph.tensors) if tensor.name in free)
        self._inside = {at for some in self._graph.writers() if some for at in range(some[0][0] + 1, some[-1][0] + 1)}
        self._planned = dict[tuple[object, ...], int]()
        self._alone = cache(GroupsAlone(self._graph, numbers).of)

    def placed(self, made: Carried) -> Network:
        """The network with its tensors at their homes."""
        names = (name for tensor, name in made.outside.items() if tensor not in self._start.outside)
        spilled = tuple(Wanted(name, self._outer.memory, self._outer.port) for name in names)
        return with_homes(made.network, (*self._homes, *spilled))

    def planned(self, made: Carried) -> int:
        """The fewest bytes of the network's plans."""
        # Targets and ways of one network ask for the same tensors outside again and again.
        asked = made.cuts, made.ahead, tuple(made.brought.items()), tuple(sorted(made.outside.items()))
        if asked not in self._planned:
            self._planned[asked] = planned_limit(self.placed(made))
        return self._planned[asked]

    def _groups(self, target: int) -> list[Alone] | None:
        """The groups that fit ``target`` bytes alone and move fewest bytes; None if there are none."""
        count = self.parts
        least: list[int | None] = [0] + [None] * count
        chosen: list[tuple[int, Alone] | None] = [None] * (count + 1)
        for first in range(count):
            before, misses = least[first], 0
            if before is None:
                continue
            for last in range(first, min(count, first + _LONGEST)):
                if self._graph.parts[last].segment != self._graph.parts[first].segment or misses > _BEYOND:
                    break
                alone = self._alone(first, last)
                fits = alone.bytes <= target
                # A tensor that several parts write together is whole in the arena between them. That says nothing about later parts.
                misses = 0 if fits else misses + (last + 1 not in self._inside)
                moved = before + sum(self._sizes[tensor] for tensor in (*alone.come, *alone.go))
                old = least[last + 1]
                if fits and (old is None or moved < old):
                    least[last + 1], chosen[last + 1] = moved, (first, alone)
        found, at = list[Alone](), count
        while at:
            group = chosen[at]
            if group is None:
                return None
            at = group[0]
            found.insert(0, group[1])
        return found

    def _cuts(self, groups: Sequence[Alone]) -> list[CarriedCut]:
        """The cuts of all tensors that groups share."""
        graph, found, first = self._start.network.graph, list[CarriedCut](), 0
        for alone in groups:
            for tensor in alone.come:
                name = self._graph.tensors[tensor].name
                reader = next(reader for reader in graph.readers(name) if reader >= first)
                if name not in self._start.outside:
                    found.append(CarriedCut(name, graph.parts[reader].name))
            first = alone.end
        return found

    def least(self, whole: int) -> int:
        """The least target below ``whole`` bytes with groups that fit alone, to within some per cent."""
        low, high = 0, whole
        while high - low > high // _CLOSE:
            groups = self._groups((low + high) // 2)
            if groups is None:
                low = (low + high) // 2
            else:
                high = max(alone.bytes for alone in groups)
        return high

    def _carried(self, cuts: Sequence[CarriedCut], ahead: int = 0) -> Carried | None:
        """The network with these cuts; None if one of them is not possible."""
        made: Carried | None = self._start
        for cut in cuts:
            made = made and carried(made, cut, self._device, ahead)
        return made

    def possible(self, made: Carried, target: int, ahead: Sequence[int]) -> Iterator[Carried]:
        """The network with transfers just in time, and with transfers that run ahead. The first number of rows that fits is taken."""
        yield made
        early = (self._carried(made.cuts, rows) for rows in ahead)
        found = next((one for one in early if one is not None and self.planned(one) <= target), None)
        if found is not None and found.cuts:
            yield found

    def fitting(self, target: int) -> Carried | None:
        """A network whose plans fit ``target`` bytes; None if no attempt fits."""
        groups = self._groups(target)
        made = None if groups is None else self._carried(self._cuts(groups))
        if made is None or self.planned(made) > target:
            return None
        for cut in sorted(made.cuts, key=lambda cut: (-self._start.network.graph.tensor(cut.tensor).size, cut)):
            fewer = self._carried([other for other in made.cuts if other != cut])
            made = fewer if fewer is not None and self.planned(fewer) <= target else made
        return made

    def left(self, target: int, *, weighed: bool = False) -> Network | None:
        """A network with tensors in the outer memory, where kernels read and write them, so that its plans fit ``target`` bytes.

        First all tensors that may leave the arena leave it. Then tensors come back, the largest first, as long as the plans still fit.
        With ``weighed`` no tensor comes back whose stripes would read more weights again, and inputs are read once (:func:`read_once`).
        None if the plans fit with all tensors in the arena, or with none of these.
        """
        start = self._start
        sizes = {name: start.network.graph.tensor(name).size for name in sorted(movable(start.network))}
        if self.planned(start) <= target:
            return None
        made = replace(start, outside={**start.outside, **{name: name for name in sizes}})
        if self.planned(made) > target:
            return None
        for name in self._inputs() if weighed else ():
            once = read_once(made, name, self._device)
            made = once if once is not None and self.planned(once) <= target else made
        for tensor in sorted(sizes, key=lambda name: (-sizes[name], name)):
            if weighed and self._reads_weights_again(tensor, target):
                continue
            fewer = replace(made, outside={name: home for name, home in made.outside.items() if name != tensor})
            made = fewer if self.planned(fewer) <= target else made
        return self.placed(made)

    def _inputs(self) -> list[str]:
        """The inputs outside that only kernels read."""
        network, outside = self._start.network, self._start.outside
        return [name for name in sorted(movable(network, outside)) if network.graph.tensor(name).kind is TensorKind.INPUT]

    def _reads_weights_again(self, tensor: str, target: int) -> bool:
        """Whether stripes of a tensor within ``target`` bytes read more weights again than its kernels move bytes of it outside."""
        graph, size = self._start.network.graph, self._start.network.graph.tensor(tensor).size
        users = [part.payload for part in (*graph.producers(tensor), *graph.consumers(tensor))]
        weights = sum(staged_bytes(user.operation) for user in users if isinstance(user, EthosuPart))
        again = -(-size // target) - 1
        return weights * again > 2 * size
