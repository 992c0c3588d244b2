"""Frontiers: Pareto, as planned, bit-exact, of what is worth a replay; and as commands and pictures show them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from concurrent.futures import Executor, Future
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from cascades import expected, outputs
from command_line import call
from frontiers_found import NETWORKS, SYSTEM, figures, found, frontier, plain, striped
from msgspec.structs import replace
from scheduling import network
from scheduling import schedule as layer_by_layer

from cascader.draft.draft import Draft
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.search.frontier import lower_bounds
from cascader.ethosu.search.remote_calls import Share
from cascader.ethosu.search.replays import GAIN, QUICK_EFFORT, REACH, USUAL_REPLAYS, Effort, changed_by_replays, promising, within_reach
from cascader.ethosu.search.task import Replay
from cascader.ethosu.verify.check import check_schedule
from cascader.search.workers import workers
from npu_model.errors import InputError
from npu_testbed.documents import schema_version
from npu_testbed.reports.frontier import frontier_json, frontier_text
from npu_testbed.views.frontier_plot import frontier_svg
from sim import replay_network

pytestmark = pytest.mark.law


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


def test_what_promises_to_be_much_slower_than_what_needs_no_more_is_not_replayed_whatever_the_effort() -> None:
    a, b, c, smaller = striped(10, 1000), striped(20, 1039), striped(20, 1041), striped(9, 1041)
    assert promising((c, b, a)) == (a, b, c)
    assert promising((c, b, a), reach=REACH) == (a, b)
    assert within_reach((c, b, smaller), (a, b, c, smaller)) == (b, smaller)


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
    assert executor.asked == [(1, 0), (2, 0), (3, 0), (4, 0), (1, 5_000), (3, 5_000), (1, 10_000), (3, 10_000)]
    assert [(one.memory, one.cycles) for one in found] == [(2, 995), (3, 960), (4, 1019), (3, 910), (3, 860)]


@pytest.mark.parametrize(("gain", "turns"), [(50, 4), (0, 2)])
def test_the_last_two_drafts_go_on_while_one_of_them_gains(gain: int, turns: int) -> None:
    """Where changes end early, starts from other rooms end apart, and more room may look worse."""
    executor = AtOnce({1: 0, 2: gain})
    changed_by_replays(figures((1, 900), (2, 1000)), cast(Replay, None), executor, effort=replace(QUICK_EFFORT, cycles=10_000, drafts=2))
    assert [memory for memory, _ in executor.asked].count(2) == turns
    assert max(before for _, before in executor.asked) == (turns - 1) * 5_000


def test_the_network_layer_by_layer_is_replayed_whatever_is_expected_of_it() -> None:
    a, whole = striped(10, 1000), plain(20, 1170)
    assert promising((whole, a), reach=REACH) == (a, whole)
    assert within_reach((whole,), (a, whole)) == (whole,)


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
    assert [point.memory for point in document.points] == [point.memory for point in result.points]


def test_the_parts_of_a_cascade_are_one_group_and_single_layers_are_groups_of_their_own() -> None:
    point = frontier("tiny_residual").points[0]
    whole = replace(point, schedule=layer_by_layer("tiny_residual"))
    assert whole.groups == len(network("tiny_residual").graph.parts)
    assert point.groups < whole.groups
