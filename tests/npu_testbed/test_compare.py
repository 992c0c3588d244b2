"""Comparisons with Vela: what is taken from which point, the sweep, and what is called faster."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from functools import cache

import pytest
from asked_for import compare, simulate_vela, system_said
from command_line import refusal
from msgspec.json import encode
from msgspec.structs import replace
from scheduling import schedule as layer_by_layer

from cascader.search.workers import workers
from npu_model.errors import InputError
from npu_model.memory.vela_names import DEFAULT_MEMORY_MODE, DEFAULT_SYSTEM_CONFIG
from npu_model.timing import DEFAULT_TIMING
from npu_testbed.comparisons import comparison as module
from npu_testbed.comparisons.comparison import Comparison, SweepRow, cycles_verdict, sweep_sizes
from npu_testbed.comparisons.comparison_tables import comparison_json, comparison_text
from npu_testbed.comparisons.summary import ComparisonSummary, summary_table, sweep_table
from npu_testbed.comparisons.vela_points import vela_points
from npu_testbed.comparisons.verdicts import Verdicts, verdicts
from npu_testbed.ground.failures import Failure
from npu_testbed.models.sources import load_model
from npu_testbed.replays import vela_runs
from npu_testbed.replays.vela_runs import VelaBatch, VelaFailure, VelaPoint, VelaRun, VelaTask
from npu_testbed.searches.frontiers import Frontier, FrontierPoint, LowerBounds
from npu_testbed.views.frontier_plot import comparison_svg
from sim import quick_cycles

MODEL = "zoo:tiny_residual"


@cache
def comparison() -> Comparison:
    return compare(MODEL, rungs=3, processes=1)


def point(memory: int, cycles: int) -> FrontierPoint:
    return FrontierPoint(memory, cycles, cycles, layer_by_layer("tiny_conv"))


def frontier(*points: FrontierPoint, name: str = "m") -> Frontier:
    return Frontier(name, "", "ethos-u55-128", "s", "", 500_000_000, (), points, LowerBounds(1, 2), 3, 3)


def vela(optimise: str, memory: int, cycles: int, size: int | None = None, core: str = "C++") -> VelaPoint:
    return VelaPoint(VelaRun(core, optimise, size), memory, cycles)


SIZE, PERFORMANCE = vela("Size", 100, 500), vela("Performance", 200, 300)


def compared(
    *points: FrontierPoint, swept: tuple[VelaPoint, ...] = (), sizes: tuple[int, ...] = (), name: str = "net.tflite"
) -> Comparison:
    """Ours beside Size (100 bytes, 500 cycles), Performance (200 bytes, 300 cycles) and what Vela made for some arena sizes."""
    ours = frontier(*points, name=name)
    rows = tuple(SweepRow(size, module._best_at(swept, size), ours.within(size)) for size in sizes)
    return Comparison(ours, (SIZE, PERFORMANCE, *swept), (), SIZE, PERFORMANCE, module.answers(ours, SIZE, PERFORMANCE), rows)


def judged(*points: FrontierPoint, swept: tuple[VelaPoint, ...] = (), sizes: tuple[int, ...] = ()) -> Verdicts:
    return verdicts(compared(*points, swept=swept, sizes=sizes))


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


def test_velas_points_are_what_the_engine_replays_of_its_schedules() -> None:
    for optimise in ("Size", "Performance"):
        (ours,) = (p for p in comparison().points if p.run == VelaRun("C++", optimise))
        simulation = simulate_vela(MODEL, optimise=optimise, engine="simpy")
        assert (ours.memory, ours.cycles) == (simulation.planned_bytes, simulation.replay.cycles)


def test_a_comparison_does_not_start_the_engine_whose_twin_is_equal_to_the_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> None:
        raise AssertionError("The engine was started.")

    monkeypatch.setattr("sim.engine.engine.run_engine", started)
    system = system_said()
    task = VelaTask(load_model("zoo:tiny_conv").data, "ethos-u55-128", DEFAULT_SYSTEM_CONFIG, DEFAULT_MEMORY_MODE, None, system)
    with workers(1) as executor:
        points, _ = vela_points(task, [VelaRun("C++", "Size")], executor)
    assert points[0].cycles > 0


def process_of(_batch: VelaBatch) -> int:
    return os.getpid()


def test_the_python_core_of_vela_has_a_process_of_its_own_which_the_other_core_leaves_to_it() -> None:
    system = system_said()
    task = VelaTask(b"", "ethos-u55-128", DEFAULT_SYSTEM_CONFIG, DEFAULT_MEMORY_MODE, None, system)
    python, other = (VelaBatch(task, (VelaRun(core, "Size"),)) for core in ("Python", "C++"))
    with workers(2) as executor:
        processes = {batch: {executor.submit(process_of, batch).result() for _ in range(3)} for batch in (python, other)}
    assert [len(found) for found in processes.values()] == [1, 1]
    assert processes[python] != processes[other]


def test_a_stream_that_comes_again_for_another_arena_size_is_replayed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    replays: list[int] = []

    def counted(*terms: object) -> int:
        replays.append(quick_cycles(*terms))  # type: ignore[arg-type]  # as they come
        return replays[-1]

    monkeypatch.setattr(vela_runs, "quick_cycles", counted)
    monkeypatch.setattr(vela_runs, "_KNOWN", {})
    system = system_said()
    task = VelaTask(load_model("zoo:tiny_conv").data, "ethos-u55-128", DEFAULT_SYSTEM_CONFIG, DEFAULT_MEMORY_MODE, None, system)
    runs = [VelaRun("C++", "Performance", size) for size in (1 << 18, 1 << 19)]
    with workers(1) as executor:
        points, _ = vela_points(task, runs, executor)
        assert [point.run for point in points] == runs
        assert [point.cycles for point in points] == replays * 2
        vela_points(replace(task, timing=replace(DEFAULT_TIMING, kernel_start_cycles=100)), runs, executor)
    assert len(replays) == 2
    assert replays[1] > replays[0]


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
    task = VelaTask(b"no model", "ethos-u55-128", "Ethos_U55_High_End_Embedded", "Shared_Sram", None, system_said())
    with workers(1) as executor:
        points, failures = vela_points(task, [VelaRun("C++", "Size")], executor)
    assert points == ()
    assert isinstance(failures[0], VelaFailure)
    assert failures[0].reason.endswith(".")


CRASHES = tuple(VelaFailure(VelaRun(core, optimise), "It crashed.") for optimise in ("Size", "Performance") for core in ("C++", "Python"))


def peers(*points: VelaPoint) -> Callable[..., tuple[tuple[VelaPoint, ...], tuple[VelaFailure, ...]]]:
    """Vela's points as far as they were asked for; all else of Vela's crashes."""

    def answer(_: object, runs: Sequence[VelaRun], *__: object, **___: object) -> tuple[tuple[VelaPoint, ...], tuple[VelaFailure, ...]]:
        there = {point.run: point for point in points}
        return tuple(there[run] for run in runs if run in there), tuple(VelaFailure(run, "It crashed.") for run in runs if run not in there)

    return answer


def test_where_both_cores_fail_the_comparison_is_our_frontier_with_one_line_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "vela_points", peers())
    found = compare(MODEL, rungs=2, processes=1)
    assert (found.size, found.performance, found.answers, found.sweep) == (None, None, (), ())
    assert found.failures == CRASHES
    assert found.chosen == found.frontier.points[-1]
    text = comparison_text(found)
    assert all(f"{point.memory:,}  {point.cycles:,}" in re.sub("  +", "  ", text) for point in found.frontier.points)
    assert [line for line in text.splitlines() if "crashed" in line] == [
        f"Vela Size, Vela Performance, {core} core: It crashed." for core in ("C++", "Python")
    ]
    document = comparison_json(found)
    assert (document.size, document.performance, document.answers, document.sweep) == (None, None, (), ())
    assert verdicts(found).passed


@pytest.mark.parametrize("robust", [False, True])
def test_where_one_strategy_fails_ours_is_compared_with_the_other(monkeypatch: pytest.MonkeyPatch, robust: bool) -> None:  # noqa: FBT001
    real = next(point for point in comparison().points if point.run == VelaRun("C++", "Size"))
    monkeypatch.setattr(module, "vela_points", peers(real))
    found = compare(MODEL, rungs=2, processes=1, robust=robust)
    assert (found.size, found.performance) == (real, None)
    assert [answer.condition for answer in found.answers] == ["at Vela Size's cycles or fewer", "smallest"]
    assert found.robust is None if not robust else len(found.robust or ()) == 2
    both = summary_table([found, comparison()])
    assert (both.rows[0][2], both.rows[0][5:]) == ("fails", ("-", "-"))
    assert both.rows[0][1] == f"{real.memory:,} / {real.cycles:,}"
    assert both.notes[4] == "zoo:tiny_residual: Vela Performance, C++ core: It crashed."
    assert "over 1," in both.notes[2]


def test_the_tables_say_what_is_noise_and_what_overflows() -> None:
    text = comparison_text(comparison())
    assert "less than 3% are called even" in text
    for optimise in ("Size", "Performance"):
        assert f"Vela {optimise}, Python core" in text
    assert len(comparison_json(comparison()).answers) == 4


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
    met = compared(point(50, 450), point(160, 150), name="a.tflite")
    unmet = compared(point(50, 900), name="b")
    table = summary_table([met, unmet])
    assert [row[0] for row in table.rows] == ["a", "b"]
    assert table.rows[0][3:] == ("50 (0.500)", "50 / 450", "160 (0.800)", "150 (0.500)")
    assert table.rows[1][3] == "none found"
    assert "0.500 by geometric mean over 1, worst 0.500; 1 of 2 networks have no such point" in table.notes[0]
    assert "1.225 by geometric mean over 2, worst 3.000." in table.notes[2]


def test_ours_is_worse_in_both_where_it_needs_more_bytes_at_sizes_cycles_and_more_cycles_in_performances_bytes() -> None:
    for points, more_bytes, more_cycles in (
        ((point(100, 500), point(200, 303)), False, False),
        ((point(101, 500), point(200, 303)), True, False),
        ((point(100, 500), point(200, 304)), False, True),
        ((point(101, 500), point(200, 304)), True, True),
        ((point(201, 501),), True, True),
        ((point(90, 501),), True, True),
    ):
        found = judged(*points)
        assert (found.more_bytes, found.more_cycles) == (more_bytes, more_cycles)
        assert (found.lost, found.worse_in_both) == (more_bytes or more_cycles, more_bytes and more_cycles)


def test_ours_matches_a_schedule_of_velas_in_its_bytes_and_a_hundredth_more_cycles() -> None:
    assert not judged(point(100, 505), point(200, 303)).gaps
    slower, larger = judged(point(99, 506), point(201, 303)).gaps
    assert (slower.vela, slower.closest) == (SIZE, point(99, 506))
    assert (larger.vela, larger.closest) == (PERFORMANCE, point(99, 506))
    (alone,) = judged(point(101, 100)).gaps
    assert (alone.vela, alone.closest) == (SIZE, None)


def test_a_schedule_of_velas_that_overflows_its_arena_is_to_be_matched_too_unless_another_of_its_own_beats_it() -> None:
    ours = (point(100, 500), point(150, 480), point(200, 300))
    assert not judged(*ours).gaps
    swept = vela("Performance", 140, 320, size=110)
    (gap,) = judged(*ours, swept=(swept,), sizes=(110,)).gaps
    assert (gap.vela, gap.closest) == (swept, ours[0])
    assert judged(*ours, swept=(swept, vela("Performance", 141, 320, size=140)), sizes=(110,)).gaps == (gap,)
    # That Vela has it does not fail a network: at its arena size Vela does not fit.
    assert judged(*ours, swept=(swept,), sizes=(110,)).passed


def test_ours_is_slower_at_an_arena_size_where_vela_fits_and_ours_does_not_or_takes_more_than_a_hundredth_more_cycles() -> None:
    ours = (point(90, 500), point(200, 300))
    swept = (
        vela("Performance", 80, 900, 80),  # ours does not fit
        vela("Performance", 95, 496, 96),  # 500 / 496 is less than 1.01
        vela("Performance", 95, 495, 112),  # and 500 / 495 more
        vela("Performance", 129, 1, 128),  # overflows
    )
    slower = judged(*ours, swept=swept, sizes=(80, 96, 112, 128, 144)).slower
    assert [row.arena_cache_size for row in slower] == [80, 112]


def test_the_sweeps_table_has_a_row_per_network_and_size_and_counts_those_at_which_ours_is_no_slower() -> None:
    swept = (
        vela("Performance", 144, 250, 80),
        vela("Performance", 96, 1000, 96),
        vela("Performance", 110, 400, 112),
    )
    one = compared(point(70, 900), point(100, 500), point(200, 300), swept=swept, sizes=(80, 96, 112, 128), name="one.tflite")
    two = compared(point(70, 500), point(110, 200), swept=swept, sizes=(64, 112), name="two")
    table = sweep_table([one, two])
    assert table.rows == (
        ("one", "80", "144 overflows", "70 / 900", "-"),
        ("one", "96", "96 / 1,000", "70 / 900", "0.900"),
        ("one", "112", "110 / 400", "100 / 500", "1.250"),
        ("one", "128", "fails", "100 / 500", "-"),
        ("two", "64", "fails", "70 at least", "-"),
        ("two", "112", "110 / 400", "110 / 200", "0.500"),
    )
    assert table.notes == (
        "At 2 of 3 sizes that Vela fits ours takes at most 1.01 of its cycles, 0.825 by geometric mean; worst one at 112 bytes (1.250).",
        "Ours is slower at 1: one at 112 bytes (1.250).",
        "Sizes that Vela overflows: 1, of which ours fits 1.",
        "Sizes at which Vela fails on both of its cores: 2.",
    )


def test_a_sweep_says_where_vela_fits_and_ours_does_not() -> None:
    table = sweep_table([compared(point(100, 500), swept=(vela("Performance", 80, 900, 80),), sizes=(80,), name="n")])
    assert table.rows == (("n", "80", "80 / 900", "100 at least", "-"),)
    assert table.notes[1] == "Ours is slower at 1: n at 80 bytes (does not fit)."


def test_a_summary_passes_if_it_has_networks_no_verdict_is_against_ours_and_none_failed() -> None:
    good, failure = compared(point(100, 500), point(200, 300)), Failure("x", "ethos-u55-128", "The comparison", InputError("It broke."))
    assert ComparisonSummary("ethos-u55-128", "s", (good,)).passed
    assert not ComparisonSummary("ethos-u55-128", "s", ()).passed
    assert not ComparisonSummary("ethos-u55-128", "s", (good,), (failure,)).passed
    for bad in (
        compared(point(90, 501), point(200, 300)),
        compared(point(100, 500), point(201, 300)),
        compared(point(100, 500), point(200, 300), swept=(vela("Performance", 95, 490, 96),), sizes=(96,)),
    ):
        assert not ComparisonSummary("ethos-u55-128", "s", (good, bad)).passed


def test_a_summary_names_the_networks_and_schedules_of_its_verdicts() -> None:
    lost = compared(point(99, 600), point(150, 303), name="lost.tflite")
    both = compared(point(101, 506), point(201, 300), name="both")
    fine = compared(point(100, 500), point(200, 300), name="fine")
    error = Failure("odd", "ethos-u55-128", "The comparison", KeyError("x"))
    summary = ComparisonSummary("ethos-u55-128", "s", (lost, both, fine), (error,))
    ahead, unmatched, failed = summary.tables()[0].notes[-3:]
    assert ahead == "Vela is ahead, in bytes at Size's cycles or in cycles in Performance's bytes, on lost, both; in both, on both."
    assert unmatched == (
        "Schedules of Vela's that ours does not match in their bytes and 1.01 of their cycles: "
        "lost (Vela Size, C++ core, 100 / 500; ours 99 / 600), both (Vela Size, C++ core, 100 / 500; each of ours needs more bytes), "
        "both (Vela Performance, C++ core, 200 / 300; ours 101 / 506)."
    )
    assert failed == "The comparison of odd on ethos-u55-128 failed: Internal error KeyError: 'x'."
    document = json.loads(encode(summary.to_json()))
    assert (document["lost"], document["worse_in_both"], document["slower_at_a_size"]) == (["lost.tflite", "both"], ["both"], [])
    assert [failure["reason"] for failure in document["failures"]] == ["Internal error KeyError: 'x'."]
    assert document["passed"] is False
    assert ComparisonSummary("ethos-u55-128", "s", (fine,)).tables()[0].notes[-2:] == (
        "Vela is ahead, in bytes at Size's cycles or in cycles in Performance's bytes, on none; in both, on none.",
        "Schedules of Vela's that ours does not match in their bytes and 1.01 of their cycles: none.",
    )


def test_the_document_of_a_comparison_holds_all_that_the_tables_show() -> None:
    """So that tables can be made of several documents of single networks."""
    document = json.loads(encode(comparison_json(comparison())))
    whole = summary_table([comparison()]).rows[0]
    by_condition = {answer["condition"]: answer for answer in document["answers"]}
    at_bytes = by_condition["at Vela Performance's bytes or fewer"]
    assert whole[1] == f"{document['vela_size']['memory_bytes']:,} / {document['vela_size']['cycles']:,}"
    assert whole[6] == f"{at_bytes['ours']['cycles']:,} ({at_bytes['cycles_ratio']:.3f})"
    for row, cells in zip(document["sweep"], sweep_table([comparison()]).rows, strict=True):
        ratio = "-" if row["cycles_ratio"] is None else f"{row['cycles_ratio']:.3f}"
        assert cells[1] == f"{row['arena_cache_size']:,}"
        assert cells[3:] == (f"{row['ours']['memory_bytes']:,} / {row['ours']['cycles']:,}", ratio)
        assert ("overflows" in cells[2]) is row["vela"]["overflows"]
    expected = verdicts(comparison())
    assert document["verdicts"]["passed"] is expected.passed
    assert document["verdicts"]["slower_at"] == [row.arena_cache_size for row in expected.slower]


def test_several_networks_have_one_summary_and_no_picture() -> None:
    assert "--plot" in refusal("compare", MODEL, MODEL, "--plot", "x.svg")
    assert "--markdown" in refusal("compare", MODEL, "--markdown", "--json")
