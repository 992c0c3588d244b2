"""Propagators derived from Tensor Expressions: the matrix of an operand is read off the expressions by which it is indexed.

RFC 0037 writes a matrix by hand for every operator and hopes to derive them one day. TVM's own lowering gives every read
with its index expressions. Each of them becomes a :class:`Span`, which is a row of the matrix. The rules are those of
intervals. For integers they are exact for sums with different variables, products with constants and floor divisions by
constants. Some indices are not affine: those of a gather, or of a reshape that does not split along an axis. The row then
says that all of the axis is needed, or the part of it that TVM's bounds of the index allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from cascader.graph.propagator import Propagator
from cascader.tensorir.compat import buffer_of, load, shape_of
from cascader.tensorir.stages import Stage, StageGraph
from npu_model.values import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Integers from ``floor(row . a + low)`` to before ``ceil(row . b + high)`` for a box whose axes run over [a, b).

    >>> Span.of_axis(1, 2) + Span.of_loop(3) + Span.of_constant(-1)
    Span(row=(Fraction(0, 1), Fraction(1, 1)), low=Fraction(-1, 1), high=Fraction(1, 1))
    """

    row: tuple[Fraction, ...]
    low: Fraction
    high: Fraction

    @classmethod
    def of_axis(cls, axis: int, axes: int) -> Span:
        """The values of an axis of the box, of ``axes``."""
        return cls(tuple(Fraction(int(index == axis)) for index in range(axes)), Fraction(0), Fraction(0))

    @classmethod
    def of_loop(cls, extent: int) -> Span:
        """The values of a loop that runs from 0 to before ``extent`` for every element."""
        return cls((), Fraction(0), Fraction(extent))

    @classmethod
    def of_constant(cls, value: int) -> Span:
        """One value."""
        return cls((), Fraction(value), Fraction(value + 1))

    @property
    def is_whole(self) -> bool:
        """Whether nothing is rounded."""
        return all(value.denominator == 1 for value in (*self.row, self.low, self.high))

    @property
    def constant(self) -> int | None:
        """The value, if there is one only."""
        return int(self.low) if not any(self.row) and self.is_whole and self.high == self.low + 1 else None

    def __add__(self, other: Span) -> Span:
        """Sums of a value of each; the last values add up, and each end is one behind its last value."""
        length = max(len(self.row), len(other.row))
        rows = (span.row + (Fraction(0),) * (length - len(span.row)) for span in (self, other))
        return Span(tuple(a + b for a, b in zip(*rows, strict=True)), self.low + other.low, self.high + other.high - 1)

    def times(self, factor: int) -> Span:
        """Products with a factor of 1 or more."""
        return Span(tuple(factor * value for value in self.row), factor * self.low, factor * (self.high - 1) + 1)

    def divided(self, by: int) -> Span:
        """Floor divisions by 1 or more: an integer x has floor((x - 1) / d) + 1 = ceil(x / d)."""
        return Span(tuple(value / by for value in self.row), self.low / by, self.high / by)


def span(expression: Any, axes: Sequence[Any], loops: Mapping[Any, int]) -> Span | None:
    """The span of an index expression over the ``axes`` of a box and the loops that run for every element, by their extents.

    None if the rules cannot say it exactly: an axis runs backwards, two rounded values meet, or the expression is not affine.
    """
    tirx = load().tirx
    if isinstance(expression, tirx.IntImm):
        return Span.of_constant(int(expression.value))
    if isinstance(expression, load().var):
        if expression in loops:
            return Span.of_loop(loops[expression])
        return Span.of_axis(list(axes).index(expression), len(axes)) if expression in axes else None
    if isinstance(expression, (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv)):
        a, b = span(expression.a, axes, loops), span(expression.b, axes, loops)
        return None if a is None or b is None else _combined(expression, a, b)
    return None


