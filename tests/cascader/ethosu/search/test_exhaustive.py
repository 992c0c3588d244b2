"""Exhaustive searches of small networks: nothing of the class is faster than the answer, and the class is as large as it is said to be."""

from __future__ import annotations

from functools import cache
from itertools import chain, combinations

import pytest
from asked_for import choose, system_said
from form_variants import variants

from cascader.draft.drafter import DraftOptions
from cascader.draft.group_moves import neighbours
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Provenance
from cascader.ethosu.judge.replay import Replayer
from cascader.ethosu.network.network import Network
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.search.byte_bound import least_bytes
from cascader.ethosu.search.divisions import Divisions
from cascader.ethosu.search.effort import STANDARD, THOROUGH
from cascader.ethosu.search.exhaustive import MOST_SCHEDULES, search_whole
from cascader.ethosu.search.form import Form, FormRank
from cascader.ethosu.search.request import Run
from cascader.ethosu.search.task import Choice, Task
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import import_network
from cascader.search.workers import workers
from npu_testbed.models.sources import load_model
from sim import quick_cycles

SYSTEM = system_said()
DEVICE = "ethos-u55-128"
JUDGE = Replayer(quick_cycles, SYSTEM)


@cache
def network(name: str) -> Network:
    return import_network(load_model(name).data, DEVICE)


@cache
def form(name: str) -> Form:
    first = variants(network(name), DEVICE, SYSTEM, CascadeOptions())[0]
    return Form(FormRank(0, 1), first, DEVICE, SYSTEM, CascadeOptions(), Provenance())


def planned(name: str) -> Cascader:
    return form(name).cascader


def every_set(plans: Cascader) -> list[frozenset[int]]:
    parts = [part for part in range(len(plans.graph.parts)) if plans.cost.constant_bytes(part)]
    return [frozenset(chosen) for chosen in chain.from_iterable(combinations(parts, count) for count in range(len(parts) + 1))]


def fastest_of_all(plans: Cascader, budget: int | None) -> tuple[int, int]:
    """Cycles of the fastest schedule of the class by replays of all, and the number of its members."""
    cycles, members = 1 << 60, 0
    for groups in Divisions(plans).all_groups():
        limit = plans.copy_sets.room(groups) if budget is None else budget
        for chosen in every_set(plans):
            members += 1
            for draft in plans.copy_sets.drafts(groups, chosen, limit, shares=False):
                assert draft.memory <= limit
                cycles = min(cycles, JUDGE(lower(plans.schedule(plans.in_blocks(draft)))))
    return cycles, members


@pytest.mark.parametrize("budget", [None, 8912, 4096])
def test_an_exhaustive_search_finds_the_fastest_schedule_of_its_class(budget: int | None) -> None:
    """All 512 schedules of tiny_conv's first form are lowered and replayed here, one by one."""
    plans = planned("zoo:tiny_conv")
    cycles, members = fastest_of_all(plans, budget)
    proof, found = search_whole(form("zoo:tiny_conv"), budget, cycles + 1, JUDGE, members)
    assert proof.complete
    assert proof.members == proof.tried == members
    assert proof.least_cycles == cycles
    assert found is not None
    assert found[1] == cycles
    check_schedule(plans.schedule(found[0]))
    # Where the fastest is known, nothing is found.
    again, nothing = search_whole(form("zoo:tiny_conv"), budget, cycles, JUDGE, members)
    assert again == proof
    assert nothing is None
    # A class of more schedules than are allowed is not begun, and says so.
    short, nothing = search_whole(form("zoo:tiny_conv"), budget, cycles + 1, JUDGE, members - 1)
    assert (short.members, short.tried, short.replayed, short.complete, nothing) == (members, 0, 0, False, None)


QUICKLY = CascadeOptions(rungs=3, dense=0, drafts=DraftOptions(moves=20, regroupings=20))
"""A search of few limits and changes, which takes little time before that of the class begins."""


@cache
def chosen(name: str, budget: int | None, processes: int = 1, *, thorough: bool = True, most: int = MOST_SCHEDULES) -> Choice:
    task = Task(network(name), DEVICE, SYSTEM, JUDGE, options=QUICKLY)
    with workers(processes, takes_part=True) as executor:
        return choose(task, executor, budget, most=most, effort=THOROUGH if thorough else STANDARD)


def test_a_thorough_search_of_a_small_network_ends_with_all_schedules_tried() -> None:
    without, proven = (chosen("zoo:tiny_conv", 8912, processes=1, thorough=thorough) for thorough in (False, True))
    assert without.proof is None
    assert proven.proof is not None
    assert proven.proof.complete
    assert proven.proof.least_cycles == proven.point.cycles < without.point.cycles
    assert proven.point.memory <= 8912
    assert JUDGE(lower(proven.point.schedule)) == proven.point.cycles


def test_a_class_that_is_too_large_says_so_and_its_bound_holds() -> None:
    found = chosen("zoo:tiny_conv", 8912, most=10)
    assert found.proof is not None
    assert not found.proof.complete
    assert found.proof.tried == 0
    assert found.proof.least_cycles == found.least_cycles <= found.point.cycles


def test_a_search_without_bounds_may_be_thorough() -> None:
    task = Task(network("zoo:tiny_conv"), DEVICE, SYSTEM, JUDGE)
    with workers(1, takes_part=True) as executor:
        found = choose(task, executor, 8912, Run(bounds=False), 10, effort=THOROUGH)
    assert found.least_cycles is None


def test_an_answer_does_not_depend_on_the_number_of_processes() -> None:
    one, two = (chosen("zoo:tiny_conv", 8912, processes=processes, thorough=True) for processes in (1, 2))
    assert (one.proof, one.point.cycles, one.point.schedule) == (two.proof, two.point.cycles, two.point.schedule)


@pytest.mark.parametrize("name", ["zoo:tiny_conv", "zoo:tiny_residual", "portfolio:conv_gelu_conv", "portfolio:conv1d"])
def test_each_change_of_the_search_leads_to_a_division_of_the_class(name: str) -> None:
    """From the division into single parts, all that two changes reach, by the jobs that they come to."""
    plans = planned(name)
    divisions, options = Divisions(plans), plans.options.drafts
    jobs = {tuple(job for group in groups for job in divisions.jobs(group)) for groups in divisions.all_groups()}
    begun = tuple(divisions.groups(part)[0] for part in range(len(plans.graph.parts)))
    reached = {begun}
    for _ in range(2):
        reached |= {other for groups in reached for other in neighbours(plans.graph, groups, options.stripe_rows, options.inner_rows)}
    assert len(reached) > len(plans.graph.parts)
    assert {tuple(job for group in groups for job in divisions.jobs(group)) for groups in reached} <= jobs


@pytest.mark.parametrize("name", ["zoo:tiny_conv", "zoo:tiny_residual", "portfolio:conv_gelu_conv", "portfolio:svdf", "portfolio:conv1d"])
def test_no_division_holds_fewer_bytes_than_the_least_of_all(name: str) -> None:
    plans = planned(name)
    divisions = Divisions(plans)
    live = min(plans.drafter.placement.live(groups) for groups in divisions.all_groups())
    assert least_bytes(plans.scheduler) <= divisions.least_of_all() == live


@pytest.mark.parametrize("name", ["zoo:tiny_conv", "zoo:ds_cnn", "zoo:resnet8", "portfolio:lstm_short", "portfolio:inception"])
def test_the_smallest_arena_is_no_smaller_than_the_bound_of_bytes(name: str) -> None:
    plans = planned(name)
    assert 0 < least_bytes(plans.scheduler) <= plans.smallest().memory
