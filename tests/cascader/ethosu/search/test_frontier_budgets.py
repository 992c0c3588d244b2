"""Answers to budgets and to cycles: the choice under a budget, arenas that are searched more closely, and near misses."""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path

import pytest
from asked_for import choose
from cascades import expected, outputs
from command_line import call, refusal
from frontiers_found import SYSTEM, figures, found, frontier, task
from msgspec.structs import replace
from schedule_drafts import draft_of
from scheduling import DEFAULT, network

from cascader.draft.draft import Draft
from cascader.draft.drafter import DraftOptions
from cascader.draft.replayed_moves import copy_count, with_later_copies
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.judge.replay import Replayer
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.search.cycle_targets import FEW, MISSED, ROOM, _Search, made_up, near_target
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.frontier import _worth_changes, below, beside, beyond, closer
from cascader.ethosu.search.replayed import Replayed
from cascader.ethosu.search.request import SIZE
from cascader.ethosu.search.task import Progress, Replay, silent
from cascader.ethosu.verify.check import check_schedule
from cascader.search.workers import workers
from npu_model.compiled.network import CompiledNetwork
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from npu_testbed.replays.scheduling import read_schedule
from sim import quick_cycles, replay_network

pytestmark = pytest.mark.law


def form_of(schedule: Schedule) -> Form:
    """The form of resnet8 that a schedule is of."""
    return next(form for form in found("resnet8").explored.forms if form.network is schedule.network)


def replayed_points(name: str) -> list[Replayed]:
    """The points of a frontier as the search has them."""
    forms = ((form_of(point.schedule), point) for point in frontier(name).points)
    return [Replayed(form, replace(draft_of(point.schedule), form=form.rank.number), point.cycles) for form, point in forms]


def test_copies_that_are_issued_later_keep_their_places_and_compute_the_network() -> None:
    point = next(point for point in frontier("resnet8").points if len(point.schedule.copies) > 1)
    form = form_of(point.schedule)
    later = [form.schedule(draft) for _, draft in with_later_copies(draft_of(point.schedule))]
    assert later
    for schedule in later:
        moved = [(copy.step, before.step) for copy, before in zip(schedule.copies, point.schedule.copies, strict=True)]
        assert [copy.address for copy in schedule.copies] == [copy.address for copy in point.schedule.copies]
        assert all(now in {before, before + 1} for now, before in moved)
        assert any(now > before for now, before in moved)
        check_schedule(schedule)
    assert outputs(lower(later[0])) == expected("resnet8")


def test_copies_are_tried_from_any_one_on_and_each_once() -> None:
    drafts = [draft_of(point.schedule) for point in frontier("resnet8").points]
    draft = next(draft for draft in drafts if len(list(with_later_copies(draft))) > 2)
    whole = list(with_later_copies(draft))
    for first in range(copy_count(draft)):
        at = sum(number < first for number, _ in whole)
        assert list(with_later_copies(draft, first)) == whole[at:] + whole[:at]


def _searched(short: int, judge: Replay, executor: Executor, show: Progress = silent) -> tuple[_Search, Replayed]:
    """The search for a point of ``short`` cycles fewer, and the point."""
    point = next(point for point in replayed_points("resnet8") if len(list(with_later_copies(point.draft))) > 3)
    return _Search(point.form, point.cycles - short, judge, executor, show), point


def test_a_point_with_later_copies_is_no_slower_in_the_same_bytes_whoever_replays() -> None:
    made = set()
    for processes in (1, 2):
        with workers(processes, takes_part=True) as executor:
            search, point = _searched(10**9, Replayer(quick_cycles, SYSTEM), executor)
            later = search.later(point)
        schedule = later.point().schedule
        assert later.memory == schedule.arena_size == point.memory
        check_schedule(schedule)
        assert later.cycles == replay_network(lower(schedule), SYSTEM).cycles <= point.cycles
        made.add((later.cycles, later.draft))
    assert len(made) == 1


