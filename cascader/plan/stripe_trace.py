"""StripeTrace: the boxes that the parts of a group make at each stripe of the group's output, and the buffers that this takes.

Boxes are exact: clipped at the borders, for forks, joins and concatenations alike. Elements that are made again count again. The fills of
a tensor are the elements that are made or copied at each of its stripes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from math import prod

import numpy as np
from msgspec import Struct

from cascader.graph.cascader_graph import CascaderGraph, TensorKind
from cascader.graph.intervals import Box, clip, elements, hull, is_empty, lengths
from cascader.graph.stripe_config import StripeConfig
from cascader.plan.plan import BufferMode, StripeBuffer
from npu_model.errors import InputError


def fills(wanted: Sequence[Box], mode: BufferMode) -> list[Box]:
    """The boxes of a tensor that are newly made, or copied, at each stripe."""
    return _new_boxes(wanted) if mode is BufferMode.ROLLING else _changed_boxes(wanted)


class _Grid:
    """A grid of all borders of some boxes, so that every box is whole cells; ``have`` marks the taken cells."""

    def __init__(self, boxes: Sequence[Box]) -> None:
        self.borders = [sorted({border for box in boxes for border in box[axis]}) for axis in range(len(boxes[0]))]
        self._places = [{border: place for place, border in enumerate(own)} for own in self.borders]
        self.have = np.zeros([max(1, len(own) - 1) for own in self.borders], dtype=bool)

    def cells(self, box: Box) -> tuple[slice, ...]:
        """The cells of a box."""
        return tuple(slice(place[low], place[high]) for place, (low, high) in zip(self._places, box, strict=True))


def covered(boxes: Sequence[Box]) -> int:
    """Elements of the union of boxes.

    >>> covered([((0, 3),), ((2, 5),), ((0, 1),)])
    5
    """
    grid = _Grid(boxes)
    for box in boxes:
        grid.have[grid.cells(box)] = True
    # An axis without any element has one empty cell.
    sizes = [np.diff(own) if len(own) > 1 else np.zeros(1, dtype=np.int64) for own in grid.borders]
    return int(reduce(np.multiply.outer, sizes)[grid.have].sum())


def _changed_boxes(wanted: Sequence[Box]) -> list[Box]:
    """Each stripe whole, or nothing if it lies inside the one that is held.

    >>> _changed_boxes([((0, 3),), ((1, 3),), ((1, 4),)])
    [((0, 3),), ((0, 0),), ((1, 4),)]
    """
    held: Box | None = None
    found = []
    for box in wanted:
        if is_empty(box) or (held is not None and clip(box, held) == box):
            found.append(tuple((0, 0) for _ in box))
        else:
            found.append(box)
            held = box
    return found


def _new_boxes(wanted: Sequence[Box]) -> list[Box]:
    """The hull of the elements of each stripe that no earlier stripe had.

    >>> _new_boxes([((0, 3), (0, 2)), ((0, 3), (1, 4)), ((2, 5), (0, 4))])
    [((0, 3), (0, 2)), ((0, 3), (2, 4)), ((3, 5), (0, 4))]
    """
    grid = _Grid(wanted)
    found: list[Box] = []
    for box in wanted:
        cells = grid.cells(box)
        new = np.argwhere(~grid.have[cells])
        grid.have[cells] = True
        if is_empty(box) or not len(new):
            found.append(tuple((0, 0) for _ in box))
            continue
        ends = zip(grid.borders, cells, new.min(axis=0), new.max(axis=0) + 1, strict=True)
        found.append(tuple((own[cell.start + first], own[cell.start + last]) for own, cell, first, last in ends))
    return found


def longest(boxes: Sequence[Box]) -> tuple[int, ...]:
    """The largest length of each axis."""
    return tuple(max(own) for own in zip(*(lengths(box) for box in boxes), strict=True))


def rolling_shape(axis: int, used: Sequence[Box]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and origin of a buffer that rolls along ``axis``: from the lowest index still used to the highest index used so far."""
    everything = reduce(hull, used)
    least: list[int] = []
    for box in reversed(used):
        low = everything[axis][1] if is_empty(box) else box[axis][0]
        least.append(min(low, least[-1]) if least else low)
    most = length = 0
    for box, low in zip(used, reversed(least), strict=True):
        most = most if is_empty(box) else max(most, box[axis][1])
        length = max(length, most - low)
    shape = tuple(length if own == axis else high - low for own, (low, high) in enumerate(everything))
    return shape, tuple(low for low, _ in everything)


