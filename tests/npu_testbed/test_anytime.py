"""A search that is left before its end writes the best schedule that it knows, and says that it was left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import call, refusal
from scheduling import schedule as layer_by_layer

from cascader.ethosu.search.task import Choice, OnPoint, Point
from npu_model.errors import InputError
from npu_testbed.ground.anytime import best_in_time
from npu_testbed.ground.progress import Progress
from npu_testbed.replays.scheduling import read_schedule

ROOT = Path(__file__).parents[2]
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals are a matter of POSIX")
WAITING = """
import signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
from npu_testbed.ground import anytime
from npu_testbed.commands import cli
before = anytime.Watched.seen
def seen(self, choice):
    before(self, choice)
    open("seen", "w").close()
    time.sleep(300)
anytime.Watched.seen = seen
if __name__ == "__main__":
    sys.exit(cli.main(sys.argv[1:]))
"""
"""The command, which waits when it has found its first schedule."""


@POSIX
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_process_that_is_interrupted_writes_its_best_schedule(number: int, status: int, jobs: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(WAITING)
    words = ["schedule", "zoo:tiny_residual", "--arena-cache-size", "65536", "--jobs", jobs, "-o", "best.json"]
    command, environment = [sys.executable, str(script), *words], os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not (tmp_path / "seen").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        output, errors = process.communicate(timeout=120)
    assert (process.returncode, output) == (status, "")
    assert errors.startswith("npu-testbed: stopped: by ")
    assert errors.count("\n") == 1
    assert read_schedule(tmp_path / "best.json").arena_size <= 65536


def point(cycles: int) -> Choice:
    plan = layer_by_layer("tiny_conv")
    return Choice(Point(plan.arena_size, cycles, cycles, plan), 100)


def test_a_time_limit_ends_a_search_with_the_best_until_then() -> None:
    said: list[str] = []
    first, second = point(300), point(200)

    def search(show: Progress, seen: OnPoint) -> Choice:
        seen(first)
        seen(second)
        show("Searching")
        time.sleep(60)
        return first

    ending = best_in_time(search, said.append, 0.5)
    assert (ending.choice.point.cycles, ending.stopped, ending.status) == (200, "the time limit of 0.5 s", 0)
    assert said[-1] == "Searching; best so far: 200 NPU cycles in 8,192 bytes, at most 100.0% more than any schedule needs"


def test_a_time_limit_before_the_first_schedule_is_refused() -> None:
    def search(_show: Progress, _seen: OnPoint) -> Choice:
        time.sleep(60)
        return point(100)

    with pytest.raises(InputError, match="was over before a schedule was found"):
        best_in_time(search, lambda _: None, 0.1)


@pytest.mark.usefixtures("every_search_runs")
def test_a_search_that_ends_in_time_gives_what_it_gives_without_a_limit(tmp_path: Path) -> None:
    words = ("schedule", "zoo:tiny_residual", "--arena-cache-size", "8192", "--jobs", "1", "--no-advice", "--json", "-o")
    free, bounded = (json.loads(call(*words, tmp_path / "s.json", *more).output) for more in ((), ("--time-limit", "3600")))
    assert free == bounded
    assert free["stopped"] == ""
    assert 0 < free["least_cycles_of_search"] <= free["cycles"]


def test_a_time_limit_is_no_option_of_a_schedule_without_a_choice(tmp_path: Path) -> None:
    sentence = refusal("schedule", "zoo:tiny_conv", "--no-cascade", "--time-limit", "5", "-o", tmp_path / "s.json")
    assert "--time-limit 5.0 cannot be combined with --no-cascade" in sentence


def test_a_bound_of_bytes_that_says_nothing_is_left_out(tmp_path: Path) -> None:
    """The quick search knows of no more than the 490 bytes of the input, where the smallest arena has 13,712."""
    outcome = call("schedule", "zoo:ds_cnn", "--effort", "quick", "--no-advice", "--json", "-o", tmp_path / "s.json")
    found = json.loads(outcome.output)
    assert found["least_cycles_of_search"] <= found["cycles"]
    assert "least_bytes_of_search" not in found
