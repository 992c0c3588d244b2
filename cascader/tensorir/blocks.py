"""A Part written as one TensorIR block: all its stages for one element, or for all channels of one, in coordinates of a stripe.

Two things make the block fit for any stripe. Its tensors may begin before their first element (a halo), so that no stripe
has to be clipped; elements outside the real tensor are neither computed nor read. And every condition, those of the
operator's own padding too, is written as a sign bit, which TVM's analysis of bounds does not look into: it would cut
the region that a stripe needs into a minimum and a maximum, and could no longer shrink the buffer to one stripe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Any

from cascader.graph.intervals import Box
from cascader.tensorir.compat import buffer_of, load, rewrite, walk
from cascader.tensorir.matchers import Match
from cascader.tensorir.stages import Stage, StageGraph, substitute
from npu_model.errors import InputError
from npu_model.values import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor in the function: its buffer, and the element of the tensor at the buffer's first one."""

    buffer: Any
    base: tuple[int, ...]

    def __getitem__(self, indices: Sequence[Any]) -> Any:
        """The expression that reads an element of the tensor."""
        return self.buffer[tuple(self.shifted(indices))]

    def shifted(self, indices: Sequence[Any]) -> list[Any]:
        """Indices of the tensor as indices of the buffer."""
        return [plus(index, -base) for index, base in zip(indices, self.base, strict=True)]


@dataclass(frozen=True, slots=True)
class Counter:
    """Where a block counts what it executes: an element of a buffer of int64."""

    buffer: Any
    slot: int

    def added(self, work: int) -> Any:
        """The statement that counts ``work``."""
        tirx = load().tirx
        return tirx.BufferStore(self.buffer, self.buffer[self.slot] + tirx.const(work, "int64"), [tirx.const(self.slot, "int32")])


@dataclass(frozen=True, slots=True)
class PartBlock:
    """Ingredients of the block ``name``: the Part, its tensors by the names that its stages use, and the ``domain`` of its loops.

    The domain may reach beyond the tensor. With ``channels`` one block makes the whole last axis of an element. A ``counter``
    counts each update of the Part's one accumulation, if these are the Part's work, else the work of each element that is made.
    """

    name: str
    graph: StageGraph
    match: Match
    places: Mapping[str, Place]
    domain: Box
    channels: bool
    counter: Counter | None = None

    @property
    def counts_updates(self) -> bool:
        """Whether the work is the updates of one accumulation."""
        loops = [prod(axis.extent for axis in stage.reduce_axes) for stage in self.match.stages if stage.is_reduction]
        return loops == [self.match.work]