def _combined(expression: Any, a: Span, b: Span) -> Span | None:
    tirx = load().tirx
    factor = b.constant
    if isinstance(expression, tirx.FloorDiv):
        return a.divided(factor) if factor is not None and factor >= 1 else None
    if isinstance(expression, tirx.Mul):
        other = a
        if factor is None:
            factor, other = a.constant, b
        # A rounded value times a factor is not the rounded product.
        return other.times(factor) if factor is not None and factor >= 1 and (other.is_whole or factor == 1) else None
    if isinstance(expression, tirx.Sub):
        # Only what does not grow with the box may be taken away: an axis cannot run backwards.
        return a + Span((), 1 - b.high, 1 - b.low) if not any(b.row) and b.is_whole else None
    # Two rounded values: the sum of two floors may lie below the floor of the sum.
    return a + b if a.is_whole or b.is_whole else None


def derive(graph: StageGraph, stages: Sequence[Stage]) -> dict[str, Propagator]:
    """The Propagator of every tensor that a chain of stages reads from outside, by name, in the order of the first read.

    The last stage is the one whose output is cut. Several reads of one tensor become the smallest map that covers them.
    """
    found: dict[str, list[tuple[Span, ...]]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    output = stages[-1]
    inner = {stage.name: stage for stage in stages[:-1]}
    loops = {axis.var: axis.extent for stage in stages for axis in stage.reduce_axes}
    analyser = _analyser(output, loops)
    for read in _outer_reads(graph, inner, output, output.axes):
        name = graph.name(buffer_of(read))
        shapes[name] = shape_of(buffer_of(read))
        spans = (_row(index, output, loops, extent, analyser) for index, extent in zip(read.indices, shapes[name], strict=True))
        found.setdefault(name, []).append(tuple(spans))
    return {name: _propagator(reads, shapes[name], len(output.axes)) for name, reads in found.items()}


def _outer_reads(graph: StageGraph, inner: Mapping[str, Stage], stage: Stage, indices: Sequence[Any]) -> list[Any]:
    """Loads of tensors outside the chain, with inner stages put in the place of the loads of their outputs."""
    reads = []
    at = Stage(stage.name, stage.axes, stage.shape, stage.reduce_axes, stage.init, stage.at(indices), stage.output)
    for node in at.loads():
        name = graph.name(buffer_of(node))
        reads += _outer_reads(graph, inner, inner[name], node.indices) if name in inner else [node]
    return reads


def _analyser(output: Stage, loops: Mapping[Any, int]) -> Any:
    compat = load()
    analyser = compat.arith.Analyzer()
    for var, extent in [*zip(output.axes, output.shape, strict=True), *loops.items()]:
        analyser.bind(var, compat.tvm.ir.Range(0, extent))
    return analyser


def _row(index: Any, output: Stage, loops: Mapping[Any, int], extent: int, analyser: Any) -> Span:
    # As written first: an axis of one element simplifies to 0, though it is the axis.
    exact = span(index, output.axes, loops) or span(analyser.simplify(index), output.axes, loops)
    if exact is not None:
        return exact
    bound = analyser.const_int_bound(index)
    low, high = max(0, int(bound.min_value)), min(extent, int(bound.max_value) + 1)
    return Span((), Fraction(low), Fraction(high)) if low < high else Span((), Fraction(0), Fraction(extent))


def _propagator(reads: Sequence[tuple[Span, ...]], shape: Sequence[int], outputs: int) -> Propagator:
    rows, offsets = [], []
    for axis, extent in enumerate(shape):
        row, low, high = _hull([read[axis] for read in reads], extent, outputs)
        rows.append((*row, high - low))
        offsets.append(low)
    return Propagator((*rows, (0,) * outputs + (1,)), tuple(offsets))


def _hull(spans: Sequence[Span], extent: int, outputs: int) -> tuple[tuple[Fraction, ...], Fraction, Fraction]:
    """Row, lower and upper constant that cover all the spans: the whole axis unless they all grow alike."""
    full = {item.row + (Fraction(0),) * (outputs - len(item.row)) for item in spans}
    if len(full) > 1:
        return (Fraction(0),) * outputs, Fraction(0), Fraction(extent)
    return full.pop(), min(item.low for item in spans), max(item.high for item in spans)
