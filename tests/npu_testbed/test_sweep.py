"""A sweep: every combination once, whatever does the work and whatever interrupts it, and its answers are those of `schedule`."""

from __future__ import annotations

import csv
import json
import os
import signal
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from asked_for import points, schedule
from command_line import call, refusal
from hypothesis import given, settings
from hypothesis import strategies as st

import npu_testbed
from cascader.ethosu.search.request import Request
from cascader.frontends.vela import compile_network
from npu_model.errors import InputError
from npu_testbed.asked.ask import OneSearch
from npu_testbed.asked.axes import axes
from npu_testbed.asked.option import declared
from npu_testbed.comparisons.sweeps import Answer, Result, run, sweep
from npu_testbed.comparisons.sweeps.cluster import Cluster, distributed
from npu_testbed.comparisons.sweeps.points import key_of_point, macs_of
from npu_testbed.comparisons.sweeps.sweep_tables import best_table, deadline_table, enough
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.settings import with_setting
from npu_testbed.replays.simulation import simulate_schedule
from npu_testbed.views.sweep_plot import COLOURS, sweep_svg
from validation.zoo import build

MODEL = "zoo:tiny_conv"


def space(
    *budgets: int | None,
    accelerators: Sequence[str] = ("ethos-u55-128",),
    values: Sequence[str] = (),
    optimise: str = "Performance",
) -> tuple[Request, ...]:
    return points([MODEL], accelerator_config=accelerators, set=values, arena_cache_size=budgets, optimise=optimise)


def test_every_combination_is_a_point() -> None:
    found = points(
        [MODEL, "zoo:tiny_residual"],
        accelerator_config=("ethos-u55-32", "ethos-u55-256"),
        timing_adapter=("u55_high_end", "off"),
        set=["clock_hz=1,2,3"],
        arena_cache_size=(None, 9000),
    )
    assert len(found) == len(set(found)) == len({key_of_point(point) for point in found}) == 2 * 2 * 2 * 3 * 2


def test_an_answer_is_that_of_schedule() -> None:
    (result,) = sweep(space(6000), processes=1)
    plan = schedule(MODEL, budget=6000, processes=1)
    assert (result.answer.arena_bytes, result.answer.cycles) == (plan.arena_size, simulate_schedule(plan).replay.cycles)


def test_set_takes_every_option_that_changes_an_answer_and_is_not_listed_by_an_option_of_its_own() -> None:
    fields = {one.name for one in declared(OneSearch) if not one.is_switch}
    listed = {"accelerator_config", "arena_cache_size", "chip", "timing_adapter", "system_config", "memory_mode", "config", "set"}
    of_no_answer = {"progress", "jobs", "deadline", "vela_timeout", "input_shape", "layout"}
    assert set(axes()) == (fields | {"optimise"}) - listed - of_no_answer


def test_each_value_of_an_option_is_a_point_and_its_answer_that_of_schedule() -> None:
    found = sweep(points([MODEL], set=["effort=quick,standard", "home=input=ext,none", "ext.read_latency=64"]), processes=1)
    assert [result.point.names.settings for result in found] == [
        (("effort", effort), ("home", home), ("ext.read_latency", "64"))
        for effort in ("quick", "standard")
        for home in ("input=ext", "none")
    ]
    for result in found:
        said = {name: value for name, value in result.point.names.settings if value != "none" and name in ("effort", "home")}
        made = npu_testbed.schedule(MODEL, set="ext.read_latency=64", no_advice=True, jobs=1, **said)
        assert (result.answer.arena_bytes, result.answer.cycles) == (made.arena_bytes, made.cycles)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--set", "efort=quick"), "did you mean effort?"),
        (("--set", "effort=quik"), "did you mean quick?"),
        (("--set", "effort=quick,"), "has an empty value: write effort=VALUE,VALUE."),
        (("--set", "within=x"), "'x' is not a percentage"),
        (("--set", "effort=quick", "--set", "effort=standard"), "given twice with the same key"),
        (("--set", "effort=quick", "--effort", "quick"), "--effort cannot be combined with --set effort: give all of its values to --set."),
        (("--set", "jobs=1,2"), "is not a parameter with a value"),
        (("--set", "spill=nowhere"), "nowhere"),
    ],
)
def test_a_wrong_axis_is_one_sentence_before_any_work(words: tuple[str, ...], sentence: str) -> None:
    assert sentence in refusal("sweep", MODEL, *words)