@dataclass(slots=True)
class _Body:
    """A block's statements as they are written, its accumulators, and the loop over the last axis, if it is inside."""

    part: PartBlock
    lane: Any
    lanes: int
    statements: list[Any] = field(default_factory=list)
    accumulators: list[Any] = field(default_factory=list)

    def lower(self, expression: Any) -> Any:
        """The expression on the function's own buffers; accumulations that it needs are written to ``statements`` first."""
        return rewrite(_opaque(expression), {load().load: self._operand})

    def _operand(self, node: Any) -> Any:
        if buffer_of(node) not in self.part.graph.names:
            return node
        name = self.part.graph.name(buffer_of(node))
        inner = {stage.name: stage for stage in self.part.match.stages[:-1]}
        if name not in inner:
            return self.part.places[name][node.indices]
        stage = inner[name]
        return self.accumulate(stage, node.indices) if stage.is_reduction else self.lower(stage.at(node.indices))

    def accumulate(self, stage: Stage, indices: Sequence[Any]) -> Any:
        """Write the loops of an accumulation; returns the element of the accumulator with its result."""
        tirx = load().tirx
        total = tirx.decl_buffer((self.lanes,), str(stage.output.dtype), name=f"{stage.name}_acc", scope="local")
        self.accumulators.append(total)
        lane = self.lane if self.lanes > 1 else tirx.const(0, "int32")
        loops = [(load().var(str(axis.var.name), "int32"), axis.extent) for axis in stage.reduce_axes]
        value = substitute(stage.at(indices), [axis.var for axis in stage.reduce_axes], [var for var, _ in loops])
        value = rewrite(value, {load().load: lambda node: total[lane] if buffer_of(node).same_as(stage.output) else node})
        before = len(self.statements)
        value = self.lower(value)
        if any(node in [var for var, _ in loops] for added in self.statements[before:] for node in walk(added, load().var)):
            raise InputError(f"Stage {stage.name!r} accumulates over an accumulation that depends on its own loops: make them two Parts.")
        update = self.lanewise(tirx.BufferStore(total, value, [lane]), work=int(self.part.counts_updates))
        for var, extent in reversed(loops):
            update = _loop(var, extent, update)
        self.statements += [self.lanewise(tirx.BufferStore(total, self.lower(stage.init), [lane])), update]
        return total[lane]

    def lanewise(self, statement: Any, *, work: int = 0) -> Any:
        """The statement for every element of the last axis, counted if it is work."""
        if work and self.part.counter is not None:
            statement = load().tirx.SeqStmt([statement, self.part.counter.added(work)])
        if self.lanes == 1:
            return statement
        fresh = load().var("lane", "int32")
        return _loop(fresh, self.lanes, rewrite(statement, {load().var: lambda node: fresh if node.same_as(self.lane) else node}))


def part_block(part: PartBlock) -> Any:
    """The loops over the domain with the block inside."""
    compat = load()
    tirx = compat.tirx
    output = part.match.output
    extents = [last - first for first, last in part.domain]
    channels = part.channels and extents[-1] > 1
    lane, lanes = compat.var("lane", "int32"), extents[-1] if channels else 1
    runs = [*extents[:-1], 1] if channels else extents
    iters = [compat.var(f"v{axis}", "int32") for axis in range(len(runs))]
    at = [plus(var, first) for var, (first, _) in zip(iters, part.domain, strict=True)]
    if channels:
        # The iterator of one element stays in the index: a block writes at all of its iterators.
        at[-1] = iters[-1] * lanes + lane + part.domain[-1][0]
    body = _Body(part, lane, lanes)
    value = body.accumulate(output, at) if output.is_reduction else body.lower(output.at(at))
    place = part.places[output.name]
    store = tirx.BufferStore(place.buffer, value, place.shifted(at))
    body.statements.append(body.lanewise(store, work=0 if part.counts_updates else part.match.work))
    statement = tirx.SeqStmt(body.statements) if len(body.statements) > 1 else body.statements[0]
    inside = _inside(at, part.domain, output.shape, skip_last=channels)
    block = _block(
        part.name,
        list(zip(iters, runs, strict=True)),
        tirx.IfThenElse(inside, statement, None) if inside is not None else statement,
        body,
    )
    loops = [compat.var(f"i{axis}", "int32") for axis in range(len(runs))]
    nest = compat.block_realize(loops, tirx.const(True, "bool"), block)
    for var, extent in zip(reversed(loops), reversed(runs), strict=True):
        nest = _loop(var, extent, nest)
    return nest


def _block(name: str, iters: Sequence[tuple[Any, int]], statement: Any, body: _Body) -> Any:
    """The block with the regions that TVM itself finds in it."""
    compat = load()
    axes = [compat.tirx.IterVar(compat.tvm.ir.Range(0, extent), var, 0, "") for var, extent in iters]
    places = [place.buffer for place in body.part.places.values()]
    counters = [body.part.counter.buffer] if body.part.counter else []

    def made(reads: Sequence[Any], writes: Sequence[Any]) -> Any:
        return compat.block(axes, list(reads), list(writes), name, statement, None, body.accumulators, [], {})

    known = {buffer: buffer for buffer in [*places, *counters]}
    reads, writes = list(compat.s_tir.analysis.get_sblock_access_region(made([], []), known))[:2]
    # The counter is no data: a dependency through it would order blocks that do not depend on each other.
    return made(*([region for region in regions if buffer_of(region) not in counters] for regions in (reads, writes)))


