"""``schedule --stripes``: plans of stripes along any axes as schedules of the NPU, from the command and from Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import npu_testbed
from cascader.ethosu.network.network import Network
from cascader.ethosu.search.task import Task
from cascader.ethosu.striped import choice
from cascader.ethosu.striped.choice import StripedPoint
from npu_testbed.commands.cli import main


@pytest.fixture(scope="module", autouse=True)
def plans_are_made_once() -> Iterator[None]:
    """Every test asks for plans of one network on one device: budget and aim only choose among them."""
    planned = choice._points
    made: list[tuple[Network, list[StripedPoint]]] = []

    def points(network: Network, task: Task) -> list[StripedPoint]:
        known = next((found for one, found in made if one == network), None)
        if known is None:
            known = list(planned(network, task))
            made.append((network, known))
        return known

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "_points", points)
        yield


def test_a_plan_of_stripes_is_a_schedule_that_verifies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tiny.json"
    assert main(["schedule", "zoo:tiny_conv", "--stripes", "--optimise", "Size", "--json", "--no-advice", "-o", str(file)]) == 0
    said = json.loads(capsys.readouterr().out)
    (group,) = said["groups"]
    assert group["parts"] == ["pointwise", "full", "strided"]
    assert {buffer["mode"] for buffer in group["buffers"]} <= {"recompute", "rolling"}
    assert said["arena_bytes"] <= group["memory_bytes"]
    assert group["work"] == said["macs"]
    assert main(["verify", str(file), "--model", "zoo:tiny_conv"]) == 0
    assert main(["simulate", "schedule", str(file)]) == 0


def test_a_budget_chooses_among_plans_and_names_the_smallest_that_is_reached() -> None:
    small = npu_testbed.schedule("zoo:tiny_conv", stripes=True, arena_cache_size=8191)
    assert small.arena_bytes < 8192 == npu_testbed.schedule("zoo:tiny_conv", no_cascade=True).arena_bytes
    with pytest.raises(npu_testbed.Error, match=r"No plan of stripes fits into 16 bytes: the smallest that is reached takes \d+"):
        npu_testbed.schedule("zoo:tiny_conv", stripes=True, arena_cache_size=16)


def test_constants_are_staged_where_there_is_room() -> None:
    little, more = (npu_testbed.schedule("zoo:tiny_conv", stripes=True, arena_cache_size=size) for size in (5952, 7900))
    assert more.cycles < little.cycles
    assert not little.schedule.copies
    assert more.schedule.copies
    assert any(group["staged"] for group in more.to_dict()["groups"])


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"no_cascade": True}, "--stripes cannot be combined with --no-cascade"),
        ({"effort": "quick"}, "--effort quick cannot be combined with --stripes"),
        ({"home": "input=ext"}, "--home input=ext cannot be combined with --stripes"),
        ({"spill": "ext"}, "--spill ext cannot be combined with --stripes"),
        ({"recompute": "2"}, "--recompute 2 cannot be combined with --stripes"),
        ({"cost": lambda figures: figures.cycles}, "cost cannot be combined with stripes"),
    ],
)
def test_options_of_the_search_by_rows_are_refused_beside_it(options: dict[str, object], name: str) -> None:
    with pytest.raises(npu_testbed.Error, match=name):
        npu_testbed.schedule("zoo:tiny_conv", stripes=True, **options)
