"""A measurement beside the replay: whatever its kind, what agrees is shown to agree, and what differs to differ in its own row."""

from __future__ import annotations

import gzip
import json
from bisect import bisect_right
from functools import cache
from itertools import accumulate
from pathlib import Path

import pytest
from asked_for import simulate_vela
from command_line import call, refusal
from cpu_networks import cpu_split_network

from npu_model.program import KernelOperation
from npu_testbed.measured.reading import read_measured
from npu_testbed.measured.rows import Beside, beside_measured
from npu_testbed.replays.simulation import Simulation
from sim.views.layers import layer_rows

Events = list[tuple[int, int]]


@cache
def resnet8() -> Simulation:
    return simulate_vela("zoo:resnet8")


def events(simulation: Simulation, begin: int = 0) -> Events:
    """The events that a board which is our replay would see: QREAD goes on when a kernel's command is issued."""
    found: Events = []
    for one in simulation.replay.replays:
        ends = list(accumulate(one.program.words))
        issued = [(begin + op.issued, ends[op.index] * 4) for op in one.operations if isinstance(op.op, KernelOperation)]
        found += [(begin, 0), *issued, (begin + one.cycles, ends[-1] * 4)]
        begin += one.cycles
    return found


def csv_file(folder: Path, header: str, rows: list[tuple[object, ...]]) -> Path:
    path = folder / "measured.csv"
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def beside(path: Path, simulation: Simulation | None = None, cycles: int | None = None) -> Beside:
    return beside_measured((simulation or resnet8()).replay, read_measured(path), cycles)


def test_positions_of_our_own_replay_agree_on_every_layer(tmp_path: Path) -> None:
    found = beside(csv_file(tmp_path, "cycle,qread", list(events(resnet8()))))
    assert (found.kind, found.runs, found.is_scaled) == ("trace", 1, False)
    assert all(row.measured == row.replayed and row.error in (0, None) for row in found.rows)
    assert sum(row.replayed for row in found.rows) == resnet8().replay.cycles
    named = {row.layer for row in layer_rows(resnet8().replay)}
    assert {row.layer for row in found.rows} == {*named, "before the first kernel"}


def test_a_layer_that_takes_longer_stands_at_the_top_with_what_it_takes_longer(tmp_path: Path) -> None:
    late = [(cycle + (777 if place > 4 else 0), qread) for place, (cycle, qread) in enumerate(events(resnet8()))]
    first, *others = beside(csv_file(tmp_path, "cycle,qread", list(late))).rows
    assert (first.layer, first.difference) == ("block_1/add", -777)
    assert {row.difference for row in others} == {0}


def test_inferences_in_one_file_are_averaged(tmp_path: Path) -> None:
    once = events(resnet8())
    again = [(2 * cycle + once[-1][0] + 50, qread) for cycle, qread in once]
    found = beside(csv_file(tmp_path, "cycle,qread", [*once, *again]))
    assert found.runs == 2
    assert all(abs(row.measured - 1.5 * row.replayed) <= 1 for row in found.rows)


def test_the_streams_of_a_network_that_the_cpu_parts_are_told_apart(tmp_path: Path) -> None:
    model = tmp_path / "split.tflite"
    model.write_bytes(cpu_split_network())
    simulation = simulate_vela(str(model))
    found = beside(csv_file(tmp_path, "cycle,qread", list(events(simulation))), simulation)
    assert len(simulation.replay.replays) > 1
    assert {row.difference for row in found.rows} == {0}
    assert sum(row.layer.endswith(":before the first kernel") for row in found.rows) == len(simulation.replay.replays)


def test_an_fvps_trace_is_scaled_to_the_cycles_that_it_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    trace = [{"name": "qread", "ts": cycle / 500, "args": {"qread": qread}} for cycle, qread in events(resnet8())]
    path.write_bytes(gzip.compress(json.dumps(trace).encode(), mtime=0))
    cycles = resnet8().replay.cycles
    scaled, counted = beside(path), beside(path, cycles=2 * cycles)
    assert scaled.is_scaled
    assert not counted.is_scaled
    assert all(abs(row.difference) <= 1 for row in scaled.rows)
    assert all(abs(row.measured - 2 * row.replayed) <= 1 for row in counted.rows)


