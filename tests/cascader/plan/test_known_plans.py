"""Plans of windows that recur in other graphs: the same as without them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from row_graphs import row_graphs
from toy_costs import ToyCosts

from cascader.graph.cascader_graph import TensorKind
from cascader.graph.row_graph import RowGraph, RowPart, RowTensor
from cascader.graph.row_maps import RowPropagator
from cascader.plan.depth_first import DepthFirstScheduler
from cascader.plan.group_costs import KnownCosts
from cascader.plan.known_plans import KnownPlans, Windows
from cascader.plan.passing import PassingBytes
from cascader.plan.plans import Planner, PlanOptions, RowPlan
from npu_model.native import native

pytestmark = [pytest.mark.law, pytest.mark.skipif(native("cascader") is None, reason="the compiled core was not built, or is switched off")]


class FreeConstants(ToyCosts, frozen=True):
    """No part has constants."""

    def constant_bytes(self, part: int) -> int:
        return 0 * part


FREE = FreeConstants()


def behind(graph: RowGraph, rows: int, *, is_used: bool) -> RowGraph:
    """The graph behind one more part with an input of its own, whose result the last part reads, or the user."""
    place = len(graph.tensors)
    kind = TensorKind.INTERMEDIATE if is_used else TensorKind.OUTPUT
    more = RowTensor("more", TensorKind.INPUT, rows, 3), RowTensor("made", kind, rows, 5)
    parts = [replace(part, after=tuple(one + 1 for one in part.after)) for part in graph.parts]
    if is_used:
        whole = place + 1, RowPropagator(rows, whole=True)
        parts[-1] = replace(parts[-1], inputs=(*parts[-1].inputs, whole))
    first = RowPart("first", ((place, RowPropagator(rows)),), (place + 1,), rows, segment=graph.parts[0].segment)
    return RowGraph((first, *parts), (*graph.tensors, *more))


@st.composite
def relatives(draw: st.DrawFn) -> list[RowGraph]:
    """A graph, and others that differ from it in one part, in one tensor, in all rolling buffers, or in a part before all others."""
    graph = draw(row_graphs(7, max_rows=6))
    found = [graph, *(behind(graph, draw(st.integers(1, 4)), is_used=is_used) for is_used in (False, True))]
    tensor, part = draw(st.integers(0, len(graph.tensors) - 1)), draw(st.integers(0, len(graph.parts) - 1))
    own, at = graph.parts[part], graph.tensors[tensor]
    kept = replace(at, kind=TensorKind.OUTPUT if at.kind is TensorKind.INTERMEDIATE else at.kind)
    changed = kept, replace(at, row_bytes=at.row_bytes + 1)
    found += [RowGraph(graph.parts, (*graph.tensors[:tensor], other, *graph.tensors[tensor + 1 :])) for other in changed]
    found.append(RowGraph(graph.parts, tuple(replace(one, roll=one.rows) for one in graph.tensors)))
    taken = tuple((one, replace(needs, whole=True)) for one, needs in own.inputs)
    later = replace(own, after=tuple({*own.after, max(0, part - 1)} - {part}))
    others = later, replace(own, in_place=None), replace(own, align=own.align + 1), replace(own, inputs=taken)
    found += [RowGraph((*graph.parts[:part], one, *graph.parts[part + 1 :]), graph.tensors) for one in others]
    return draw(st.permutations(found))


def plans(graph: RowGraph, options: PlanOptions, known: KnownPlans | None) -> tuple[tuple[RowPlan, ...], ...]:
    costs = KnownCosts.alike(FREE, [part.rows for part in graph.parts])
    return Planner(DepthFirstScheduler(graph), FREE, options, costs, known).table().ending


@settings(max_examples=150)
@given(relatives(), st.integers(1, 4), st.booleans())
def test_plans_of_windows_that_recur_are_the_ones_that_are_made_anew(
    graphs: list[RowGraph],
    length: int,
    in_place: bool,  # noqa: FBT001  # drawn
) -> None:
    options, known = PlanOptions((1, 2), (1,), length, (0,), in_place=in_place), KnownPlans()
    for graph in graphs:
        assert plans(graph, options, known) == plans(graph, options, None)


def chain(parts: int, rows: int = 6) -> RowGraph:
    tensors = [RowTensor(f"t{at}", TensorKind.INTERMEDIATE, rows, 4) for at in range(parts + 1)]
    ends = replace(tensors[0], kind=TensorKind.INPUT), replace(tensors[-1], kind=TensorKind.OUTPUT)
    made = (RowPart(f"p{at}", ((at, RowPropagator(rows, taps=3, pad=1)),), (at + 1,), rows) for at in range(parts))
    return RowGraph(tuple(made), (ends[0], *tensors[1:-1], ends[1]))


def test_equal_windows_have_one_key_wherever_they_are_and_whatever_passes_by() -> None:
    known = KnownPlans()

    def windows_of(graph: RowGraph) -> Windows:
        scheduler = DepthFirstScheduler(graph)
        return Windows(scheduler, known, PassingBytes(scheduler).sizes)

    windows = windows_of(chain(9))
    assert windows.key(3, 5, ()) == windows.key(4, 6, ())
    assert windows.key(0, 2, ()) != windows.key(1, 3, ()), "the input fills its bytes before the first part"
    passed = windows_of(behind(chain(9), 2, is_used=False))
    assert passed.key(4, 6, ()) == windows.key(3, 5, ()), "the result of the first part passes by"


def test_what_is_kept_is_dropped_once_it_takes_too_many_bytes() -> None:
    known = KnownPlans(most_bytes=1)
    options = PlanOptions((1, 2), (1,), 3, (0,))
    expected = plans(chain(8), options, None)
    assert [plans(chain(8), options, known) for _ in range(2)] == [expected] * 2
    before = known.number("a value")
    known.keep("a key", np.empty((1, 7), dtype=np.int64))
    assert known.number("a value") != before
