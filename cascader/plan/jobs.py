"""What makes an order of Parts concrete on any device: jobs, copies of constants, lifetimes and buffers with addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cascader.allocate import Buffer as Space
from cascader.allocate import Problem, solve
from cascader.graph.cascader_graph import CascaderGraph, TensorKind
from npu_model.shapes import Shape3D


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a Part; ``block`` is the device's block config, None for a Part that has none.

    ``rows`` are the first and the last (exclusive) row of the Part's output that it makes; None makes all of them.
    """

    part: str
    block: Shape3D | None = None
    rows: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """Before job ``step`` the constants of ``part`` are copied to ``address`` of the arena, where its jobs from ``step`` on read them.

    A later copy of the same part takes the place of an earlier one; jobs before the first copy read the constants where they are.
    The parts ``sharing`` have the same constants, byte for byte, and read this copy too.
    """

    part: str
    step: int
    address: int
    sharing: tuple[str, ...] = ()

    @property
    def readers(self) -> tuple[str, ...]:
        """All parts that read the copy."""
        return (self.part, *self.sharing)


@dataclass(frozen=True, slots=True, order=True)
class Lifetime:
    """Steps ``start`` (inclusive) to ``end`` (exclusive) in which a tensor's bytes are needed; step i is job i."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes ``address`` to ``address + size`` of the arena, held from step ``start`` until before step ``end``.

    All of ``tensors`` start at ``address``: more than one if each takes over the storage of the one before.
    With ``rows`` the buffer rolls: it holds that many rows, of ``row_bytes`` each, and row y of a tensor lies at
    ``address + (y mod rows) * row_bytes``. Without, a tensor lies in it as it is, up to the last byte that is ever used.
    Buffers may share bytes as long as no two rows that are needed at one step do.
    """

    tensors: tuple[str, ...]
    address: int
    size: int
    start: int
    end: int
    rows: int | None = None

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a rolling buffer; all bytes of another one."""
        return self.size // (self.rows or 1)


def lifetimes(graph: CascaderGraph, order: tuple[str, ...]) -> dict[str, Lifetime]:
    """Lifetime of every tensor that needs room in the arena, when the parts run in this order.

    Inputs live from step 0, outputs until after the last step, variables the whole time; the others from the first
    part that uses them to the last. InputError if the order breaks a dependency.
    """
    graph.check_order(order)
    step = {part: index for index, part in enumerate(order)}
    result = {}
    for tensor in graph.tensors:
        if tensor.kind is TensorKind.CONSTANT:
            continue
        used = [step[part.name] for part in graph.producers(tensor.name) + graph.consumers(tensor.name)]
        from_start = tensor.kind in (TensorKind.INPUT, TensorKind.VARIABLE)
        to_end = tensor.kind in (TensorKind.OUTPUT, TensorKind.VARIABLE)
        start = 0 if from_start else min(used, default=0)
        result[tensor.name] = Lifetime(start, len(order) if to_end else max(used, default=start) + 1)
    return result


def storage_groups(graph: CascaderGraph, order: tuple[str, ...], in_place: Mapping[str, tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """The tensors that share one buffer, group by group, each group in the order in which its tensors live.

    ``in_place`` says which operands (tensors) a part may overwrite with its only output. The first one is that is not
    needed after the part, if it has the output's size and no other part writes the output.
    """
    lives = lifetimes(graph, order)
    heir: dict[str, str] = {}
    for step, part in enumerate(order):
        for operand in in_place.get(part, ()):
            (output,) = graph.parts[graph.index(part)].outputs
            dies = lives[operand].end == step + 1 and graph.tensor(operand).kind in (TensorKind.INPUT, TensorKind.INTERMEDIATE)
            born = lives[output].start == step and len(graph.producers(output)) == 1
            if dies and born and operand != output and graph.tensor(operand).size == graph.tensor(output).size:
                heir[operand] = output
                break
    groups = []
    for name in sorted(lives, key=lambda name: lives[name]):
        if name not in heir.values():
            group = [name]
            while group[-1] in heir:
                group.append(heir[group[-1]])
            groups.append(tuple(group))
    return tuple(groups)


def place(graph: CascaderGraph, order: tuple[str, ...], in_place: Mapping[str, tuple[str, ...]]) -> tuple[Buffer, ...]:
    """Buffers for all tensors of the arena, in order of birth, at addresses that :mod:`cascader.allocate` has found."""
    lives = lifetimes(graph, order)
    groups = storage_groups(graph, order, in_place)
    spans = [Lifetime(lives[group[0]].start, max(lives[name].end for name in group)) for group in groups]
    sizes = [graph.tensor(group[0]).size for group in groups]
    problem = Problem(tuple(Space(group[0], size, span.start, span.end) for group, size, span in zip(groups, sizes, spans, strict=True)))
    solution = solve(problem)
    return tuple(
        Buffer(group, address, size, span.start, span.end)
        for group, address, size, span in zip(groups, solution.addresses, sizes, spans, strict=True)
    )
