"""Other starts: drafts that are best for other costs, and their groups with the copies of less room, which a larger budget has, too."""

from __future__ import annotations

import sys
from functools import cache
from itertools import pairwise

import pytest
from asked_for import of_bytes, system_said
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scheduling import DEFAULT, network

from cascader import schedule
from cascader.draft.draft import Draft
from cascader.ethosu.cascade import rooms
from cascader.ethosu.job.schedule import Provenance
from cascader.ethosu.judge.replay import Replayer
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.search.form import OTHER_COSTS, Form, FormRank
from cascader.ethosu.search.remote_calls import Anywhere, other_starts, ready
from cascader.ethosu.search.replayed import Replayed
from cascader.ethosu.search.replayed_changes import used_bytes
from cascader.ethosu.search.replays import MOST_FORMS, SECOND, started_otherwise, worth_a_start
from cascader.ethosu.search.request import SIZE
from cascader.ethosu.verify.check import check_schedule
from cascader.search.workers import begin, workers
from sim import quick_cycles
from validation import portfolio
from validation.zoo import build

SYSTEM = system_said()
LIMIT = 12_000
EFFORT = 12_000_000


@cache
def form(number: int = 0) -> Form:
    return Form(FormRank(number, 3), network("tiny_residual"), DEFAULT, SYSTEM, CascadeOptions(), Provenance(memory_system=SYSTEM))


@cache
def judge() -> Replayer:
    return Replayer(quick_cycles, SYSTEM, form().provenance.timing)


@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 5000))
def test_the_rooms_of_a_smaller_limit_are_rooms_of_a_larger_one(least: int, limit: int, more: int) -> None:
    fewer, all_rooms = list(rooms(least + 1, limit)), list(rooms(least + 1, limit + more))
    assert all_rooms[: len(fewer)] == fewer
    assert all(least < room < limit and room % 16 == 0 for room in fewer)
    assert all(15 * low < 14 * high for low, high in pairwise(fewer))


def test_less_room_never_has_more_bytes_and_breaks_no_rule() -> None:
    cascader, other = form().cascader, form().others[1]
    (draft, *_) = other.drafter.drafts(LIMIT)
    found = list(cascader.in_less_room(other, draft, LIMIT))
    assert found
    for one in found:
        assert one.part_groups == draft.part_groups
        assert one.memory < LIMIT
        check_schedule(form().schedule(one))


@cache
def alone() -> tuple[Replayed, ...]:
    with workers(1) as here:
        return started_otherwise([(form(), LIMIT)], judge(), here)


def test_starts_are_those_of_other_costs_and_less_room_only_if_that_is_faster() -> None:
    found = [(one.draft, one.cycles) for one in alone()]
    made = [draft for other in form().others for draft in form().cascader.made_for(other, LIMIT) if draft.memory <= LIMIT]
    fastest = min(form().judge(judge()).cycles(draft) for draft in made)
    assert len(form().others) == OTHER_COSTS
    assert [cycles for _, cycles in found] == sorted(cycles for _, cycles in found)
    assert all(cycles == form().judge(judge()).cycles(draft) and draft.memory <= LIMIT for draft, cycles in found)
    assert found[0][1] <= fastest
    assert fastest in [cycles for _, cycles in found]


def test_two_processes_share_the_other_starts_of_a_form_and_find_what_one_finds() -> None:
    with workers(2, takes_part=True, late=True) as executor:
        assert begin(executor, [form()], ready) == (sys.platform == "linux")
        shared = started_otherwise([(form(), LIMIT)], judge(), executor, takers=Anywhere())
    assert [(one.draft, one.cycles) for one in shared] == [(one.draft, one.cycles) for one in alone()]


def test_calls_for_the_same_costs_go_to_one_process() -> None:
    assert [list(Anywhere(number).worker_processes(2)) for number in (0, 1, 2, None)] == [[0], [1], [0], [0, 1]]


def test_without_effort_nothing_is_replayed() -> None:
    assert other_starts(form(), 0, LIMIT, judge(), 0) == ()


def test_the_last_cycle_of_effort_is_worth_one_more_replay() -> None:
    assert len(other_starts(form(), 0, LIMIT, judge(), 1)) == 1


@pytest.mark.parametrize(("second", "wanted"), [(SECOND, [0, 1]), (SECOND + 1, [0])])
def test_the_second_form_has_other_starts_if_it_is_nearly_as_fast(second: float, wanted: list[int]) -> None:
    def made(number: int, cycles: int, memory: int = 96) -> Replayed:
        return Replayed(form(number), Draft(b"", b"", b"", b"", memory, cycles), cycles)

    found = [made(1, int(1000 * second)), made(0, 1000), made(0, 1001), made(2, 1009, memory=9600)]
    assert [one.form.rank.number for one in worth_a_start(found, 960)] == wanted
    many = [made(number, 1000 + number) for number in range(3)]
    assert len(worth_a_start(many, 960)) == MOST_FORMS
    assert worth_a_start([made(0, EFFORT)], 960) == []


def test_a_tenth_more_room_is_no_slower_where_other_blocks_decide() -> None:
    """At 10,816 bytes another draft is faster as it is made, and slower once replays have chosen its blocks."""
    model = build("tiny_residual")
    some, more = (schedule(of_bytes(model, DEFAULT, SYSTEM, budget), quick_cycles).point.cycles for budget in (9_744, 10_816))
    assert more <= some


def test_the_smallest_schedule_is_as_fast_as_the_fastest_in_as_many_bytes() -> None:
    """Without other starts 77,834 cycles, which the search for a budget of these 8,704 bytes had alone; no work is done twice."""
    model = portfolio.build("squeezenet")
    smallest = schedule(of_bytes(model, DEFAULT, SYSTEM, optimise=SIZE, recompute=1), quick_cycles).point
    fastest = schedule(of_bytes(model, DEFAULT, SYSTEM, smallest.memory, recompute=1), quick_cycles).point
    assert smallest.memory == fastest.memory
    assert smallest.cycles <= fastest.cycles < 77_834


@pytest.mark.parametrize("limit", [6_000, 9_744, 12_000, 40_000])
def test_a_draft_has_the_bytes_that_it_uses_and_no_more_without_its_copies(limit: int) -> None:
    for draft in form().cascader.drafts_at(limit):
        assert used_bytes(form(), draft) == draft.memory
        assert used_bytes(form(), replace(draft, copies=b"")) <= draft.memory
