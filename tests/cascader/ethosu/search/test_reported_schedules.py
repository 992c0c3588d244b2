"""Every schedule that a search reports has passed the check of schedules; drafts that nobody sees have not."""

from __future__ import annotations

from typing import Any

import pytest
from asked_for import of_bytes
from msgspec.structs import replace
from schedule_drafts import draft_of
from scheduling import DEFAULT, network

from cascader import frontier, schedule
from cascader.draft.draft import Draft
from cascader.draft.outline import GroupOutline
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.search import best, remote_calls
from cascader.ethosu.search.form import Form, FormRank
from cascader.ethosu.search.frontier import CHECKED_AHEAD, _Checks
from cascader.ethosu.search.replayed import Replayed
from cascader.ethosu.search.request import OPTIMISE, Run
from cascader.search.workers import workers
from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile
from sim import quick_cycles

SYSTEM = profile("u55_high_end").memory_system()


@pytest.fixture
def in_too_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drafts whose buffers reach beyond their arena."""
    drafted = GroupOutline.draft

    def smaller(*arguments: Any, **options: Any) -> Draft:
        made = drafted(*arguments, **options)
        return replace(made, memory=made.memory - 16)

    monkeypatch.setattr(GroupOutline, "draft", smaller)


@pytest.mark.usefixtures("in_too_few_bytes")
@pytest.mark.parametrize("smallest", [False, True])
def test_a_wrong_schedule_is_no_answer(*, smallest: bool) -> None:
    asked = of_bytes(network("tiny_residual"), DEFAULT, SYSTEM, None if smallest else 4096, optimise=OPTIMISE[smallest])
    with pytest.raises(InputError, match="arena"):
        schedule(asked, quick_cycles)


@pytest.mark.usefixtures("in_too_few_bytes")
def test_a_wrong_schedule_is_no_point_of_a_frontier() -> None:
    with pytest.raises(InputError, match="arena"):
        frontier(of_bytes(network("tiny_residual"), DEFAULT, SYSTEM), quick_cycles)


def test_a_check_that_began_ahead_is_not_made_again_and_one_that_nobody_needs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    points = frontier(of_bytes(network("tiny_residual"), DEFAULT, SYSTEM), quick_cycles).points
    networks = {id(point.schedule.network): point.schedule for point in points}
    rank = FormRank(0, len(networks))
    forms = {key: Form(rank, one.network, DEFAULT, SYSTEM, CascadeOptions(), one.provenance) for key, one in networks.items()}
    likely = [Replayed(forms[id(point.schedule.network)], draft_of(point.schedule), point.cycles) for point in points]
    checked: list[Schedule] = []
    monkeypatch.setattr(remote_calls, "check_schedule", checked.append)
    assert len(points) > CHECKED_AHEAD
    with workers(1) as executor:
        checks = _Checks(likely, executor)
        checks.ahead()
        checks.require(likely[1:])
    assert {one.arena_size for one in checked} == {point.memory for point in points[1:]}
    assert len(checked) == len(points) - 1


def test_a_search_that_nobody_watches_judges_no_draft_as_it_comes_and_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []

    def counted(name: str) -> None:
        made = getattr(best, name)
        monkeypatch.setattr(best, name, lambda *some, **named: judged.append(name) or made(*some, **named))

    counted("schedule_layer_by_layer")
    counted("Replayed")
    asked = of_bytes(network("tiny_residual"), DEFAULT, SYSTEM, 8192)
    alone = schedule(asked, quick_cycles, Run(bounds=False)).point
    assert judged == []
    assert schedule(asked, quick_cycles, Run(bounds=False, seen=lambda _: None)).point == alone
    assert judged[:2] == ["schedule_layer_by_layer", "Replayed"]