class StripedGroup(Struct, frozen=True):
    """Parts ``first`` to ``last`` of a graph, executed for one stripe after the other of the last one's output tensor.

    ``modes`` are the modes of tensors with a stripe buffer. These are tensors that are made and read inside the group, and tensors of
    ``external``, whose home is another memory and which are copied in or out by stripes. Other tensors are whole. A tensor inside the group
    is never external: it has no home. ``kept`` are tensors that are made and read inside the group and needed elsewhere too, as the skip
    tensor of a residual sum: they are whole, and each element is made once.
    """

    first: int
    last: int
    stripes: StripeConfig
    modes: Mapping[str, BufferMode]
    external: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()

    def __hash__(self) -> int:
        """The modes are left out, because they are not a tuple."""
        return hash((self.first, self.last, self.stripes, self.external, self.kept))


class StripeTrace(Struct, frozen=True):
    """The execution of a group, one entry per stripe everywhere; empty boxes where nothing happens.

    ``made`` are the boxes of the parts, in their own coordinates, by part. ``needed`` are the boxes that the parts read of a
    tensor (of a constant only if it is copied). ``filled`` are the boxes of a tensor that are newly written, by its
    producers or by a copy, or copied out. ``work`` is the sum over the parts, per stripe.
    """

    made: Mapping[int, Sequence[Box]]
    needed: Mapping[str, Sequence[Box]]
    filled: Mapping[str, Sequence[Box]]
    buffers: tuple[StripeBuffer, ...]
    work: tuple[Fraction, ...]


