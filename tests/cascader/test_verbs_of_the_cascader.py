"""The verbs of the library give the answers of the commands: the same policy, wherever they are asked."""

from __future__ import annotations

import pytest

import npu_testbed
from cascader import frontier, schedule
from cascader.ethosu.schedule.file import to_json
from npu_model.errors import InputError
from npu_testbed.asked.request import requested
from sim import quick_cycles


@pytest.mark.parametrize(
    ("name", "budget", "effort", "homes", "optimise"),
    [
        ("zoo:tiny_residual", 8192, "standard", (), "Performance"),
        ("zoo:resnet8", 32768, "quick", (), "Performance"),
        ("zoo:tiny_residual", None, "standard", ("input=axi1",), "Size"),
        ("portfolio:channels_1", None, "standard", (), "Performance"),  # the network of Vela's Python core wins
        ("portfolio:drawn_7020", None, "standard", (), "Size"),
        ("portfolio:conv_strided_rows_conv", None, "standard", (), "Performance"),  # the C++ core's stream is wrong
    ],
)
def test_the_library_schedules_as_the_command_does(
    name: str, budget: int | None, effort: str, homes: tuple[str, ...], optimise: str
) -> None:
    found = schedule(requested(name, budget=budget, effort=effort, homes=homes, optimise=optimise), quick_cycles)
    made = npu_testbed.schedule(name, arena_cache_size=budget, effort=effort, home=list(homes), optimise=optimise, jobs=1)
    assert (found.point.memory, found.point.cycles) == (made.arena_bytes, made.cycles)
    assert to_json(found.point.schedule) == to_json(made.schedule)


def test_the_library_finds_the_frontier_of_the_command() -> None:
    found = frontier(requested("zoo:tiny_conv"), quick_cycles)
    made = npu_testbed.frontier("zoo:tiny_conv", jobs=1)
    assert [(point.memory, point.cycles) for point in found.points] == [(point.memory, point.cycles) for point in made.points]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"effort": "hasty"}, "'hasty' is unknown: choose quick, standard or thorough"),
        ({"optimise": "Sise"}, "'Sise' is unknown: choose Performance or Size"),
        ({"budget": 0}, "0 is below 1: give a number of bytes"),
    ],
)
def test_a_request_that_cannot_be_is_refused(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        schedule(requested("zoo:tiny_conv", **wrong), quick_cycles)
