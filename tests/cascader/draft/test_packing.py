"""Packing: groups nearby that fit into fewer bytes are found, and never more bytes than without the walk."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given, settings
from row_graphs import row_graphs
from scheduling import network
from toy_costs import ToyCosts

from cascader.draft import packing
from cascader.draft.drafter import Drafter, DraftOptions
from cascader.draft.group_moves import Groups, Neighbourhood
from cascader.draft.packing import Packed, packed_closer
from cascader.draft.placement import Placement
from cascader.ethosu.network.rows import row_graph
from cascader.graph.row_graph import RowGraph
from cascader.plan.depth_first import DepthFirstScheduler, Group
from cascader.plan.plans import Planner, PlanOptions

PLANS = PlanOptions(stripe_rows=(1, 2, 4), inner_rows=(1,), group_length=6)
MOVES = 30


def whole(graph: RowGraph) -> Groups:
    return tuple(Group(number, number, part.rows) for number, part in enumerate(graph.parts))


@settings(max_examples=60)
@given(row_graphs(5, max_rows=5))
def test_it_ends_where_no_change_of_what_it_found_packs_into_fewer_bytes(graph: RowGraph) -> None:
    placement = Placement(DepthFirstScheduler(graph), in_place=True)
    changes = Neighbourhood(graph, (1, 2, 4), (1,))
    start = Packed(whole(graph), placement.searched(whole(graph), MOVES)[0])
    with patch.object(packing, "_PLACED", 10_000):
        found = packed_closer(start, 0, placement, changes, MOVES)
    assert found.peak == placement.searched(found.groups, MOVES)[0] <= start.peak
    assert found is start or found.peak < start.peak
    assert all(placement.searched(other, MOVES)[0] >= found.peak for other in changes.of(found.groups))


def test_it_stops_at_the_bytes_that_are_enough_and_after_so_many_groups() -> None:
    graph = row_graph(network("tiny_residual"))
    asked = list[Groups]()

    class Counted(Placement):
        """Notes what is placed."""

        def _searched(self, groups: Groups, moves: int) -> tuple[int, tuple[int, ...]]:
            asked.append(groups)
            return super()._searched(groups, moves)

        def reached(self, groups: Groups, below: int, moves: int) -> tuple[int, int]:
            live, peak = super().reached(groups, below, moves)
            asked.extend([groups] if live < below else [])
            return live, peak

    changes = Neighbourhood(graph, (1, 2, 4), (1,))
    placement = Counted(DepthFirstScheduler(graph), in_place=True)
    start = Packed(whole(graph), 1 << 30)
    assert packed_closer(start, 1 << 29, placement, changes, MOVES).peak < 1 << 30
    assert len(asked) == 2  # the start's addresses say what is at its peak
    asked.clear()
    with patch.multiple(packing, _PLACED=3, _PLACED_AT_PEAK=2, _PLACED_IF_LOOSE=1):
        packed_closer(Packed(whole(graph), 1 << 30), 0, Counted(DepthFirstScheduler(graph), in_place=True), changes, MOVES)
    assert 1 < len(asked) <= 8


@settings(max_examples=40)
@given(row_graphs(5, max_rows=5))
def test_the_smallest_arena_is_never_larger_with_it(graph: RowGraph) -> None:
    scheduler = DepthFirstScheduler(graph)

    def smallest() -> int:
        table = Planner(scheduler, ToyCosts(), PLANS).table()
        return Drafter(scheduler, ToyCosts(), lambda: table, PLANS, DraftOptions(moves=MOVES)).smallest.memory

    found = smallest()
    with patch.object(packing, "_PLACED", 0):
        assert found <= smallest()


def test_only_groups_that_hold_parts_at_the_peak_are_changed_at_first() -> None:
    graph = row_graph(network("tiny_residual"))
    changes, groups = Neighbourhood(graph, (1, 2, 4), (1,)), whole(graph)
    held = [one for one in changes.of(groups) if one[:1] != groups[:1]]
    assert list(changes.of(groups, {0})) == held
    assert len(held) < len(list(changes.of(groups)))
    assert list(changes.of(groups, set())) == []


def test_groups_far_above_their_plans_are_searched_longer() -> None:
    graph = row_graph(network("tiny_residual"))
    changes, groups = Neighbourhood(graph, (1, 2, 4), (1,)), whole(graph)
    least = Placement(DepthFirstScheduler(graph), in_place=True).live(groups)

    def placed(bytes_at_first: int) -> int:
        """Number of groups that a walk without rounds places."""
        placement = Placement(DepthFirstScheduler(graph), in_place=True)
        with (
            patch.multiple(packing, _PLACED=0, _PLACED_AT_PEAK=2, _PLACED_IF_LOOSE=3),
            patch.object(placement, "reached", side_effect=lambda *_: (least - 1, bytes_at_first)) as reached,
        ):
            packed_closer(Packed(groups, bytes_at_first), least, placement, changes, MOVES)
        return reached.call_count

    assert [placed(least + least // 200), placed(2 * least)] == [2, 5]
