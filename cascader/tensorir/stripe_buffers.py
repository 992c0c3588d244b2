"""Buffers of exactly the planned bytes, and parts that make exactly the planned boxes, in a function whose loops are in place.

TVM shrinks a buffer to one stripe by itself if the stripe moves by whole steps and is never clipped. For all else, rolling
buffers above all, the elements are stored modulo the buffer's length, and a part makes at each stripe what the plan says
and no more. TVM has a primitive for rolling alone (``rolling_buffer``), which takes regions that begin at a multiple of the
loop variable, keeps the halo of the other axes and leaves all other buffers at full size; tests hold both against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cascader.graph.intervals import Box, Interval, elements
from cascader.tensorir.blocks import not_negative, plus
from cascader.tensorir.compat import buffer_of, load, modulo, rewrite, scope_of, shape_of, walk, whole_region
from cascader.tensorir.stepwise import Stepwise, stepwise
from npu_model.errors import InputError
from npu_model.values import dataclass

_OPAQUE = 4
"""TVM's number for an iterator whose order nobody may change (``IterVarType::kOpaque``)."""

_MAX_EXCEPTIONS = 64
"""Beyond, TVM takes minutes to simplify one condition."""


@dataclass(frozen=True, slots=True)
class StripeLoops:
    """The loops over stripes of a cascade: their variables, outermost first, and each stripe's number along each of them."""

    variables: tuple[Any, ...]
    numbers: tuple[tuple[int, ...], ...]

    def variable(self, loop: int | None) -> Any:
        """The variable of a loop, or (None) the place of the present stripe in the order."""
        if loop is not None:
            return self.variables[loop]
        step = self.variables[0]
        for variable, own in zip(self.variables[1:], list(zip(*self.numbers, strict=True))[1:], strict=True):
            step = step * (1 + max(own)) + variable
        return step


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor of a cascade with the buffer that the plan gives it.

    Along axis i the buffer begins with element ``origin[i]`` if it is long enough for all that is ever made; else element e
    lies at (e - base[i]) modulo ``shape[i]``, where ``base[i]`` is the first element of the buffer that is replaced. ``made`` is what
    the tensor's part makes at each stripe.
    """

    tensor: str
    base: tuple[int, ...]
    shape: tuple[int, ...]
    origin: tuple[int, ...]
    made: tuple[Box, ...]


def place(function: Any, placed: Placed, loops: StripeLoops) -> Any:
    """The function with the tensor in its new buffer, which outlives the stripe loops."""
    compat = load()
    maker = next(node for node in walk(function.body, compat.block_realize) if node.block.name_hint == placed.tensor)
    old = buffer_of(maker.block.writes[0])
    predicate = compat.tirx.all(maker.predicate, *_made(maker.iter_values, placed, shape_of(old), loops))
    new = compat.tirx.decl_buffer(placed.shape, str(old.dtype), name=str(old.name), scope=scope_of(old))

    def realized(node: Any) -> Any:
        block = _block(node.block, old, new)
        if block.name_hint != placed.tensor:
            return compat.block_realize(node.iter_values, node.predicate, block)
        return _carried(node.iter_values, predicate, block, loops)

    def loaded(node: Any) -> Any:
        return new[tuple(_indices(node, placed))] if buffer_of(node).same_as(old) else node

    def stored(node: Any) -> Any:
        return compat.tirx.BufferStore(new, node.value, _indices(node, placed)) if node.buffer.same_as(old) else node

    rules = {compat.load: loaded, compat.tirx.BufferStore: stored, compat.block_realize: realized}
    return function.with_body(rewrite(function.body, rules))


def _indices(access: Any, placed: Placed) -> list[Any]:
    indices = []
    for axis, (index, base, length, origin) in enumerate(zip(access.indices, placed.base, placed.shape, placed.origin, strict=True)):
        # The halo itself is never stored, so that an axis needs no modulus if the buffer reaches to its last element.
        indices.append(modulo(index, length) if length < _reach(placed, axis) else plus(index, base - origin))
    return indices


def _reach(placed: Placed, axis: int) -> int:
    """Elements from the origin to the last one that is ever made."""
    return max((box[axis][1] for box in placed.made if elements(box)), default=0) - placed.origin[axis]


def _block(block: Any, old: Any, new: Any) -> Any:
    """The block with the new buffer in its regions, whole, and among its allocations."""

    def regions(given: Sequence[Any]) -> list[Any]:
        return [whole_region(new) if buffer_of(region).same_as(old) else region for region in given]

    allocated = [new if buffer.same_as(old) else buffer for buffer in block.alloc_buffers]
    return _like(block, list(block.iter_vars), regions(block.reads), regions(block.writes), allocated)


def _like(block: Any, iters: Sequence[Any], reads: Sequence[Any], writes: Sequence[Any], allocated: Sequence[Any]) -> Any:
    return load().block(iters, reads, writes, block.name_hint, block.body, block.init, allocated, block.match_buffers, block.annotations)


def _carried(values: Sequence[Any], predicate: Any, block: Any, loops: StripeLoops) -> Any:
    """The block with an iterator that is not data-parallel.

    It tells TVM that something is handed from one value of the outermost stripe loop to the next, so that the buffer has to
    be allocated outside of it.
    """
    compat = load()
    extent = 1 + max(numbers[0] for numbers in loops.numbers)
    carry = compat.tirx.IterVar(compat.tvm.ir.Range(0, extent), compat.var("carry", "int32"), _OPAQUE, "")
    carried = _like(block, [*block.iter_vars, carry], block.reads, block.writes, block.alloc_buffers)
    return compat.block_realize([*values, loops.variables[0]], predicate, carried)


def _made(values: Sequence[Any], placed: Placed, shape: Sequence[int], loops: StripeLoops) -> list[Any]:
    """Conditions under which an element is one that the part makes at the present stripe; ``shape`` is that of the part's loops."""
    filled = {step: box for step, box in enumerate(placed.made) if elements(box)}
    tracks = {}
    for axis, (base, length) in enumerate(zip(placed.base, shape, strict=True)):
        if any(box[axis] != (base, base + length) for box in filled.values()):
            tracks[axis] = _track({step: box[axis] for step, box in filled.items()}, loops)
    conditions = []
    for loop, busy in _pauses(list(filled), loops):
        if all(index == 0 for index, runs in busy.items() if runs):
            conditions.append(loops.variable(loop) < 1)
            continue
        # An interval that is empty where nothing is made often stays on its line, and then says so for nothing.
        costs = {axis: track.paused(busy).cost - track.cost for axis, track in tracks.items() if track.loop == loop}
        pattern = stepwise({index: int(runs) for index, runs in busy.items()})
        cheapest = min(costs, key=lambda own: costs[own], default=None)
        if cheapest is not None and costs[cheapest] <= pattern.cost:
            tracks[cheapest] = tracks[cheapest].paused(busy)
        else:
            conditions.append(_expression(pattern, loops.variable(loop), placed.tensor) > 0)
    for axis, track in tracks.items():
        at = plus(values[axis], placed.base[axis])
        low, high = (_expression(bound, loops.variable(track.loop), placed.tensor) for bound in track.bounds)
        conditions.append(not_negative(at - low, high - 1 - at))
    return conditions


