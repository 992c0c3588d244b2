"""A budget that a search does not meet is refused with the options that meet it, and each of them does what was said."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from asked_for import simulate_vela
from command_line import call, refusal
from msgspec.structs import replace

from cascader.ethosu.search.effort import QUICK
from cascader.ethosu.search.request import PERFORMANCE, Request, Run
from cascader.frontends.vela import compile_network
from npu_model.errors import InputError, SearchedError
from npu_testbed.asked.replays import replay_of
from npu_testbed.asked.request import requested
from npu_testbed.commands.simulate import SimulateVela
from npu_testbed.findings.unmet import unmet_limit
from npu_testbed.ground.progress import silent
from npu_testbed.ground.termination import TimeIsUp
from npu_testbed.searches import other_ways as module
from npu_testbed.searches.other_ways import with_other_ways
from validation.zoo import build

WAYS = re.compile(r"(--(?:home|spill|recompute) [^(,]+?) \(([\d,]+) bytes, ([\d,]+) cycles\)")

REFUSED = (
    ("zoo:tiny_residual", 4608, ("--spill ext", "--home input=ext", "--home output=ext")),
    ("zoo:tiny_conv", 2560, ("--home input=ext --home output=ext",)),
    ("zoo:tiny_conv", 16, ("--home input=ext --home output=ext --spill ext",)),
    # One layer needs more than the budget, and an image does.
    ("portfolio:mnist", 9044, ("--spill ext",)),
    ("portfolio:flatten_fc", 700, ("--home input=ext --spill ext",)),
)


@pytest.mark.usefixtures("other_ways_are_tried")
@pytest.mark.parametrize(("model", "budget", "ways"), REFUSED)
def test_a_refusal_names_options_that_meet_the_budget_with_the_bytes_that_these_reach(
    model: str, budget: int, ways: tuple[str, ...], tmp_path: Path
) -> None:
    made = tmp_path / "made.json"
    words = ("schedule", model, "-o", made, "--effort", "quick", "--arena-cache-size", budget, "--jobs", "1")
    said = refusal(*words)
    assert "bytes are the smallest arena reached" in said
    named = {option: int(size.replace(",", "")) for option, size, _ in WAYS.findall(said)}
    assert named.keys() >= set(ways)
    assert not made.exists()
    for option, size in named.items():
        assert size <= budget
        assert call(*words, *shlex.split(option)).status == 0


def test_frontier_and_compile_name_the_same_options_as_schedule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They try the options of one request, and say what was found. Aim and effort of these searches are always the same.

    No .tflite file names a spilled tensor, so ``compile`` spills none.
    """
    tried, spilled = [], []

    def found(request: Request, _run: Run, *, spills: bool) -> Iterator[str]:
        tried.append(replace(request, effort=QUICK, optimise=PERFORMANCE))
        spilled.append(spills)
        yield "--home output=ext (16 bytes, 17 cycles)"

    monkeypatch.setattr(module, "other_ways", found)
    words = ("zoo:tiny_conv", "--accelerator-config", "ethos-u55-128", "--arena-cache-size", 2560, "--effort", "quick", "--jobs", "1")
    outputs = {"schedule": ("-o", tmp_path / "s.json"), "frontier": (), "compare": (), "compile": ("--output-dir", tmp_path / "out")}
    for command, output in outputs.items():
        assert "With other options it fits: --home output=ext (16 bytes, 17 cycles)." in refusal(command, *words, *output)
    assert not list(tmp_path.iterdir())
    assert tried == [tried[0]] * 4
    assert spilled == [True, True, True, False]


def test_frontier_refuses_what_the_application_holds_before_it_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npu_testbed.searches.frontiers.search", None)
    said = refusal("frontier", "portfolio:mnist", "--arena-cache-size", 700)
    assert "700 is below 784 bytes, which every schedule needs at once for the inputs ('digit')" in said
    assert said.endswith("allow more (`npu-testbed frontier` names the smallest arena).")


