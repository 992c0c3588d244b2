"""Logs of firmware on an FVP: every kind tells the same counters, and one without an inference is refused in a sentence."""

from __future__ import annotations

import base64
import json

import pytest

from npu_model.errors import InputError
from validation.fvp.live.counters import parse_log

EVALUATION_KIT = """\
    telnetterminal0: Listening for serial connection on port 5000
INFO - Final results:
INFO - Total number of inferences: 1
INFO - Profile for Inference:
INFO - NPU AXI0_RD_DATA_BEAT_RECEIVED beats: 542
INFO - NPU AXI0_WR_DATA_BEAT_WRITTEN beats: 386
INFO - NPU AXI1_RD_DATA_BEAT_RECEIVED beats: 14165
INFO - NPU ACTIVE cycles: 105087
INFO - NPU IDLE cycles: 972
INFO - NPU TOTAL cycles: 106059
Info: /OSCI/SystemC: Simulation stopped by user.
"""

EXECUTORCH = """\
I [executorch:arm_perf_monitor.cpp:180] NPU Inferences : 1
I [executorch:arm_perf_monitor.cpp:181] Profiler report, CPU cycles per operator:
I [executorch:arm_perf_monitor.cpp:185] ethos-u : cycle_cnt : 112000 cycles
I [executorch:arm_perf_monitor.cpp:198] Ethos-U PMU report:
I [executorch:arm_perf_monitor.cpp:199] ethosu_pmu_cycle_cntr : 106059
I [executorch:arm_perf_monitor.cpp:201] ethosu_pmu_cntr0 : 542
I [executorch:arm_perf_monitor.cpp:201] ethosu_pmu_cntr1 : 14165
I [executorch:arm_perf_monitor.cpp:201] ethosu_pmu_cntr2 : 386
I [executorch:arm_perf_monitor.cpp:201] ethosu_pmu_cntr3 : 105087
I [executorch:arm_perf_monitor.cpp:210] Ethos-U PMU Events:[ETHOSU_PMU_AXI0_RD_DATA_BEAT_RECEIVED, ETHOSU_PMU_AXI1_RD_DATA_BEAT_RECEIVED, \
ETHOSU_PMU_AXI0_WR_DATA_BEAT_WRITTEN, ETHOSU_PMU_NPU_ACTIVE]
"""

TFLITE_MICRO = """\
ethosu_pmu_cycle_cntr : 106059
ethosu_pmu_cntr0 : 542
ethosu_pmu_cntr1 : 386
ethosu_pmu_cntr2 : 14165
ethosu_pmu_cntr3 : 105087
EXITTHESIM
"""
TFLITE_MICRO_EVENTS = ("AXI0_RD_DATA_BEAT_RECEIVED", "ETHOSU_PMU_AXI0_WR_DATA_BEAT_WRITTEN", "AXI1_RD_DATA_BEAT_RECEIVED", "NPU_ACTIVE")

COUNTERS = {
    "NPU_ACTIVE": 105087,
    "CYCLE": 106059,
    "AXI0_RD_DATA_BEAT_RECEIVED": 542,
    "AXI0_WR_DATA_BEAT_WRITTEN": 386,
    "AXI1_RD_DATA_BEAT_RECEIVED": 14165,
}


def _metrics(groups: object) -> str:
    return f"text before <metrics>{base64.b64encode(json.dumps(groups).encode()).decode()}</metrics> and after\n"


def _mlia_groups() -> list[dict[str, object]]:
    names = {"NPU_ACTIVE": "NPU ACTIVE", "CYCLE": "NPU TOTAL"}
    samples = [{"name": names.get(name, f"NPU {name}"), "value": [value]} for name, value in COUNTERS.items()]
    return [{"profiling_group": "Inference", "count": 1, "samples": [{"name": "NPU IDLE", "value": [972]}, *samples]}]


# Logs


@pytest.mark.parametrize(
    ("log", "events"),
    [
        (EVALUATION_KIT, ()),
        (EXECUTORCH, ()),
        (TFLITE_MICRO, TFLITE_MICRO_EVENTS),
        (_metrics(_mlia_groups()), ()),
        (EVALUATION_KIT + _metrics(_mlia_groups()), ()),
        ("".join(f"ETHOSU_PMU_{name} : {value}\n" for name, value in COUNTERS.items()), ()),
    ],
    ids=["evaluation kit", "ExecuTorch", "TFLite Micro", "MLIA", "both of MLIA's outputs", "driver names"],
)
def test_every_firmware_tells_the_same_counters(log: str, events: tuple[str, ...]) -> None:
    counters = parse_log(log, events)
    assert counters.active == COUNTERS["NPU_ACTIVE"]
    assert {name: counters.get(name) for name in COUNTERS} == COUNTERS


def test_the_events_in_a_log_are_stronger_than_those_of_the_caller() -> None:
    assert parse_log(EXECUTORCH, ("NPU_ACTIVE",)).active == COUNTERS["NPU_ACTIVE"]


def test_the_cycle_counter_never_stands_in_for_npu_active() -> None:
    with pytest.raises(InputError, match=r"^The log has no NPU_ACTIVE but CYCLE: use firmware that prints it, or name the events"):
        parse_log(TFLITE_MICRO)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("", "has no NPU_ACTIVE but no NPU counter"),
        ("\x00\xff garbage NPU ACTIVE cycles: many\n", "has no NPU_ACTIVE but no NPU counter"),
        (
            EVALUATION_KIT + "INFO - NPU ACTIVE cycles: 105088\n",
            "has NPU_ACTIVE as 105087 and as 105088: let the firmware run one inference",
        ),
        (f"NPU ACTIVE cycles: {1 << 48}\n", "a count from 0 to 281474976710655 is needed"),
        ("<metrics>not base64!</metrics>", "<metrics> block that is not base64 of JSON"),
        ("<metrics>bm90IGpzb24=</metrics>", "<metrics> block that is not base64 of JSON"),
        (_metrics([{"samples": [{"name": "NPU ACTIVE", "value": ["7"]}]}]), "has NPU_ACTIVE = '7': a count"),
        (_metrics([{"samples": [{"name": "NPU ACTIVE", "value": [1, 2]}]}]), "as 1 and as 2"),
        (_metrics({"samples": 3}), "has no NPU_ACTIVE"),
        (_metrics([3, {"samples": [3]}, {"samples": 3}, {}]), "has no NPU_ACTIVE"),
    ],
)
def test_a_log_without_one_inference_is_one_sentence(log: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        parse_log(log)
    assert message in str(error.value)
    assert str(error.value).count("\n") == 0


# PMU traces
