"""Comparisons with Vela: what is taken from which point, the sweep, and what is called faster."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from functools import cache

import pytest
from command_line import refusal
from scheduling import schedule as layer_by_layer

from npu_model.errors import InputError
from testbed import compare as module
from testbed.compare import Comparison, compare, cycles_verdict, sweep_sizes
from testbed.compare_report import comparison_json, comparison_text
from testbed.compare_summary import Row, Summary, summary_table
from testbed.frontier import Frontier, FrontierPoint, LowerBounds
from testbed.pipeline import VelaOptions, simulate_vela
from testbed.vela_points import VelaFailure, VelaPoint, VelaRun, VelaTask, vela_points
from testbed.views.frontier_plot import comparison_svg
from testbed.workers import workers

MODEL = "zoo:tiny_residual"


@cache
def comparison() -> Comparison:
    return compare(MODEL, rungs=3, processes=1)


def point(memory: int, cycles: int) -> FrontierPoint:
    return FrontierPoint(memory, cycles, cycles, layer_by_layer("tiny_conv"))


def frontier(*points: FrontierPoint) -> Frontier:
    return Frontier("m", "", "ethos-u55-128", "s", "", 500_000_000, (), points, LowerBounds(1, 2), 3, 3)


def vela(optimise: str, memory: int, cycles: int, size: int | None = None, core: str = "C++") -> VelaPoint:
    return VelaPoint(VelaRun(core, optimise, size), memory, cycles)


def test_each_answer_is_the_best_point_that_meets_its_condition() -> None:
    ours = frontier(point(100, 900), point(200, 500), point(300, 400), point(400, 300))
    size, performance = vela("Size", 250, 500), vela("Performance", 390, 400)
    found = {answer.condition: answer for answer in module.answers(ours, size, performance)}
    at_size, smallest = found["at Vela Size's cycles or fewer"], found["smallest"]
    at_cycles, at_bytes = found["at Vela Performance's cycles or fewer"], found["at Vela Performance's bytes or fewer"]
    assert [a.ours.memory if a.ours else None for a in (at_size, smallest, at_cycles, at_bytes)] == [200, 100, 300, 300]
    assert at_size.memory_ratio == 200 / 250
    assert smallest.cycles_ratio == 900 / 500
    assert at_bytes.cycles_ratio == 1.0


def test_where_no_point_of_ours_meets_a_condition_none_is_claimed() -> None:
    ours = frontier(point(100, 900))
    found = module.answers(ours, vela("Size", 50, 800), vela("Performance", 90, 700))
    assert [answer.ours is None for answer in found] == [True, False, True, True]
    assert found[0].memory_ratio is None


def test_a_difference_below_three_per_cent_is_no_win() -> None:
    assert [cycles_verdict(ratio) for ratio in (0.969, 0.971, 1.0, 1.029, 1.031)] == ["ours", "even", "even", "even", "Vela"]


def test_a_sweep_has_eight_sizes_from_our_smallest_to_velas_fastest() -> None:
    sizes = sweep_sizes(15_001, 51_840)
    assert len(sizes) == 8
    assert (sizes[0], sizes[-1]) == (15_008, 51_840)
    assert all(size % 16 == 0 for size in sizes)
    assert sweep_sizes(2000, 1000) == (2000,)
    assert sweep_sizes(16, 48) == (16, 32, 48)


def test_the_better_core_is_the_smaller_for_size_and_the_faster_for_performance() -> None:
    tried = [
        vela("Size", 100, 50),
        vela("Size", 90, 60, core="Python"),
        vela("Performance", 300, 30),
        vela("Performance", 200, 40, core="Python"),
    ]
    assert module._best(tried, "Size").memory == 90
    assert module._best(tried, "Performance").cycles == 30


def test_at_an_arena_size_the_core_that_fits_counts_and_else_the_one_that_overflows_least() -> None:
    tried = [vela("Performance", 120, 10, 100), vela("Performance", 99, 20, 100, "Python"), vela("Performance", 130, 5, 80)]
    at_100, at_80 = module._best_at(tried, 100), module._best_at(tried, 80)
    assert at_100 is not None
    assert (at_100.memory, at_100.overflows) == (99, False)
    assert at_80 is not None
    assert at_80.overflows
    assert module._best_at(tried, 60) is None


def test_velas_points_are_what_simulate_vela_replays() -> None:
    for optimise in ("Size", "Performance"):
        (ours,) = (p for p in comparison().points if p.run == VelaRun("C++", optimise))
        replay = simulate_vela(MODEL, VelaOptions(optimise=optimise)).replay
        assert (ours.memory, ours.cycles) == (replay.footprint.peak, replay.cycles)


def test_both_cores_are_asked_for_everything() -> None:
    runs = [p.run for p in comparison().points] + [f.run for f in comparison().failures]
    assert len(runs) == 2 * (2 + len(comparison().sweep))
    assert sum(run.core == "Python" for run in runs) * 2 == len(runs)


def test_ours_fits_every_size_of_the_sweep_where_vela_is_never_faster_beyond_noise() -> None:
    for row in comparison().sweep:
        assert row.ours is not None
        assert row.ours.memory <= row.arena_cache_size
        assert row.cycles_ratio is None or cycles_verdict(row.cycles_ratio) != "Vela"


def test_a_compilation_that_fails_is_named_and_not_counted() -> None:
    task = VelaTask(
        b"no model", "ethos-u55-128", "Ethos_U55_High_End_Embedded", "Shared_Sram", None, module.MemoryOptions().memory_system()
    )
    with workers(1) as executor:
        points, failures = vela_points(task, [VelaRun("C++", "Size")], executor)
    assert points == ()
    assert isinstance(failures[0], VelaFailure)
    assert failures[0].reason.endswith(".")


def test_nothing_to_compare_with_is_an_error_of_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = VelaFailure(VelaRun("C++", "Size"), "It crashed.")
    monkeypatch.setattr(module, "vela_points", lambda *_: ((), (failure,)))
    with pytest.raises(InputError, match="It crashed"):
        compare(MODEL, rungs=2, processes=1)


def test_the_tables_say_what_is_noise_and_what_overflows() -> None:
    text = comparison_text(comparison())
    assert "less than 3% are called even" in text
    for optimise in ("Size", "Performance"):
        assert f"Vela {optimise}, Python core" in text
    document = comparison_json(comparison())
    assert len(document["answers"]) == 4
    assert json.loads(json.dumps(document)) == document


def test_the_picture_shows_every_point_of_both() -> None:
    picture = comparison_svg(comparison())
    ET.fromstring(picture)
    for ours in comparison().frontier.points:
        assert f"{ours.memory:,} bytes, {ours.cycles:,} cycles" in picture
    for theirs in comparison().points:
        assert f"{theirs.run.core} core: {theirs.memory:,} bytes, {theirs.cycles:,} cycles" in picture


def test_vela_in_a_picture_needs_the_picture() -> None:
    assert "--plot" in refusal("frontier", MODEL, "--with-vela")


def test_a_summary_has_a_row_per_network_and_counts_what_has_no_answer() -> None:
    size, performance = vela("Size", 100, 500), vela("Performance", 400, 400)
    met = Row("a.tflite", size, performance, module.answers(frontier(point(50, 450), point(200, 200)), size, performance))
    unmet = Row("b", size, performance, module.answers(frontier(point(50, 900)), size, performance))
    table = summary_table([met, unmet])
    assert [row[0] for row in table.rows] == ["a", "b"]
    assert table.rows[0][3:] == ("50 (0.50)", "50 / 450", "200 (0.50)", "200 (0.500)")
    assert table.rows[1][3] == "none found"
    assert "0.500 by geometric mean over 1, worst 0.500; 1 of 2 networks have no such point" in table.notes[0]
    assert "1.061 by geometric mean over 2, worst 2.250." in table.notes[2]


def test_a_network_is_lost_unless_ours_needs_no_more_bytes_than_size_and_is_not_slower_in_performances_bytes() -> None:
    size, performance = vela("Size", 100, 500), vela("Performance", 200, 300)

    def lost(*points: FrontierPoint) -> tuple[str, ...]:
        row = Row("net", size, performance, module.answers(frontier(*points), size, performance))
        return Summary("ethos-u55-128", (row,)).lost()

    assert lost(point(100, 500), point(200, 303)) == ()
    assert lost(point(100, 500), point(200, 304)) == ("net",)
    assert lost(point(101, 500), point(200, 300)) == ("net",)
    assert lost(point(90, 501)) == ("net",)


def test_several_networks_have_one_summary_and_no_picture() -> None:
    assert "--plot" in refusal("compare", MODEL, MODEL, "--plot", "x.svg")
    assert "--markdown" in refusal("compare", MODEL, "--markdown", "--json")