def test_a_budget_that_cannot_be_met_is_an_answer_with_the_smallest_that_can() -> None:
    below, reached = sweep(space(100, 2048), processes=1)
    assert "is below 2048 bytes, which every schedule needs at once for the inputs" in below.answer.refused
    assert "are the smallest arena reached" in reached.answer.refused


def test_a_sweep_without_any_schedule_does_not_pass(tmp_path: Path) -> None:
    (tmp_path / "n_vela.tflite").write_bytes(compile_network(build("tiny_conv")).compiled)
    for model, budgets, status in ((MODEL, "16", 1), (MODEL, "16,none", 0), (tmp_path / "n_vela.tflite", "none", 1)):
        said = call("sweep", model, "--arena-cache-size", budgets, "--effort", "quick", "--jobs", 1)
        assert (said.status, said.errors) == (status, "")


@pytest.mark.parametrize(("optimise", "expected"), [("Performance", [70, 60, 60, 0, 60]), ("Size", [70, 70, 70, 0, 70])])
def test_a_larger_budget_is_never_worse_than_a_smaller_one(optimise: str, expected: list[int]) -> None:
    """Budgets in any order, the last but one too small for any schedule; another accelerator hands nothing on."""
    some = space(100, 300, None, 10, 200, optimise=optimise)
    (other,) = space(400, accelerators=["ethos-u55-256"], optimise=optimise)
    answers = [Answer(90, 70), Answer(250, 80), Answer(260, 65), Answer(refused="It is too small."), Answer(150, 60)]
    results = run.handed_on([*map(Result, some, answers), Result(other, Answer(350, 90))])
    assert [result.point for result in results] == [*some, other]
    assert [result.answer.cycles for result in results] == [*expected, 90]
    assert all(one.answer.arena_bytes <= (one.point.budget or 1000) for one in results)


@settings(max_examples=5)
@given(st.lists(st.integers(2_500, 9_000), min_size=1, max_size=3, unique=True))
def test_without_a_budget_no_answer_is_worse_than_with_any(some: list[int]) -> None:
    """The row "none" of a sweep, wherever it stands among the budgets."""
    asked = points([MODEL], arena_cache_size=(some[0], None, *some[1:]), effort="quick")
    answers = {result.point.budget: result.answer for result in sweep(asked, processes=1)}
    assert not answers[None].refused
    assert all(answers[None].cycles <= one.cycles for one in answers.values() if not one.refused)
    by_size = [answers[budget] for budget in sorted(some)]
    assert all(less.cycles >= more.cycles for less, more in pairwise(by_size) if not less.refused)


def test_a_slower_flash_is_never_better() -> None:
    results = sweep(space(6000, values=["ext.read_latency=0,64,1024"]), processes=1)
    cycles = [result.answer.cycles for result in results]
    assert cycles == sorted(cycles)
    assert cycles[0] < cycles[-1]


def test_settings_change_the_memory_that_they_name_and_nothing_else() -> None:
    system = load_timing_adapter("u55_high_end")
    changed = with_setting(with_setting(system, ("ext.cycles_per_word", "7/2")), ("clock_hz", "1000"))
    assert changed.clock_hz == 1000
    assert changed.ports[0] == system.ports[0]
    assert changed.ports[1].cycles_per_word == Fraction(7, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ext.read_latency", "is not a parameter with a value"),
        ("ext.colour=1", "is not a parameter with a value"),
        ("ext.read_latency=", "is not a parameter with a value"),
        ("flash.read_latency=1", "does not have: it has 'sram' and 'ext'"),
        ("ext.read_latency=x", "give a number"),
        ("ext.read_latency=1e999999999", "give a number"),
        ("ext.cycles_per_word=1E-99999999", "give a number"),
        ("ext.read_latency=1.5", "give an integer"),
        ("ext.read_latency=-1", "ranges from 0"),
        ("ext.cycles_per_word=1/0", "give a number"),
    ],
)
def test_a_wrong_setting_is_refused_before_any_work(text: str, words: str) -> None:
    assert words in refusal("sweep", MODEL, "--set", text)