def interior(graph: CascaderGraph, first: int, last: int, kept: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """The tensors that parts ``first`` to ``last`` make and that no other part needs.

    The output of the last part and the ``kept`` tensors are not among them. Raises InputError if any other tensor that the parts make is
    needed outside or is incomplete. Raises InputError if several parts read a tensor before they make it; a single part may write the
    tensor that it reads.
    """
    found = []
    output = graph.parts[last].output
    for name in dict.fromkeys(part.output for part in graph.parts[first : last + 1]):
        if name == output or name in kept:
            continue
        producers, consumers = graph.writers(name), graph.readers(name)
        inside = first <= min(producers) and bool(consumers) and max(consumers) <= last and max(producers) < min(consumers)
        if not inside or graph.tensor(name).kind is not TensorKind.INTERMEDIATE:
            raise InputError(
                f"Tensor {name!r} is made by parts {first} to {last} and needed elsewhere: let the group end with it, or keep it whole."
            )
        found.append(name)
    if first < last and any(first <= index <= last for index in graph.readers(output)):
        raise InputError(f"Tensor {output!r} is the output of parts {first} to {last}, which read it: part them.")
    return tuple(found)


def keepable(graph: CascaderGraph, first: int, last: int) -> tuple[str, ...]:
    """The tensors that parts ``first`` to ``last`` make for themselves and for others, so that they may be kept whole."""
    found = []
    for name in dict.fromkeys(part.output for part in graph.parts[first:last]):
        own = [index for index in graph.readers(name) if first <= index <= last]
        others = graph.tensor(name).kind is not TensorKind.INTERMEDIATE or len(own) < len(graph.readers(name))
        if own and others and first <= min(graph.writers(name)) and max(graph.writers(name)) < min(own):
            found.append(name)
    return tuple(found)


def trace(graph: CascaderGraph, group: StripedGroup) -> StripeTrace:
    """Execute a group stripe by stripe, from its output backwards.

    InputError as :func:`interior` says, and if the stripes do not make all of a tensor that is kept.
    """
    inside = frozenset(interior(graph, group.first, group.last, group.kept))
    homeless = sorted((inside | group.kept) & group.external)
    if homeless:
        raise InputError(
            f"Tensor {homeless[0]!r} is inside parts {group.first} to {group.last} and external: it is never copied, leave it out."
        )
    tracer = _Tracer(graph, group, inside)
    for index in range(group.last, group.first - 1, -1):
        tracer.part(index)
    return tracer.result()


class _Tracer:
    """A trace under construction: parts are visited from the last to the first, so that a tensor's needs are known before its makers."""

    def __init__(self, graph: CascaderGraph, group: StripedGroup, inside: frozenset[str]) -> None:
        self.graph, self.group, self.inside = graph, group, inside
        self.stripes = tuple(group.stripes.boxes())
        self.made: dict[int, list[Box]] = {}
        self.needed: dict[str, list[Box]] = {}
        self.filled: dict[str, list[Box]] = {graph.parts[group.last].output: list(self.stripes)}

    def part(self, index: int) -> None:
        """Add a part: the boxes that it makes at each stripe, and those that it needs for them."""
        part = self.graph.parts[index]
        if part.output not in self.filled:
            wanted = self.needed.get(part.output, [_nothing(part.output, self.graph)] * len(self.stripes))
            self.filled[part.output] = fills(
                wanted, BufferMode.ROLLING if part.output in self.group.kept else self.group.modes[part.output]
            )
        self.made[index] = [part.making(box) for box in self.filled[part.output]]
        if part.output in self.group.kept and covered(self.made[index]) < elements(part.whole):
            raise InputError(
                f"Part {part.name!r} is not asked for all of tensor {part.output!r}, which is kept: let the group end with it."
            )
        for operand in part.operands:
            constant = self.graph.tensor(operand.tensor).kind is TensorKind.CONSTANT
            if constant and operand.tensor not in self.group.external:
                continue
            reads = [self.graph.demand(operand, box) for box in self.made[index]]
            before = self.needed.get(operand.tensor)
            self.needed[operand.tensor] = [hull(a, b) for a, b in zip(before, reads, strict=True)] if before else reads

    def result(self) -> StripeTrace:
        """The trace with its buffers."""
        output = self.graph.parts[self.group.last].output
        streamed = [name for name in sorted(self.group.external) if name in self.needed and name not in self.inside]
        for name in streamed:
            self.filled[name] = fills(self.needed[name], self.group.modes[name])
        self.filled[output] = self._written(output)
        own = [name for name in self.filled if name in self.inside or name in self.group.external]
        return StripeTrace(
            made={index: tuple(self.made[index]) for index in sorted(self.made)},
            needed={name: tuple(boxes) for name, boxes in self.needed.items()},
            filled={name: tuple(boxes) for name, boxes in self.filled.items()},
            buffers=tuple(self._buffer(name) for name in sorted(own)),
            work=self._work(),
        )

    def _work(self) -> tuple[Fraction, ...]:
        """The parts' work per stripe."""
        total = [Fraction(0)] * len(self.stripes)
        for index, boxes in self.made.items():
            work = Fraction(self.graph.parts[index].work)
            total = [sum_ + Fraction(elements(box) * work.numerator, work.denominator) for sum_, box in zip(total, boxes, strict=True)]
        return tuple(total)

    def _written(self, name: str) -> list[Box]:
        """The boxes of a tensor that the parts really write at each stripe: alignment may let them begin before the wanted ones."""
        written = [_nothing(name, self.graph)] * len(self.stripes)
        for index in self.graph.writers(name):
            if index in self.made:
                part = self.graph.parts[index]
                written = [hull(box, part.written(own)) for box, own in zip(written, self.made[index], strict=True)]
        return written

    def _buffer(self, name: str) -> StripeBuffer:
        tensor, mode = self.graph.tensor(name), self.group.modes[name]
        written: Sequence[Box] = self.filled[name]
        if name in self.inside:
            written = [hull(box, own) for box, own in zip(written, self._written(name), strict=True)]
        if mode is not BufferMode.ROLLING:
            return StripeBuffer(name, mode, longest(written), tensor.element_size, copies=2 if mode is BufferMode.DOUBLE else 1)
        used = [hull(a, b) for a, b in zip(written, self.needed[name], strict=True)]
        rolling = [rolling_shape(axis, used) for axis in range(len(tensor.shape))]
        axis = min(range(len(rolling)), key=lambda own: prod(rolling[own][0]))
        return StripeBuffer(name, mode, rolling[axis][0], tensor.element_size, axis, rolling[axis][1])


def _nothing(name: str, graph: CascaderGraph) -> Box:
    return tuple((0, 0) for _ in graph.tensor(name).shape)
