"""Strategies for small RowGraphs of every kind of part, and for their division into groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import lcm

from hypothesis import strategies as st
from msgspec.structs import replace

from cascader.graph.cascader_graph import TensorKind
from cascader.graph.in_place import LastReaders
from cascader.graph.row_graph import RowGraph, RowPart, RowTensor
from cascader.graph.row_maps import RowMap, RowPropagator
from cascader.plan.depth_first import DepthFirstScheduler, Group, StripeJob, group_table, stripe_jobs
from cascader.plan.liveness import LiveRows

MAX_ROWS = 12


def schedule_groups(scheduler: DepthFirstScheduler, groups: Sequence[Group]) -> tuple[StripeJob, ...]:
    """The jobs of all groups, one group after the other."""
    return stripe_jobs(group_table(scheduler, groups))


def most_rows(life: LiveRows) -> int:
    """Most rows that are live at one step: what a rolling buffer must hold."""
    return int((life.high - life.low).max())


@dataclass
class _Draft:
    """A graph in the making; tensors are INTERMEDIATE until it is known who reads them."""

    draw: st.DrawFn
    max_parts: int
    tensors: list[RowTensor] = field(default_factory=list)
    parts: list[RowPart] = field(default_factory=list)
    pointwise: set[int] = field(default_factory=set)
    """Parts whose output rows need only the same row of every operand that is not repeated."""

    def tensor(self, kind: TensorKind, rows: int, row_bytes: int | None = None) -> int:
        self.tensors.append(RowTensor(f"t{len(self.tensors)}", kind, rows, row_bytes or self.draw(st.integers(1, 3))))
        return len(self.tensors) - 1

    def part(
        self,
        inputs: list[tuple[int, RowPropagator]],
        output: int,
        rows: int,
        *,
        align: int = 1,
        phase: int = 0,
        atomic: bool = False,
        at: RowMap | None = None,
    ) -> None:
        maps = () if at is None else (at,)
        self.parts.append(RowPart(f"p{len(self.parts)}", tuple(inputs), (output,), rows, align, atomic, phase=phase, maps=maps))

    def view(self, tensor: int, step: int, offset: int = 0) -> RowMap:
        """A view of a tensor in steps of so many bytes, whose rolling buffers go by its rows from now on."""
        facts = self.tensors[tensor]
        unit = facts.row_bytes
        self.tensors[tensor] = replace(facts, roll=min(facts.rows, lcm(facts.roll, lcm(step, unit) // unit)))
        return RowMap(offset, step, step, unit)

    def source(self) -> int:
        """A tensor to read, mostly the newest one."""
        newest = len(self.tensors) - 1
        return newest if self.draw(st.integers(0, 2)) else self.draw(st.integers(0, newest))

    def identity(self, tensor: int) -> RowPropagator:
        return RowPropagator(self.tensors[tensor].rows)

    # One method per kind of part.

    def window(self) -> None:
        """A convolution or pooling."""
        source = self.source()
        rows, taps, stride = self.tensors[source].rows, self.draw(st.integers(1, 3)), self.draw(st.integers(1, 2))
        pad, below = self.draw(st.integers(0, taps - 1)), self.draw(st.integers(0, taps - 1))
        made = (rows + pad + below - taps) // stride + 1
        if made >= 1:
            self.part([(source, RowPropagator(rows, stride, taps, pad))], self.tensor(TensorKind.INTERMEDIATE, made), made)

    def upscale(self) -> None:
        """A part behind an upscaler, of one row or (a transposed convolution) of several."""
        source = self.source()
        rows, taps = self.tensors[source].rows, self.draw(st.integers(1, 3))
        pad = self.draw(st.integers(0, taps - 1))
        if 2 * rows <= MAX_ROWS:
            output = self.tensor(TensorKind.INTERMEDIATE, 2 * rows)
            self.part([(source, RowPropagator(rows, taps=taps, pad=pad, upscale=2))], output, 2 * rows, align=2, phase=pad % 2)

    def reshape(self) -> None:
        """A window on a tensor in finer or coarser rows than its own."""
        source = self.source()
        facts = self.tensors[source]
        size = facts.rows * facts.row_bytes
        step = self.draw(st.sampled_from([step for step in range(1, size + 1) if size % step == 0 and size // step <= MAX_ROWS]))
        rows, taps = size // step, self.draw(st.integers(1, 3))
        propagator = RowPropagator(rows, 1, taps, taps // 2, at=self.view(source, step))
        self.part([(source, propagator)], self.tensor(TensorKind.INTERMEDIATE, rows), rows)

    def crop(self) -> None:
        """A window on the middle of a tensor."""
        source = self.source()
        facts = self.tensors[source]
        first = self.draw(st.integers(0, facts.rows - 1))
        rows, taps = self.draw(st.integers(1, facts.rows - first)), self.draw(st.integers(1, 3))
        view = self.view(source, facts.row_bytes, first * facts.row_bytes)
        propagator = RowPropagator(rows, 1, taps, taps // 2, at=view)
        self.part([(source, propagator)], self.tensor(TensorKind.INTERMEDIATE, rows), rows)

    def stack(self) -> None:
        """A concatenation along the rows: one tensor written by two parts, the upper half first or last."""
        sources = self.source(), self.source()
        rows = [self.tensors[source].rows for source in sources]
        # One of the two parts alone would leave rows that nobody writes, which no network has.
        if sum(rows) <= MAX_ROWS and len(self.parts) + 2 <= self.max_parts:
            output = self.tensor(TensorKind.INTERMEDIATE, sum(rows))
            unit = self.tensors[output].row_bytes
            for number in self.draw(st.sampled_from([(0, 1), (1, 0)])):
                at = self.view(output, unit, number * rows[0] * unit)
                self.part([(sources[number], self.identity(sources[number]))], output, rows[number], at=at)

    def transpose(self) -> None:
        """A part each of whose rows is written all over its output."""
        source = self.source()
        rows = self.tensors[source].rows
        output = self.tensor(TensorKind.INTERMEDIATE, self.draw(st.integers(1, 4)))
        facts = self.tensors[output]
        self.tensors[output] = replace(facts, roll=facts.rows)
        at = RowMap(0, 0, facts.rows * facts.row_bytes, facts.row_bytes)
        self.part([(source, self.identity(source))], output, rows, at=at)

    def join(self) -> None:
        """An elementwise part of two tensors of equal height, one of one row that is repeated, or one tensor twice."""
        first = self.source()
        facts = self.tensors[first]
        fitting = [i for i, tensor in enumerate(self.tensors) if tensor.rows in (1, facts.rows)]
        second = self.draw(st.sampled_from(fitting))
        repeated = self.tensors[second].rows < facts.rows
        inputs = [(first, self.identity(first)), (second, RowPropagator(1, whole=True) if repeated else self.identity(second))]
        self.pointwise.add(len(self.parts))
        self.part(inputs, self.tensor(TensorKind.INTERMEDIATE, facts.rows, facts.row_bytes), facts.rows)

    def skip(self) -> None:
        """The sum of the newest tensor and of one that it was made from, one or two parts before."""
        newest = source = len(self.tensors) - 1
        for _ in range(self.draw(st.integers(1, 2))):
            source = next((part.inputs[0][0] for part in self.parts if source in part.outputs), source)
        if source != newest and self.tensors[source].rows == self.tensors[newest].rows:
            facts = self.tensors[source]
            self.pointwise.add(len(self.parts))
            inputs = [(source, self.identity(source)), (newest, self.identity(newest))]
            self.part(inputs, self.tensor(TensorKind.INTERMEDIATE, facts.rows, facts.row_bytes), facts.rows)

    def concatenation(self) -> None:
        """One more producer of the newest tensor, if it is somebody's output that nobody reads yet."""
        target = len(self.tensors) - 1
        rows = self.tensors[target].rows
        fitting = [i for i, tensor in enumerate(self.tensors[:target]) if tensor.rows == rows]
        read = any(tensor == target for part in self.parts for tensor, _ in part.inputs)
        if fitting and not read and self.parts and target in self.parts[-1].outputs and not self.parts[-1].atomic:
            source = self.draw(st.sampled_from(fitting))
            self.part([(source, self.identity(source))], target, rows)

    def whole(self) -> None:
        """A part that cannot be cut, of a tensor with any rows."""
        source = self.source()
        output = self.tensor(TensorKind.INTERMEDIATE, self.draw(st.integers(1, 4)))
        self.part([(source, RowPropagator(self.tensors[source].rows, whole=True))], output, 1, atomic=True)

    def state(self) -> None:
        """A variable's reader and, after it, its writer."""
        source = self.source()
        rows = self.tensors[source].rows
        variable, output = self.tensor(TensorKind.VARIABLE, rows), self.tensor(TensorKind.INTERMEDIATE, rows)
        taps = self.draw(st.integers(1, min(3, rows)))
        reads = RowPropagator(rows, taps=taps, pad=taps // 2)
        self.part([(source, self.identity(source)), (variable, reads)], output, rows)
        self.part([(self.draw(st.sampled_from([source, output])), RowPropagator(rows))], variable, rows)
        self.parts[-1] = replace(self.parts[-1], after=(len(self.parts) - 2,))

    def finish(self) -> RowGraph:
        """Say which tensors are outputs, which operands may be overwritten, and where segments end."""
        readers = [[i for i, part in enumerate(self.parts) for tensor, _ in part.inputs if tensor == t] for t in range(len(self.tensors))]
        for index, tensor in enumerate(self.tensors):
            chance = 1 if readers[index] else 9
            if tensor.kind is TensorKind.INTERMEDIATE and self.draw(st.integers(0, 9)) < chance:
                self.tensors[index] = replace(tensor, kind=TensorKind.OUTPUT)
        graph = RowGraph(tuple(self.parts), tuple(self.tensors))
        segment = 0
        for index, part in enumerate(self.parts):
            segment += self.draw(st.integers(0, 9)) == 0
            self.parts[index] = replace(part, in_place=self._overwritable(index, graph), segment=segment)
        return RowGraph(tuple(self.parts), graph.tensors)

    def _overwritable(self, index: int, graph: RowGraph) -> int | None:
        """An operand that the part may overwrite; whether its other readers are done with it, the code under test says."""
        part = self.parts[index]
        output = self.tensors[part.outputs[0]]
        for tensor, propagator in part.inputs if index in self.pointwise else ():
            facts = self.tensors[tensor]
            alike = (facts.rows, facts.row_bytes) == (output.rows, output.row_bytes) and not propagator.whole
            alone = LastReaders(graph).is_last(index, tensor) and sum(part.outputs[0] in p.outputs for p in self.parts) == 1
            if alike and alone and facts.kind in (TensorKind.INPUT, TensorKind.INTERMEDIATE) and output.kind is not TensorKind.VARIABLE:
                return tensor
        return None


@st.composite
def row_graphs(draw: st.DrawFn, max_parts: int = 6, max_rows: int = MAX_ROWS) -> RowGraph:
    """Graphs of one to ``max_parts`` parts: windows with strides, taps and pads, joins, upscaling, concatenations, parts
    that cannot be cut, variables; with several outputs, parts nobody needs, overwritable operands and segments."""
    draft = _Draft(draw, max_parts)
    draft.tensor(TensorKind.INPUT, draw(st.integers(1, max_rows)))
    if draw(st.integers(0, 3)) == 0:
        draft.tensor(TensorKind.INPUT, draw(st.integers(1, max_rows)))
    kinds: list[Callable[[], None]] = [draft.window] * 4 + [draft.join] * 3
    kinds += [draft.concatenation] * 2 + [draft.skip] * 2 + [draft.upscale, draft.whole, draft.state]
    kinds += [draft.reshape, draft.crop, draft.stack, draft.transpose]
    for _ in range(draw(st.integers(1, max_parts))):
        if len(draft.parts) < max_parts:
            draw(st.sampled_from(kinds))()
    if not draft.parts:
        draft.join()
    del draft.parts[max_parts:]
    return draft.finish()


@st.composite
def divisions(draw: st.DrawFn, graph: RowGraph) -> tuple[Group, ...]:
    """Groups that cover the graph, none across segments."""
    groups = []
    first = 0
    for index, part in enumerate(graph.parts):
        ends = index + 1 == len(graph.parts) or graph.parts[index + 1].segment != part.segment
        if ends or draw(st.integers(0, 2)) == 0:
            groups.append(Group(first, index, draw(st.integers(1, 4)), draw(st.integers(0, 2))))
            first = index + 1
    return tuple(groups)


@st.composite
def divided_graphs(draw: st.DrawFn, max_parts: int = 6, max_rows: int = MAX_ROWS) -> tuple[RowGraph, tuple[Group, ...]]:
    """A graph with its groups."""
    graph = draw(row_graphs(max_parts, max_rows))
    return graph, draw(divisions(graph))


def scaled(graph: RowGraph, factor: int) -> RowGraph:
    """The graph with so many times the bytes in every row."""

    def larger(at: RowMap | None) -> RowMap | None:
        return None if at is None else RowMap(at.offset * factor, at.step * factor, at.reach * factor, at.unit * factor)

    parts = tuple(
        replace(
            part,
            inputs=tuple((tensor, replace(propagator, at=larger(propagator.at))) for tensor, propagator in part.inputs),
            maps=tuple(larger(at) for at in part.maps),
        )
        for part in graph.parts
    )
    return RowGraph(parts, tuple(replace(tensor, row_bytes=factor * tensor.row_bytes) for tensor in graph.tensors))


def chain(*steps: tuple[int, RowPropagator], row_bytes: tuple[int, ...] = ()) -> RowGraph:
    """Parts one after the other, each (rows of its output, propagator of its input), from an input to an output."""
    rows = [steps[0][1].rows, *(made for made, _ in steps)]
    kinds = [TensorKind.INPUT, *[TensorKind.INTERMEDIATE] * (len(steps) - 1), TensorKind.OUTPUT]
    sizes = row_bytes or (1,) * len(rows)
    tensors = tuple(RowTensor(f"t{i}", kind, r, b) for i, (kind, r, b) in enumerate(zip(kinds, rows, sizes, strict=True)))
    parts = tuple(RowPart(f"p{i}", ((i, propagator),), (i + 1,), made) for i, (made, propagator) in enumerate(steps))
    return RowGraph(parts, tensors)
