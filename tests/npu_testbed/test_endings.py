"""Whatever ends a command: its status, one sentence, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from command_line import call, refusal
from few_examples import few_cases

from cascader.search.workers import workers
from npu_testbed.ground import files
from npu_testbed.ground.files import write_files

ROOT = Path(__file__).parents[2]
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals are a matter of POSIX")
WAIT = 60.0


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def descendants(pid: int) -> set[int]:
    """Processes that descend from one, and still run."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,stat="], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    parents = {int(row[0]): int(row[1]) for row in rows if not row[2].startswith("Z")}
    found: set[int] = set()
    while more := {child for child, parent in parents.items() if parent in found | {pid}} - found:
        found |= more
    return found


def runs(pid: int) -> bool:
    stat = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], check=False, capture_output=True, text=True).stdout
    return bool(stat.strip()) and not stat.startswith("Z")


DEFAULTS = """
import signal
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
"""Whoever runs the tests may have signals ignored, as nohup has: the process that is tested begins as from a terminal."""


def start(code: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DEFAULTS + code],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(folder), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


IDLE = """
import sys, time
from npu_testbed.commands import cli
from cascader.search.workers import workers
def run(argv):
    with workers(2) as pool:
        print([pool.submit(abs, -1).result() for _ in range(4)], flush=True)
        time.sleep(300)
if __name__ == "__main__":
    cli._run = run
    sys.exit(cli.main([]))
