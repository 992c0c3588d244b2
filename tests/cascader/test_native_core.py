"""The compiled core of the cascader: every function gives what its Python form gives."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from row_graphs import row_graphs, schedule_groups
from toy_costs import ToyCosts

from cascader.allocate.extents import live_bytes
from cascader.allocate.first_fit import every_placement, search
from cascader.allocate.moving import allocate, placements
from cascader.draft.group_moves import Groups, divisions
from cascader.draft.placement import Placement
from cascader.draft.placer import Placer
from cascader.draft.trials import Trials
from cascader.graph.row_graph import RowGraph
from cascader.plan.buffers import Buffers, buffers, storages
from cascader.plan.depth_first import DepthFirstScheduler, Group, StripeJob, group_table
from cascader.plan.group_bytes import group_bytes, group_live
from cascader.plan.plans import Planner, PlanOptions
from cascader.plan.proposals import propose, propose_in_python
from cascader.prefetch.copies import CopyEffort, CopySearch
from npu_model.native import native

pytestmark = [pytest.mark.law, pytest.mark.skipif(native("cascader") is None, reason="the compiled core was not built, or is switched off")]
COST = ToyCosts(moves=True)


class Sharing:
    """Cycles that neighbours share, made up from their parts and heights."""

    def shared(self, before: StripeJob, after: StripeJob, *, before_staged: bool, staged: bool) -> int:
        return (before.part + 3 * after.part + before.end - before.start + 2 * before_staged + staged) % 5


@st.composite
def divided(draw: st.DrawFn) -> tuple[RowGraph, Groups]:
    graph = draw(row_graphs(5, max_rows=6))
    some = list(divisions(graph, (1, 2, 3), (1,)))
    return graph, draw(st.sampled_from(some))


@settings(max_examples=200)
@given(divided())
def test_jobs_and_their_distances_are_those_of_the_python_form(case: tuple[RowGraph, Groups]) -> None:
    graph, groups = case
    scheduler = DepthFirstScheduler(graph)
    for group in groups:
        assert scheduler.table(group).tolist() == scheduler.table_in_python(group).tolist()
    jobs = schedule_groups(scheduler, groups)
    expected = [None, *(scheduler.distance(before, after) for before, after in pairwise(jobs))][: len(jobs)]
    assert scheduler.distances(group_table(scheduler, groups)) == expected


def plain(found: Buffers) -> list[object]:
    lives = [(one.start, one.low.tolist(), one.high.tolist()) for one in found.extents]
    return [found.live, *zip(found.tensors, found.rows, lives, strict=True)]


@settings(max_examples=200)
@given(divided(), st.booleans())
def test_buffers_are_those_of_the_python_form(case: tuple[RowGraph, Groups], in_place: bool) -> None:  # noqa: FBT001  # drawn
    graph, groups = case
    scheduler = DepthFirstScheduler(graph)
    stores = storages(DepthFirstScheduler(graph), schedule_groups(scheduler, groups), groups, in_place=in_place)
    jobs = group_table(scheduler, groups)
    expected = Buffers.of(stores, len(jobs))
    assert expected.live == int(live_bytes([store.extent for store in stores], len(jobs)).max())
    assert (expected.tensors, expected.rows) == (tuple(store.tensors for store in stores), tuple(store.rows for store in stores))
    assert plain(buffers(scheduler, jobs, groups, in_place=in_place)) == plain(expected)


@settings(max_examples=200)
@given(row_graphs(6, max_rows=6), st.integers(1, 3), st.integers(0, 1), st.booleans(), st.data())
def test_bytes_of_growing_groups_are_those_of_the_python_form(
    graph: RowGraph,
    rows: int,
    inner: int,
    in_place: bool,  # noqa: FBT001  # drawn
    data: st.DataObject,
) -> None:
    scheduler = DepthFirstScheduler(graph)
    last = data.draw(st.integers(0, len(graph.parts) - 1))
    longest = Group(data.draw(st.integers(0, last)), last, rows, inner)
    for group in [longest._replace(first=first) for first in range(longest.first, last + 1)]:
        assert group_bytes(scheduler, group, in_place=in_place) == group_live(scheduler, group, in_place=in_place).max()


@settings(max_examples=100)
@given(divided(), st.booleans(), st.booleans())
def test_joined_groups_are_those_of_the_python_form(
    case: tuple[RowGraph, Groups],
    prefetch: bool,  # noqa: FBT001  # drawn
    overlap: bool,  # noqa: FBT001  # drawn
) -> None:
    graph, groups = case
    scheduler = DepthFirstScheduler(graph)
    jobs = group_table(scheduler, groups)
    placer = Placer(scheduler, Placement(scheduler, in_place=True), COST, Sharing() if overlap else None, prefetch=prefetch, ends=True)
    found, expected = placer._joined(groups), placer.joined_in_python(groups, jobs)
    assert found[1].tolist() == expected[1].tolist()
    columns = [(one.parts.tolist(), one.kinds.tolist(), one.times.tolist(), one.pairs.tolist()) for one, _ in (found, expected)]
    assert columns[0] == columns[1]


@settings(max_examples=100)
@given(divided(), st.sampled_from([1, 16]), st.sampled_from([0, 30]), st.integers(1, 5))
def test_addresses_are_those_of_the_python_form(case: tuple[RowGraph, Groups], alignment: int, moves: int, seed: int) -> None:
    graph, groups = case
    extents = buffers(DepthFirstScheduler(graph), group_table(DepthFirstScheduler(graph), groups), groups).extents
    expected = search(tuple(extents), alignment, moves, seed)
    assert allocate(extents, alignment=alignment, moves=moves, seed=seed) == expected
    if len(extents) <= 6:
        every = placements(extents, expected[0] + 8, alignment=alignment)
        assert every == tuple(dict.fromkeys(every_placement(tuple(extents), expected[0] + 8, alignment, 720)))


@settings(max_examples=200)
@given(divided(), st.integers(0, 100), st.sampled_from(CopyEffort), st.booleans(), st.booleans(), st.sampled_from([0, 6]))
def test_copies_are_those_of_the_python_form(
    case: tuple[RowGraph, Groups],
    share: int,
    effort: CopyEffort,
    overlap: bool,  # noqa: FBT001  # drawn
    shares: bool,  # noqa: FBT001  # drawn
    fetch: int,
) -> None:
    graph, groups = case
    scheduler = DepthFirstScheduler(graph)
    placement = Placement(scheduler, in_place=True)
    costs = ToyCosts(shares=shares, moves=True, fetch=fetch)
    placer = Placer(scheduler, placement, costs, Sharing() if overlap else None, prefetch=True, ends=True)
    peak, addresses = placement.greedily(groups)
    table, stores = placement.stored(groups)
    budget = peak + sum(COST.constant_bytes(part) for part in range(len(graph.parts))) * share // 100
    constants = placer.constants(groups, shares=shares)
    parts = constants[:, 0].tolist()
    sets = [frozenset(parts), frozenset(parts[::2])]
    jobs = placer._costs.costed(groups, table)
    jobs = replace(jobs, parts=placer._same[jobs.parts]) if shares else jobs
    search = CopySearch(jobs, constants, stores.extents, budget)
    found, expected = (form(addresses, sets, effort) for form in (search.best, search.best_in_python))
    assert found == expected


@settings(max_examples=200)
@given(divided(), st.integers(30, 140), st.booleans(), st.booleans(), st.booleans())
def test_trials_are_those_of_the_python_form(
    case: tuple[RowGraph, Groups],
    share: int,
    prefetch: bool,  # noqa: FBT001  # drawn
    overlap: bool,  # noqa: FBT001  # drawn
    in_place: bool,  # noqa: FBT001  # drawn
) -> None:
    graph, groups = case
    scheduler = DepthFirstScheduler(graph)
    placement = Placement(scheduler, in_place=in_place)
    placer = Placer(scheduler, placement, COST, Sharing() if overlap else None, prefetch=prefetch, ends=True)
    trials, budget = Trials(placement, placer, 30), placement.greedily(groups)[0] * share // 100 + 1
    for staged in (frozenset[int](), frozenset(range(0, len(graph.parts), 2))):
        assert trials.cycles(groups, staged, budget) == trials.cycles_in_python(groups, staged, budget)


@settings(max_examples=100)
@given(row_graphs(6, max_rows=6), st.sampled_from([(1,), (1, 2), ()]), st.integers(1, 6), st.booleans(), st.booleans())
def test_plans_are_those_of_the_python_form(
    graph: RowGraph,
    inner: tuple[int, ...],
    length: int,
    cascade: bool,  # noqa: FBT001  # drawn
    in_place: bool,  # noqa: FBT001  # drawn
) -> None:
    options = PlanOptions((1, 2, 4), inner, length, (0, 3, 8, 1 << 30), cascade, in_place)
    planner = Planner(DepthFirstScheduler(graph), COST, options)
    assert planner.table().ending == Planner(DepthFirstScheduler(graph), COST, options).all_plans()


@settings(max_examples=60)
@given(row_graphs(6, max_rows=6), st.integers(1, 4))
def test_proposals_are_those_of_the_python_form(graph: RowGraph, cold: int) -> None:
    scheduler = DepthFirstScheduler(graph)
    table = Planner(scheduler, COST, PlanOptions(stripe_rows=(1, 2), group_length=4)).table()
    for limit in sorted(set(table.columns[:, 1].tolist())):
        assert propose(table, limit, Fraction(cold, 4)) == propose_in_python(table.ending, limit, Fraction(cold, 4))
