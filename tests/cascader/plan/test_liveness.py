"""Row liveness and the buffers made of it, against rows followed one by one."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from naive_rows import KEPT, PRESENT, bytes_held, families, first_writes, lives, rows_made, span, stays_in_a_group
from row_graphs import chain, divided_graphs, most_rows, schedule_groups

from cascader.allocate.extents import live_bytes
from cascader.graph.cascader_graph import TensorKind
from cascader.graph.row_graph import RowGraph, RowPart, RowTensor
from cascader.graph.row_maps import RowMap, RowPropagator
from cascader.plan.buffers import storages
from cascader.plan.depth_first import DepthFirstScheduler, Group, StripeJob
from cascader.plan.liveness import live_rows

pytestmark = pytest.mark.law

Divided = tuple[RowGraph, tuple[Group, ...]]


def jobs_of(divided: Divided) -> tuple[StripeJob, ...]:
    graph, groups = divided
    return schedule_groups(DepthFirstScheduler(graph), groups)


@settings(max_examples=200)
@given(divided_graphs())
def test_live_rows_reach_from_the_lowest_row_still_to_be_used_to_the_highest_made(divided: Divided) -> None:
    graph, jobs = divided[0], jobs_of(divided)
    found, naive, written = live_rows(graph, jobs), lives(graph, jobs), first_writes(graph, jobs)
    assert set(found) == {tensor for tensor, life in enumerate(naive) if life}
    for tensor, life in found.items():
        for step in range(len(jobs)):
            expected = span(graph, naive[tensor], tensor, written[tensor], step)
            inside = life.start <= step < life.end
            low, high = (int(life.low[step - life.start]), int(life.high[step - life.start])) if inside else (0, 0)
            assert (low, high) == expected if expected else low == high


@settings(max_examples=200)
@given(divided_graphs(), st.booleans())
def test_a_buffer_never_holds_two_live_rows_in_one_slot(divided: Divided, in_place: bool) -> None:  # noqa: FBT001  # drawn
    graph, jobs = divided[0], jobs_of(divided)
    naive = lives(graph, jobs)
    for store in storages(DepthFirstScheduler(graph), jobs, divided[1], in_place=in_place):
        for step in range(len(jobs)):
            live = {row for tensor in store.tensors for row, (first, last) in naive[tensor].items() if first <= step <= last}
            assert len({row % store.rows for row in live}) == len(live)
            size = graph.tensors[store.tensors[0]].row_bytes
            offset = step - store.extent.start
            if live:
                low, high = int(store.extent.low[offset]), int(store.extent.high[offset])
                assert all(low <= row % store.rows * size < high for row in live)


def fully_read(graph: RowGraph, jobs: tuple[StripeJob, ...], tensor: int) -> bool:
    """Whether each row that is made is used again later than it is made."""
    kind = graph.tensors[tensor].kind
    written = first_writes(graph, jobs)[tensor]
    return kind in KEPT or kind in PRESENT or all(lives(graph, jobs)[tensor][row][1] > step for row, step in written.items())


def written_by_two_groups() -> Divided:
    """A tensor whose first row a group of its own writes; the next group reads that before it writes the second."""
    same, pieces = RowPropagator(1), [RowMap(offset=row, step=1, reach=1, unit=1) for row in range(2)]
    writers = (RowPart(f"p{row}", ((0, same),), (1,), 1, segment=row, maps=(at,)) for row, at in enumerate(pieces))
    kinds = TensorKind.INPUT, TensorKind.INTERMEDIATE, TensorKind.OUTPUT
    tensors = tuple(RowTensor(f"t{number}", kind, min(number + 1, 2), 1) for number, kind in enumerate(kinds))
    reader = RowPart("p2", ((1, RowPropagator(2)),), (2,), 2, segment=1)
    return RowGraph((*writers, reader), tensors), (Group(0, 0, 1), Group(1, 2, 1))


@settings(max_examples=200)
@given(divided_graphs())
@example(written_by_two_groups())
def test_one_row_fewer_would_put_two_live_rows_into_one_slot(divided: Divided) -> None:
    graph, jobs = divided[0], jobs_of(divided)
    naive = lives(graph, jobs)
    for store in storages(DepthFirstScheduler(graph), jobs, divided[1], in_place=False):
        (tensor,) = store.tensors
        # What several groups write does not roll: a row may be read before the group comes that writes the next one.
        if sum(tensor in part.outputs for part in graph.parts) > 1 and not stays_in_a_group(graph, divided[1], {tensor}):
            continue
        if store.rows > 1 and graph.tensors[tensor].roll == 1 and fully_read(graph, jobs, tensor):
            slots = store.rows - 1
            steps = ([row for row, (a, b) in naive[tensor].items() if a <= step <= b] for step in range(len(jobs)))
            assert any(len({row % slots for row in live}) < len(live) for live in steps)


@settings(max_examples=200)
@given(divided_graphs(), st.booleans())
def test_buffers_hold_at_every_step_the_bytes_that_the_rows_say(divided: Divided, in_place: bool) -> None:  # noqa: FBT001  # drawn
    graph, jobs = divided[0], jobs_of(divided)
    stores = storages(DepthFirstScheduler(graph), jobs, divided[1], in_place=in_place)
    assert live_bytes([store.extent for store in stores], len(jobs)).tolist() == bytes_held(graph, jobs, divided[1], in_place=in_place)


@settings(max_examples=100)
@given(divided_graphs())
def test_a_result_shares_the_buffer_of_the_operand_that_it_overwrites(divided: Divided) -> None:
    graph, jobs = divided[0], jobs_of(divided)
    assert {frozenset(store.tensors) for store in storages(DepthFirstScheduler(graph), jobs, divided[1])} == {
        frozenset(family) for family in families(graph, in_place=True) if family & set(live_rows(graph, jobs))
    }


@settings(max_examples=100)
@given(divided_graphs())
def test_overwriting_an_operand_never_takes_more_bytes_than_keeping_both(divided: Divided) -> None:
    graph, jobs = divided[0], jobs_of(divided)
    shared, apart = (bytes_held(graph, jobs, divided[1], in_place=in_place) for in_place in (True, False))
    rolling = any(
        s.rows < graph.tensors[s.tensors[0]].rows and len(s.tensors) > 1 for s in storages(DepthFirstScheduler(graph), jobs, divided[1])
    )
    assert rolling or all(mine <= other for mine, other in zip(shared, apart, strict=True))


def test_an_input_that_nobody_reads_is_live_at_the_first_job_and_a_variable_to_the_end() -> None:
    graph = chain((2, RowPropagator(2)), (2, RowPropagator(2)))
    unread = (RowTensor("unread", TensorKind.INPUT, 3, 1), RowTensor("kept", TensorKind.VARIABLE, 4, 1))
    graph = RowGraph(graph.parts, (*graph.tensors, *unread))
    jobs = schedule_groups(DepthFirstScheduler(graph), [Group(0, 1, 1)])
    found = live_rows(graph, jobs)
    assert [(found[t].start, found[t].end, most_rows(found[t])) for t in (3, 4)] == [(0, 1, 3), (0, len(jobs), 4)]


def test_the_input_dies_row_by_row_while_the_output_grows() -> None:
    """A 3x3 convolution, two rows at a time: of the input, the row above the stripe is the first that is still needed."""
    graph = chain((8, RowPropagator(8, taps=3, pad=1)), (8, RowPropagator(8)))
    found = live_rows(graph, schedule_groups(DepthFirstScheduler(graph), [Group(0, 1, 2)]))
    assert found[0].low.tolist() == [0, 1, 1, 3, 3, 5, 5]
    assert found[2].high.tolist() == [2, 2, 4, 4, 6, 6, 8]
    assert found[2].start == 1
    assert most_rows(found[1]) == 2


@settings(max_examples=200)
@given(divided_graphs(max_parts=3))
def test_every_row_of_a_drawn_graph_is_there_at_first_or_written(divided: Divided) -> None:
    """The bytes of an output are counted from its first row on: a row that nobody writes would have to be held, too."""
    graph, _ = divided
    for index, tensor in enumerate(graph.tensors):
        made = (rows_made(graph, part, index, 0, part.rows) for part in graph.parts if index in part.outputs)
        assert tensor.kind in PRESENT or set().union(*made) == set(range(tensor.rows))
