"""Every schedule that a search reports has passed the check of schedules; candidates that nobody sees have not."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from scheduling import DEFAULT, network

import cascader.ethosu.cascade
from cascader import How, frontier, schedule
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.schedule.cascaded import make_schedule
from cascader.ethosu.search import errands
from cascader.ethosu.search.form import Form, Place
from cascader.ethosu.search.frontier import CHECKED_AHEAD, _Checks
from cascader.search.workers import workers
from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile
from sim import quick_cycles

SYSTEM = profile("u55_high_end").memory_system()
REPLAY = partial(quick_cycles, system=SYSTEM)


def in_too_few_bytes(*arguments: Any, **options: Any) -> Schedule:
    """A schedule whose buffers reach beyond its arena."""
    made = make_schedule(*arguments, **options)
    return replace(made, arena_size=made.arena_size - 16)


@pytest.mark.parametrize("smallest", [False, True])
def test_a_wrong_schedule_is_no_answer(monkeypatch: pytest.MonkeyPatch, *, smallest: bool) -> None:
    monkeypatch.setattr(cascader.ethosu.cascade, "make_schedule", in_too_few_bytes)
    with pytest.raises(InputError, match="arena"):
        schedule(network("tiny_residual"), DEFAULT, SYSTEM, None if smallest else 4096, REPLAY, How(smallest=smallest))


def test_a_wrong_schedule_is_no_point_of_a_frontier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cascader.ethosu.cascade, "make_schedule", in_too_few_bytes)
    with pytest.raises(InputError, match="arena"):
        frontier(network("tiny_residual"), DEFAULT, SYSTEM, REPLAY)


def test_a_check_that_began_ahead_is_not_made_again_and_one_that_nobody_needs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    points = frontier(network("tiny_residual"), DEFAULT, SYSTEM, REPLAY).points
    networks = {id(point.schedule.network): point.schedule for point in points}
    place = Place(0, len(networks))
    forms = {key: Form(place, one.network, DEFAULT, SYSTEM, CascadeOptions(), one.provenance) for key, one in networks.items()}
    checked: list[Schedule] = []
    monkeypatch.setattr(errands, "check_schedule", checked.append)
    assert len(points) > CHECKED_AHEAD
    with workers(1) as executor:
        checks = _Checks(points, forms, executor)
        checks.ahead()
        checks.require(points[1:])
    assert {one.arena_size for one in checked} == {point.memory for point in points[1:]}
    assert len(checked) == len(points) - 1