def test_options_that_contradict_are_refused() -> None:
    assert "all of its values at once" in refusal("sweep", MODEL, "--set", "clock_hz=1", "--set", "clock_hz=2")
    assert "its own workers" in refusal("sweep", MODEL, "--distributed", "tcp://localhost:1", "--jobs", 2)
    assert "where the workers run" in refusal("sweep", MODEL, "--distributed", "tcp://localhost:1", "--vela-timeout", 2)
    assert "drop one" in refusal("sweep", MODEL, "--json", "--deadline", 2)
    assert "unknown" in refusal("sweep", MODEL, "--accelerator-config", "ethos-u55-100")
    assert "not a number of bytes" in refusal("sweep", MODEL, "--arena-cache-size", "9000,many")
    assert "an integer from 1 to 1099511627776" in refusal("sweep", MODEL, "--arena-cache-size", 1 << 64)


class StoppedError(Exception):
    pass


def test_an_interrupted_sweep_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = space(6000, 7000, None)
    asked: list[Request] = []
    work = run.answer_of

    def counted(point: Request) -> Answer:
        if len(asked) == 2:
            raise StoppedError
        asked.append(point)
        return work(point)

    monkeypatch.setattr(run, "answer_of", counted)
    with pytest.raises(StoppedError):
        sweep(points, results=tmp_path, processes=1)
    assert sorted(path.name for path in tmp_path.glob("*.json")) == sorted(f"{key_of_point(point)}.json" for point in asked)
    damaged = tmp_path / f"{key_of_point(asked[0])}.json"
    damaged.write_text(damaged.read_text()[:-20])
    asked.clear()
    results = sweep(points, results=tmp_path, processes=1)
    assert len(asked) == 2
    monkeypatch.undo()
    assert results == sweep(points, results=tmp_path, processes=1) == sweep(points, processes=1)


def test_a_kept_answer_says_what_it_is_of(tmp_path: Path) -> None:
    (point,) = space(6000, values=["ext.read_latency=64"])
    sweep([point], results=tmp_path, processes=1)
    (path,) = tmp_path.glob("*.json")
    kept = json.loads(path.read_text())["value"]
    assert kept["point"]["settings"] == {"ext.read_latency": "64"}
    assert kept["point"]["budget_bytes"] == 6000
    assert kept["answer"]["arena_bytes"] <= 6000


def made(macs: int, arena: int, cycles: int, budget: int | None = None, refused: str = "") -> Result:
    (point,) = space(budget, accelerators=[f"ethos-u55-{macs}"])
    return Result(point, Answer(arena, cycles, 0, 0, "", refused))