def _expression(values: Stepwise, variable: Any, tensor: str) -> Any:
    if len(values.exceptions) > _MAX_EXCEPTIONS:
        raise InputError(
            f"The stripes of tensor {tensor!r} begin at {len(values.exceptions)} places that follow no line, of which {_MAX_EXCEPTIONS} "
            "are expressed in TensorIR: use larger stripes."
        )
    return values.expression(variable)


@dataclass(frozen=True, slots=True)
class _Track:
    """The interval of an axis at each stripe that makes anything, as a function of a loop, or (None) of the stripe's place."""

    loop: int | None
    intervals: Mapping[int, Interval]

    @property
    def bounds(self) -> tuple[Stepwise, Stepwise]:
        low, high = (stepwise({index: interval[end] for index, interval in self.intervals.items()}) for end in (0, 1))
        return low, high

    @property
    def cost(self) -> int:
        return sum(bound.cost for bound in self.bounds)

    def paused(self, busy: Mapping[int, bool]) -> _Track:
        """The same with an empty interval, behind the last one before, wherever nothing is made."""
        found: dict[int, Interval] = {}
        behind = min((low for low, _ in self.intervals.values()), default=0)
        for index in busy:
            found[index] = self.intervals.get(index, (behind, behind))
            behind = found[index][1]
        return _Track(self.loop, found)


def _track(intervals: Mapping[int, Interval], loops: StripeLoops) -> _Track:
    for loop in range(len(loops.variables)):
        by_loop: dict[int, set[Interval]] = {}
        for step, interval in intervals.items():
            by_loop.setdefault(loops.numbers[step][loop], set()).add(interval)
        if all(len(found) == 1 for found in by_loop.values()):
            return _Track(loop, {index: found.pop() for index, found in sorted(by_loop.items())})
    return _Track(None, dict(intervals))


def _pauses(filled: Sequence[int], loops: StripeLoops) -> list[tuple[int | None, dict[int, bool]]]:
    """At which values of which loops anything is made at all; nothing for a loop all of whose values are busy.

    If busy stripes are no product of busy values, the one entry is of their places in the order.
    """
    found: list[tuple[int | None, dict[int, bool]]] = []
    busy = set(filled)
    for loop in range(len(loops.variables)):
        own = {numbers[loop]: False for numbers in loops.numbers}
        for step in filled:
            own[loops.numbers[step][loop]] = True
        found.append((loop, dict(sorted(own.items()))))
    product = {
        step for step, numbers in enumerate(loops.numbers) if all(own[number] for (_, own), number in zip(found, numbers, strict=True))
    }
    if product != busy:
        return [(None, {step: step in busy for step in range(len(loops.numbers))})]
    return [(loop, own) for loop, own in found if not all(own.values())]
