"""Tests of a tolerance: the smallest schedule that is nearly as fast as the fastest, in the budget, replayed."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest
from asked_for import choose, load_task

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.search.frontier import frontier_of
from cascader.ethosu.search.limits import EVERYTHING
from cascader.ethosu.search.search import explore, search
from cascader.ethosu.search.task import Choice
from cascader.search.workers import workers
from sim import quick_cycles

# No call of a search depends on its aim or effort: they decide which calls are made.
pytestmark = pytest.mark.usefixtures("searches_are_kept")

MODEL = "zoo:tiny_residual"
SHARES = Fraction(1, 200), Fraction(1, 10), Fraction(1)


@cache
def chosen(share: Fraction, budget: int | None = None, most_cycles: int | None = None) -> Choice:
    with workers(1) as executor:
        return choose(load_task(MODEL), executor, budget, within=share, most_cycles=most_cycles)


@pytest.fixture(scope="module")
def fastest() -> Choice:
    return chosen(Fraction(0))


def test_no_point_of_the_frontier_is_smaller_within_the_tolerance() -> None:
    found = load_task(MODEL)
    with workers(1) as executor:
        points = frontier_of(found, search(explore(found, executor), EVERYTHING, executor), executor).points
    for share in SHARES:
        choice = chosen(share)
        assert choice.fastest is not None
        limit = choice.fastest.cycles * (1 + share)
        assert choice.point.cycles <= limit
        assert choice.point.memory <= min(point.memory for point in points if point.cycles <= limit)


@pytest.mark.parametrize("share", SHARES)
def test_the_smaller_schedule_takes_the_cycles_of_its_replay(share: Fraction) -> None:
    found, point = load_task(MODEL), chosen(share).point
    assert quick_cycles(lower(point.schedule), found.system) == point.cycles
    assert point.schedule.arena_size == point.memory


def test_a_larger_tolerance_needs_no_more_bytes(fastest: Choice) -> None:
    sizes = [fastest.point.memory, *(chosen(share).point.memory for share in SHARES)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]


def test_the_budget_holds_and_the_tolerance_is_of_the_fastest_that_fits(fastest: Choice) -> None:
    budget = fastest.point.memory * 3 // 4
    choice, plain = chosen(Fraction(1, 10), budget), chosen(Fraction(0), budget)
    assert choice.fastest is not None
    assert choice.fastest.memory <= budget
    assert choice.point.memory <= plain.point.memory <= budget
    assert choice.point.cycles <= choice.fastest.cycles * Fraction(11, 10) <= plain.point.cycles * Fraction(11, 10)


def test_cycles_that_may_not_be_exceeded_bound_the_tolerance(fastest: Choice) -> None:
    bounded = chosen(Fraction(1), most_cycles=fastest.point.cycles)
    assert bounded.point.cycles <= fastest.point.cycles < chosen(Fraction(1)).point.cycles


def test_without_a_tolerance_nothing_is_said_of_the_fastest(fastest: Choice) -> None:
    assert fastest.fastest is None
