"""Two schedules beside each other, layer by layer, and a schedule held to a budget or to what it was."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest
from asked_for import replayed
from command_line import call, refusal
from msgspec.structs import replace

from cascader.frontends.vela import CompilerOptions, compile_network, compiler, direct
from npu_model.program import DmaOperation, KernelOperation
from npu_testbed.differences.bars import bars, read_baseline
from npu_testbed.differences.difference_tables import moved_layers
from npu_testbed.differences.layers import beside
from npu_testbed.replays.program_files import export_files, write_files
from npu_testbed.replays.simulation import Simulation
from validation.zoo import build

MODEL = "zoo:ds_cnn"


ON_128 = ("--accelerator-config", "ethos-u55-128", "--effort", "quick", "--jobs", "1")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "s.json"
    assert call("schedule", MODEL, "--no-cascade", "-o", path).status == 0
    return path


@pytest.fixture(scope="module")
def baseline(plan: Path) -> Path:
    path = plan.with_name("baseline.json")
    path.write_text(call("check", plan, "--json").output)
    return path


def strategy(name: str) -> Simulation:
    return replayed(MODEL, optimise=name)


def test_a_schedule_does_not_differ_from_itself(plan: Path) -> None:
    same = replayed(str(plan))
    assert moved_layers(same, same) == []
    assert len(beside(same.replay, same.replay)) > 5


def test_the_differences_of_the_layers_add_up_to_that_of_the_networks() -> None:
    before, after = (strategy(name) for name in ("Size", "Performance"))
    moved = moved_layers(before, after)
    assert sum(one.difference for one in moved) == after.replay.cycles - before.replay.cycles
    assert [abs(one.difference) for one in moved] == sorted((abs(one.difference) for one in moved), reverse=True)
    # What Vela Performance does of its own: it copies weights ahead, and kernels wait for them no more.
    largest = moved[0]
    assert any(change.startswith("copied to SRAM 0 -> ") for change in largest.changes)
    assert "bound by weights (AXI1 read) -> MAC array" in largest.changes


def test_another_accelerator_has_other_blocks() -> None:
    sides = [replayed(MODEL, accelerator_config=f"ethos-u55-{macs}") for macs in (128, 256)]
    changes = {change.split()[0] for one in moved_layers(*sides) for change in one.changes}
    assert "blocks" in changes


def test_a_layer_of_one_side_alone_counts_whole() -> None:
    side = strategy("Performance")
    (program,) = side.network.programs
    keep = [
        i for i, op in enumerate(program.operations) if not isinstance(op, (KernelOperation, DmaOperation)) or program.name(i) != "stem"
    ]
    replay = side.replay.replays[0]
    fewer = replace(side.replay, replays=(replace(replay, operations=tuple(o for o in replay.operations if o.index in keep)),))
    only = [one for one in beside(side.replay, fewer) if one.after is None]
    assert [(one.label, one.changes) for one in only] == [("stem", ("only before",))]


def test_layers_without_names_are_found_by_their_shapes(plan: Path, tmp_path: Path) -> None:
    exported = tmp_path / "n.tflite"
    write_files(export_files(plan, exported))
    named, unnamed = replayed(str(plan)), replayed(str(exported))
    assert named.replay.cycles == unnamed.replay.cycles
    found = beside(named.replay, unnamed.replay)
    depthwise = [one for one in found if one.before is not None and one.label.startswith("depthwise")]
    assert len(depthwise) == 4
    assert all(one.after is not None and one.difference == 0 for one in depthwise)


def test_a_layer_in_stripes_is_found_whole_in_a_file_without_names(tmp_path: Path) -> None:
    """Vela Size cuts resnet8's first convolutions into 32 stripes; the file of Vela Performance has each in one kernel."""
    path = tmp_path / "whole_vela.tflite"
    path.write_bytes(compile_network(build("resnet8"), CompilerOptions(optimise="Performance")).compiled)
    striped, whole = replayed("zoo:resnet8", optimise="Size"), replayed(str(path))
    found = {one.label: one for one in beside(striped.replay, whole.replay)}
    for name in ("block_1/conv_1", "block_1/conv_2"):
        assert found[name].before is not None
        assert found[name].after is not None
        assert "kernels 32 -> 1" in found[name].changes


