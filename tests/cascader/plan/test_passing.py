"""Bytes between parts bound the bytes of groups, and plans that no proposal of few bytes has are left out without another proposal."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from row_graphs import row_graphs
from toy_costs import ToyCosts

from cascader.graph.row_graph import RowGraph
from cascader.plan.depth_first import DepthFirstScheduler, Group
from cascader.plan.group_bytes import group_bytes
from cascader.plan.passing import PassingBytes
from cascader.plan.plans import Planner, PlanOptions
from cascader.plan.proposals import least_limit, propose

pytestmark = pytest.mark.law


@settings(max_examples=200)
@given(row_graphs(7), st.integers(1, 3), st.booleans())
def test_no_group_holds_fewer_bytes_than_lie_before_it_and_behind_it(
    graph: RowGraph,
    rows: int,
    in_place: bool,  # noqa: FBT001  # drawn
) -> None:
    scheduler = DepthFirstScheduler(graph)
    least = [0, *PassingBytes(scheduler).least()]
    for last, part in enumerate(graph.parts):
        for first in range(last + 1):
            if all(one.segment == part.segment for one in graph.parts[first : last + 1]):
                size = group_bytes(scheduler, Group(first, last, rows), in_place=in_place)
                assert size >= max(least[first], least[last + 1])


@settings(max_examples=200)
@given(row_graphs(7), st.integers(1, 4), st.data())
def test_a_table_within_a_limit_has_the_proposals_of_all_limits_up_to_it(graph: RowGraph, length: int, data: st.DataObject) -> None:
    planner = Planner(DepthFirstScheduler(graph), ToyCosts(), PlanOptions((1, 2), (1,), length, (0, 1 << 30)))
    whole = planner.table()
    within = data.draw(st.sampled_from([0, *whole.sizes]))
    some, least = planner.table(within), least_limit(whole)
    assert len(some.columns) <= len(whole.columns)
    for limit in (size for size in [0, *whole.sizes] if size <= within):
        assert propose(some, limit) == propose(whole, limit)
    if least is not None and least <= within:
        assert least_limit(some) == least


@settings(max_examples=50)
@given(row_graphs(7), st.data())
def test_a_table_of_the_first_parts_has_their_plans(graph: RowGraph, data: st.DataObject) -> None:
    planner, count = Planner(DepthFirstScheduler(graph), ToyCosts(), PlanOptions((1, 2))), data.draw(st.integers(0, len(graph.parts)))
    assert planner.table(until=count).ending == planner.table().ending[:count]
    assert all(begin <= end for begin, end in pairwise(planner.table(until=count).begins.tolist()))
