"""The PMU by itself: the event that starts the cycle counter, and the one that stops it."""

from __future__ import annotations

import pytest

from npu_model.programmer_registers import event_numbers
from sim.device.pmu import CYCLE_COUNTER, Pmu

HAPPENED = {"CYCLE": 1000, "NPU_ACTIVE": 300, "CYCLE_SINCE_ACTIVE": 700}


@pytest.mark.parametrize(
    ("start", "stop", "counted"),
    [
        ("", "", 1000),
        ("CYCLE", "", 1000),
        ("", "NPU_IDLE", 300),
        ("CYCLE", "NPU_IDLE", 300),
        ("NPU_ACTIVE", "NPU_IDLE", 300),
        ("NPU_ACTIVE", "", 700),
        ("MAC_ACTIVE", "", 0),
    ],
)
def test_the_cycle_counter_counts_from_its_start_event_on(start: str, stop: str, counted: int) -> None:
    """No event and CYCLE start it at once, NPU_ACTIVE with a run, any other one never."""
    numbers, happened = event_numbers(), dict.fromkeys(HAPPENED, 0)
    pmu = Pmu()
    pmu.enabled, pmu.counting = True, 1 << CYCLE_COUNTER
    pmu.start_event, pmu.stop_event = (numbers[name] if name else 0 for name in (start, stop))
    pmu.count(lambda name: happened.get(name, 0))
    happened.update(HAPPENED)
    pmu.count(lambda name: happened.get(name, 0))
    assert pmu.cycles == counted
