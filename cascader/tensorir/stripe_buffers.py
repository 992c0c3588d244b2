"""Buffers of exactly the planned bytes, and parts that make exactly the planned boxes, in a function whose loops are in place.

TVM shrinks a buffer to one stripe by itself if the stripe moves by whole steps and is never clipped. For all else, rolling
buffers above all, the elements are stored modulo the buffer's length, and a part makes at each stripe what the plan says
and no more. TVM has a primitive for rolling alone (``rolling_buffer``), which takes regions that begin at a multiple of the
loop variable, keeps the halo of the other axes and leaves all other buffers at full size; tests hold both against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cascader.graph.intervals import Box, elements
from cascader.tensorir.blocks import not_negative, plus
from cascader.tensorir.compat import buffer_of, load, modulo, rewrite, scope_of, shape_of, walk, whole_region
from npu_model.values import dataclass

_OPAQUE = 4
"""TVM's number for an iterator whose order nobody may change (``IterVarType::kOpaque``)."""


@dataclass(frozen=True, slots=True)
class StripeLoops:
    """The loops over stripes of a cascade: their variables, outermost first, and how often each runs."""

    variables: tuple[Any, ...]
    counts: tuple[int, ...]

    @property
    def step(self) -> Any:
        """The place of the present stripe in the order of execution."""
        step = self.variables[0]
        for variable, count in zip(self.variables[1:], self.counts[1:], strict=True):
            step = step * count + variable
        return step


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor of a cascade with the buffer that the plan gives it.

    Along axis i the buffer begins with element ``origin[i]`` if it is long enough for all that is ever made; else element e
    lies at (e - base[i]) modulo ``shape[i]``, where ``base[i]`` is the first element of the buffer that is replaced. ``made`` is what
    the tensor's part makes at each stripe: in the function's table of boxes that is from number ``line`` on.
    """

    tensor: str
    base: tuple[int, ...]
    shape: tuple[int, ...]
    origin: tuple[int, ...]
    made: tuple[Box, ...]
    line: int = 0

    @property
    def bounds(self) -> list[int]:
        """The numbers of ``made`` in the table: stripe by stripe the first and the last (exclusive) element along each axis."""
        return [number for box in self.made for interval in box for number in interval]


def place(function: Any, placed: Placed, loops: StripeLoops, table: Any) -> Any:
    """The function with the tensor in its new buffer, which outlives the stripe loops; ``table`` is the parameter with all boxes."""
    compat = load()
    maker = next(node for node in walk(function.body, compat.block_realize) if node.block.name_hint == placed.tensor)
    old = buffer_of(maker.block.writes[0])
    predicate = compat.tirx.all(maker.predicate, *_made(maker.iter_values, placed, shape_of(old), loops.step, table))
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
    carry = compat.tirx.IterVar(compat.tvm.ir.Range(0, loops.counts[0]), compat.var("carry", "int32"), _OPAQUE, "")
    carried = _like(block, [*block.iter_vars, carry], block.reads, block.writes, block.alloc_buffers)
    return compat.block_realize([*values, loops.variables[0]], predicate, carried)


def _made(values: Sequence[Any], placed: Placed, shape: Sequence[int], step: Any, table: Any) -> list[Any]:
    """Conditions under which an element is one that the part makes at a stripe; ``shape`` is that of the part's loops.

    They read the box in the table, into which TVM's analysis of bounds does not look.
    """
    filled = [box for box in placed.made if elements(box)]
    whole = [(base, base + length) for base, length in zip(placed.base, shape, strict=True)]
    axes = [axis for axis, interval in enumerate(whole) if any(box[axis] != interval for box in filled)]
    if len(filled) < len(placed.made) and not axes:
        # An empty box is empty along every axis: one will do.
        axes = [0]
    conditions = []
    for axis in axes:
        number = placed.line + 2 * (step * len(shape) + axis)
        at = plus(values[axis], placed.base[axis])
        conditions.append(not_negative(at - table[number], table[number + 1] - 1 - at))
    return conditions
