"""Propagators derived from Tensor Expressions: the index expressions of an operand give its matrix.

RFC 0037 writes a matrix by hand for every operator and hopes to derive them one day. TVM's own lowering gives every read with its index
expressions. Each expression becomes a :class:`Span`, which is a row of the matrix. The rules are interval arithmetic. For integers they are
exact for sums with different variables, products with constants and floor divisions by constants. Some indices are not affine, such as the
indices of a gather, or of a reshape that does not split along an axis. The row then says that all of the axis is needed, or the part that
TVM's bounds of the index permit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cascader.graph.propagator import Propagator
from cascader.graph.stripe_config import Rational
from cascader.tensorir.compat import buffer_of, load, shape_of
from cascader.tensorir.stages import Stage, StageGraph


class IndexSpan(Struct, frozen=True):
    """Integers from ``floor(row . a + low)`` to before ``ceil(row . b + high)`` for a box whose axes run over [a, b).

    >>> axis, loop, constant = IndexSpan((1, 0), 0, 0), IndexSpan((0, 0), 0, 3), IndexSpan((0, 0), -1, 0)
    >>> axis + loop + constant
    IndexSpan(row=(1, 0), low=-1, high=1)
    """

    row: tuple[Rational, ...]
    low: Rational
    high: Rational

    @property
    def is_whole(self) -> bool:
        """Whether nothing is rounded."""
        return all(Fraction(value).denominator == 1 for value in (*self.row, self.low, self.high))

    @property
    def constant(self) -> int | None:
        """The value, if the span has only one."""
        return int(self.low) if not any(self.row) and self.is_whole and self.high == self.low + 1 else None

    def __add__(self, other: IndexSpan) -> IndexSpan:
        """The span of a sum: the last values add up, and each end is one more than its last value."""
        return IndexSpan(tuple(a + b for a, b in zip(self.row, other.row, strict=True)), self.low + other.low, self.high + other.high - 1)

    def times(self, factor: int) -> IndexSpan:
        """Products with a factor of 1 or more."""
        return IndexSpan(tuple(factor * value for value in self.row), factor * self.low, factor * (self.high - 1) + 1)

    def divided(self, by: int) -> IndexSpan:
        """Floor divisions by 1 or more: an integer x has floor((x - 1) / d) + 1 = ceil(x / d)."""
        return IndexSpan(tuple(Fraction(value, by) for value in self.row), Fraction(self.low, by), Fraction(self.high, by))


class _Indices:
    """The spans of index expressions over a box of ``output``. ``loops`` gives the extents of the loops that run for every element."""

    def __init__(self, output: Stage, loops: Mapping[Any, int]) -> None:
        compat = load()
        self._axes, self._loops = list(output.axes), loops
        self._analyser = compat.arith.Analyzer()
        for var, extent in [*zip(output.axes, output.shape, strict=True), *loops.items()]:
            self._analyser.bind(var, compat.tvm.ir.Range(0, extent))

    def fixed(self, low: int, high: int) -> IndexSpan:
        """The same integers for every box."""
        return IndexSpan((0,) * len(self._axes), low, high)

    def span(self, index: Any, extent: int) -> IndexSpan:
        """The span of an index on an axis of ``extent``: the whole permitted range where the rules cannot give it exactly."""
        # The expression as it was written: an axis of one element simplifies to 0, although it is the axis.
        exact = self._exact(index) or self._exact(self._analyser.simplify(index))
        if exact is not None:
            return exact
        bound = self._analyser.const_int_bound(index)
        low, high = max(0, int(bound.min_value)), min(extent, int(bound.max_value) + 1)
        return self.fixed(low, high) if low < high else self.fixed(0, extent)

    def _exact(self, expression: Any) -> IndexSpan | None:
        """None if an axis runs backwards, two rounded values meet, or the expression is not affine."""
        tirx = load().tirx
        if isinstance(expression, tirx.IntImm):
            return self.fixed(int(expression.value), int(expression.value) + 1)
        if isinstance(expression, load().var):
            if expression in self._loops:
                return self.fixed(0, self._loops[expression])
            return IndexSpan(tuple(int(axis.same_as(expression)) for axis in self._axes), 0, 0) if expression in self._axes else None
        if isinstance(expression, (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv)):
            a, b = self._exact(expression.a), self._exact(expression.b)
            return None if a is None or b is None else _combined(expression, a, b)
        return None


def _combined(expression: Any, a: IndexSpan, b: IndexSpan) -> IndexSpan | None:
    tirx = load().tirx
    factor = b.constant
    if isinstance(expression, tirx.FloorDiv):
        return a.divided(factor) if factor is not None and factor >= 1 else None
    if isinstance(expression, tirx.Mul):
        factor, other = (a.constant, b) if factor is None else (factor, a)
        # A rounded value times a factor is not the rounded product.
        return other.times(factor) if factor is not None and factor >= 1 and (other.is_whole or factor == 1) else None
    if isinstance(expression, tirx.Sub):
        # Only a span that does not grow with the box may be subtracted: an axis cannot run backwards.
        return a + IndexSpan(b.row, 1 - b.high, 1 - b.low) if not any(b.row) and b.is_whole else None
    # Two rounded values: the sum of two floors may lie below the floor of the sum.
    return a + b if a.is_whole or b.is_whole else None


def derive(graph: StageGraph, stages: Sequence[Stage]) -> dict[str, Propagator]:
    """The Propagator of every tensor that a chain of stages reads from outside, by name, in the order of the first read.

    The output of the last stage is the one that is cut. If a tensor is read several times, its Propagator is the smallest map that covers
    all reads.
    """
    output = stages[-1]
    inner = {stage.name: stage for stage in stages[:-1]}
    indices = _Indices(output, {axis.var: axis.extent for stage in stages for axis in stage.reduce_axes})
    found: dict[str, list[list[IndexSpan]]] = {}
    for read in _outer_reads(graph, inner, output, output.axes):
        shape = shape_of(buffer_of(read))
        spans = [indices.span(index, extent) for index, extent in zip(read.indices, shape, strict=True)]
        found.setdefault(graph.name(buffer_of(read)), []).append(spans)
    shapes = {graph.name(buffer): shape_of(buffer) for buffer in graph.names}
    made = {}
    for name, reads in found.items():
        # An axis is needed whole unless all reads of it grow alike.
        covers = [_cover(own) or indices.fixed(0, extent) for own, extent in zip(zip(*reads, strict=True), shapes[name], strict=True)]
        rows = [(*own.row, own.high - own.low) for own in covers]
        made[name] = Propagator((*rows, (0,) * len(output.axes) + (1,)), tuple(own.low for own in covers))
    return made


def _outer_reads(graph: StageGraph, inner: Mapping[str, Stage], stage: Stage, indices: Sequence[Any]) -> list[Any]:
    """Loads of tensors outside the chain. Loads of inner stages' outputs are replaced by the stages."""
    reads = []
    for node in replace(stage, value=stage.at(indices)).loads():
        name = graph.name(buffer_of(node))
        reads += _outer_reads(graph, inner, inner[name], node.indices) if name in inner else [node]
    return reads


def _cover(spans: Sequence[IndexSpan]) -> IndexSpan | None:
    """The smallest span that covers all spans; None if they do not grow alike."""
    rows = {own.row for own in spans}
    return IndexSpan(rows.pop(), min(own.low for own in spans), max(own.high for own in spans)) if len(rows) == 1 else None
