"""Rows of an input that arrive while a network runs: cut schedules compute the same, and no piece runs ahead of its rows."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from asked_for import schedule
from cascades import outputs
from command_line import call
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from npu_model.errors import InputError
from npu_model.program import DmaWait
from npu_testbed.documents import json_schema
from npu_testbed.replays.exports import ExportTerms, export
from npu_testbed.replays.scheduling import write_schedule
from npu_testbed.replays.simulation import simulate_schedule
from npu_testbed.replays.streaming import Piece, StreamedInput, _check, cut_for_stream, stream_of, streamed_input
from sim.functional import run
from sim.functional.regions import Regions

NAME = "zoo:resnet8"


@cache
def plan() -> Schedule:
    return schedule(NAME, homes=("input=ext",), optimise="Size", effort="quick", processes=1)


def streamed(cycles_per_row: int) -> StreamedInput:
    simulation = simulate_schedule(plan())
    return streamed_input(plan(), "input", cycles_per_row, simulation.system, simulation.timing)


@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_a_schedule_computes_the_same_in_several_command_streams(data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(plan().jobs) - 1), max_size=8)))
    cut = lower(plan(), cuts=cuts)
    assert len(cut.programs) == len(cuts) + 1
    assert outputs(cut) == outputs(lower(plan()))


def test_copies_that_are_under_way_are_waited_for_where_the_schedule_is_cut() -> None:
    staged = schedule(NAME, homes=("input=ext",), effort="quick", processes=1)
    ahead = [copy for copy in staged.copies if staged.jobs[copy.step].part not in copy.readers]
    cuts = [ahead[0].step + 1]
    first, second = lower(staged, cuts=cuts).programs
    assert isinstance(first.operations[-2], DmaWait)
    assert outputs(lower(staged, cuts=cuts)) == outputs(lower(staged))
    assert second.operations


def test_the_pieces_read_the_rows_in_their_order_and_take_longer_than_one_stream() -> None:
    found = streamed(1000)
    until = [piece.until for piece in found.pieces]
    assert until == sorted(set(until))
    assert until[-1] == found.rows == 32
    assert all(piece.first < piece.until for piece in found.pieces)
    assert sum(piece.cycles for piece in found.pieces) >= simulate_schedule(plan()).replay.cycles


@pytest.mark.parametrize("more", [0, 1, 6])
@pytest.mark.parametrize("eager", [False, True])
def test_a_ring_of_few_rows_is_as_good_as_a_frame(more: int, *, eager: bool) -> None:
    """A source that is as slow as it may be leaves old rows where new ones are to come; an eager one overwrites all that it may."""
    cut = cut_for_stream(plan(), "input", 3 + more)
    assert cut.ring == 3 + more < cut.rows
    (binding,), image = cut.network.inputs, np.random.default_rng(3).integers(-128, 128, (1, 32, 32, 3)).astype(np.int8)
    ring, sent = np.full((1, cut.ring, 32, 3), 77, np.int8), 0
    assert binding.shape == ring.shape

    def arrive(number: int, memory: Regions) -> None:
        nonlocal sent
        upto = max(sent, cut.until[number], min(cut.rows, cut.low[number] + cut.ring) if eager else 0)
        for row in range(sent, upto):
            ring[0, row % cut.ring] = image[0, row]
        sent = upto
        memory.place(binding, ring)

    found, expected = run(cut.network, [ring.copy()], on_program=arrive), run(lower(plan()), [image])
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_a_ring_that_is_too_small_and_rows_that_are_late_are_found() -> None:
    cut, home = cut_for_stream(plan(), "input", 4), plan().network.homes[0]
    late = (cut.until[0] - 1, *cut.until[1:])
    early = (*cut.low[:5], cut.low[5] + 1, *cut.low[6:])
    for wrong in (replace(cut, until=late), replace(cut, low=early), replace(cut, ring=2)):
        with pytest.raises(InputError, match="the cuts are wrong"):
            _check(wrong, home)


def test_the_ring_of_a_pace_holds_what_has_arrived() -> None:
    slow, fast = streamed(1_000_000), streamed(20_000)
    assert slow.ring == 3
    assert slow.held_rows <= slow.ring <= fast.held_rows <= fast.ring < fast.rows
    assert streamed(1).ring == fast.rows


PIECES = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 500)), min_size=1, max_size=6)


@given(made=PIECES, cycles_per_row=st.integers(1, 300))
def test_the_run_beside_its_source_is_that_of_a_clock_that_ticks(made: list[tuple[int, int, int]], cycles_per_row: int) -> None:
    pieces, until = [], 0
    for back, rows, cycles in made:
        until += rows
        pieces.append(Piece(max(0, until - rows - back), until, cycles))
    found = StreamedInput("image", until, 3, cycles_per_row, tuple(pieces))
    # A twin that goes from cycle to cycle.
    now = waiting = held = 0
    for number, piece in enumerate(pieces):
        while now // cycles_per_row < piece.until:
            waiting += number > 0
            now += 1
        now += piece.cycles
        lowest = min(later.first for later in pieces[number:])
        held = max(held, min(until, now // cycles_per_row) - lowest)
    assert (found.latency, found.waiting, found.held_rows) == (now - until * cycles_per_row, waiting, held)
    pace = found.never_waits
    if pace is not None:
        assert pace == 0 or replace(found, cycles_per_row=pace).waiting == 0
        assert replace(found, cycles_per_row=pace + 1).waiting > 0


def test_a_slower_source_is_waited_for_and_a_fast_one_is_not() -> None:
    slow, fast = streamed(100_000), streamed(1)
    assert slow.waiting > 0 == fast.waiting
    assert slow.held_rows < fast.held_rows
    assert slow.latency < fast.latency


@pytest.mark.parametrize("text", ["input", "input=", "=5", "input=0", "input=-3", "input=1e3"])
def test_what_is_no_stream_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a stream: write NAME=CYCLES_PER_ROW"):
        stream_of(text)


def test_an_input_in_the_arena_and_an_unknown_one_are_refused() -> None:
    simulation = simulate_schedule(plan())
    with pytest.raises(InputError, match="names 'nothing'"):
        streamed_input(plan(), "nothing", 5, simulation.system)
    inside = schedule("zoo:tiny_conv", cascade=False)
    with pytest.raises(InputError, match="lives in the arena, where no row may arrive late"):
        streamed_input(inside, "input", 5, simulation.system)


def test_the_command_line_says_what_the_stream_does(tmp_path: Path) -> None:
    write_schedule(plan(), tmp_path / "plan.json")
    words = ("simulate", "schedule", tmp_path / "plan.json", "--stream", "input=2000", "--no-advice")
    document = json.loads(call(*words, "--json").output)
    jsonschema.validate(document, json_schema("simulate schedule"))
    assert document["stream"]["latency_cycles"] == streamed(2000).latency
    assert "No command stream reads a byte before it has arrived" in " ".join(call(*words).output.split())
    refused = call(*words[:3], "--stream", "image")
    assert refused.status == 2
    assert "is not a stream" in refused.errors


def test_the_c_sources_have_a_job_for_each_piece_with_the_rows_that_it_waits_for(tmp_path: Path) -> None:
    found = streamed(2000)
    files = export(plan(), "c", name="net", options=ExportTerms(stream="input"))
    header, source = files["net.h"].decode(), files["net.c"].decode()
    assert f"#define NET_JOBS {len(found.pieces)}u" in header
    assert "size_t rows;" in header
    jobs = [line for line in source.splitlines() if line.startswith("    {payload_")]
    rows = [[int(word.rstrip("u},")) for word in line.split()[-2:]] for line in jobs]
    assert [until for until, _ in rows] == [piece.until for piece in found.pieces]
    assert [freed for _, freed in rows] == [*(piece.first for piece in found.pieces[1:]), found.rows]
    assert "#define NET_RING_ROWS 3u" in header
    assert (
        f"#define NET_RING_ROWS {found.ring}u"
        in export(plan(), "c", name="net", options=ExportTerms(stream="input=2000"))["net.h"].decode()
    )
    assert b"rows" not in export(plan(), "c", name="net")["net.h"].replace(b"rows.", b"")
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed, so that the exported sources cannot be compiled")
    for name, text in files.items():
        (tmp_path / name).write_bytes(text)
    command = [compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "net.c", "-o", "net.o"]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0  # the compiler that was found
    with pytest.raises(InputError, match="applies to schedules in format c"):
        export(plan(), "tflite", options=ExportTerms(stream="input"))