def test_an_option_with_two_values_is_for_one_side_each() -> None:
    outcome = call("diff", MODEL, "--optimise", "Size,Performance", "--timing-adapter", "off")
    assert outcome.status == 0
    first, second = outcome.output.splitlines()[:2]
    assert first == f"before  {MODEL} on ethos-u55-128, timing adapter off, by Vela 5.2.0 --optimise Size"
    assert second.endswith("--optimise Performance")


def test_a_parameter_of_a_memory_has_a_value_for_each_side() -> None:
    printed = call("diff", "zoo:tiny_conv", "--set", "ext.read_latency=24,500").output
    assert "ext.read_latency 24," in printed
    assert "ext.read_latency 500," in printed
    assert "has 3 values" in refusal("diff", "zoo:tiny_conv", "--set", "ext.read_latency=1,2,3")
    assert "with the same options" in refusal("diff", "zoo:tiny_conv", "--set", "ext.read_latency=500")


def test_a_compiled_file_is_held_beside_a_schedule(plan: Path, tmp_path: Path) -> None:
    path = tmp_path / "n_vela.tflite"
    path.write_bytes(compile_network(build("ds_cnn")).compiled)
    document = json.loads(call("diff", plan, path, "--json").output)
    assert document["before"]["planner"] == "the schedule"
    assert document["after"]["planner"] == "the compiled file"
    assert all(row["changes"] or row["cycles_before"] != row["cycles_after"] for row in document["moved"])


def test_layers_beyond_a_dozen_are_folded_unless_all_are_asked_for() -> None:
    words = ("diff", "zoo:resnet8", "--accelerator-config", "ethos-u55-128,ethos-u55-32")
    folded, whole = (call(*words, *more).output for more in ((), ("--all",)))
    assert "more layers differ by" in folded
    assert "more layers differ" not in whole
    assert len(whole.splitlines()) > len(folded.splitlines())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((MODEL,), "Both sides are zoo:ds_cnn with the same options"),
        ((MODEL, "--optimise", "Size,Size,Size"), "has 3 values"),
        ((MODEL, "--optimise", "Size,"), "has 2 values"),
        ((MODEL, "--arena-cache-size", "1,x"), "not a number of bytes"),
        ((MODEL, "--all", "--json", "--optimise", "Size,Performance"), "--all cannot be combined with --json"),
    ],
)
def test_what_cannot_be_compared_is_refused(words: tuple[str, ...], says: str) -> None:
    assert says in refusal("diff", *words)


def test_a_schedule_is_not_compiled_again(plan: Path) -> None:
    assert "is scheduled already, so that --optimise cannot change it" in refusal("diff", plan, "--optimise", "Size,Performance")
    assert "is scheduled already" in refusal("check", plan, "--optimise", "Size")


def test_a_bar_is_met_by_its_very_figure_and_missed_by_one_more(plan: Path) -> None:
    side = replayed(str(plan))
    cycles, size = side.replay.cycles, side.planned_bytes
    assert call("check", plan, "--max-cycles", cycles, "--max-bytes", size).status == 0
    assert call("check", plan, "--max-cycles", cycles - 1, "--max-bytes", size).status == 1
    assert call("check", plan, "--max-cycles", cycles, "--max-bytes", size - 1).status == 1


