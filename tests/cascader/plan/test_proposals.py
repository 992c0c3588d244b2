"""Proposals and Pareto sets against every choice there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from cascader.plan.depth_first import Group
from cascader.plan.pareto import pareto
from cascader.plan.plans import Plan
from cascader.plan.proposals import Proposal, ladder, propose, smallest_limit

pytestmark = pytest.mark.law

Ending = tuple[tuple[Plan, ...], ...]


class Point(Struct, frozen=True):
    memory: int
    cycles: int
    name: int


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=12))
def test_the_pareto_set_is_what_no_other_candidate_beats(costs: list[tuple[int, int]]) -> None:
    points = [Point(memory, cycles, name) for name, (memory, cycles) in enumerate(costs)]

    def beats(a: Point, b: Point) -> bool:
        no_worse = a.memory <= b.memory and a.cycles <= b.cycles
        return no_worse and ((a.memory, a.cycles) != (b.memory, b.cycles) or a.name < b.name)

    kept = sorted((p for p in points if not any(beats(q, p) for q in points)), key=lambda p: p.memory)
    assert pareto(points) == tuple(kept)


def plan(first: int, last: int, memory: int, cycles: int) -> Plan:
    return Plan(Group(first, last, 1), (), memory, cycles, cycles)


@st.composite
def endings(draw: st.DrawFn) -> Ending:
    """Plans for up to five parts; single parts always have one."""
    costs = st.tuples(st.integers(1, 30), st.integers(0, 30))
    found = []
    for last in range(draw(st.integers(1, 5))):
        plans = [plan(last, last, *draw(costs))]
        for first in range(last + 1):
            plans += [plan(first, last, *cost) for cost in draw(st.lists(costs, max_size=2))]
        found.append(tuple(plans))
    return tuple(found)


def covers(ending: Ending, first: int = 0) -> Iterator[tuple[Plan, ...]]:
    """All sequences of plans that cover the parts from ``first`` on."""
    if first == len(ending):
        yield ()
    for plans in ending[first:]:
        for chosen in plans:
            if chosen.group.first == first:
                yield from ((chosen, *rest) for rest in covers(ending, chosen.group.last + 1))


@settings(max_examples=100)
@given(endings())
def test_no_cover_is_faster_under_any_limit(ending: Ending) -> None:
    costs = [(max(p.memory for p in cover), sum(p.cycles for p in cover)) for cover in covers(ending)]
    for limit in range(32):
        fitting = [cycles for memory, cycles in costs if memory <= limit]
        found = propose(ending, limit)
        assert (found is None) == (not fitting)
        if found is not None:
            assert found.cycles == min(fitting)
            assert found.memory <= limit


@settings(max_examples=200)
@given(endings(), st.integers(1, 32))
def test_a_proposal_is_a_cover_by_given_plans_in_order(ending: Ending, limit: int) -> None:
    found = propose(ending, limit)
    if found is not None:
        assert all(chosen in ending[chosen.group.last] for chosen in found.plans)
        parts = [part for chosen in found.plans for part in range(chosen.group.first, chosen.group.last + 1)]
        assert parts == list(range(len(ending)))


@settings(max_examples=200)
@given(endings())
def test_a_bigger_limit_is_never_slower_and_the_smallest_is_the_least_that_works(ending: Ending) -> None:
    smallest = smallest_limit(ending)
    assert propose(ending, smallest - 1) is None
    found = [propose(ending, limit) for limit in range(smallest, 32)]
    cycles = [proposal.cycles for proposal in found if proposal is not None]
    assert len(cycles) == len(found)
    assert cycles == sorted(cycles, reverse=True)


@settings(max_examples=200)
@given(endings(), st.integers(1, 6))
def test_the_ladder_climbs_from_the_smallest_limit_to_the_largest_plan(ending: Ending, rungs: int) -> None:
    sizes = {chosen.memory for plans in ending for chosen in plans}
    limits = ladder(ending, rungs)
    assert limits[0] == smallest_limit(ending)
    assert limits[-1] == max(sizes)
    assert list(limits) == sorted(set(limits))
    assert set(limits) <= sizes
    assert len(limits) <= rungs + 1


def test_no_plans_take_no_bytes_and_no_cycles() -> None:
    assert (Proposal(()).memory, Proposal(()).cycles) == (0, 0)