def test_what_meets_a_deadline_is_not_beaten_in_macs_and_bytes() -> None:
    at = 500_000  # cycles of a millisecond
    results = [
        made(64, 9000, 2 * at),
        made(128, 9000, at),
        made(128, 20_000, at // 2),
        made(64, 20_000, at),
        made(32, 0, 0, 5, "too small"),
    ]
    assert [(macs_of(one.point), one.answer.arena_bytes) for one in enough(results, 1)] == [(128, 9000), (64, 20_000)]
    assert [(macs_of(one.point), one.answer.arena_bytes) for one in enough(results, 2)] == [(64, 9000)]
    assert deadline_table(results, 0.01).notes == ("No point takes 0.01 ms or less.",)


def test_the_fastest_within_a_budget_is_found() -> None:
    results = [
        made(64, 1000, 9, 5000),
        made(128, 2000, 5, 5000),
        made(256, 3000, 5, 5000),
        made(64, 9000, 4),
        made(32, 0, 0, 5, "too small"),
    ]
    assert [row[0] for row in best_table(results).rows] == ["ethos-u55-128", "ethos-u55-64"]


def test_what_all_points_have_in_common_is_said_once() -> None:
    table = best_table([made(64, 1000, 9), made(64, 2000, 5, 5000)])
    assert table.title == "The fastest within each budget: zoo:tiny_conv, ethos-u55-64, timing adapter u55_high_end"
    assert table.headers == ("budget bytes", "arena bytes", "cycles", "ms")


def test_a_picture_has_a_line_for_each_device_and_says_if_there_is_nothing_to_draw() -> None:
    picture = sweep_svg([made(64, 1000, 9), made(128, 2000, 5), made(128, 1500, 7)])
    assert picture.count("<circle") == 3
    assert "No point of this sweep" in sweep_svg([made(32, 0, 0, 5, "too small")])


def test_a_picture_of_several_networks_has_a_plot_for_each_with_the_same_colours(tmp_path: Path) -> None:
    picture = tmp_path / "s.svg"
    macs = ("--accelerator-config", "ethos-u55-64,ethos-u55-128")
    outcome = call("sweep", MODEL, "zoo:tiny_residual", *macs, "--results", tmp_path / "r", "--jobs", 1, "--plot", picture)
    assert outcome.status == 0, outcome
    text = picture.read_text(encoding="utf-8")
    first, second = text.partition(">zoo:tiny_residual<")[::2]
    assert ">zoo:tiny_conv<" in first
    assert [part.count("<circle") for part in (first, second)] == [2, 2]
    for colour in COLOURS[:2]:
        assert all(f'fill="{colour}"' in part for part in (first, second))
    # The legend is there once.
    assert text.count(">ethos-u55-64, timing adapter u55_high_end<") == 1


def test_the_command_writes_what_it_prints(tmp_path: Path) -> None:
    table, picture = tmp_path / "s.csv", tmp_path / "s.svg"
    words = ("sweep", MODEL, "--arena-cache-size", "100,6000", "--set", "ext.read_latency=64", "--results", tmp_path / "r", "--jobs", 1)
    outcome = call(*words, "--csv", table, "--plot", picture, "--deadline", 100)
    assert outcome.status == 0, outcome
    assert "The fastest within each budget" in outcome.output
    document = json.loads(call(*words, "--json").output)
    refused, met = csv.DictReader(table.read_text().splitlines())
    assert refused["cycles"] == ""
    assert "which every schedule needs" in refused["refused"]
    assert int(met["cycles"]) == document["points"][1]["cycles"]
    assert met["ext.read_latency"] == "64"
    assert f"{int(met['cycles']):,}" in outcome.output


@pytest.mark.usefixtures("every_search_runs")
def test_processes_answer_as_one_does() -> None:
    points = space(6000, None)
    assert sweep(points, processes=2) == sweep(points, processes=1)


def test_a_cluster_that_is_not_there_is_said_to_be_missing() -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: the extra 'distributed'")
    with pytest.raises(InputError, match="No Dask scheduler answers"), distributed(Cluster("no-address")):
        pass


def test_nothing_is_lost_with_a_worker_of_a_cluster_that_dies(tmp_path: Path) -> None:
    dask = pytest.importorskip("distributed", reason="Dask is not installed: the extra 'distributed'")
    points = space(5200, 6000, 7000, 8000, None)
    killed: list[int] = []
    with dask.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:

        def kill(_doing: str) -> None:
            if not killed:
                with dask.Client(cluster) as client:
                    killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        found = sweep(points, results=tmp_path, cluster=Cluster(cluster.scheduler_address), progress=kill)
    assert killed
    assert found == sweep(points, results=tmp_path, processes=1)
    assert len(list(tmp_path.glob("*.json"))) == len(points)


def test_a_replay_may_ask_what_another_memory_would_change(tmp_path: Path) -> None:
    plan = tmp_path / "s.json"
    call("schedule", MODEL, "--no-cascade", "-o", plan, "--no-advice")
    words = ("simulate", "schedule", plan, "--no-advice", "--json")
    before = json.loads(call(*words).output)
    after = json.loads(call(*words, "--set", "ext.read_latency=1000", "--set", "clock_hz=100000000").output)
    assert after["memory_system"]["name"] == f"{before['memory_system']['name']}, ext.read_latency 1000, clock_hz 100000000"
    assert after["summary"]["cycles"] > before["summary"]["cycles"]
    assert after["summary"]["milliseconds"] == pytest.approx(after["summary"]["cycles"] / 100_000)
    assert "try them all with `npu-testbed sweep`" in refusal("simulate", "vela", MODEL, "--set", "ext.read_latency=1,2")
    assert "give each once" in refusal("simulate", "vela", MODEL, "--set", "clock_hz=1", "--set", "clock_hz=2")
