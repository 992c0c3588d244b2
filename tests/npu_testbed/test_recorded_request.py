"""Provenance records the request: what is as by default is left out, and all else is named."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from command_line import call

from cascader.ethosu.job.schedule import RequestRecord
from cascader.ethosu.schedule.file import from_json
from cascader.ethosu.search.request import Request
from npu_testbed.asked.request import requested
from npu_testbed.replays.scheduling import schedule

ELSEWHERE = {"source", "device", "memory", "timing", "switches", "most_cycles", "names"}
"""Fields of a Request that a schedule holds by other names, that no user says, or that are names of the memories."""


def recorded(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())["schedule"]["provenance"]
    return found


def test_every_field_of_a_request_is_recorded_or_held_elsewhere() -> None:
    names = {"system_config", "memory_mode", "config", "settings"}
    assert set(Request.__struct_fields__) - ELSEWHERE == set(RequestRecord.__struct_fields__) - names


def test_a_schedule_that_nothing_was_asked_of_records_nothing(tmp_path: Path) -> None:
    call("schedule", "zoo:tiny_conv", "--no-advice", "--jobs", "1", "-o", tmp_path / "a.json")
    assert "request" not in recorded(tmp_path / "a.json")


def test_a_schedule_file_names_what_was_asked_and_is_read_back(tmp_path: Path) -> None:
    words = ("--arena-cache-size", "8KiB", "--effort", "quick", "--home", "input=ext", "--within", "1", "--recompute", "1.25")
    call("schedule", "zoo:tiny_conv", *words, "--set", "ext.read_latency=99", "--no-advice", "--jobs", "1", "-o", tmp_path / "a.json")
    assert recorded(tmp_path / "a.json")["request"] == {
        "budget": 8192,
        "effort": "quick",
        "recompute": "5/4",
        "within": "1/100",
        "homes": ["input=ext"],
        "settings": [["ext.read_latency", "99"]],
    }
    record = from_json((tmp_path / "a.json").read_text()).provenance.request
    assert isinstance(record, RequestRecord)
    assert (record.recompute, record.within) == (Fraction(5, 4), Fraction(1, 100))


@pytest.mark.parametrize("field", [{"cascade": False}, {"optimise": "Size"}, {"keep_inputs": True}, {"ignore_ops": ("SOFTMAX",)}])
def test_each_other_choice_is_recorded_by_its_name(field: dict[str, Any]) -> None:
    made = schedule(requested("zoo:tiny_conv", **field))
    assert made.provenance.request == RequestRecord(**field)
