"""The fast recurrence is the engine, to the cycle: on generated Programs, memories and timing parameters, and on real networks."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_programs import memories
from test_sim_properties import MEMORIES, programs

from npu_model.memory import MemorySystem
from npu_model.program import Program
from npu_model.timing import DEFAULT_TIMING, BlockdepRule, TimingParameters
from sim import Replay, quick_replay, replay

SYSTEMS = st.builds(memories, MEMORIES, MEMORIES)

SWITCHES: dict[str, list[Any]] = {
    "pool_floor": [4],
    "decoder_cycles_per_channel": [0, 7],
    "decodes_streams": [False],
    "output_scale": [Fraction(0), Fraction(7, 6)],
    "output_start_cycles": [5],
    "kept_ifm_blocks": [0, 8],
    "buffer_slots": [1, 3],
    "kernel_start_cycles": [1, 200],
    "blockdep": [BlockdepRule.IGNORED, BlockdepRule.DRAINED],
    "shram_drains": [False],
    "weights_ahead": [False],
    "command_cycles_per_word": [0, 3],
    "ifm_burst_divisor": [1, 8],
    "grant": [1, 3, 1024],
    "lookahead": [0, 100],
    "shared_cap": [False],
    "aligned_bursts": [False],
}
"""Values of every timing parameter beside its default."""


def assert_equal(one: Program, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING) -> None:
    """Cycles, beats of the ports and times of the operations are those of the engine."""
    slow, fast = replay(one, system, timing=timing), quick_replay(one, system, timing)
    assert fast.cycles == slow.cycles
    assert fast.beats == slow.beats
    assert times(slow) == {index: (found.issued, found.finished) for index, found in fast.times.items()}


def times(run: Replay) -> dict[int, tuple[int, int]]:
    return {one.index: (one.issued, one.finished) for one in run.operations}


@settings(max_examples=300)
@given(programs(), SYSTEMS)
def test_the_recurrence_equals_the_engine_on_generated_programs(one: Program, system: MemorySystem) -> None:
    assert_equal(one, system)


def test_every_timing_parameter_has_other_values_here() -> None:
    assert set(SWITCHES) == set(TimingParameters.__dataclass_fields__)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in SWITCHES.items() for value in values])
@settings(max_examples=12)
@given(one=programs(), system=SYSTEMS)
def test_the_recurrence_equals_the_engine_under_every_timing_parameter(
    name: str, value: object, one: Program, system: MemorySystem
) -> None:
    assert_equal(one, system, replace(DEFAULT_TIMING, **{name: value}))
