"""Regrouping: every neighbour is a division of the graph, and every division is reached by neighbours."""

from __future__ import annotations

from itertools import pairwise

import pytest
from few_examples import few
from hypothesis import given, settings
from row_graphs import chain, divided_graphs

from cascader.draft.group_moves import Groups, neighbours
from cascader.graph.row_graph import RowGraph
from cascader.graph.row_maps import RowPropagator
from cascader.plan.depth_first import Group

pytestmark = pytest.mark.law

ROWS = (1, 2, 4)


def one_whole_part_each(graph: RowGraph) -> Groups:
    return tuple(Group(index, index, part.rows) for index, part in enumerate(graph.parts))


def as_searched(graph: RowGraph, groups: Groups) -> Groups:
    """The groups with rows that a search may ask for."""
    return tuple(
        Group(g.first, g.last, graph.parts[g.last].rows if g.first == g.last else g.stripe_rows)
        if graph.parts[g.last].atomic or g.first == g.last
        else Group(g.first, g.last, min(g.stripe_rows, graph.parts[g.last].rows))
        for g in groups
    )


divided = divided_graphs().map(lambda pair: (pair[0], as_searched(*pair)))


@settings(max_examples=few(200))
@given(divided)
def test_neighbours_cover_the_graph_without_overlap_and_keep_segments_apart(found: tuple[RowGraph, Groups]) -> None:
    graph, start = found
    for groups in neighbours(graph, start, ROWS):
        assert groups[0].first == 0
        assert groups[-1].last == len(graph.parts) - 1
        assert all(one.last + 1 == two.first for one, two in pairwise(groups))
        assert all(group.first <= group.last for group in groups)
        assert all(len({part.segment for part in graph.parts[group.first : group.last + 1]}) == 1 for group in groups)


@settings(max_examples=few(200))
@given(divided)
def test_neighbours_ask_for_rows_that_there_are_and_stripe_no_single_part(found: tuple[RowGraph, Groups]) -> None:
    graph, start = found
    for groups in neighbours(graph, start, ROWS):
        for group in groups:
            last = graph.parts[group.last]
            assert group.stripe_rows >= 1
            assert group.stripe_rows <= last.rows or (last.atomic and group.first < group.last)
            assert group.first < group.last or group.stripe_rows == last.rows


@settings(max_examples=few(200))
@given(divided)
def test_neighbours_differ_from_their_start_in_one_or_two_groups_and_come_in_the_same_order_each_time(
    found: tuple[RowGraph, Groups],
) -> None:
    graph, start = found
    first, second = list(neighbours(graph, start, ROWS)), list(neighbours(graph, start, ROWS))
    assert first == second
    assert start not in first
    for groups in first:
        gone, new = set(start) - set(groups), set(groups) - set(start)
        assert 1 <= len(gone) <= 2
        assert len(new) <= 2


@settings(max_examples=100)
@given(divided)
def test_what_a_neighbour_joins_another_change_cuts_again(found: tuple[RowGraph, Groups]) -> None:
    """Borders are undone, whatever the stripes."""

    def borders(groups: Groups) -> list[int]:
        return [group.first for group in groups]

    graph, start = found
    for groups in neighbours(graph, start, ROWS):
        assert borders(start) in [borders(back) for back in neighbours(graph, groups, ROWS)] or borders(start) == borders(groups)


@settings(max_examples=60)
@given(divided_graphs(max_parts=4))
def test_every_division_of_a_small_graph_is_reached_from_its_single_parts(found: tuple[RowGraph, Groups]) -> None:
    graph, wanted = found
    reached = {one_whole_part_each(graph)}
    waiting = list(reached)
    while waiting:
        new = set(neighbours(graph, waiting.pop(), ROWS)) - reached
        reached |= new
        waiting += sorted(new, key=repr)
    assert [(g.first, g.last) for g in wanted] in [[(g.first, g.last) for g in groups] for groups in reached]


def test_the_neighbours_of_two_chained_parts_and_a_third() -> None:
    """Parts 0 and 1 in stripes of 2 rows, and part 2: restriped to 1 or all 4 rows, joined, cut, the border moved up."""
    graph = chain(*[(4, RowPropagator(4))] * 3)
    found = list(neighbours(graph, (Group(0, 1, 2), Group(2, 2, 4)), (1, 2)))
    assert found == [
        (Group(0, 1, 1), Group(2, 2, 4)),
        (Group(0, 1, 4), Group(2, 2, 4)),
        (Group(0, 2, 2),),
        (Group(0, 2, 4),),
        (Group(0, 0, 4), Group(1, 1, 4), Group(2, 2, 4)),
        (Group(0, 0, 4), Group(1, 2, 4)),
    ]


def test_the_bound_of_inner_rows_goes_one_up_or_down_with_or_against_the_rows_and_is_kept_by_other_changes() -> None:
    graph = chain(*[(4, RowPropagator(4))] * 3)
    found = list(neighbours(graph, (Group(0, 1, 2, 2), Group(2, 2, 4)), (2,), (1, 2)))
    assert found == [
        (Group(0, 1, 4, 2), Group(2, 2, 4)),
        (Group(0, 1, 2, 1), Group(2, 2, 4)),
        (Group(0, 1, 2), Group(2, 2, 4)),
        (Group(0, 1, 4, 1), Group(2, 2, 4)),
        (Group(0, 2, 2, 2),),
        (Group(0, 2, 4),),
        (Group(0, 0, 4), Group(1, 1, 4), Group(2, 2, 4)),
        (Group(0, 0, 4), Group(1, 2, 4)),
    ]


def test_a_group_that_ends_with_a_part_that_cannot_be_cut_keeps_the_rows_asked_of_the_parts_behind_it() -> None:
    """A part that needs all of its input: the one before it is made in stripes of any height."""
    graph = atomic_end()
    found = set(neighbours(graph, (Group(0, 1, 2),), ROWS))
    assert {(Group(0, 1, 1),), (Group(0, 1, 4),)} <= found
    joined = set(neighbours(graph, (Group(0, 0, 8), Group(1, 1, 1)), ROWS))
    assert (Group(0, 1, 8),) in joined


def atomic_end() -> RowGraph:
    graph = chain((8, RowPropagator(8)), (1, RowPropagator(8, whole=True)))
    first, last = graph.parts
    return RowGraph((first, type(last)(last.name, last.inputs, last.outputs, 1, atomic=True)), graph.tensors)