def _loop(var: Any, extent: int, body: Any) -> Any:
    tirx = load().tirx
    return tirx.For(var, tirx.const(0, "int32"), tirx.const(extent, "int32"), tirx.ForKind.SERIAL, body)


def _inside(at: Sequence[Any], domain: Box, shape: Sequence[int], *, skip_last: bool) -> Any:
    """Whether an element of the domain is one of the tensor; None if all are."""
    distances = []
    for axis, (index, (first, last), extent) in enumerate(zip(at, domain, shape, strict=True)):
        if skip_last and axis == len(shape) - 1:
            continue
        distances += [index] if first < 0 else []
        distances += [extent - 1 - index] if last > extent else []
    return not_negative(*distances) if distances else None


def plus(expression: Any, constant: int) -> Any:
    """The sum with a constant, as one constant with those that are added in the expression."""
    rest, own = _split(expression)
    return rest + (constant + own) if constant + own else rest


def _split(expression: Any) -> tuple[Any, int]:
    """An expression as a sum of one without a constant term and a constant."""
    tirx = load().tirx
    if isinstance(expression, (tirx.Add, tirx.Sub)):
        sign = 1 if isinstance(expression, tirx.Add) else -1
        if isinstance(expression.b, tirx.IntImm):
            rest, constant = _split(expression.a)
            return rest, constant + sign * int(expression.b.value)
        (a, first), (b, second) = _split(expression.a), _split(expression.b)
        return type(expression)(a, b), first + sign * second
    return expression, 0


def not_negative(*values: Any) -> Any:
    """Whether no value is negative, as a test of the sign bit of all of them, which TVM's analysis of bounds takes as it is."""
    tirx = load().tirx
    joined = tirx.bitwise_or(values[0], values[0]) if len(values) == 1 else values[0]
    for value in values[1:]:
        joined = tirx.bitwise_or(joined, value)
    return joined >= tirx.const(0, "int32")


def _opaque(expression: Any) -> Any:
    """The expression with every condition on positions as a test of a sign bit, and with choices that evaluate one branch only."""
    tirx = load().tirx

    def chosen(node: Any) -> Any:
        return tirx.if_then_else(_sign(node.condition), node.true_value, node.false_value)

    def guarded(node: Any) -> Any:
        if not str(node.op.name).endswith("if_then_else"):
            return node
        condition, *branches = node.args
        return tirx.if_then_else(_sign(condition), *branches)

    return rewrite(expression, {load().call: guarded, tirx.Select: chosen})


def _sign(condition: Any) -> Any:
    """A condition with its comparisons of int32 as sign bits; a conjunction of them becomes one test."""
    tirx = load().tirx
    values = _distances(condition)
    if values is not None:
        return not_negative(*values)
    for kind in (tirx.And, tirx.Or):
        if isinstance(condition, kind):
            return kind(_sign(condition.a), _sign(condition.b))
    return tirx.Not(_sign(condition.a)) if isinstance(condition, tirx.Not) else condition


def _distances(condition: Any) -> list[Any] | None:
    """Values of int32 of which none is negative exactly if the condition holds; None if it is not of this form."""
    tirx = load().tirx
    if isinstance(condition, tirx.And):
        a, b = _distances(condition.a), _distances(condition.b)
        return None if a is None or b is None else a + b
    if not isinstance(condition, (tirx.LE, tirx.LT, tirx.GE, tirx.GT, tirx.EQ)) or str(condition.a.ty.dtype) != "int32":
        return None
    a, b = condition.a, condition.b
    if isinstance(condition, tirx.EQ):
        return [a - b, b - a]
    low, high = (a, b) if isinstance(condition, (tirx.LE, tirx.LT)) else (b, a)
    return [high - low - 1] if isinstance(condition, (tirx.LT, tirx.GT)) else [high - low]
