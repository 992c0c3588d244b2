"""Files survive what ends a process: folders of killed ones are removed, links are not followed, kept answers are checked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import call

from cascader.frontends import children, folders
from cascader.frontends.children import run_child
from cascader.frontends.folders import own_folder
from npu_testbed.ground import files
from npu_testbed.ground.answers import Answers
from npu_testbed.ground.files import write_file, write_files

ROOT = Path(__file__).parents[2]
POSIX = pytest.mark.skipif(os.name != "posix", reason="locks of folders and links are a matter of POSIX")
HOLDING = "import time; from cascader.frontends.folders import OwnFolder; print(OwnFolder().path, flush=True); time.sleep(300)"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of temporary files of its own, in which nobody has looked yet."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folders.sweep.cache_clear()
    return tmp_path


def holder(temporary: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process with a folder of its own."""
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", HOLDING], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


@POSIX
def test_a_folder_of_a_killed_process_is_removed_at_the_next_start_and_of_a_living_one_stays(temporary: Path) -> None:
    (killed, left), (living, used) = holder(temporary), holder(temporary)
    try:
        killed.kill()
        killed.wait()
        assert {left, used} == set(temporary.iterdir())
        with own_folder() as mine:
            assert {used, mine} == set(temporary.iterdir())
        assert [used] == list(temporary.iterdir())
    finally:
        for process in (killed, living):
            process.kill()
            process.communicate()


@POSIX
def test_what_is_not_ours_to_remove_stays(temporary: Path) -> None:
    """A folder without a lock is one of a killed process unless it is being made; links and files are nobody's folders."""
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    (temporary / "npu-testbed-link").symlink_to(elsewhere)
    (temporary / "npu-testbed-error-1.txt").touch()
    (temporary / "npu-testbed-new-1").mkdir()
    (temporary / "npu-testbed-1-old").mkdir()
    old = temporary / "npu-testbed-new-2"
    old.mkdir()
    os.utime(old, (0, 0))
    with own_folder():
        pass
    assert {path.name for path in temporary.iterdir()} == {"elsewhere", "npu-testbed-link", "npu-testbed-error-1.txt", "npu-testbed-new-1"}
    assert [path.name for path in elsewhere.iterdir()] == ["kept"]


