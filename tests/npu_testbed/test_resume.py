"""A search that is interrupted keeps what it has found, and goes on from there to the same end."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import time
import zlib
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from asked_for import system_said
from command_line import call, refusal
from quick_comparisons import compare_quickly

import cascader.ethosu.search.cycle_targets
import cascader.ethosu.search.remote_calls
import cascader.ethosu.search.replays
import cascader.ethosu.search.search
import npu_testbed.comparisons.beside_vela
import npu_testbed.comparisons.vela_points
import npu_testbed.replays.vela_runs
import npu_testbed.searches.resume
from cascader.draft.draft import Draft
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.judge.judge import Judge
from npu_testbed.ground.answers import FOLDER, Answers
from npu_testbed.replays.vela_runs import VelaBatch, VelaFailure, VelaOutcome, VelaPoint, VelaRun, VelaTask

pytestmark = pytest.mark.usefixtures("every_search_runs")

MODULES = os.pathsep.join(str(Path(__file__).parents[up]) for up in (2, 1))
OPTIONS = ("zoo:tiny_residual", "--rungs", "3", "--jobs", "1", "--schedules")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Run a search up to its replay of that number."""
    calls = 0

    real = Judge.cycles

    def cycles(judge: Judge, made: Draft) -> int:
        nonlocal calls
        calls += 1
        if calls > after:
            raise KeyboardInterrupt
        return real(judge, made)

    with monkeypatch.context() as patch:
        patch.setattr(Judge, "cycles", cycles)
        assert call("frontier", *OPTIONS, folder).status == 130


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    assert call("frontier", *OPTIONS, folder).status == 0
    return folder


def test_the_folder_of_a_frontier_has_its_points_in_order_and_nothing_else(whole: Path) -> None:
    names = sorted(path.name for path in whole.iterdir())
    sizes = [json.loads((whole / name).read_text())["schedule"]["arena_size"] for name in names]
    assert len(names) > 1
    assert sizes == sorted(sizes)
    assert names == [f"tiny_residual_{size:010d}.json" for size in sizes]


