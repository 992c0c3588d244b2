"""NPU counters in the logs of firmware: the evaluation kit, MLIA's runner, TFLite Micro and ExecuTorch.

- evaluation kit: ``NPU ACTIVE cycles: 680611`` and ``NPU AXI0_RD_DATA_BEAT_RECEIVED beats: 217385``
- MLIA's runner: ``<metrics>`` base64 of JSON ``</metrics>``, a list of groups with samples of the evaluation kit's names
- TFLite Micro and ExecuTorch: ``ethosu_pmu_cycle_cntr : 43210`` and ``ethosu_pmu_cntr0 : 1234``, what the numbered counters
  count being told by ``Ethos-U PMU Events:[ETHOSU_PMU_AXI0_RD_DATA_BEAT_RECEIVED, ...]`` or by the caller; or, by the driver's
  names, ``ETHOSU_PMU_NPU_ACTIVE : 43210``
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from npu_model.errors import InputError

ACTIVE, TOTAL = "NPU_ACTIVE", "CYCLE"
"""PMU event names of active cycles and of the cycle counter."""

AXI0_READ, AXI0_WRITE, AXI1_READ = "AXI0_RD_DATA_BEAT_RECEIVED", "AXI0_WR_DATA_BEAT_WRITTEN", "AXI1_RD_DATA_BEAT_RECEIVED"

_KIT_NAMES = {"ACTIVE": ACTIVE, "IDLE": "NPU_IDLE", "TOTAL": TOTAL}
"""The evaluation kit's own names; the beats have PMU event names there too."""

_KIT = re.compile(r"\bNPU (ACTIVE|IDLE|TOTAL|AXI\d_\w+)(?: cycles| beats)?\s*:\s*(\d+)")
_METRICS = re.compile(r"<metrics>([^<]*)</metrics>", re.DOTALL)
_CYCLES = re.compile(r"\bethosu_pmu_cycle_cntr\s*[:=]\s*(\d+)")
_NAMED = re.compile(r"\bETHOSU_PMU_(\w+)\s*[:=]\s*(\d+)")
_NUMBERED = re.compile(r"\bethosu_pmu_cntr(\d)\s*[:=]\s*(\d+)")
_EVENTS = re.compile(r"Ethos-U PMU Events:\s*\[([^\]]*)\]")

_MAX_COUNT = 1 << 48
"""The PMU's cycle counter has 48 bits (core driver ``ethosu55_interface.h``)."""


class FvpCounters(Struct, frozen=True):
    """Counters that a run's firmware printed, by PMU event name; ``active`` is NPU ACTIVE in NPU cycles."""

    active: int
    values: Mapping[str, int]

    def get(self, name: str) -> int | None:
        """A counter, None if it was not printed."""
        return self.values.get(name)


def _event(name: str) -> str:
    """The PMU event's name without the driver's prefix."""
    return name.strip().removeprefix("ETHOSU_PMU_")


def _dicts(values: Any) -> list[dict[str, Any]]:
    """The objects in a JSON list; none if it is no list."""
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _samples(text: str) -> Iterator[tuple[str, Any]]:
    """Names and values of the samples in one ``<metrics>`` block."""
    try:
        groups = json.loads(base64.b64decode("".join(text.split()), validate=True))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise InputError(f"The log has a <metrics> block that is not base64 of JSON ({str(error)[:80]}): run it again.") from None
    for group in _dicts(groups):
        for sample in _dicts(group.get("samples")):
            values = sample.get("value")
            for value in values if isinstance(values, list) else (values,):
                yield str(sample.get("name", "")), value


def _kit_name(name: str) -> str:
    short = name.removeprefix("NPU ").strip()
    return _KIT_NAMES.get(short, short)


def _printed(log: str, events: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Every counter in the log, with repetitions."""
    for name, value in _KIT.findall(log):
        yield _kit_name(name), int(value)
    for block in _METRICS.findall(log):
        for name, value in _samples(block):
            yield _kit_name(name), value
    for name, value in _NAMED.findall(log):
        yield name, int(value)
    for value in _CYCLES.findall(log):
        yield TOTAL, int(value)
    listed = _EVENTS.search(log)
    names = [_event(name) for name in (listed.group(1).split(",") if listed else events)]
    for number, value in _NUMBERED.findall(log):
        if int(number) < len(names):
            yield names[int(number)], int(value)


def is_log(text: str) -> bool:
    """Whether a text holds counters of the NPU as firmware prints them."""
    return any(pattern.search(text) for pattern in (_KIT, _METRICS, _CYCLES, _NAMED, _NUMBERED))


def parse_log(log: str, events: Sequence[str] = ()) -> FvpCounters:
    """The counters of an inference in a firmware's log, which may hold anything else.

    ``events`` names the events of counters 0 to 3 if the log does not. InputError if NPU ACTIVE is missing, if a counter is not a count, or
    if a counter has two values (say, from several inferences).
    """
    values: dict[str, int] = {}
    for name, value in _printed(log, events):
        if type(value) is not int or not 0 <= value < _MAX_COUNT:
            raise InputError(f"The log has {name} = {str(value)[:40]!r}: a count from 0 to {_MAX_COUNT - 1} is needed; run it again.")
        if values.setdefault(name, value) != value:
            raise InputError(f"The log has {name} as {values[name]} and as {value}: let the firmware run one inference.")
    if ACTIVE not in values:
        found = ", ".join(sorted(values)) or "no NPU counter"
        raise InputError(f"The log has no {ACTIVE} but {found}: use firmware that prints it, or name the events of its counters.")
    return FvpCounters(values[ACTIVE], values)
