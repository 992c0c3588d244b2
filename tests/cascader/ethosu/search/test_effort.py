"""Effort: a search at the budget, and one at every limit of a frontier."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from asked_for import schedule, system_said
from command_line import call, refusal
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import UNKNOWN
from sim import quick_cycles

# No call of a search depends on its aim or effort: they decide which calls are made.
pytestmark = pytest.mark.usefixtures("searches_are_kept")

SYSTEM = system_said()


@pytest.mark.parametrize("budget", [16_384, 32_768] if "NPU_TESTBED_ALL" in os.environ else [32_768])
def test_a_search_at_the_budget_is_hardly_slower_than_one_at_every_limit(budget: int) -> None:
    """Measured: equal at both budgets."""
    near, everywhere = (schedule("zoo:resnet8", budget=budget, effort=effort, processes=1) for effort in ("standard", "thorough"))
    assert near.arena_size <= budget >= everywhere.arena_size
    assert quick_cycles(lower(near), SYSTEM) <= quick_cycles(lower(everywhere), SYSTEM) * 1.01


def test_an_effort_is_no_option_of_a_schedule_without_a_choice(tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    sentence = refusal("schedule", "zoo:tiny_conv", "--no-cascade", "--effort", "thorough", "-o", out)
    assert "--effort thorough cannot be combined with --no-cascade" in sentence
    assert call("schedule", "zoo:tiny_conv", "--effort", "thorough", "-o", out).status == 0


@pytest.mark.parametrize("effort", ["standard", "thorough"])
def test_more_bytes_than_any_schedule_needs_are_as_good_as_enough(effort: str) -> None:
    """An arena is divided into pieces: of 4 GiB they would be of 2 MiB each. The provenance records what was asked, so it is left out."""
    found = (schedule("zoo:tiny_conv", budget=size, effort=effort, processes=1) for size in (1 << 20, 1 << 32))
    enough, far_too_many = (replace(one, provenance=UNKNOWN) for one in found)
    assert enough == far_too_many
