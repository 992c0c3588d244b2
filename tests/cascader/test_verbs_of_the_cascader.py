"""The verbs of the library give the answers of the commands: the same policy, wherever they are asked."""

from __future__ import annotations

import pytest

import npu_testbed
from cascader import Settings, frontier, schedule
from cascader.ethosu.schedule.file import to_json
from npu_model.errors import InputError
from npu_testbed.memory_options import MemoryOptions
from npu_testbed.models import load_model
from npu_testbed.versions import tool_versions
from sim import quick_cycles

DEVICE = "ethos-u55-128"
MEMORY = MemoryOptions().memory_system()


def settings_of(name: str, **others: object) -> Settings:
    return Settings(name=name, tools=tool_versions(()), **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "budget", "effort", "homes", "smallest"),
    [
        ("zoo:tiny_residual", 8192, "standard", (), False),
        ("zoo:resnet8", 32768, "quick", (), False),
        ("zoo:ds_cnn", None, "standard", ("input=axi1",), True),
        ("portfolio:channels_1", None, "standard", (), False),  # the network of Vela's Python core wins
        ("portfolio:drawn_7020", None, "standard", (), True),
        ("portfolio:conv_strided_rows_conv", None, "standard", (), False),  # the C++ core's stream is wrong
    ],
)
def test_the_library_schedules_as_the_command_does(
    name: str, budget: int | None, effort: str, homes: tuple[str, ...], *, smallest: bool
) -> None:
    settings = settings_of(name, effort=effort, homes=homes, smallest=smallest)
    found = schedule(load_model(name).data, DEVICE, MEMORY, budget, quick_cycles, settings)
    optimise = "Size" if smallest else "Performance"
    made = npu_testbed.schedule(name, arena_cache_size=budget, effort=effort, home=list(homes), optimise=optimise, jobs=1)
    assert (found.point.memory, found.point.cycles) == (made.arena_bytes, made.cycles)
    assert to_json(found.point.schedule) == to_json(made.schedule)


def test_the_library_finds_the_frontier_of_the_command() -> None:
    found = frontier(load_model("zoo:tiny_residual").data, DEVICE, MEMORY, quick_cycles, settings_of("zoo:tiny_residual"))
    made = npu_testbed.frontier("zoo:tiny_residual", jobs=1)
    assert [(point.memory, point.cycles) for point in found.points] == [(point.memory, point.cycles) for point in made.points]


def test_an_unknown_effort_is_refused() -> None:
    with pytest.raises(InputError, match="'hasty' is unknown: choose quick, standard or thorough"):
        schedule(load_model("zoo:tiny_conv").data, DEVICE, MEMORY, None, quick_cycles, Settings(effort="hasty"))
