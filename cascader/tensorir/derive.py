"""Propagators derived from Tensor Expressions: the matrix of an operand is read off the expressions by which it is indexed.

RFC 0037 writes a matrix by hand for every operator and hopes to derive them one day. TVM's own lowering gives every read
with its index expressions; :mod:`cascader.tensorir.spans` turns each into a row. Some indices are not affine: those of a
gather, or of a reshape that does not split along an axis. The row then says that all of the axis is needed, or the part of
it that TVM's bounds of the index allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from cascader.graph.propagator import Propagator
from cascader.tensorir.compat import buffer_of, load, shape_of
from cascader.tensorir.spans import Span, span
from cascader.tensorir.stages import Stage, StageGraph


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