@pytest.mark.parametrize("most", [0, 1, 3])
def test_copies_of_a_near_miss_are_tried_for_as_many_cycles_as_are_allowed_and_each_round_is_shown(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large network has so many copies, each replay of which takes so long, that trying them all would take a quarter of an hour."""
    replays, shown = list[int](), list[str]()

    def judge(_network: CompiledNetwork) -> int:
        replays.append(point.cycles - (len(replays) == 1))
        return replays[-1]

    with workers(1) as executor:
        search, point = _searched(2, judge, executor, shown.append)
        monkeypatch.setattr("cascader.ethosu.search.cycle_targets.LATER", most * point.cycles)
        later = search.later(point)
    assert len(replays) == most
    assert later.cycles == min((point.cycles, *replays))
    assert len(shown) == {0: 0, 1: 1, 3: 2}[most]


def test_a_schedule_that_comes_again_in_another_search_is_not_replayed_again() -> None:
    replays = list[int]()

    def judge(_network: CompiledNetwork) -> int:
        replays.append(point.cycles)
        return replays[-1]

    with workers(1) as executor:
        search, point = _searched(2, judge, executor)
        found = search.at(point.memory, 5)
        assert found is not None
        assert len(replays) > 1
        once = len(replays)
        # A search that does not know the schedule asks the judge, which remembers its draft.
        for again in (replace(search, target=search.target - 1), replace(search, known={})):
            same = again.at(point.memory, 5)
            assert same is not None
            assert (same.draft, same.cycles) == (found.draft, found.cycles)
            assert len(replays) == once


def test_no_copy_of_a_near_miss_is_tried_once_its_cycles_are_met() -> None:
    replays = list[int]()

    def judge(_network: CompiledNetwork) -> int:
        replays.append(point.cycles - len(replays))
        return replays[-1]

    with workers(1) as executor:
        search, point = _searched(2, judge, executor)
        assert search.later(point).cycles == search.target
    assert len(replays) == 3


def test_points_near_a_target_are_the_smallest_points_that_miss_by_little_and_are_smaller_than_what_does_not() -> None:
    line = ((100, 1003), (200, 1001), (210, 1001), (220, 1000), (300, 900))
    points = figures(*line)
    assert [point.memory for point in near_target(points, 1000)] == [200, 210]
    assert [point.memory for point in near_target(points, 1002)] == [100]
    assert near_target(points, 990) == near_target(points, 899) == ()
    assert len(near_target(points[:1] * 5, 1002)) == FEW


def test_a_near_miss_meets_its_cycles_once_replays_choose_its_groups() -> None:
    point = next(point for point in replayed_points("resnet8") if point.memory > 38_000)
    target = point.cycles - int(point.cycles * MISSED / 2)
    with workers(1) as executor:
        tried = tuple(one.point() for one in made_up((point,), (target,), Replayer(quick_cycles, SYSTEM), executor))
    for one in tried:
        check_schedule(one.schedule)
        assert one.memory == one.schedule.arena_size <= point.memory * (1 + ROOM) + 16
        assert one.cycles == replay_network(lower(one.schedule), SYSTEM).cycles
    met = [one for one in tried if one.cycles <= target]
    assert met
    assert outputs(lower(met[-1].schedule)) == expected("resnet8")


def test_a_schedule_within_a_budget_fits_it_and_is_no_slower_than_any_point_that_fits() -> None:
    points = frontier("tiny_residual").points
    budgets = (points[0].memory, points[1].memory + 17, points[-1].memory + 999)
    with workers(1) as executor:
        for budget in budgets:
            chosen = choose(task("tiny_residual"), executor, budget).point.schedule
            replayed = replay_network(lower(chosen), SYSTEM)
            assert replayed.footprint.peak <= budget
            fitting = frontier("tiny_residual").within(budget)
            assert fitting is not None
            assert replayed.cycles <= fitting.cycles


def test_size_gives_the_smallest_and_performance_the_fastest_point() -> None:
    points = frontier("tiny_residual").points
    with workers(1) as executor:
        size = choose(task("tiny_residual"), executor, optimise=SIZE).point.schedule
        performance = choose(task("tiny_residual"), executor).point.schedule
    assert size.arena_size == points[0].memory
    # Both choose the blocks of their fastest schedules by replays, and may begin with others.
    assert 0 <= points[-1].cycles - replay_network(lower(performance), SYSTEM).cycles <= points[-1].cycles // 1000


def test_a_budget_that_cannot_be_met_names_the_smallest_arena_which_can(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    floor = next(filter(str.isdigit, refusal("schedule", "zoo:tiny_conv", "--arena-cache-size", "100", "-o", out).split()[3:]))
    sentence = refusal("schedule", "zoo:tiny_conv", "--arena-cache-size", floor, "-o", out)
    assert f"--arena-cache-size {floor}" in sentence
    assert not out.exists()
    least = next(word for word in sentence.split() if word.isdigit() and int(word) > int(floor))
    assert call("schedule", "zoo:tiny_conv", "--arena-cache-size", least, "-o", out).status == 0
    assert read_schedule(out).arena_size == int(least)
    refusal("schedule", "zoo:tiny_conv", "--arena-cache-size", int(least) - 1, "-o", tmp_path / "none.json")


def test_no_choice_is_left_without_cascading(tmp_path: Path) -> None:
    sentence = refusal("schedule", "zoo:tiny_conv", "--no-cascade", "--optimise", "Size", "-o", tmp_path / "s.json")
    assert "--no-cascade" in sentence


@pytest.mark.parametrize("name", ["ds_cnn", "resnet8"])
def test_what_a_budget_gives_does_not_depend_on_those_that_were_asked_for_before(name: str) -> None:
    system = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
    options = CascadeOptions(drafts=DraftOptions(moves=20, regroupings=20))

    def answers(budgets: list[int]) -> dict[int, tuple[Draft, ...]]:
        asked = Cascader(network(name), DEFAULT, system, options)
        return {budget: asked.drafts_at(budget) for budget in budgets}

    budgets = [24 * 1024, 32 * 1024, 48 * 1024]
    upwards = answers(budgets)
    assert all(upwards.values())
    assert upwards == answers(budgets[::-1])


def test_arenas_between_the_one_that_meets_some_cycles_and_the_next_smaller_one_are_searched() -> None:
    assert closer(figures((1600, 1100), (3200, 900), (6400, 800)), [1000]) == (2000, 2400, 2800)
    assert closer(figures((1600, 1100)), [1000]) == ()


def test_arenas_somewhat_larger_than_those_that_miss_some_cycles_by_little_are_searched() -> None:
    some = figures((16000, 1020), (32000, 1007), (48000, 1001), (64000, 900))
    assert beyond(some, [1000]) == (32064, 32320, 32640, 48096, 48480, 48960)
    # None of those that are not smaller than what is known to meet them, and none where nothing does.
    assert beyond(figures((32000, 1007), (32320, 990)), [1000]) == (32064,)
    assert beyond(figures((32000, 1007)), [1000]) == ()


def test_arenas_some_per_cent_smaller_than_the_one_that_meets_some_cycles_are_searched() -> None:
    some = figures((16000, 2000), (32000, 900))
    assert below(some, [1000]) == (29008, 30000, 31008)
    assert below(figures((31500, 2000), (32000, 900)), [1000]) == ()
    assert beside(some, [1000]) == below(some, [1000])


def test_what_answers_a_budget_is_changed_first_then_what_nearly_meets_a_target_then_both_ends() -> None:
    a, b, c, d, e = points = figures((10, 5000), (20, 4000), (30, 3000), (40, 2990), (50, 1000))
    assert _worth_changes(points, (), ()) == (a, e, b, d, c)
    assert _worth_changes(points, (25, 60), (2980,)) == (e, b, c, d, a)