@pytest.mark.usefixtures("other_ways_are_tried")
@pytest.mark.parametrize("command", ["schedule", "frontier", "compile"])
@pytest.mark.parametrize(("model", "budget"), [("portfolio:cpu_words", 16), ("portfolio:cpu_last", 16)])
def test_a_budget_that_no_home_could_meet_is_refused_with_the_smallest_arena_reached(
    command: str, model: str, budget: int, tmp_path: Path
) -> None:
    output = {"schedule": ("-o", tmp_path / "x.json"), "frontier": (), "compile": ("--output-dir", tmp_path)}
    said = refusal(command, model, "--arena-cache-size", budget, *output[command])
    least = re.search(rf"--arena-cache-size {budget} is below .*: (\d+) bytes are the smallest arena reached; allow that much\.$", said)
    assert least is not None, said
    assert not list(tmp_path.iterdir())
    assert call("schedule", model, "-o", tmp_path / "x.json", "--arena-cache-size", least[1]).status == 0


@pytest.mark.usefixtures("other_ways_are_tried")
def test_a_refusal_stays_as_it_is_where_time_is_up_or_nothing_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, error = requested("zoo:tiny_conv", "ethos-u55-128", budget=16, effort="quick"), SearchedError("No schedule was found.")

    def fails(kind: type[Exception]) -> None:
        raise kind

    for kind in (TimeIsUp, InputError):
        monkeypatch.setattr(module, "choice_of", lambda *_, kind=kind: fails(kind))
        assert with_other_ways(error, asked, Run()) is error


@pytest.mark.usefixtures("other_ways_are_tried")
def test_options_that_were_given_are_not_named() -> None:
    homed = requested("zoo:tiny_conv", "ethos-u55-128", budget=16, homes=("input=ext",), spill="ext")
    assert [option for option, _ in module._ways(homed)] == ["--recompute 2"]
    unhomed = requested("zoo:tiny_conv", "ethos-u55-128", budget=16)
    spilled = [option for option, _ in module._ways(unhomed) if "--spill" in option]
    assert spilled == [
        "--spill ext",
        *(f"--home {ends} --spill ext" for ends in ("input=ext", "output=ext", "input=ext --home output=ext")),
    ]
    assert [option for option, _ in module._ways(unhomed, spills=False)] == [
        "--recompute 2",
        *(f"--home {ends}" for ends in ("input=ext", "output=ext", "input=ext --home output=ext")),
    ]


@pytest.mark.usefixtures("other_ways_are_tried")
@pytest.mark.parametrize(
    ("model", "limit", "option"), [("zoo:resnet8", 20000, "--arena-cache-size 20000"), ("zoo:tiny_conv", 2560, "--home")]
)
def test_the_first_finding_on_a_limit_that_vela_exceeds_names_options_that_meet_it(
    model: str, limit: int, option: str, tmp_path: Path
) -> None:
    said = json.loads(call("simulate", "vela", model, "--arena-cache-size", limit, "--json").output)
    first = said["findings"][0]
    assert first["kind"] == "budget"
    assert f"exceeds the limit of {limit:,} bytes by {said['summary']['planned_bytes'] - limit:,}; " in first["text"]
    ways = re.findall(r"(--(?:home|spill|recompute|arena-cache-size) [^(,]+?) \(([\d,]+) bytes, ([\d,]+) cycles\)", first["text"])
    assert option in ways[0][0]
    for way, size, cycles in ways:
        more = () if way.startswith("--arena-cache-size") else ("--arena-cache-size", limit)
        made = json.loads(
            call("schedule", model, "-o", tmp_path / "s.json", "--effort", "quick", *more, *shlex.split(way), "--json").output
        )
        assert (f"{made['arena_bytes']:,}", f"{made['cycles']:,}") == (size, cycles)
        assert made["arena_bytes"] <= limit


def test_a_limit_that_vela_meets_or_a_compiled_file_has_no_such_finding(tmp_path: Path) -> None:
    met = json.loads(call("simulate", "vela", "zoo:tiny_conv", "--arena-cache-size", 20000, "--json").output)
    assert "budget" not in {one["kind"] for one in met["findings"]}
    compiled = tmp_path / "c_vela.tflite"
    compiled.write_bytes(compile_network(build("tiny_conv")).compiled)
    over = replace(simulate_vela(str(compiled)), granted_bytes=2560)
    of_file, of_model = (replay_of(SimulateVela(model=one), one) for one in (str(compiled), "zoo:tiny_conv"))
    assert unmet_limit(of_file, over, silent) == ()
    assert unmet_limit(of_model, over, silent)
