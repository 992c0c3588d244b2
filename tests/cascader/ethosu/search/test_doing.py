"""Who watches a search is told which form it works on and at which limit, and compile asks for no more than it says."""

from __future__ import annotations

import re

import pytest
from asked_for import choose
from scheduling import DEFAULT, network

from cascader.ethosu.judge.replay import Replayer
from cascader.ethosu.search import remote_calls
from cascader.ethosu.search.request import Run
from cascader.ethosu.search.task import Task
from cascader.search.workers import workers
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim import quick_cycles

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)


def task(name: str) -> Task:
    return Task(network(name), DEFAULT, SYSTEM, Replayer(quick_cycles, SYSTEM))


def test_the_line_of_each_step_names_the_form_its_size_and_the_limit() -> None:
    said: list[str] = []
    with workers(1) as executor:
        choose(task("resnet8"), executor, 60_000, Run(show=said.append))
    of_form = r"form [a-z0-9 ,']+ of \d+ parts"
    for pattern in (
        r"Rewriting the network of \d+ parts: form [a-z0-9 ,']+",
        rf"Planning stripes: 0 of \d+ forms, now {of_form}",
        rf"Looking at 0 of \d+ memory limits, now {of_form} in [\d,]+ bytes",
        rf"Scheduling: 0 of \d+ memory limits, now {of_form} in [\d,]+ bytes",
    ):
        assert any(re.fullmatch(pattern, line) for line in said), pattern
    assert not any("\n" in line for line in said)


def test_the_bytes_that_every_schedule_takes_are_bounded_for_those_who_read_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    with workers(1) as executor:
        asked = choose(task("tiny_residual"), executor, 1 << 20)
        monkeypatch.setattr(remote_calls, "Divisions", None)
        silent = choose(task("tiny_residual"), executor, 1 << 20, Run(bounds=False))
    assert silent.least_bytes is None
    assert asked.least_bytes is not None
    assert asked.point == silent.point