def test_samples_come_within_their_interval_of_what_runs(tmp_path: Path) -> None:
    seen, cycles, count = events(resnet8()), resnet8().replay.cycles, 4000
    starts = [cycle for cycle, _ in seen]
    places = [seen[bisect_right(starts, number * 7919 % cycles) - 1][1] for number in range(count)]
    found = beside(csv_file(tmp_path, "qread", [(f"{place:#x}",) for place in places]), cycles=cycles)
    assert (found.kind, found.runs, found.is_scaled) == ("samples", count, False)
    assert all(row.margin is not None and abs(row.difference) <= row.margin for row in found.rows)
    counted = [(0, place, places.count(place)) for place in sorted(set(places))]
    assert beside(csv_file(tmp_path, "stream,qread,samples", list(counted)), cycles=cycles) == found


def test_a_table_of_layers_is_held_against_the_table_of_simulate(tmp_path: Path) -> None:
    table = tmp_path / "layers.csv"
    assert call("simulate", "vela", "zoo:resnet8", "--no-advice", "--csv", table).status == 0
    rows = [line.split(",") for line in table.read_text().splitlines()[1:4]]
    found = beside(csv_file(tmp_path, "layer,cycles", [(row[0], row[2]) for row in rows]))
    assert (found.kind, found.missing) == ("layers", len(layer_rows(resnet8().replay)) - 3)
    assert {row.difference for row in found.rows} == {0}


def test_simulate_shows_the_largest_difference_first_and_folds_the_small_ones(tmp_path: Path) -> None:
    late = [(cycle + (777 if place > 4 else 0), qread) for place, (cycle, qread) in enumerate(events(resnet8()))]
    path = csv_file(tmp_path, "cycle,qread", list(late))
    outcome = call("simulate", "vela", "zoo:resnet8", "--no-advice", "--min-percent", 10, "--measured", path)
    assert outcome.status == 0, outcome
    lines = outcome.output.partition("Measured and replayed")[2].splitlines()
    assert lines[4].split()[:2] == ["block_1/add", "ELEMENTWISE.ADD"]
    assert any("layers below 10 %" in line for line in lines)
    assert "counts no cycles" not in outcome.output
    document = json.loads(call("simulate", "vela", "zoo:resnet8", "--no-advice", "--json", "--measured", path).output)
    assert document["measured"]["layers"][0]["layer"] == "block_1/add"
    assert document["measured"]["measured_cycles"] - document["measured"]["replayed_cycles"] == 777


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cycle,place\n1,2\n", "has the header 'cycle,place': 'cycle,qread'"),
        ("cycle,cycle,qread\n1,1,2\n", "has the header 'cycle,cycle,qread'"),
        ("cycle,qread\n", "has 0 lines: 1 or more"),
        ("cycle,qread\n1,2,3\n", "Line 2 of measured.csv has 3 cells and the header 2"),
        ("cycle,qread\n5,0\n4,8\n", "Line 3 of measured.csv has cycle 4 after 5"),
        ("cycle,qread\n5,-4\n", "Line 2 of measured.csv has qread '-4': a whole number from 0 to 16777215"),
        ("cycle,qread\n0x5,4\n", "has cycle '0x5': a whole number"),
        ("cycle,qread\n0,0\n9,4\n", "The measurement ends at byte 4 of stream 0, whose last kernel is at byte"),
        ("cycle,qread\n0,0\n9,90000\n", "reads at byte 90000 of stream 0, which has 4104 bytes"),
        ("cycle,qread\n0,0\n0,4104\n", "lasts 0 cycles"),
        ("qread,stream\n0,1\n", "has samples of stream 1 and the network 1 streams"),
        ("qread,samples\n0,0\n", "has samples '0': a whole number from 1"),
        ("layer,cycles\nnone,5\n", "Layer 'none' of the measurement is none of the network's"),
        ("layer,cycles\nstem,5\nstem,6\n", "Line 3 of measured.csv has layer 'stem' a second time"),
        ('layer,cycles\n"stem,5\n', "is not CSV"),
        ("[]", "The PMU trace has 0 qread events"),
        ("[3", "The PMU trace has 0 qread events"),
    ],
)
def test_a_measurement_of_something_else_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "measured.csv"
    path.write_text(text)
    assert said in refusal("simulate", "vela", "zoo:resnet8", "--no-advice", "--measured", path)


def test_cycles_of_a_measurement_need_one_that_counts_none(tmp_path: Path) -> None:
    table = csv_file(tmp_path, "layer,cycles", [("stem", 5)])
    assert "which has cycles of its own" in refusal("simulate", "vela", "zoo:resnet8", "--measured", table, "--measured-cycles", 9)
    assert "without --measured" in refusal("simulate", "vela", "zoo:resnet8", "--measured-cycles", 9)
