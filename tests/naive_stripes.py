"""A plan carried out element by element in buffers of exactly its bytes; every element is known by where it belongs."""

from __future__ import annotations

from itertools import product
from math import prod

from cascader.graph.cascader_graph import CascaderGraph, TensorKind
from cascader.graph.intervals import Box, elements
from cascader.plan.plan import BufferMode, StripeBuffer
from cascader.plan.stripe_plans import StripePlan
from cascader.plan.stripe_trace import StripeTrace

Element = tuple[int, ...]


def elements_of(box: Box) -> list[Element]:
    return list(product(*(range(low, high) for low, high in box)))


class Storage:
    """The memory behind one tensor: as many cells as its buffer has elements, each knowing which element it holds."""

    def __init__(self, shape: tuple[int, ...], buffer: StripeBuffer | None) -> None:
        self.shape = buffer.shape if buffer else shape
        self.buffer = buffer
        self.base: Element = (0,) * len(shape)
        self.turn = 0
        self.cells: list[list[Element | None]] = [[None] * prod(self.shape) for _ in range(buffer.copies if buffer else 1)]

    def begin(self, box: Box) -> None:
        """A new stripe: a buffer of whole stripes holds it from its first cell on."""
        if self.buffer and self.buffer.mode is not BufferMode.ROLLING:
            self.base = tuple(low for low, _ in box)
            self.turn += 1

    def address(self, element: Element) -> int:
        place = []
        for axis, (index, length) in enumerate(zip(element, self.shape, strict=True)):
            if self.buffer and self.buffer.axis == axis:
                place.append(index % length)
                continue
            origin = self.buffer.origin[axis] if self.buffer and self.buffer.origin else self.base[axis]
            place.append(index - origin)
        assert all(0 <= own < length for own, length in zip(place, self.shape, strict=True)), (element, self.buffer)
        address = 0
        for own, length in zip(place, self.shape, strict=True):
            address = address * length + own
        return address

    def write(self, element: Element) -> None:
        self.cells[self.turn % len(self.cells)][self.address(element)] = element

    def holds(self, element: Element) -> bool:
        return self.cells[self.turn % len(self.cells)][self.address(element)] == element


class Run:
    """A group that is carried out; ``home`` are the elements of whole tensors that exist, and gets the group's output."""

    def __init__(self, graph: CascaderGraph, plan: StripePlan, traced: StripeTrace, home: dict[str, set[Element]]) -> None:
        self.graph, self.group, self.traced, self.home = graph, plan.group, traced, home
        self.output = graph.parts[plan.group.last].output
        buffers = {buffer.tensor: buffer for buffer in plan.buffers}
        self.storages = {tensor.name: Storage(tensor.shape, buffers[tensor.name]) for tensor in graph.tensors if tensor.name in buffers}
        self.incoming = [name for name in sorted(plan.group.external) if name in traced.filled and name != self.output]

    def work(self) -> int:
        """Carry out all stripes; the work done."""
        work = 0
        for step, wanted in enumerate(self.group.stripes.boxes()):
            self.copies(step)
            begun: set[str] = set()
            work += sum(self.part(index, step, begun) for index in range(self.group.first, self.group.last + 1))
            own = self.home.get(self.output, set())
            assert all(
                element in own for element in elements_of(wanted) if _is_made(self.graph, self.group.first, self.group.last, element)
            )
        return work

    def copies(self, step: int) -> None:
        """Copies for a stripe; those of double buffers are one stripe ahead, into the half that is not read."""
        for name in self.incoming:
            storage = self.storages[name]
            double = self.group.modes[name] is BufferMode.DOUBLE
            if not double or step == 0:
                self.copy(name, step, storage)
            else:
                self.turn(name, step, storage)
            if double and step + 1 < self.group.stripes.count:
                kept = (storage.base, storage.turn)
                self.copy(name, step + 1, storage)
                storage.base, storage.turn = kept

    def copy(self, name: str, step: int, storage: Storage) -> None:
        box = self.traced.filled[name][step]
        if elements(box):
            assert set(elements_of(box)) <= self.home[name]
            storage.begin(box)
            for element in elements_of(box):
                storage.write(element)

    def turn(self, name: str, step: int, storage: Storage) -> None:
        """The half that was filled beside the stripe before is read from now on."""
        if elements(self.traced.filled[name][step]):
            storage.begin(self.traced.filled[name][step])

    def part(self, index: int, step: int, begun: set[str]) -> int:
        """Run one part at a stripe and return its work; every element that it reads must be where it is looked for."""
        part, made = self.graph.parts[index], elements_of(self.traced.made[index][step])
        for operand in part.operands:
            if self.graph.tensor(operand.tensor).kind is not TensorKind.CONSTANT or operand.tensor in self.storages:
                for element in elements_of(self.graph.demand(operand, self.traced.made[index][step])):
                    assert self.exists(operand.tensor, element), (part.name, operand.tensor, element, step)
        storage = self.storages.get(part.output)
        if storage and part.output not in begun and elements(self.traced.filled[part.output][step]):
            begun.add(part.output)
            storage.begin(_written(self.graph, self.traced, part.output, step))
        for element in made:
            place = tuple(o + i * s for o, i, s in zip(part.offset, element, part.step, strict=True))
            if storage:
                storage.write(place)
            if part.output == self.output or part.output in self.group.kept:
                self.home.setdefault(part.output, set()).add(place)
        return len(made) * int(part.work)

    def exists(self, tensor: str, element: Element) -> bool:
        return self.storages[tensor].holds(element) if tensor in self.storages else element in self.home[tensor]


def run_group(graph: CascaderGraph, plan: StripePlan, traced: StripeTrace, home: dict[str, set[Element]]) -> int:
    """Carry out a group; the work done. AssertionError if something is read that is not there."""
    return Run(graph, plan, traced, home).work()


def _written(graph: CascaderGraph, traced: StripeTrace, name: str, step: int) -> Box:
    """Hull of what the group writes of a tensor at a stripe and what is wanted of it."""
    boxes = [graph.parts[i].written(traced.made[i][step]) for i in traced.made if graph.parts[i].output == name]
    full = [box for box in (*boxes, traced.filled[name][step]) if elements(box)]
    return tuple((min(a for a, _ in axis), max(b for _, b in axis)) for axis in zip(*full, strict=True))


def _is_made(graph: CascaderGraph, first: int, last: int, element: Element) -> bool:
    """Whether a part of the group makes this element of its output."""
    for part in graph.parts[first : last + 1]:
        if part.output == graph.parts[last].output:
            inside = (low <= own < low + size for own, low, size in zip(element, part.offset, part.shape, strict=True))
            if all(inside):
                return True
    return False
