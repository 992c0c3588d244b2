"""Traces are what the Trace Event Format says, by rules that share nothing with what writes them.

The rules are those of "Trace Event Format" (the Chrome project's document), and one of Perfetto's importer: slices of a thread nest. The
trace processor itself is on no registry: the Python package ``perfetto`` downloads it when it starts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from asked_for import simulate_vela

from npu_testbed.views.arena_map import trace_buffers
from npu_testbed.views.program_map import program_map
from sim.views.recorder import TRACED, EventRecorder
from sim.views.trace import trace_json

FIELDS = {
    "X": {"name": str, "cat": str, "ts": (int, float), "dur": (int, float), "pid": int, "tid": int},
    "C": {"name": str, "ts": (int, float), "pid": int, "args": dict},
    "M": {"name": str, "pid": int, "args": dict},
    "s": {"name": str, "cat": str, "id": (int, str), "ts": (int, float), "pid": int, "tid": int},
    "f": {"name": str, "cat": str, "id": (int, str), "ts": (int, float), "pid": int, "tid": int},
    "i": {"name": str, "ts": (int, float), "pid": int, "s": str},
}
"""Fields that an event of each phase has, with their types."""

METADATA = {"process_name": "name", "thread_name": "name", "process_sort_index": "sort_index", "thread_sort_index": "sort_index"}
"""Events of metadata, each with its argument."""


def wrong_fields(event: dict[str, Any]) -> list[str]:
    """The fields of an event that are missing or of another type."""
    fields = FIELDS.get(event.get("ph", ""))
    if fields is None:
        return ["ph"]
    found = [key for key, kind in fields.items() if not isinstance(event.get(key), kind)]
    if not found and event["ph"] == "M" and METADATA.get(event["name"]) not in event["args"]:
        return ["args"]
    if not found and event["ph"] == "C" and not all(isinstance(value, (int, float)) for value in event["args"].values()):
        return ["args"]
    return found


def overlaps(slices: list[tuple[int, int]]) -> Iterator[int]:
    """Starts of slices of a thread, in nanoseconds, that end after the slice that they begin in, or before they begin."""
    open_until: list[int] = []
    for start, length in sorted(slices, key=lambda one: (one[0], -one[1])):
        while open_until and open_until[-1] <= start:
            open_until.pop()
        if length < 0 or (open_until and start + length > open_until[-1]):
            yield start
        open_until.append(start + length)


def faults(trace: dict[str, Any]) -> Iterator[str]:
    """Differences from the format."""
    events = trace["traceEvents"]
    wrong = {number: found for number, event in enumerate(events) if (found := wrong_fields(event))}
    yield from (f"{number}: {', '.join(found)}" for number, found in wrong.items())
    threads: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    arrows: dict[tuple[str, str, object], list[tuple[str, float]]] = defaultdict(list)
    for number, event in enumerate(events):
        if event.get("ph") == "X" and number not in wrong:
            times = round(1000 * event["ts"]), round(1000 * event["dur"])
            threads[event["pid"], event["tid"]].append(times)
        if event.get("ph") in ("s", "f") and number not in wrong:
            arrows[event["name"], event["cat"], event["id"]].append((event["ph"], event["ts"]))
    for ends in arrows.values():
        if sorted(phase for phase, _ in ends) != ["f", "s"] or dict(ends)["s"] > dict(ends)["f"]:
            yield f"an arrow of {ends}"
    for thread, slices in threads.items():
        yield from (f"slices of thread {thread} overlap at {start}" for start in overlaps(slices))


def traced(model: str) -> dict[str, Any]:
    recorder = EventRecorder(TRACED)
    simulation = simulate_vela(model, listeners=[recorder])
    found: dict[str, Any] = json.loads(trace_json(simulation.replay, recorder, trace_buffers(program_map(simulation))))
    return found


@pytest.mark.parametrize("model", ["zoo:ds_cnn", "portfolio:cpu_heads"])
def test_a_trace_is_as_its_format_says(model: str) -> None:
    trace = traced(model)
    assert {event["ph"] for event in trace["traceEvents"]} >= {"X", "C", "M"}
    assert not list(faults(trace))


def test_the_rules_find_what_is_wrong() -> None:
    trace = traced("zoo:tiny_residual")
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["dur"] > 1]
    for change in ({"dur": -1}, {"ts": "0"}, {"ph": "Z"}):
        wrong = {"traceEvents": [slices[0] | change]}
        assert list(faults(wrong))
    shifted = slices[0] | {"ts": slices[0]["ts"] + slices[0]["dur"] / 2}
    assert list(faults({"traceEvents": [slices[0], shifted]}))
