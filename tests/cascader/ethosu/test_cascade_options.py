"""The switches of the search in combination: whatever is on or off, schedules are valid, fit, and compute the network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from pathlib import Path
from unittest.mock import patch

import pytest
from cascades import expected, outputs
from form_variants import variants
from msgspec.structs import fields, replace
from scheduling import DEFAULT, network

import cascader
from cascader.draft.drafter import DraftOptions
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.forms import sizes
from cascader.ethosu.forms.passes import PASSES
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.verify.check import check_schedule
from cascader.plan.plans import PlanOptions
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim.footprint import footprint

pytestmark = pytest.mark.law

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
EVERY = os.environ.get("NPU_TESTBED_ALL") == "1"

# Of each option two values, off first.
CASCADE: dict[str, tuple[object, object]] = {
    **{option.name: (False, True) for option in fields(CascadeOptions) if option.type is bool},
    "dense": (0, 64),
    "rungs": (2, 3),
    "fine_rows": ((), (3, 6)),
    "recompute": (Fraction(1), Fraction(5, 4)),
}
PLANS: dict[str, tuple[object, object]] = {
    **{option.name: (False, True) for option in fields(PlanOptions) if option.type is bool},
    "staging": ((0,), (0, 1 << 30)),
    "stripe_rows": ((1, 4), (1, 2, 8)),
    "inner_rows": ((), (1,)),
    "group_length": (2, 24),
}
DRAFTS: dict[str, tuple[object, object]] = {
    **{option.name: (False, True) for option in fields(DraftOptions) if option.type is bool},
    "regroupings": (0, 10),
    "every": (0, 5),
    "polished": (1, 2),
    "rows": (1, 1 << 30),
    "moves": (0, 20),
    "stripe_rows": ((1, 4), (1, 3)),
    "inner_rows": ((), (1, 2)),
}
SWITCHES = [*(("cascade", name) for name in CASCADE), *(("plans", name) for name in PLANS), *(("drafts", name) for name in DRAFTS)]


def odd_codes(bits: int) -> list[int]:
    """Numbers with an odd count of ones: no two or three of them sum to 0 modulo 2."""
    return [code for code in range(1 << bits) if code.bit_count() % 2]


CODES = odd_codes(7)
"""One per switch: up to 64 of them."""
RUNS = range(128)


def chosen(run: int, switch: int) -> int:
    """Whether a switch is on: the parity of its code with the run's, so that of three switches each combination comes as often."""
    return (CODES[switch] & run).bit_count() % 2


def options(run: int) -> CascadeOptions:
    def of(group: str, values: Mapping[str, tuple[object, object]]) -> dict[str, object]:
        return {name: values[name][chosen(run, at)] for at, (where, name) in enumerate(SWITCHES) if where == group}

    made = replace(CascadeOptions(), **of("cascade", CASCADE))
    return replace(made, plans=replace(made.plans, **of("plans", PLANS)), drafts=replace(made.drafts, **of("drafts", DRAFTS)))


def test_every_option_has_a_switch_and_of_three_switches_every_combination_is_run() -> None:
    named = {
        (group, option.name)
        for group, kind in (("cascade", CascadeOptions), ("plans", PlanOptions), ("drafts", DraftOptions))
        for option in fields(kind)
    }
    assert named - {("cascade", "plans"), ("cascade", "drafts")} == set(SWITCHES)
    assert len(SWITCHES) <= len(CODES)
    for some in combinations(range(len(SWITCHES)), 3):
        seen = [tuple(chosen(run, at) for at in some) for run in RUNS]
        assert {seen.count(every) for every in product((0, 1), repeat=3)} == {len(RUNS) // 8}


def assert_valid(schedule: Schedule, name: str) -> None:
    check_schedule(schedule)
    lowered = lower(schedule)
    peak = footprint(lowered.programs, lowered.inputs, lowered.outputs).peak
    # The last tensor may end inside the 16 bytes that the arena's size is rounded up to.
    assert schedule.arena_size - 16 < peak <= schedule.arena_size
    assert outputs(lowered) == expected(name)


@cache
def smallest_of(name: str, run: int) -> tuple[Schedule, ...]:
    """The smallest schedule of each variant, then those of twice its arena; pieces of weights may be small, for these networks are."""
    found: list[Schedule] = []
    with patch.object(sizes, "_SMALLEST_SLICE", 1024):
        for form in variants(network(name), DEFAULT, SYSTEM, options(run)):
            variant = Cascader(form, DEFAULT, SYSTEM, options(run))
            smallest = variant.smallest()
            found.append(variant.schedule(smallest))
            for budget in (smallest.memory, smallest.memory * 5 // 4):
                fitting = variant.drafts_at(budget)
                assert fitting
                assert all(draft.memory <= budget for draft in fitting)
                assert [draft.cycles for draft in fitting] == sorted(draft.cycles for draft in fitting)
                found += map(variant.schedule, fitting)
    return tuple(found)


@pytest.mark.parametrize(
    "name",
    [
        "tiny_residual",
        pytest.param("tiny_conv", marks=pytest.mark.skipif(not EVERY, reason="takes a minute: set NPU_TESTBED_ALL=1 to run it")),
    ],
)
@pytest.mark.parametrize("run", RUNS if EVERY else RUNS[::8])
def test_whatever_is_switched_on_or_off_schedules_fit_their_arena_and_compute_the_network(name: str, run: int) -> None:
    found = smallest_of(name, run)
    assert found
    for schedule in found:
        assert_valid(schedule, name)


def test_every_switch_of_the_forms_and_of_the_search_is_read() -> None:
    """By an attribute, or by its name in the table of passes: an option that nothing reads would be accepted and ignored."""
    sources = [path for path in Path(cascader.__file__).parent.rglob("*.py") if path.name != "options.py"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    named = {name for one in PASSES.values() for name in one.switches}
    assert [one.name for one in fields(CascadeOptions) if f"options.{one.name}" not in text and one.name not in named] == []


@pytest.mark.parametrize("run", RUNS[::32])
def test_the_same_options_give_the_same_schedules(run: int) -> None:
    first = smallest_of("tiny_residual", run)
    smallest_of.cache_clear()
    again = smallest_of("tiny_residual", run)
    assert [(one.jobs, one.buffers, one.copies) for one in first] == [(one.jobs, one.buffers, one.copies) for one in again]
