"""Buffers of exactly the planned bytes, and parts that make exactly the planned boxes, in a function whose loops are in place.

TVM shrinks a buffer to one stripe by itself if the stripe moves by whole steps and is never clipped. For all else, rolling
buffers above all, the elements are stored modulo the buffer's length, and a part makes at each stripe what the plan says
and no more. TVM has a primitive for rolling alone (``rolling_buffer``), which takes regions that begin at a multiple of the
loop variable, keeps the halo of the other axes and leaves all other buffers at full size; tests hold both against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cascader.boxes import Box, Interval, elements
from cascader.tensorir.blocks import not_negative, plus
from cascader.tensorir.compat import buffer_of, load, modulo, rewrite, scope_of, shape_of, walk, whole_region
from cascader.tensorir.stepwise import Stepwise, stepwise

_OPAQUE = 4
"""TVM's number for an iterator whose order nobody may change (``IterVarType::kOpaque``)."""


@dataclass(frozen=True, slots=True)
class StripeLoops:
    """The loops over stripes of a cascade: their variables, outermost first, and each stripe's number along each of them."""

    variables: tuple[Any, ...]
    numbers: tuple[tuple[int, ...], ...]


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
    maker = next(block for block in walk(function.body, compat.block) if block.name_hint == placed.tensor)
    old = buffer_of(maker.writes[0])
    new = compat.tirx.decl_buffer(placed.shape, str(old.dtype), name=str(old.name), scope=scope_of(old))

    def realized(node: Any) -> Any:
        block = _block(node.block, old, new)
        if block.name_hint != placed.tensor:
            return compat.block_realize(node.iter_values, node.predicate, block)
        predicate = compat.tirx.all(node.predicate, *_made(node.iter_values, placed, shape_of(old), loops))
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
    cut = [
        axis for axis, (base, length) in enumerate(zip(placed.base, shape, strict=True)) if _differs(filled, axis, (base, base + length))
    ]
    intervals = {axis: {step: box[axis] for step, box in filled.items()} for axis in cut}
    conditions, moving = _busy(list(filled), intervals, loops)
    if moving is not None:
        intervals[moving] = _with_pauses(intervals[moving], len(placed.made))
    for axis, own in intervals.items():
        at = plus(values[axis], placed.base[axis])
        low, high = (_bound({step: interval[end] for step, interval in own.items()}, loops) for end in (0, 1))
        conditions.append(not_negative(at - low.expression(), high.expression() - 1 - at))
    return conditions


def _differs(filled: Mapping[int, Box], axis: int, interval: Interval) -> bool:
    return any(box[axis] != interval for box in filled.values())


@dataclass(frozen=True, slots=True)
class _Bound:
    """A number that changes from stripe to stripe, as a function of a variable."""

    values: Stepwise
    variable: Any

    def expression(self) -> Any:
        return self.values.expression(self.variable)


def _bound(values: Mapping[int, int], loops: StripeLoops) -> _Bound:
    """The values at the stripes by their place in the order: a function of one loop if one decides, else of the place."""
    for variable, own in zip(loops.variables, zip(*loops.numbers, strict=True), strict=True):
        by_loop: dict[int, set[int]] = {}
        for step, value in values.items():
            by_loop.setdefault(own[step], set()).add(value)
        if all(len(found) == 1 for found in by_loop.values()):
            return _Bound(stepwise({index: found.pop() for index, found in by_loop.items()}), variable)
    return _Bound(stepwise(dict(values)), _step(loops))


def _step(loops: StripeLoops) -> Any:
    """The place of the present stripe in the order."""
    step = loops.variables[0]
    for variable, own in zip(loops.variables[1:], list(zip(*loops.numbers, strict=True))[1:], strict=True):
        step = step * (1 + max(own)) + variable
    return step


def _busy(filled: Sequence[int], intervals: Mapping[int, Mapping[int, Interval]], loops: StripeLoops) -> tuple[list[Any], int | None]:
    """Conditions under which the part makes anything at all, or the axis whose interval had better be empty where it does not."""
    tirx = load().tirx
    if len(filled) == len(loops.numbers):
        return [], None
    first_only = [axis for axis in range(len(loops.variables)) if all(loops.numbers[step][axis] == 0 for step in filled)]
    if list(filled) == [step for step, numbers in enumerate(loops.numbers) if all(numbers[axis] == 0 for axis in first_only)]:
        return [loops.variables[axis] < tirx.const(1, "int32") for axis in first_only], None
    busy = _bound({step: int(step in filled) for step in range(len(loops.numbers))}, loops)
    costs = {axis: _cost(_with_pauses(own, len(loops.numbers)), loops) - _cost(own, loops) for axis, own in intervals.items()}
    axis = min(costs, key=lambda own: costs[own], default=None)
    if axis is not None and costs[axis] <= busy.values.cost:
        return [], axis
    return [busy.expression() > tirx.const(0, "int32")], None


def _cost(intervals: Mapping[int, Interval], loops: StripeLoops) -> int:
    return sum(_bound({step: interval[end] for step, interval in intervals.items()}, loops).values.cost for end in (0, 1))


def _with_pauses(intervals: Mapping[int, Interval], steps: int) -> dict[int, Interval]:
    """The intervals with an empty one, behind the last one before, where there is none.

    >>> _with_pauses({0: (0, 2), 2: (2, 4)}, 4)
    {0: (0, 2), 1: (2, 2), 2: (2, 4), 3: (4, 4)}
    """
    found: dict[int, Interval] = {}
    behind = min((low for low, _ in intervals.values()), default=0)
    for step in range(steps):
        found[step] = intervals.get(step, (behind, behind))
        behind = found[step][1]
    return found
