"""A search that is interrupted keeps what it has found, and goes on from there to the same end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import call, refusal

import testbed.search
from cascader.ethosu.cascade import Cascader
from testbed.resume import ANSWERS

OPTIONS = ("zoo:tiny_residual", "--rungs", "3", "--jobs", "1", "--schedules")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Run a search up to its replay of that number."""
    calls = 0

    def cycles(*arguments: object) -> int:
        nonlocal calls
        calls += 1
        if calls > after:
            raise KeyboardInterrupt
        return testbed.search.quick_replay_cycles(*arguments)  # type: ignore[attr-defined, no-any-return]  # set below

    with monkeypatch.context() as patch:
        patch.setattr("testbed.search.quick_replay_cycles", testbed.search.quick_cycles, raising=False)
        patch.setattr("testbed.search.quick_cycles", cycles)
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
    real = testbed.search.quick_cycles

    def cycles(*arguments: object) -> int:
        nonlocal replays
        replays += 1
        return real(*arguments)  # type: ignore[arg-type]  # what the search calls it with

    def asked(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Cascader, "schedules_at", asked)
    monkeypatch.setattr("testbed.search.quick_cycles", cycles)
    assert call("frontier", *OPTIONS, tmp_path).status == 0
    assert files(tmp_path) == files(whole)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    everything = replays
    replays = 0
    again = tmp_path / "again"
    monkeypatch.undo()
    monkeypatch.setattr("testbed.search.quick_cycles", cycles)
    assert call("frontier", *OPTIONS, again).status == 0
    assert replays == everything + 3


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'[{"cycles": 1}]', b"-1.5", b"null", b'{"a": 1}', b"[" * 100_000, b"\xff"])
def test_answers_that_are_damaged_are_asked_for_again(content: bytes, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(tmp_path, monkeypatch, 2)
    answers = list((tmp_path / ANSWERS).iterdir())
    assert len(answers) > 3
    for path in answers:
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


def test_a_comparison_keeps_its_schedules_too(tmp_path: Path) -> None:
    folder = tmp_path / "points"
    document = json.loads(call("compare", "zoo:tiny_conv", "--jobs", "2", "--schedules", folder, "--json").output)
    points = document["networks"][0]["frontier"]["points"]
    assert sorted(path.name for path in folder.iterdir()) == [f"tiny_conv_{point['memory_bytes']:010d}.json" for point in points]
    assert "one by one" in refusal("compare", "zoo:tiny_conv", "zoo:tiny_residual", "--schedules", folder)