def test_an_interrupted_search_leaves_schedules_and_goes_on_without_asking_again(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(tmp_path, monkeypatch, 3)
    left = files(tmp_path)
    assert left
    for name in left:
        assert call("simulate", "schedule", tmp_path / name).status == 0
    replays = 0
    real = Judge.cycles

    def cycles(judge: Judge, made: Draft) -> int:
        nonlocal replays
        replays += 1
        return real(judge, made)

    def asked(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Cascader, "drafts_at", asked)
    monkeypatch.setattr(Judge, "cycles", cycles)
    assert call("frontier", *OPTIONS, tmp_path).status == 0
    assert files(tmp_path) == files(whole)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    everything = replays
    replays = 0
    again = tmp_path / "again"
    monkeypatch.undo()
    monkeypatch.setattr(Judge, "cycles", cycles)
    assert call("frontier", *OPTIONS, again).status == 0
    assert replays == everything + 3


def test_the_answer_of_every_call_is_kept() -> None:
    search = cascader.ethosu.search
    modules = (search.search, search.replays, search.cycle_targets, npu_testbed.comparisons.vela_points)
    handed = {name for module in modules for name in re.findall(r"\.submit\((?:Directed\()?(\w+)", inspect.getsource(module))}
    kept = {kind.__name__ for kind in npu_testbed.searches.resume._KINDS}
    # The forms of a network are made anew in each run: what is kept is known by them.
    assert handed == kept | {"rewritten"}


def test_of_runs_that_share_a_process_only_those_that_failed_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    names = "ethos-u55-128", "Ethos_U55_High_End_Embedded", "Shared_Sram", None
    runs = tuple(VelaRun("Python", "Performance", size) for size in (16, 32, 48))
    batch = VelaBatch(VelaTask(b"", *names, system_said()), runs)
    failed = VelaFailure(runs[1], "It crashed.")
    found = VelaOutcome(VelaPoint(runs[0], 16, 1), ()), failed, VelaOutcome(VelaPoint(runs[2], 32, 2), ("SOFTMAX",))
    kind, tried = npu_testbed.searches.resume._KINDS[npu_testbed.replays.vela_runs.outcomes], list[tuple[VelaRun, ...]]()

    def again(batch: VelaBatch) -> tuple[VelaFailure, ...]:
        tried.append(batch.runs)
        return (failed,)

    monkeypatch.setattr(npu_testbed.replays.vela_runs, "outcomes", again)
    assert kind.value(json.loads(json.dumps(kind.plain(found))), batch) == found
    assert tried == [runs[1:2]]
    assert kind.plain((failed, failed)) is None


NO_ANSWERS = [*map(zlib.compress, [b"", b"{", b'[{"cycles": 1}]', b"-1.5", b'{"a": 1}', b"[" * 100_000, b"\xff"]), b"no stream"]


def test_answers_that_are_damaged_are_asked_for_again(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(tmp_path, monkeypatch, 3)
    answers = sorted((tmp_path / FOLDER).iterdir())
    assert len(answers) >= len(NO_ANSWERS)
    for path, content in zip(answers, cycle(NO_ANSWERS), strict=False):
        path.write_bytes(content)
    assert call("frontier", *OPTIONS, tmp_path).status == 0
    assert files(tmp_path) == files(whole)


def test_answers_of_another_search_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(tmp_path, monkeypatch, 3)
    off = call("frontier", *OPTIONS, tmp_path, "--timing-adapter", "off", "--json")
    cycles = {point["memory_bytes"]: point["cycles"] for point in json.loads(off.output)["points"]}
    for memory, expected in cycles.items():
        path = tmp_path / f"tiny_residual_{memory:010d}.json"
        assert json.loads(call("simulate", "schedule", path, "--json").output)["summary"]["cycles"] == expected


def test_a_comparison_keeps_its_schedules_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_quickly(monkeypatch)
    folder = tmp_path / "points"
    document = json.loads(call("compare", "zoo:tiny_conv", "--jobs", "2", "--schedules", folder, "--json").output)
    points = document["networks"][0]["frontier"]["points"]
    assert sorted(path.name for path in folder.iterdir()) == [f"tiny_conv_{point['memory_bytes']:010d}.json" for point in points]
    assert "one by one" in refusal("compare", "zoo:tiny_conv", "zoo:tiny_residual", "--schedules", folder)


NETWORKS = ("zoo:tiny_conv", "zoo:tiny_residual")


RUN = """
import sys
from pytest import MonkeyPatch
from npu_testbed.commands import cli
from npu_testbed.ground.answers import Answers
from quick_comparisons import compare_quickly

def keep(answers, *arguments):
    real(answers, *arguments)
    if len(list(answers.folder.glob("*.json.z"))) >= most:
        sys.stdin.read()

if __name__ == "__main__":
    most, real, Answers.keep = int(sys.argv[1]), Answers.keep, keep
    compare_quickly(MonkeyPatch())
    sys.exit(cli.main(sys.argv[2:]))
"""
"""A command that does no more once it keeps so many answers, as long as its standard input is open."""


def compared(folder: Path) -> tuple[str, ...]:
    return ("validate", "vela", *NETWORKS, "--compare", "--optimise", "Size", "--jobs", "1", "--results", str(folder), "--json")


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that take time, as they are done."""
    done: list[str] = []

    def counted(module: Any, name: str) -> None:
        real = getattr(module, name)

        def instead(*arguments: Any, **options: Any) -> Any:
            done.append(name)
            before = len(done)
            found = real(*arguments, **options)
            if name.startswith("with_replayed_"):
                # Its replays are part of one answer.
                del done[before:]
            return found

        monkeypatch.setattr(module, name, instead)

    counted(Judge, "cycles")
    counted(cascader.ethosu.search.remote_calls, "with_replayed_copies")
    counted(cascader.ethosu.search.remote_calls, "with_replayed_blocks")
    counted(npu_testbed.replays.vela_runs, "compile_at")
    counted(npu_testbed.comparisons.beside_vela, "validate_vela")
    for name in ("drafts_at", "smallest"):
        counted(Cascader, name)
    return done


@pytest.mark.skipif(os.name != "posix", reason="signals are a matter of POSIX")
def test_a_comparison_of_networks_that_is_killed_loses_at_most_what_was_in_flight(
    tmp_path: Path, tasks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_quickly(monkeypatch)
    whole = call(*compared(tmp_path / "whole"))
    everything, answers = len(tasks), len(list((tmp_path / "whole").iterdir()))
    assert {"cycles", "compile_at", "validate_vela", "drafts_at", "smallest", "with_replayed_blocks"} <= set(tasks)

    killed = tmp_path / "killed"
    command = [sys.executable, "-c", RUN, str(answers - 1), *compared(killed)]
    nothing, environment = subprocess.DEVNULL, os.environ | {"PYTHONPATH": MODULES}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing) as process:
        # However busy the machine is, it does not come to its end.
        while not killed.is_dir() or len(list(killed.iterdir())) < answers * 2 // 3:
            assert process.poll() is None
            time.sleep(0.001)
        process.kill()
    left = {path.name: path.read_bytes() for path in killed.glob("*.json.z")}
    assert answers * 2 // 3 - 1 <= len(left) < answers
    assert all((tmp_path / "whole" / name).read_bytes() == data for name, data in left.items())

    tasks.clear()
    again = call(*compared(killed))
    assert (again.status, again.output) == (whole.status, whole.output)
    # What is not among the answers is done, and nothing else.
    assert sorted(path.name for path in killed.iterdir()) == sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert len(tasks) < everything * 2 // 3
    tasks.clear()
    assert call(*compared(killed)).output == whole.output
    assert tasks == []


def test_results_of_other_options_are_not_taken(tmp_path: Path, tasks: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    compare_quickly(monkeypatch)
    words = ("compare", "zoo:tiny_conv", "--jobs", "1", "--results", tmp_path, "--json")
    found = json.loads(call(*words).output)
    tasks.clear()
    assert json.loads(call(*words).output) == found
    assert tasks == []
    other = json.loads(call(*words, "--accelerator-config", "ethos-u55-64").output)
    assert {"cycles", "compile_at"} <= set(tasks)
    assert other == json.loads(call(*words[:4], "--json", "--accelerator-config", "ethos-u55-64").output)


@pytest.mark.skipif(os.name != "posix", reason="elsewhere nobody asks after a process")
def test_what_a_killed_process_was_writing_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    for process in (gone.pid, os.getpid()):
        (tmp_path / f".npu-testbed.{process}.0.tmp").write_bytes(b"half")
    Answers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f".npu-testbed.{os.getpid()}.0.tmp"]


def test_a_network_of_the_portfolio_goes_on_within_its_search(tmp_path: Path, tasks: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    compare_quickly(monkeypatch)
    words = ("validate", "portfolio", "uint8_hard_swish", "--no-verify", "--jobs", "1", "--results", tmp_path, "--json")
    with monkeypatch.context() as patch:

        def fails(*_: object) -> int:
            raise KeyboardInterrupt

        patch.setattr(Judge, "cycles", fails)
        assert call(*words).status == 130
    (folder,) = tmp_path.iterdir()
    assert len(list(folder.iterdir())) > 4
    tasks.clear()
    assert json.loads(call(*words).output)["networks"][0]["ours"]
    assert "compile_at" not in tasks
    assert [path.is_file() for path in tmp_path.iterdir()] == [True]
