"""The queries of docs/tools.md say what the replay counted; run in SQLite on the tables that Perfetto's documentation describes."""

from __future__ import annotations

import json
import re
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from asked_for import simulate_vela

from npu_testbed.replays.simulation import Simulation
from npu_testbed.views.arena_map import trace_buffers
from npu_testbed.views.program_map import program_map
from sim.views.recorder import TRACED, EventRecorder
from sim.views.stalls import stall_report
from sim.views.trace import trace_json

PAGE = Path(__file__).parents[2] / "docs" / "tools.md"
TABLES = """
CREATE TABLE slice (id INTEGER, ts INTEGER, dur INTEGER, track_id INTEGER, category TEXT, name TEXT, arg_set_id INTEGER);
CREATE TABLE thread_track (id INTEGER, utid INTEGER);
CREATE TABLE thread (utid INTEGER, tid INTEGER, name TEXT);
CREATE TABLE flow (slice_out INTEGER, slice_in INTEGER);
"""


@cache
def replayed() -> tuple[Simulation, dict[str, Any]]:
    recorder = EventRecorder(TRACED)
    simulation = simulate_vela("zoo:ds_cnn", listeners=[recorder])
    return simulation, json.loads(trace_json(simulation.replay, recorder, trace_buffers(program_map(simulation))))


@cache
def database() -> sqlite3.Connection:
    """The trace as tables: times in nanoseconds, a track for each thread, an arrow bound to the slices that it touches."""
    events = replayed()[1]["traceEvents"]
    found = sqlite3.connect(":memory:")
    found.executescript(TABLES)
    drawn = [event for event in events if event["ph"] == "X"]
    found.create_function("EXTRACT_ARG", 2, lambda number, key: drawn[number]["args"].get(key.removeprefix("args.")))
    threads = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    found.executemany("INSERT INTO thread VALUES (?, ?, ?)", [(tid, tid, name) for tid, name in threads.items()])
    found.executemany("INSERT INTO thread_track VALUES (?, ?)", [(tid, tid) for tid in threads])
    rows = [(n, round(e["ts"] * 1000), round(e["dur"] * 1000), e["tid"], e["cat"], e["name"], n) for n, e in enumerate(drawn)]
    found.executemany("INSERT INTO slice VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def around(event: dict[str, Any]) -> int:
        at = round(event["ts"] * 1000)
        return next(n for n, ts, dur, tid, *_ in rows if tid == event["tid"] and ts <= at < ts + dur)

    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    arrows = [(around(event), around(ends[event["id"]])) for event in events if event["ph"] == "s"]
    found.executemany("INSERT INTO flow VALUES (?, ?)", arrows)
    return found


def answer(name: str) -> list[tuple[Any, ...]]:
    text = PAGE.read_text(encoding="utf-8")
    (query,) = re.findall(rf"<!-- query: {name} -->\n```sql\n(.*?)```", text, re.DOTALL)
    return database().execute(query).fetchall()


def test_the_query_of_units_finds_the_cycles_that_the_stall_report_has() -> None:
    rows = answer("units")
    cycles = {(track, category): cycles for track, category, _, cycles, _ in rows}
    clock = replayed()[0].system.clock_hz
    assert all(nanoseconds * clock == cycles * 10**9 for _, _, _, cycles, nanoseconds in rows)
    for row in stall_report(replayed()[0].replay):
        assert cycles.get((row.unit.value, "busy"), 0) == row.busy
        assert cycles.get((f"{row.unit.value}: waits", "wait"), 0) == row.waiting


def test_the_query_of_waits_names_layers_and_their_largest_cause() -> None:
    rows = answer("waits")
    layers = {one.name for one in replayed()[0].replay.replays[0].operations}
    assert len(rows) == 20
    assert {row[0] for row in rows} <= layers
    assert [row[3] for row in rows] == sorted((row[3] for row in rows), reverse=True)


def test_the_query_of_copies_has_every_arrow_of_the_trace() -> None:
    rows = answer("copies")
    arrows = [event for event in replayed()[1]["traceEvents"] if event["ph"] == "s"]
    assert len(rows) == min(len(arrows), 20) > 3
    assert [row[3] for row in rows] == sorted(row[3] for row in rows)


@pytest.mark.parametrize("pattern", re.findall(r'"args": \["(.*?)"\]', PAGE.read_text(encoding="utf-8")))
def test_the_pinned_tracks_are_tracks_of_a_trace(pattern: str) -> None:
    events = replayed()[1]["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"} | {e["name"] for e in events if e["ph"] == "C"}
    assert sum(bool(re.search(pattern, name)) for name in names) > 2