@POSIX
def test_a_process_killed_with_its_compiler_leaves_a_folder_that_the_next_command_removes(temporary: Path) -> None:
    code = "from cascader.frontends.vela import compiler\ncompiler.direct_call = lambda *_: None\n"
    code += 'compiler._LAUNCH = \'import time; open("running", "w"); time.sleep(300)\'\n'
    code += "from npu_testbed.commands.cli import main\nmain(['simulate', 'vela', 'zoo:tiny_conv'])"
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, start_new_session=True)
    deadline = time.monotonic() + 60
    while not list(temporary.glob("npu-testbed-*/running")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert len(list(temporary.iterdir())) == 1
    # The children of the process may die a moment after it.
    while list(temporary.iterdir()):
        assert time.monotonic() < deadline
        folders.sweep.cache_clear()
        assert call("simulate", "vela", "zoo:tiny_conv", "--no-advice").status == 0


def test_the_time_of_a_child_begins_when_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is busy for 90 seconds of a clock that only the test moves."""
    clock = [0.0]
    begun: list[subprocess.Popen[str]] = []

    class Kept(subprocess.Popen[str]):
        def __init__(self, *words: Any, **more: Any) -> None:
            super().__init__(*words, **more)
            begun.append(self)

    def busy(*, until_it_ends: bool = False) -> None:
        if until_it_ends:
            begun[-1].wait()
        clock[0] += 90

    monkeypatch.setattr(children, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(subprocess, "Popen", Kept)
    with pytest.raises(subprocess.TimeoutExpired) as expired:
        run_child([sys.executable, "-c", "import time; time.sleep(300)"], folder=tmp_path, timeout=60, meanwhile=busy)
    assert expired.value.timeout == 0
    # One that has ended in time was in time, however long this process was busy.
    command = [sys.executable, "-c", "print('done')"]
    done = run_child(command, folder=tmp_path, timeout=60, meanwhile=partial(busy, until_it_ends=True))
    assert done.stdout == "done\n"


@POSIX
def test_a_link_at_the_name_of_a_temporary_file_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    monkeypatch.setattr(files, "token_hex", lambda _: "0")
    (tmp_path / f".npu-testbed.{os.getpid()}.0.0.tmp").symlink_to(victim)
    with pytest.raises(files.InputError, match="exists"):
        write_file(tmp_path / "output", b"data")
    assert victim.read_text() == "mine"
    assert not (tmp_path / "output").exists()


@POSIX
def test_a_link_is_followed_where_a_user_names_it_and_replaced_where_the_name_is_ours(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_text("old")
    link.symlink_to(victim)
    write_file(link, b"new")
    assert (link.is_symlink(), victim.read_text()) == (True, "new")
    kept = Answers(tmp_path)
    kept.path("key").symlink_to(victim)
    kept.keep("key", 5)
    assert (kept.path("key").is_symlink(), victim.read_text(), kept.find("key", int)) == (False, "new", 5)


@POSIX
def test_files_have_the_rights_that_the_user_gives_new_ones(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "output", b"data")
    finally:
        os.umask(before)
    assert (tmp_path / "output").stat().st_mode & 0o777 == 0o640


@POSIX
def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    replace, sync = Path.replace, os.fsync

    def renamed(self: Path, target: Path) -> Path:
        told.append("rename")
        return replace(self, target)

    def synced(descriptor: int) -> None:
        told.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")  # noqa: PTH112  # a link of the system's
        sync(descriptor)

    monkeypatch.setattr(Path, "replace", renamed)
    monkeypatch.setattr(os, "fsync", synced)
    write_files({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    assert told == ["file", "file", "rename", "rename", "folder"]
    told.clear()
    Answers(tmp_path).keep("key", 1)
    assert told == ["rename"]
    told.clear()
    Answers(tmp_path, packed=False).keep("key", 1)
    assert told == ["file", "rename", "folder"]


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a digit": lambda kept: kept | {"value": kept["value"] | {"cycles": 99}},
    "a type": lambda kept: kept | {"value": kept["value"] | {"cycles": "100"}},
    "no digest": lambda kept: {"value": kept["value"]},
    "another digest": lambda kept: kept | {"sha256": "0" * 64},
    "a list": lambda kept: [kept],
    "a number": lambda _: 5,
    "null": lambda _: None,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("packed", [False, True])
def test_a_kept_answer_that_was_changed_is_none(
    packed: bool,  # noqa: FBT001  # a case
    change: str,
    tmp_path: Path,
) -> None:
    answers, plain = Answers(tmp_path, packed=packed), {"cycles": 100}
    answers.keep("key", plain)
    assert answers.find("key", dict) == plain
    data = answers.path("key").read_bytes()
    changed = json.dumps(CHANGES[change](json.loads(zlib.decompress(data) if packed else data))).encode()
    answers.path("key").write_bytes(zlib.compress(changed) if packed else changed)
    assert answers.find("key", dict) is None
    assert answers.known("key", dict, dict, lambda: {"cycles": 100}) == plain
    assert answers.find("key", dict) == plain


def test_an_answer_of_another_question_is_none(tmp_path: Path) -> None:
    answers = Answers(tmp_path)
    answers.keep("one", 1)
    answers.path("one").rename(answers.path("two"))
    assert answers.find("two", int) is None


def test_a_sweep_works_out_again_what_was_changed(tmp_path: Path) -> None:
    words = ("sweep", "zoo:tiny_conv", "--effort", "quick", "--results", tmp_path / "found", "--json", "--jobs", "1")
    right = call(*words).output
    (path,) = (tmp_path / "found").iterdir()
    text = path.read_text()
    cycles = str(json.loads(text)["value"]["answer"]["cycles"])
    for wrong in ("1", '"1"', "null", "1e999", "[]"):
        path.write_text(text.replace(f'"cycles": {cycles}', f'"cycles": {wrong}'))
        assert path.read_text() != text
        outcome = call(*words)
        assert (outcome.status, outcome.output) == (0, right)
        assert path.read_text() == text