"""
BUSY = IDLE.replace("pool.submit(abs, -1).result() for _ in range(4)", "pool.submit(time.sleep, 300) for _ in range(4)")
COMPILING = """
import sys
from cascader.frontends.vela import compiler, direct
from npu_testbed.commands import cli
# A compiler that takes long: what counts is the process that we start for it.
wait = "import time; open('running', 'w').close(); time.sleep(300); runpy.run_module"
compiler._LAUNCH = compiler._LAUNCH.replace("runpy.run_module", wait)
direct._LAUNCH = direct._LAUNCH.replace("made =", wait.replace("runpy.run_module", "made ="))
sys.exit(cli.main(["simulate", "vela", "zoo:tiny_conv"]))
"""
BY_COMMAND_LINE = COMPILING.replace("sys.exit", "compiler.direct_call = lambda *_, **__: None\nsys.exit")


@POSIX
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
@pytest.mark.parametrize("code", [IDLE, BUSY], ids=["idle", "busy"])
def test_workers_end_with_the_process_that_started_them(code: str, number: int, status: int, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(code)
    with start(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')", tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        wait_for(lambda: descendants(process.pid), "no workers")
        children = descendants(process.pid)
        process.send_signal(number)
        wait_for(lambda: process.poll() is not None, "the process goes on")
        assert process.returncode == status
        wait_for(lambda: not any(map(runs, children)), "a worker goes on")
        assert process.stderr is not None
        errors = process.stderr.read()
        # After SIGKILL Python's own tracker says which semaphores it has cleaned up.
        assert "Traceback" not in errors
        assert number == signal.SIGKILL or not errors


@POSIX
@pytest.mark.law
@pytest.mark.parametrize(
    ("number", "how"), few_cases([signal.SIGTERM, signal.SIGKILL, signal.SIGHUP, signal.SIGINT], ["direct", "command line"])
)
def test_a_compilation_ends_with_its_process_and_leaves_no_folder(number: int, how: str, tmp_path: Path) -> None:
    with start({"direct": COMPILING, "command line": BY_COMMAND_LINE}[how], tmp_path) as process:
        wait_for(lambda: list(tmp_path.glob("npu-testbed-*/running")), "no compilation")
        children = descendants(process.pid)
        assert children
        process.send_signal(number)
        wait_for(lambda: process.poll() is not None, "the process goes on")
        wait_for(lambda: not any(map(runs, children)), "the compiler goes on")
        wait_for(lambda: not list(tmp_path.iterdir()), "a folder is left")


def test_a_second_request_to_end_does_not_disturb_the_first(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, time; from npu_testbed.commands import cli\n"
        "def run(argv):\n"
        "    try:\n        os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)\n"
        "    finally:\n        os.kill(os.getpid(), signal.SIGTERM); print('cleaned up')\n"
        "cli._run = run\nsys.exit(cli.main([]))\n"
    )
    with start(code, tmp_path) as process:
        output, errors = process.communicate(timeout=WAIT)
    assert (process.returncode, output, errors) == (143, "cleaned up\n", "")


def test_a_task_that_fails_is_raised_here_and_ends_the_workers() -> None:
    begin = time.monotonic()
    with pytest.raises(ZeroDivisionError), workers(2) as pool:  # noqa: PT012  # the block is what is left when a task fails
        pool.submit(time.sleep, WAIT)
        pool.submit(divmod, 1, 0).result()
    assert time.monotonic() - begin < WAIT / 2


def test_a_mistake_of_ours_has_a_status_of_its_own_and_its_traceback_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def wrong(_path: Path) -> str:
        raise KeyError("\x1b[2Jtensor")

    monkeypatch.setattr("npu_testbed.replays.program_files.inspect", wrong)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    outcome = call("inspect", "x.json")
    assert outcome.status == 70
    assert outcome.errors.count("\n") == 1
    assert "\x1b" not in outcome.errors
    (report,) = tmp_path.iterdir()
    assert str(report) in outcome.errors
    assert "Traceback (most recent call last)" in report.read_text()
    assert 'raise KeyError("' in report.read_text()


def test_without_room_for_a_file_the_traceback_of_a_mistake_goes_to_standard_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("npu_testbed.replays.program_files.inspect", lambda _path: 1 // 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    outcome = call("inspect", "x.json")
    assert outcome.status == 70
    assert "Traceback" in outcome.errors
    assert outcome.errors.splitlines()[-1].startswith("npu-testbed: internal error: ZeroDivisionError")


def test_memory_that_does_not_suffice_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def large(_path: Path) -> str:
        raise MemoryError

    monkeypatch.setattr("npu_testbed.replays.program_files.inspect", large)
    assert "more memory" in refusal("inspect", "x.json")


def test_a_temporary_folder_that_cannot_be_used_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    assert "TMPDIR" in refusal("simulate", "vela", "zoo:tiny_conv")


def process_of(*argv: object, **settings: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "npu_testbed", *map(str, argv)]
    return subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, check=False, **settings)  # type: ignore[call-overload, no-any-return]  # settings are subprocess's own


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "words", [("--help",), ("validate", "portfolio", "--list", "--json"), ("simulate", "vela", "zoo:tiny_conv")], ids=" ".join
)
def test_standard_output_that_is_full_is_one_sentence(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = process_of(*words, stdout=full)
    # On a loaded machine lines of progress come before the sentence.
    (told,) = [line for line in done.stderr.splitlines() if not line.startswith(b"npu-testbed: after ")]
    assert b"Standard output cannot be written (no space left on device)" in told
    assert done.returncode == 2


@POSIX
def test_without_standard_output_a_command_does_its_work(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    command = f"{sys.executable} -m npu_testbed schedule zoo:tiny_conv --no-cascade -o {path} >&-"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert path.is_file()


@POSIX
def test_without_standard_error_a_refusal_still_has_its_status() -> None:
    done = subprocess.run(["sh", "-c", f"{sys.executable} -m npu_testbed inspect missing 2>&-"], cwd=ROOT, check=False)
    assert done.returncode == 2


@POSIX
def test_an_output_that_is_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    for words in (("schedule", "zoo:tiny_conv", "--no-cascade", "-o", loop), ("inspect", loop)):
        assert "symbolic links" in refusal(*words)
    assert "symbolic links" in refusal("schedule", "zoo:tiny_conv", "-o", loop / "x.json")
    assert loop.is_symlink()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_of_several_files_all_are_written_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "old.c"
    old.write_text("old")
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    with pytest.raises(ValueError, match="no space left"):
        write_files({tmp_path / "net.h": b"1", old: b"2", full: b"3"})
    real = files._write_new

    def write(path: Path, data: bytes, *, durable: bool) -> None:
        if data == b"source":
            raise OSError(28, "No space left on device")
        real(path, data, durable=durable)

    monkeypatch.setattr(files, "_write_new", write)
    with pytest.raises(ValueError, match="no space left"):
        write_files({tmp_path / "net.h": b"header", old: b"source"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "old.c"]
    assert old.read_text() == "old"


def test_a_file_that_cannot_take_its_name_takes_the_others_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if target.name == "net.c":
            raise OSError(13, "Permission denied")
        return real(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(ValueError, match="permission denied"):
        write_files({tmp_path / "net.h": b"header", tmp_path / "net.c": b"source"})
    assert list(tmp_path.iterdir()) == []


def test_files_that_threads_write_into_one_folder_keep_their_own_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each writes its temporary file before any takes its name."""
    together, real = Barrier(4), Path.replace

    def replace(path: Path, target: Path) -> Path:
        together.wait(timeout=30)
        return real(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    files = [tmp_path / f"{number}.json" for number in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda path: write_files({path: path.name.encode()}), files))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {path.name: path.name.encode() for path in files}


SCRIPT = """
import cascader.search.workers
from npu_testbed import schedule

cascader.search.workers._may_fork = lambda: False


def work():
    print("found", schedule("zoo:tiny_residual", arena_cache_size=9000, effort="quick", jobs=2).arena_bytes <= 9000)


"""


def run_script(path: Path, text: str) -> subprocess.CompletedProcess[str]:
    path.write_text(SCRIPT + text)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_where_processes_begin_anew_a_script_is_told_how_to_start_them(tmp_path: Path) -> None:
    """As on macOS and Windows, where each new process imports the script."""
    wrong = run_script(tmp_path / "wrong.py", "work()\n")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.count('write what it does below `if __name__ == "__main__":`') == 1
    assert wrong.stderr.count("Traceback") == 1, "the script's own, of the error that it did not handle"
    right = run_script(tmp_path / "right.py", 'if __name__ == "__main__":\n    work()\n')
    assert (right.returncode, right.stdout, right.stderr) == (0, "found True\n", "")
