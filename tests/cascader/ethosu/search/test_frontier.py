"""Frontiers: Pareto, as planned, bit-exact, and the choice under a budget."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from concurrent.futures import Executor, Future
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from asked_for import choose, system_said
from cascades import expected, outputs
from command_line import call, refusal
from msgspec.structs import replace
from schedule_drafts import draft_of
from scheduling import DEFAULT, network
from scheduling import schedule as layer_by_layer

from cascader.draft.draft import JOB, Draft, lines, table
from cascader.draft.drafter import DraftOptions
from cascader.draft.replayed_moves import copy_count, with_later_copies
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Provenance, Schedule
from cascader.ethosu.judge.replay import Replayer
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.search.cycle_targets import FEW, MISSED, ROOM, _Search, made_up, near_misses
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.frontier import _worth_changes, below, beside, beyond, closer, lower_bounds
from cascader.ethosu.search.limits import EVERYTHING
from cascader.ethosu.search.remote_calls import Share
from cascader.ethosu.search.replayed import Replayed
from cascader.ethosu.search.replays import GAIN, REACH, USUAL_REPLAYS, Effort, changed_by_replays, promising, within_reach
from cascader.ethosu.search.request import SIZE
from cascader.ethosu.search.search import SearchResult, explore, search
from cascader.ethosu.search.task import Progress, Replay, Task, silent
from cascader.ethosu.verify.check import check_schedule
from cascader.search.workers import workers
from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from npu_testbed.documents import schema_version
from npu_testbed.replays.scheduling import read_schedule
from npu_testbed.reports.frontier import frontier_json, frontier_text
from npu_testbed.searches.frontiers import Frontier, replayed_frontier
from npu_testbed.views.frontier_plot import frontier_svg
from sim import quick_cycles, replay_network

pytestmark = pytest.mark.law

SYSTEM = system_said()
NETWORKS = ("tiny_residual", "resnet8")
"""The smaller has every choice to itself; the larger has residual sums and weights that are worth staging."""


def task(name: str) -> Task:
    options = CascadeOptions(rungs=5, dense=0, drafts=DraftOptions(moves=60))
    return Task(network(name), DEFAULT, SYSTEM, Replayer(quick_cycles, SYSTEM), Provenance(model=f"zoo:{name}"), options)


@cache
def found(name: str) -> SearchResult:
    with workers(1) as executor:
        return search(explore(task(name), executor), EVERYTHING, executor)


@cache
def frontier(name: str) -> Frontier:
    with workers(1) as executor:
        return replayed_frontier(task(name), found(name), executor)


def form_of(schedule: Schedule) -> Form:
    """The form of resnet8 that a schedule is of."""
    return next(form for form in found("resnet8").explored.forms if form.network is schedule.network)


def replayed_points(name: str) -> list[Replayed]:
    """The points of a frontier as the search has them."""
    forms = ((form_of(point.schedule), point) for point in frontier(name).points)
    return [Replayed(form, replace(draft_of(point.schedule), form=form.rank.number), point.cycles) for form, point in forms]


@pytest.mark.parametrize("name", NETWORKS)
def test_more_memory_buys_fewer_cycles_at_every_point(name: str) -> None:
    points = frontier(name).points
    assert len(points) >= 3
    for smaller, larger in pairwise(points):
        assert smaller.memory < larger.memory
        assert smaller.cycles > larger.cycles


@pytest.mark.parametrize("name", NETWORKS)
def test_every_point_touches_exactly_the_bytes_that_were_planned(name: str) -> None:
    for point in frontier(name).points:
        check_schedule(point.schedule)
        replayed = replay_network(lower(point.schedule), SYSTEM)
        assert replayed.footprint.peak == point.schedule.arena_size == point.memory
        assert replayed.cycles == point.cycles


@pytest.mark.parametrize("name", NETWORKS)
def test_the_smallest_the_middle_and_the_fastest_point_compute_the_network_in_a_dirty_arena(name: str) -> None:
    points = frontier(name).points
    for point in (points[0], points[len(points) // 2], points[-1]):
        assert outputs(lower(point.schedule)) == expected(name)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_frontier_begins_at_its_lower_bound_or_above(name: str) -> None:
    bounds = frontier(name).bounds
    assert bounds.any_schedule <= bounds.this_search <= frontier(name).points[0].memory


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
        for again, count in ((replace(search, target=search.target - 1), once), (replace(search, known={}), 2 * once)):
            same = again.at(point.memory, 5)
            assert same is not None
            assert (same.draft, same.cycles) == (found.draft, found.cycles)
            assert len(replays) == count


def test_no_copy_of_a_near_miss_is_tried_once_its_cycles_are_met() -> None:
    replays = list[int]()

    def judge(_network: CompiledNetwork) -> int:
        replays.append(point.cycles - len(replays))
        return replays[-1]

    with workers(1) as executor:
        search, point = _searched(2, judge, executor)
        assert search.later(point).cycles == search.target
    assert len(replays) == 3


def test_near_misses_are_the_smallest_points_that_miss_by_little_and_are_smaller_than_what_does_not() -> None:
    line = ((100, 1003), (200, 1001), (210, 1001), (220, 1000), (300, 900))
    points = figures(*line)
    assert [point.memory for point in near_misses(points, 1000)] == [200, 210]
    assert [point.memory for point in near_misses(points, 1002)] == [100]
    assert near_misses(points, 990) == near_misses(points, 899) == ()
    assert len(near_misses(points[:1] * 5, 1002)) == FEW


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


def test_the_arena_holds_the_larger_of_all_inputs_and_all_outputs() -> None:
    net = network("resnet8")
    assert lower_bounds(net, 0).any_schedule == 32 * 32 * 3
    doubled = replace(net, outputs=tuple(replace(net.outputs[0], offset=i * net.outputs[0].size) for i in range(400)))
    assert lower_bounds(doubled, 0).any_schedule == 400 * net.outputs[0].size


def test_cascading_needs_less_and_is_faster_than_layer_by_layer() -> None:
    whole = layer_by_layer("resnet8")
    cycles = replay_network(lower(whole), SYSTEM).cycles
    points = frontier("resnet8").points
    assert points[0].memory * 2 < whole.arena_size
    assert any(point.memory <= whole.arena_size and point.cycles < cycles for point in points)


def plain(memory: int, cycles: int) -> Draft:
    return replace(draft_of(layer_by_layer("tiny_conv")), memory=memory, cycles=cycles)


@pytest.mark.parametrize("name", NETWORKS)
def test_of_a_small_network_every_schedule_is_replayed_and_of_any_what_is_expected_to_save_cycles(name: str) -> None:
    everything = found(name).drafts
    assert len(promising(everything)) == len(everything)
    kept = promising(everything, effort=0)
    assert len(kept) < len(everything)
    for each in everything:
        assert any(c.memory <= each.memory and c.cycles * (1 - GAIN) <= each.cycles for c in kept)


def test_what_saves_too_little_or_nothing_is_replayed_while_the_effort_lasts() -> None:
    a, b, c, d = plain(10, 1000), plain(20, 991), plain(20, 1300), plain(30, 980)
    assert promising((d, c, b, a), gain=0.01, effort=0) == (a, d)
    assert promising((d, c, b, a), gain=0.01, effort=2971) == (a, b, d)
    assert promising((d, c, b, a), gain=0.01, effort=4271) == (a, b, c, d)


def striped(memory: int, cycles: int) -> Draft:
    jobs = lines(plain(memory, cycles).jobs, JOB).tolist()
    return replace(plain(memory, cycles), jobs=table([*jobs, *jobs], JOB))


def test_what_promises_to_be_much_slower_than_what_needs_no_more_is_not_replayed_whatever_the_effort() -> None:
    a, b, c, smaller = striped(10, 1000), striped(20, 1039), striped(20, 1041), striped(9, 1041)
    assert promising((c, b, a)) == (a, b, c)
    assert promising((c, b, a), reach=REACH) == (a, b)
    assert within_reach((c, b, smaller), (a, b, c, smaller)) == (b, smaller)


def figures(*some: tuple[int, int]) -> tuple[Replayed, ...]:
    """Replayed drafts of so many bytes and cycles; nothing is asked of their form."""
    return tuple(Replayed(cast(Form, None), plain(memory, cycles), cycles) for memory, cycles in some)


@pytest.mark.parametrize(("cycles", "count"), [(100, 50), (1_000, 5), (1_000_000, 5)])
def test_of_small_networks_more_points_are_changed_by_replays_in_as_much_time(cycles: int, count: int) -> None:
    points = figures(*((memory, cycles) for memory in range(1, 100)))
    assert Effort(1_000 * USUAL_REPLAYS, 5).affordable(points) == points[:count]
    assert Effort(1, 0).affordable(points) == points[:1]


class AtOnce(Executor):
    """Answers each change at once: a draft takes a tenth fewer cycles for each of its turns, in the order of ``gains``."""

    def __init__(self, gains: dict[int, int]) -> None:
        self.gains, self.asked = gains, list[tuple[int, int]]()

    def submit(
        self, _function: object, _form: object, draft: Draft, cycles: int, _judge: object, share: Share
    ) -> Future[tuple[Draft, int]]:  # type: ignore[override]
        self.asked.append((draft.memory, share.before))
        found: Future[tuple[Draft, int]] = Future()
        found.set_result((draft, cycles - self.gains[draft.memory]))
        return found


def test_drafts_compete_for_the_replays_of_their_changes() -> None:
    executor = AtOnce({1: 0, 2: 5, 3: 50, 4: 1})
    found = changed_by_replays(
        figures((1, 900), (2, 1000), (3, 1010), (4, 1020)), cast(Replay, None), executor, effort=Effort(10_000, 40, 3)
    )
    assert executor.asked == [(1, 0), (2, 0), (3, 0), (4, 0), (1, 5_000), (3, 5_000), (1, 10_000)]
    assert [(one.memory, one.cycles) for one in found] == [(2, 995), (3, 960), (4, 1019), (3, 910)]


def test_what_answers_a_budget_is_changed_first_then_what_nearly_meets_a_target_then_both_ends() -> None:
    a, b, c, d, e = points = figures((10, 5000), (20, 4000), (30, 3000), (40, 2990), (50, 1000))
    assert _worth_changes(points, (), ()) == (a, e, b, d, c)
    assert _worth_changes(points, (25, 60), (2980,)) == (e, b, c, d, a)


def test_the_network_layer_by_layer_is_replayed_whatever_is_expected_of_it() -> None:
    a, whole = striped(10, 1000), plain(20, 1170)
    assert promising((whole, a), reach=REACH) == (a, whole)
    assert within_reach((whole,), (a, whole)) == (whole,)


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


def test_the_command_writes_the_frontier_its_picture_and_its_schedules(tmp_path: Path) -> None:
    table, plot, folder = tmp_path / "f.json", tmp_path / "f.svg", tmp_path / "points"
    outcome = call("frontier", "zoo:tiny_residual", "--rungs", "3", "-o", table, "--plot", plot, "--schedules", folder)
    assert outcome.status == 0, outcome
    document = json.loads(table.read_text())
    assert document["schema"] == schema_version("frontier")
    assert document["tools"]["npu-testbed"] == document["version"]
    assert len(document["model_sha256"]) == len(document["memory_system"]["sha256"]) == 64
    assert ET.parse(plot).getroot().tag.endswith("svg")
    files = sorted(folder.iterdir())
    assert len(files) == len(document["points"]) >= 2
    for point in document["points"]:
        path = folder / f"tiny_residual_{point['memory_bytes']:010d}.json"
        assert json.loads(path.read_text())["digest"] == point["schedule_sha256"]
        summary = json.loads(call("simulate", "schedule", path, "--json").output)["summary"]
        assert (summary["peak_bytes"], summary["cycles"]) == (point["memory_bytes"], point["cycles"])
        assert f"{point['memory_bytes']:,}" in outcome.output


def test_processes_and_the_hash_seed_change_nothing(tmp_path: Path) -> None:
    seen = set()
    for jobs, seed in (("1", "1"), ("2", "2")):
        path = tmp_path / f"{jobs}.json"
        command = [sys.executable, "-m", "npu_testbed", "frontier", "zoo:tiny_residual", "--rungs", "2", "--jobs", jobs, "-o", str(path)]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PYTHONHASHSEED": seed}, cwd=Path(__file__).parents[4])
        seen.add(path.read_bytes())
    assert len(seen) == 1


def test_what_a_worker_refuses_is_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match="16 is the most"), workers(1) as executor:
        executor.submit(_refuse).result()


def _refuse() -> None:
    raise InputError("17 bytes were asked for: 16 is the most; ask for fewer.")


def test_a_picture_has_every_point_and_the_bound() -> None:
    picture = frontier_svg(frontier("resnet8"))
    for point in frontier("resnet8").points:
        assert f"{point.memory:,} bytes, {point.cycles:,} cycles" in picture
    assert "lower bound" in picture
    assert "KiB" in picture


def test_tables_name_staged_bytes_groups_and_the_bound() -> None:
    result = frontier("resnet8")
    text, document = frontier_text(result), frontier_json(result)
    assert f"{result.bounds.this_search:,} bytes" in text
    assert any(point.staged_bytes > 0 for point in result.points)
    assert all(1 <= point.groups <= len(point.schedule.network.graph.parts) <= point.jobs for point in result.points)
    assert [point.memory_bytes for point in document.points] == [point.memory for point in result.points]


def test_the_parts_of_a_cascade_are_one_group_and_single_layers_are_groups_of_their_own() -> None:
    point = frontier("tiny_residual").points[0]
    whole = replace(point, schedule=layer_by_layer("tiny_residual"))
    assert whole.groups == len(network("tiny_residual").graph.parts)
    assert point.groups < whole.groups


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
