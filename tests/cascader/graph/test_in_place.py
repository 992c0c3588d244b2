"""Results over operands with several readers: whoever reads them is done by then, in any groups and stripes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from naive_rows import first_writes, lives
from row_graphs import chain, divided_graphs, row_graphs, schedule_groups

from cascader.graph.cascader_graph import TensorKind
from cascader.graph.in_place import LastReaders
from cascader.graph.row_graph import RowGraph, RowPart, RowTensor
from cascader.graph.row_maps import RowPropagator
from cascader.plan.buffers import storages
from cascader.plan.depth_first import DepthFirstScheduler, Group

pytestmark = pytest.mark.law

WINDOW = RowPropagator(8, taps=3, pad=1)
SAME = RowPropagator(8)


def block(*windows: RowPropagator) -> RowGraph:
    """Windows one after the other and the sum of what the last one makes and the input of the first."""
    graph = chain(*((8, window) for window in windows), (8, SAME))
    last = len(windows)
    tensors = (RowTensor("t0", TensorKind.INTERMEDIATE, 8, 1), *graph.tensors[1:])
    return RowGraph((*graph.parts[:-1], RowPart("sum", ((0, SAME), (last, SAME)), (last + 1,), 8)), tensors)


@settings(max_examples=400)
@given(divided_graphs())
def test_a_row_is_overwritten_only_by_the_last_job_that_reads_it(divided: tuple[RowGraph, tuple[Group, ...]]) -> None:
    graph, groups = divided
    jobs = schedule_groups(DepthFirstScheduler(graph), groups)
    life, written = lives(graph, jobs), first_writes(graph, jobs)
    for part in graph.parts:
        if part.in_place is not None:
            for row, step in written[part.outputs[0]].items():
                assert life[part.in_place].get(row, (0, 0))[1] <= step


def is_last(graph: RowGraph, part: int, tensor: int) -> bool:
    """Like the method, one number of rows after the other."""
    readers, writers, facts = graph.readers()[tensor], graph.writers(), graph.parts[part]
    others = [(reader, needs) for reader, needs in readers if reader != part]
    for count in range(1, facts.rows + 1):
        made = [0] * part + [count]
        for index in range(part, -1, -1):
            own = graph.parts[index]
            made[index] = own.rows if own.atomic and made[index] else made[index]
            for read, needs in own.inputs if made[index] else ():
                for producer, output in writers[read]:
                    if producer < index:
                        made[producer] = max(made[producer], graph.parts[producer].rows_until(output, needs.demand(0, made[index])[1]))
        until = facts.written(0, 0, count, graph.tensors[tensor].rows)[1]
        for reader, needs in others:
            if reader > part or not (
                made[reader] >= graph.parts[reader].rows or (not needs.whole and needs.demand(made[reader], made[reader] + 1)[0] >= until)
            ):
                return False
    return True


@settings(max_examples=300)
@given(row_graphs(8))
def test_the_last_reader_is_the_one_that_is_found_row_by_row(graph: RowGraph) -> None:
    for number, part in enumerate(graph.parts):
        for tensor, _ in part.inputs:
            assert LastReaders(graph).is_last(number, tensor) == is_last(graph, number, tensor)


@pytest.mark.parametrize("windows", [(SAME,), (SAME, WINDOW, SAME), (WINDOW, WINDOW), (WINDOW, SAME, WINDOW)])
def test_a_sum_is_the_last_to_read_what_its_block_began_with(windows: tuple[RowPropagator, ...]) -> None:
    assert LastReaders(block(*windows)).is_last(len(windows), 0)


def test_a_window_of_three_rows_just_before_the_sum_needs_the_row_above_again() -> None:
    assert not LastReaders(block(WINDOW)).is_last(1, 0)
    assert not LastReaders(block(WINDOW, SAME)).is_last(2, 0)


def test_a_part_behind_the_sum_or_beside_the_block_is_not_done() -> None:
    graph = block(SAME)
    behind = RowPart("behind", ((0, WINDOW),), (3,), 8)
    tensors = (*graph.tensors, RowTensor("t3", TensorKind.OUTPUT, 8, 1))
    assert not LastReaders(RowGraph((*graph.parts, behind), tensors)).is_last(1, 0)
    assert not LastReaders(RowGraph((graph.parts[0], behind, graph.parts[1]), tensors)).is_last(2, 0)


def test_the_sums_of_a_chain_of_blocks_lie_where_its_input_has_lain() -> None:
    """Two blocks of a part without a window: three tensors of 8 rows share one buffer of as many, and the others roll."""
    parts, tensors = [], [RowTensor("t0", TensorKind.INPUT, 8, 1)]
    for source in (0, 2):
        inside, output = source + 1, source + 2
        parts.append(RowPart(f"p{source}", ((source, SAME),), (inside,), 8))
        parts.append(RowPart(f"sum{source}", ((source, SAME), (inside, SAME)), (output,), 8, in_place=source))
        tensors += [RowTensor(f"t{index}", TensorKind.INTERMEDIATE, 8, 1) for index in (inside, output)]
    graph, groups = RowGraph(tuple(parts), tuple(tensors)), [Group(0, 1, 2), Group(2, 3, 2)]
    jobs = schedule_groups(DepthFirstScheduler(graph), groups)
    assert {store.tensors: store.rows for store in storages(DepthFirstScheduler(graph), jobs, groups)} == {
        (0, 2, 4): 8,
        (1,): 2,
        (3,): 2,
    }
