"""The drafter of a graph: changes are drawn when they are asked for, and copies are shared where constants are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from row_graphs import chain
from toy_costs import ToyCosts

from cascader.draft.drafter import Drafter, DraftOptions, _Improvement
from cascader.graph.row_graph import RowPropagator
from cascader.plan.depth_first import DepthFirstScheduler
from cascader.plan.plans import Planner, PlanOptions


@pytest.mark.parametrize("asked", [(0,), (3, 1), (1, 4, 9)])
def test_no_more_changes_are_made_than_were_asked_for(asked: tuple[int, ...]) -> None:
    """Each change takes the time of a search for copies."""
    drawn = []

    def changes() -> Iterator[Any]:
        for number in range(1, 7):
            drawn.append(number)
            yield number

    start: Any = 0
    improvement = _Improvement(start, changes())
    for count in asked:
        assert improvement.after(count) == min(count, 6)
    assert len(drawn) == min(max(asked), 6)


@pytest.mark.parametrize("shares", [False, True])
def test_a_copy_may_serve_several_parts_only_where_two_have_the_same_constants(shares: bool) -> None:  # noqa: FBT001  # a row of a table
    graph, cost = chain(*[(2, RowPropagator(2))] * 5), ToyCosts(shares=shares)
    scheduler, plans = DepthFirstScheduler(graph), PlanOptions(stripe_rows=(1,))
    drafter = Drafter(scheduler, cost, Planner(scheduler, cost, plans).table, plans, DraftOptions(moves=4, stripe_rows=(1,)))
    assert drafter._placer.shares == shares  # what the trials ask
