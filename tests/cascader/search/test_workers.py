"""Processes that search a network: the number that is asked for, one for a small network, else one for each processor up to eight."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from multiprocessing import get_context
from multiprocessing.util import Finalize
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascader.search import workers as module
from cascader.search.workers import default_processes, processes_for, workers

BY_DEFAULT = 5
"""Processes by default on the machine of these tests, unlike any other number here."""


@pytest.fixture(autouse=True)
def a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "default_processes", lambda: BY_DEFAULT)


@pytest.mark.parametrize(("parts", "processes"), [(0, 1), (1, 1), (6, 1), (7, 1), (8, BY_DEFAULT), (9, BY_DEFAULT), (1000, BY_DEFAULT)])
def test_a_network_of_fewer_than_8_parts_is_searched_by_one_process(parts: int, processes: int) -> None:
    assert processes_for(parts, None) == processes


@given(st.integers(0, 1000), st.integers(1, 64))
def test_a_number_that_is_asked_for_holds_whatever_the_network(parts: int, asked: int) -> None:
    assert processes_for(parts, asked) == asked


@pytest.mark.parametrize("usable", [1, 2, 3, 7, 8, 9, 64])
def test_at_most_8_of_the_usable_processors_search_by_default(usable: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if hasattr(os, "sched_getaffinity"):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(usable)))
    else:
        monkeypatch.setattr(os, "cpu_count", lambda: usable)
    assert default_processes() == min(usable, 8)


def _process_behind(gate: Path) -> int:
    """The number of the process that works, once the gate is there."""
    while not gate.exists():
        time.sleep(0.001)
    return os.getpid()


@pytest.mark.parametrize("takes_part", [False, True])
@pytest.mark.skipif(sys.platform == "win32", reason="a process that starts anew imports what the tests have patched")
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_so_many_processes_work_as_are_asked_for(processes: int, takes_part: bool, tmp_path: Path) -> None:  # noqa: FBT001  # pytest passes it
    gate = tmp_path / "gate"
    with workers(processes, takes_part=takes_part) as executor:
        # No call ends before all are made, so that each process has calls, however slow the machine is.
        many = [executor.submit(_process_behind, gate) for _ in range(4 * processes)]
        gate.touch()
        found = {answer.result() for answer in many}
    assert len(found) == processes
    assert (os.getpid() in found) == (processes == 1 or takes_part)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux copies processes")
def test_a_search_right_after_another_one_has_copies_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(module, "get_context", lambda kind: asked.append(kind) or get_context(kind))
    for _ in range(5):
        with workers(2) as executor:
            executor.submit(slow_end).result()
    assert asked == ["fork"] * 5


def slow_end() -> None:
    """Have this worker process take a while to end."""
    Finalize(None, time.sleep, (0.2,), exitpriority=1)


ENDS_AT_ONCE = """
from concurrent.futures import process
from cascader.search.workers import workers
from test_workers import slow_end

class Loud(process._ThreadWakeup):
    def wakeup(self):
        if process._global_shutdown:
            print("woken while Python exits")
        super().wakeup()

process._ThreadWakeup = Loud
with workers(2) as executor:
    executor.submit(slow_end).result()
"""


def test_no_process_of_a_search_ends_while_python_exits(tmp_path: Path) -> None:
    """Python up to 3.12 prints a traceback if one does: it wakes the threads of executors then."""
    script = tmp_path / "script.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n{ENDS_AT_ONCE}")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("", "")