@pytest.mark.usefixtures("every_vela_runs")
def test_a_check_of_a_network_that_vela_cannot_compile_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (compiler, direct):
        monkeypatch.setattr(module, "_LAUNCH", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert "crashed with signal 11" in refusal("check", "zoo:tiny_conv", "--max-cycles", "1")


def test_a_check_without_a_bar_is_refused(plan: Path) -> None:
    for words in ((plan,), (MODEL,), (plan, "--markdown"), (MODEL, "--accelerator-config", "ethos-u55-64")):
        assert "No bar was given: give --max-cycles" in refusal("check", *words)


TINY = "zoo:tiny_conv"
OPTIONS = ("--effort", "quick", "--jobs", "1")


@pytest.mark.parametrize(
    "words",
    [(), ("--accelerator-config", "ethos-u55-64"), ("--optimise", "Size"), ("--arena-cache-size", "6000"), ("--memory-mode", "Sram_Only")],
    ids=" ".join,
)
def test_a_check_of_a_network_measures_what_compile_makes_with_the_same_options(words: tuple[str, ...], tmp_path: Path) -> None:
    made = json.loads(call("compile", TINY, *OPTIONS, *words, "--output-dir", tmp_path, "--json").output)
    checked = call("check", TINY, *OPTIONS, *words, "--json")
    subject = json.loads(checked.output)["subject"]
    assert (subject["cycles"], subject["arena_bytes"]) == (made["summary"]["cycles"], made["summary"]["planned_bytes"])
    assert subject["accelerator"] == (words[1] if words[:1] == ("--accelerator-config",) else "ethos-u55-256")
    said = call("check", TINY, *OPTIONS, *words, "--max-cycles", subject["cycles"], "--max-bytes", subject["arena_bytes"])
    assert (said.status, f" on {subject['accelerator']}, " in said.output) == (0, True)
    assert call("check", TINY, *OPTIONS, *words, "--max-cycles", subject["cycles"] - 1).status == 1


def test_a_schedule_keeps_to_its_own_baseline_and_another_one_does_not(plan: Path, baseline: Path) -> None:
    own = call("check", plan, "--against", baseline)
    assert own.status == 0
    assert "Every layer takes the cycles of the baseline." in own.output
    cascaded = baseline.with_name("cascaded.json")
    cascaded.write_text(call("check", MODEL, *ON_128, "--json").output)
    other = call("check", plan, "--against", cascaded)
    assert other.status == 1
    assert "MISSED" in other.output


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A profile in which every kernel starts late."""
    path = tmp_path / "slow.toml"
    path.write_text("schema = 1\n[timing]\nkernel_start_cycles = 500\n", encoding="utf-8")
    return path


def test_each_side_has_a_timing_of_its_own(slow: Path) -> None:
    document = json.loads(call("diff", MODEL, "--timing", f"model,{slow}", "--json").output)
    before, after = document["before"], document["after"]
    assert (before["timing"], after["timing"]) == ({}, {"kernel_start_cycles": 500})
    assert before["cycles"] < after["cycles"]


def test_a_check_replays_with_the_timing_that_is_given(slow: Path, plan: Path, baseline: Path) -> None:
    own, late = (json.loads(call("check", plan, *words, "--json").output)["subject"] for words in ((), ("--timing", slow)))
    assert own["cycles"] < late["cycles"]
    assert "is for another timing" in refusal("check", plan, "--timing", slow, "--against", baseline)


def test_a_tolerance_is_a_part_of_the_baselines_figure(plan: Path, baseline: Path) -> None:
    side, kept = replayed(str(plan)), read_baseline(str(baseline))
    lower = replace(kept, cycles=side.replay.cycles - 1)
    assert not bars(side, None, None, lower)[0].is_met
    assert bars(side, None, None, lower, Fraction(1, 100))[0].is_met


def test_the_summary_for_a_pull_request_is_markdown_of_one_page(baseline: Path) -> None:
    outcome = call("check", MODEL, *ON_128, "--against", baseline, "--max-bytes", "1", "--markdown")
    lines = outcome.output.splitlines()
    assert outcome.status == 1
    assert lines[0].startswith("### zoo:ds\\_cnn: ")
    assert "| figure | now | limit | of | left | verdict |" in lines
    assert "| --- | ---: | ---: | ---: |" in lines
    assert len(lines) < 50


def test_a_baseline_of_another_network_is_named_as_such(baseline: Path) -> None:
    outcome = call("check", "zoo:tiny_conv", *ON_128, "--against", baseline)
    assert "None of the baseline's layers is among these by name: it may be of another network." in " ".join(outcome.output.split())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"command": "diff"}, "was not printed by `npu-testbed check --json`"),
        ({"schema": 999}, "has schema 999"),
        ({"layers": 3}, "has layers 3"),
        ({"subject": {"cycles": "1"}}, "make it anew"),
    ],
)
def test_a_baseline_that_no_check_printed_is_refused(
    change: dict[str, object], says: str, plan: Path, baseline: Path, tmp_path: Path
) -> None:
    path = tmp_path / "b.json"
    path.write_text(json.dumps(json.loads(baseline.read_text()) | change))
    assert says in refusal("check", plan, "--against", path)


@pytest.mark.parametrize("text", ["[" * 100_000, "nonsense"])
def test_a_baseline_that_is_no_json_is_refused(text: str, plan: Path, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text(text)
    assert "is not a JSON document" in refusal("check", plan, "--against", path)


def test_a_baseline_of_another_device_or_memory_is_refused(plan: Path, baseline: Path) -> None:
    assert "is for another memory system" in refusal("check", plan, "--timing-adapter", "off", "--against", baseline)
    assert "'ethos-u55-128' and the schedule for ethos-u55-64" in refusal(
        "check", MODEL, "--accelerator-config", "ethos-u55-64", "--against", baseline
    )


@pytest.mark.parametrize("words", [("--tolerance", "-1"), ("--tolerance", "1e3"), ("--max-cycles", "0"), ("--max-cycles", "9" * 5000)])
def test_a_bar_that_is_no_number_is_refused(words: tuple[str, str], plan: Path) -> None:
    assert "give" in refusal("check", plan, f"{words[0]}={words[1]}", "--against", plan)


def test_options_that_would_be_ignored_are_refused(plan: Path) -> None:
    assert "without --against" in refusal("check", plan, "--tolerance", "1")
    assert "each prints a document" in refusal("check", plan, "--json", "--markdown")


def test_a_baseline_is_written_anew_and_is_what_a_check_prints(plan: Path, tmp_path: Path) -> None:
    path, picture = tmp_path / "kept.json", tmp_path / "arena.svg"
    first = call("check", plan, "--against", path, "--update", "--sram-map", picture)
    assert first.status == 0
    assert "was written: there was none" in first.output
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    assert path.read_text() == call("check", plan, "--json").output
    document = json.loads(path.read_text())
    cycles = document["subject"]["cycles"]
    document["subject"]["cycles"] = cycles - 1
    document["layers"][0]["cycles"] -= 1
    path.write_text(json.dumps(document))
    assert call("check", plan, "--against", path).status == 1
    again = call("check", plan, "--against", path, "--update")
    assert again.status == 0
    assert f"{cycles - 1:,} to {cycles:,} NPU cycles" in again.output
    assert re.search(r"\+1$", again.output, re.MULTILINE)
    assert call("check", plan, "--against", path).status == 0
    assert call("check", plan, "--against", path, "--update", "--max-cycles", cycles - 1).status == 1


def test_a_baseline_of_another_version_or_memory_is_written_anew_and_another_file_is_not_overwritten(plan: Path, tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text(json.dumps({"command": "check", "schema": 0}))
    assert call("check", plan, "--against", path, "--update").status == 0
    assert "is for another memory system" in refusal("check", plan, "--timing-adapter", "off", "--against", path)
    assert call("check", plan, "--timing-adapter", "off", "--against", path, "--update").status == 0
    assert call("check", plan, "--timing-adapter", "off", "--against", path).status == 0
    for text in ("noise", "[]", json.dumps({"command": "diff"})):
        path.write_text(text)
        assert "is not overwritten: give another file" in refusal("check", plan, "--against", path, "--update")
        assert path.read_text() == text
    assert "it would be overwritten" in refusal("check", plan, "--against", plan, "--update")
    assert "without --against" in refusal("check", plan, "--update")
    assert "combined with --update" in refusal("check", plan, "--against", tmp_path / "none.json", "--update", "--tolerance", "1")
    assert "does not end in .svg" in refusal("check", plan, "--max-cycles", "1", "--sram-map", tmp_path / "arena.png")
