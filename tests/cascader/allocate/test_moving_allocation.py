"""The allocation of moving extents, against a map of single bytes and against every placement of a few."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product

import pytest
from allocation_judge import validate
from exact_allocation import exact_allocation, gap
from few_examples import few
from hypothesis import given, settings
from hypothesis import strategies as st
from moving_extents import extent, extents, is_valid
from naive_rows import bytes_held
from row_graphs import divided_graphs, schedule_groups

from cascader.allocate import Extent, allocate, live_bytes, placements
from cascader.graph.row_graph import RowGraph
from cascader.plan.buffers import storages
from cascader.plan.depth_first import DepthFirstScheduler, Group

pytestmark = pytest.mark.law


def top(found: Sequence[Extent], addresses: Sequence[int]) -> int:
    return max(address + int(e.high.max()) for e, address in zip(found, addresses, strict=True))


@settings(max_examples=few(300))
@given(extents(count=8, size=40, steps=6), st.sampled_from([1, 4, 16]), st.sampled_from([0, 20]))
def test_no_byte_is_live_in_two_buffers_and_addresses_are_aligned(found: list[Extent], alignment: int, moves: int) -> None:
    peak, addresses = allocate(found, alignment=alignment, moves=moves)
    assert is_valid(found, addresses)
    assert all(address >= 0 and address % alignment == 0 for address in addresses)
    assert peak == -(-top(found, addresses) // alignment) * alignment
    assert peak >= max(live_bytes(found, max(e.end for e in found)))


@settings(max_examples=100)
@given(extents(count=8, size=40, steps=6))
def test_equal_problems_get_equal_addresses_and_more_moves_are_never_worse(found: list[Extent]) -> None:
    few, many = allocate(found, moves=0), allocate(found, moves=40)
    assert allocate(found, moves=40) == many
    assert many[0] <= few[0]


@settings(max_examples=few(200))
@given(extents(count=2, size=10, steps=4))
def test_a_gap_is_the_least_distance_from_which_on_the_upper_buffer_is_always_clear(found: list[Extent]) -> None:
    below, above = found[0], found[-1]
    distances = [d for d in range(-30, 31) if all(is_valid([below, above], (100, 100 + e)) for e in range(d, 31))]
    expected = gap(below, above)
    assert min(distances) == max(-30, expected)


def best_of_all_placements(found: Sequence[Extent]) -> int:
    """Least peak over all placements with byte alignment in which no two buffers pass each other."""
    best = sum(int(e.high.max()) for e in found)
    for addresses in product(range(best + 1), repeat=len(found)):
        pairs = permutations(range(len(found)), 2)
        apart = all(
            addresses[b] - addresses[a] >= gap(found[a], found[b]) or addresses[a] - addresses[b] >= gap(found[b], found[a])
            for a, b in pairs
        )
        best = min(best, top(found, addresses)) if apart else best
    return best


@settings(max_examples=60, deadline=None)
@given(extents(count=3, size=3, steps=3))
def test_three_small_buffers_are_placed_as_well_as_can_be_without_passing_each_other(found: list[Extent]) -> None:
    exact, addresses = exact_allocation(found)
    assert validate(found, addresses, exact) is None
    assert best_of_all_placements(found) == exact == allocate(found, alignment=1, moves=40)[0]


@settings(max_examples=60, deadline=None)
@given(extents(count=5, size=20, steps=5), st.sampled_from([1, 4]))
def test_five_buffers_are_placed_as_well_as_the_exact_search_places_them(found: list[Extent], alignment: int) -> None:
    exact, addresses = exact_allocation(found, alignment=alignment)
    assert validate(found, addresses, exact, alignment) is None
    assert allocate(found, alignment=alignment)[0] == -(-exact // alignment) * alignment


def test_a_buffer_may_grow_into_the_one_that_dies_before_it() -> None:
    """An input of 8 rows is eaten from its first row while an output of 8 rows grows one row behind."""
    eaten = extent(0, *((max(0, row - 1), 8) for row in range(8)))
    grown = extent(0, *((0, row + 1) for row in range(8)))
    peak, (first, second) = allocate([eaten, grown], alignment=1)
    assert (peak, first - second) == (10, 2)


def test_two_buffers_never_pass_each_other_though_that_could_save_bytes() -> None:
    """The second buffer is above the first one's bytes at step 0 and below them at step 1: possible, but not searched."""
    first, second = extent(0, (0, 1), (2, 3)), extent(0, (1, 2), (1, 2))
    assert is_valid([first, second], (0, 0))
    assert allocate([first, second], alignment=1)[0] > top([first, second], (0, 0))


EXACT = 6
"""Buffers of which the exact search places every order in some milliseconds."""


@settings(max_examples=100)
@given(divided_graphs())
def test_buffers_of_schedules_are_placed_in_the_fewest_bytes_of_any_placement(divided: tuple[RowGraph, tuple[Group, ...]]) -> None:
    graph, groups = divided
    jobs = schedule_groups(DepthFirstScheduler(graph), groups)
    found = [store.extent for store in storages(DepthFirstScheduler(graph), jobs, groups)]
    peak, addresses = allocate(found, alignment=1)
    assert is_valid(found, addresses)
    held = max(bytes_held(graph, jobs, groups, in_place=True))
    assert held == max(live_bytes(found, max(e.end for e in found)))
    assert max(held, *(int(e.high.max()) for e in found)) <= peak
    assert len(found) > EXACT or peak == exact_allocation(found)[0]


def test_a_buffer_that_slides_takes_its_whole_height_however_few_of_its_bytes_are_live() -> None:
    """A search for the worst schedule finds 42 bytes where 9 are live: a tensor that is written, and read, from end to end."""
    sliding = extent(0, *((3 * step, 3 * step + 3) for step in range(12)))
    assert allocate([sliding], alignment=1)[0] == 36 == exact_allocation([sliding])[0]
    assert max(live_bytes([sliding], sliding.end)) == 3


@settings(max_examples=60)
@given(extents(count=4, size=40, steps=4), st.integers(0, 160))
def test_placements_are_valid_distinct_within_the_limit_and_no_worse_than_the_search_at_their_best(found: list[Extent], limit: int) -> None:
    every = placements(found, limit)
    for peak, addresses in every:
        assert is_valid(found, addresses)
        assert top(found, addresses) <= peak <= limit
        assert peak % 16 == 0
    assert len({addresses for _, addresses in every}) == len(every)
    peak, _ = allocate(found, moves=20)
    assert min((least for least, _ in every), default=peak) <= peak or peak > limit
    assert bool(every) or peak > limit
