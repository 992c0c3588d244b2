"""The views: tables whose columns sum to the replay's totals, traces whose slices never overlap, and a timeline to read."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cpu_networks import cpu_split_network
from msgspec.structs import replace
from scheduling import schedule
from small_programs import IDEAL, conv, copy, memories, memory, program

from cascader.ethosu.codegen.lowering import lower
from cascader.frontends.vela import compile_network
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.cost.traffic import BEAT_BYTES
from npu_model.memory.system import MemorySystem
from npu_model.program import DmaOperation, DmaWait, Kernel, KernelOperation, Operation, Program, Shram
from npu_model.shapes import Shape3D
from sim import NetworkReplay, Unit, replay_network
from sim.views.layers import FILL, LayerRow, layer_rows, total_row
from sim.views.recorder import TRACED, EventRecorder
from sim.views.stalls import stall_report
from sim.views.timeline import LABELS, CycleWindow, TimelineRecorder
from sim.views.trace import compressed, trace_json
from sim.views.trace_memory import TraceBuffer
from validation.zoo import build

BLOCK = Shape3D(4, 4, 16)
SLOW = memories(memory(latency=32, outstanding=8), memory(latency=64, outstanding=2))
GOLDEN = Path(__file__).parents[2] / "golden" / "timeline.txt"


def network(*programs: Program) -> CompiledNetwork:
    return CompiledNetwork(programs, 1 << 20, (), ())


def mixed(**options: Any) -> Program:
    """Two layers in stripes with a transfer each, and a third whose SHRAM partition differs."""
    stripe = conv(Shape3D(8, 8, 32), BLOCK, weights=640)
    operations: list[Operation] = [copy(1024), DmaWait(0), stripe, conv(BLOCK, BLOCK, 64, Kernel(3, 3), 4096, blockdep=0)]
    operations += [copy(512), DmaWait(0), stripe, replace(conv(BLOCK, BLOCK, blockdep=1), shram=Shram(12, 16))]
    return program(*operations, words=20, **options)


MIXED = mixed()
NAMED = mixed(names=("a", "a", "a", "b", "a", "a", "a", "c"))
NETWORKS = {
    "mixed": [MIXED],
    "named": [NAMED],
    "transfers": [program(copy(64), copy(128))],
    "stop": [program()],
    "transfer last": [program(conv(BLOCK, BLOCK), copy(8192))],
    "two": [MIXED, NAMED],
}


def run(*programs: Program, system: MemorySystem = SLOW, recorder: EventRecorder | None = None) -> NetworkReplay:
    return replay_network(network(*programs), system, [recorder] if recorder else [])


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_sum_to_the_replay(name: str) -> None:
    replayed = run(*NETWORKS[name])
    rows = layer_rows(replayed)
    total = total_row(rows, replayed)
    assert total.cycles == replayed.cycles
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert total.axi0_read_bytes == replayed.beats.axi0_read * BEAT_BYTES
    assert total.axi0_write_bytes == replayed.beats.axi0_write * BEAT_BYTES
    # Two words to a beat, and every Program begins with a beat of its own.
    commands = sum((sum(one.words) + 1) // 2 for one in NETWORKS[name])
    assert total.axi1_read_bytes == (replayed.beats.axi1_read - commands) * BEAT_BYTES
    assert total.kernels == sum(len(one.kernels) for one in NETWORKS[name])
    assert total.transfers == sum(len(one.transfers) for one in NETWORKS[name])
    assert all(row.cycles >= 0 for row in rows)


def test_stripes_and_transfers_of_one_name_are_one_layer() -> None:
    rows = layer_rows(run(NAMED))
    assert [(row.layer, row.kernels, row.transfers) for row in rows] == [("a", 2, 2), ("b", 1, 0), ("c", 1, 0)]


def test_unnamed_operations_are_layers_by_index_and_mnemonic() -> None:
    labels = [row.layer for row in layer_rows(run(MIXED))]
    assert labels == ["#0 DMA", "#2 CONV_2D", "#3 CONV_2D", "#4 DMA", "#6 CONV_2D", "#7 CONV_2D"]
    assert layer_rows(run(MIXED, MIXED))[6].layer == "1:#0 DMA"


def test_a_layer_s_cycles_are_the_time_by_which_it_delays_completion() -> None:
    first, second = layer_rows(run(program(conv(BLOCK, BLOCK), conv(BLOCK, BLOCK)), system=IDEAL))
    # Command fetch, load, MAC, output and store for the first; the output unit alone for the second.
    assert (first.cycles, second.cycles) == (2 + 32 + 64 + 128 + 32, 128)


def only_row(*operations: Operation, system: MemorySystem = IDEAL) -> LayerRow:
    return layer_rows(run(program(*operations), system=system))[-1]


def test_the_binding_unit_is_the_busiest_and_names_its_port() -> None:
    tall = Shape3D(64, 4, 16)
    assert only_row(conv(tall, BLOCK)).binding == "output unit"
    assert only_row(conv(tall, BLOCK, 64, Kernel(3, 3))).binding == "MAC array"
    assert only_row(conv(tall, BLOCK, weights=65536), system=SLOW).binding == "weights (AXI1 read)"
    slow_sram = memories(memory(latency=200, outstanding=1))
    assert only_row(conv(tall, BLOCK, 64), system=slow_sram).binding == "input load (AXI0 read)"
    slow_writes = memories(replace(memory(latency=200, outstanding=1), read_latency=0))
    assert only_row(conv(tall, BLOCK), system=slow_writes).binding == "write-back (AXI0 write)"
    assert only_row(copy(4096)).binding == "DMA"


def test_transfers_beside_kernels_bind_a_layer_only_as_far_as_it_waits_for_them() -> None:
    busy = conv(Shape3D(64, 4, 16), BLOCK, 64, Kernel(3, 3))
    ahead = run(program(busy, copy(3 * 65536), busy, DmaWait(0), names=("a", "b", "b", "b")), system=IDEAL)
    row = layer_rows(ahead)[1]
    assert ahead.replays[0].operations[1].busy[Unit.DMA] > row.cycles
    assert (row.operator, row.binding) == ("CONV_2D", "MAC array")
    waited = layer_rows(run(program(copy(65536), DmaWait(0), conv(BLOCK, BLOCK), names=("b", "b", "b")), system=IDEAL))[0]
    assert waited.binding == "DMA_WAIT"


def test_a_layer_that_something_outside_holds_up_is_bound_by_that() -> None:
    held = conv(Shape3D(1, 1, 8), Shape3D(1, 2, 8), 8, blockdep=0)
    assert only_row(copy(65536), DmaWait(0), held).binding == "DMA_WAIT"
    latency = memories(memory(latency=32))
    assert only_row(conv(BLOCK, BLOCK), conv(BLOCK, BLOCK, blockdep=0), system=latency).binding == "BLOCKDEP"
    assert only_row(conv(BLOCK, BLOCK), replace(conv(BLOCK, BLOCK), shram=Shram(12, 16)), system=latency).binding == "SHRAM reconfiguration"


def test_a_single_block_is_bound_by_filling_the_pipeline() -> None:
    latency = memories(memory(latency=32))
    assert only_row(conv(BLOCK, BLOCK), system=latency).binding == FILL


def test_mac_utilisation_is_that_of_the_mathematics() -> None:
    row = only_row(conv(Shape3D(64, 4, 16), BLOCK))
    assert row.mac_utilisation == pytest.approx(64 * 4 * 16 * 16 / (row.cycles * 128))


@pytest.mark.parametrize("name", NETWORKS)
def test_busy_waiting_and_idle_cycles_of_every_unit_sum_to_npu_active(name: str) -> None:
    replayed = run(*NETWORKS[name])
    report = stall_report(replayed)
    assert [row.unit for row in report] == list(Unit)
    for row in report:
        assert row.cycles == replayed.cycles
        assert row.idle >= 0
        assert [cycles for _, cycles in row.waits] == sorted((cycles for _, cycles in row.waits), reverse=True)


def cycle(microseconds: float, replayed: NetworkReplay) -> int:
    """The cycle at a time of a trace, which is exact at a clock of whole nanoseconds."""
    return round(microseconds * replayed.replays[0].system.clock_hz / 1e6)


def slices(text: str, replayed: NetworkReplay) -> dict[int, list[tuple[int, int]]]:
    tracks: dict[int, list[tuple[int, int]]] = {}
    for event in json.loads(text)["traceEvents"]:
        if event["ph"] == "X" and event["pid"] == 1:
            tracks.setdefault(event["tid"], []).append((start := cycle(event["ts"], replayed), start + cycle(event["dur"], replayed)))
    return tracks


@pytest.mark.parametrize("max_events", [10, 300_000])
@pytest.mark.parametrize("name", NETWORKS)
def test_slices_of_one_track_never_overlap(name: str, max_events: int) -> None:
    recorder = EventRecorder(max_events)
    replayed = run(*NETWORKS[name], recorder=recorder)
    for track in slices(trace_json(replayed, recorder), replayed).values():
        assert all(begin < end <= replayed.cycles for begin, end in track)
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(track)))


def test_slices_of_a_unit_s_work_and_waits_never_overlap_and_sum_to_its_cycles() -> None:
    recorder = EventRecorder(TRACED)
    replayed = run(MIXED, NAMED, recorder=recorder)
    tracks = slices(trace_json(replayed, recorder), replayed)
    for number, row in enumerate(stall_report(replayed)):
        busy, waits = tracks.get(2 * number + 1, []), tracks.get(2 * number + 2, [])
        assert sum(end - begin for begin, end in busy) == row.busy
        assert sum(end - begin for begin, end in waits) == row.waiting
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(busy + waits)))


@pytest.mark.parametrize("max_events", [10, 300_000])
def test_an_arrow_leads_from_every_copy_of_weights_to_the_kernel_that_reads_them(max_events: int) -> None:
    recorder = EventRecorder(max_events)
    made = compile_network(build("ds_cnn")).compiled
    replayed = replay_network(read_compiled(made), SLOW, [recorder])
    (program,) = (one.program for one in replayed.replays)
    events = json.loads(trace_json(replayed, recorder))["traceEvents"]
    begins, ends = ({one["id"]: one for one in events if one["ph"] == kind} for kind in "sf")
    copies = [op for op in program.transfers if not op.to_shram]
    assert len(copies) > 5
    assert sorted(begins) == sorted(ends)
    assert len(begins) == len(copies)
    # Each end lies at the beginning of a slice of its track, as the viewer needs it, and a copy has begun before it is read.
    starts = {(one["tid"], one["ts"]) for one in events if one["ph"] == "X"}
    assert all((one["tid"], one["ts"]) in starts for one in (*begins.values(), *ends.values()))
    assert all(begins[number]["ts"] < ends[number]["ts"] for number in begins)
    names = [one["args"]["name"] for one in events if one["ph"] == "M" and one["name"] == "thread_name"]
    assert {names[(one["tid"] - 1)] for one in begins.values()} == {"DMA"}


def test_a_trace_names_its_clock_accelerator_memory_and_level_of_detail() -> None:
    few, many = EventRecorder(10), EventRecorder(TRACED)
    other = [json.loads(trace_json(run(MIXED, recorder=one), one))["otherData"] for one in (few, many)]
    assert {entry["clock"] for entry in other} == {f"{run(MIXED).replays[0].system.clock_hz / 1e6:g} MHz"}
    assert {(entry["accelerator"], entry["memory system"]) for entry in other} == {("ethos-u55-128", "test")}
    assert other[0]["level of detail"].startswith("merged per unit and operation")
    assert other[1]["level of detail"] == "every event"


def test_a_merged_slice_keeps_the_cycles_of_its_events() -> None:
    few = EventRecorder(10)
    replayed = run(MIXED, recorder=few)
    events = json.loads(trace_json(replayed, few))["traceEvents"]
    busy = sum(event["args"]["cycles"] for event in events if event["ph"] == "X" and event["cat"] == "busy")
    assert busy == sum(row.busy for row in stall_report(replayed))


def test_the_counter_of_live_bytes_peaks_at_the_footprint_s_and_never_goes_back_in_time() -> None:
    recorder = EventRecorder(TRACED)
    replayed = run(MIXED, NAMED, recorder=recorder)
    events = json.loads(trace_json(replayed, recorder))["traceEvents"]
    counters = [event for event in events if event["ph"] == "C" and event["name"] == "SRAM live bytes"]
    assert max(event["args"]["bytes"] for event in counters) == replayed.footprint.live_peak
    times = [event["ts"] for event in counters]
    assert times == sorted(times)


def test_the_counters_of_the_ports_end_at_the_bytes_that_the_operations_moved() -> None:
    recorder = EventRecorder(TRACED)
    replayed = run(MIXED, NAMED, recorder=recorder)
    events = json.loads(trace_json(replayed, recorder))["traceEvents"]
    for key, name in (("axi0_read", "AXI0 read bytes"), ("axi0_write", "AXI0 write bytes"), ("axi1_read", "AXI1 read bytes")):
        counted = [event["args"]["bytes"] for event in events if event["ph"] == "C" and event["name"] == name]
        assert counted == sorted(counted)
        assert max(counted, default=0) == 8 * sum(getattr(one.beats, key) for part in replayed.replays for one in part.operations)


def test_a_buffer_of_the_arena_is_a_track_of_its_own() -> None:
    recorder = EventRecorder(TRACED)
    replayed = run(MIXED, recorder=recorder)
    buffers = (TraceBuffer("input", "input of the network", 0, 40, 0, 64), TraceBuffer("conv", "rolling buffer", 10, 90, 64, 96))
    events = json.loads(trace_json(replayed, recorder, buffers))["traceEvents"]
    drawn = [event for event in events if event["ph"] == "X" and event["pid"] == 3]
    found = [(event["name"], cycle(event["ts"], replayed), cycle(event["dur"], replayed), event["args"]["bytes"]) for event in drawn]
    assert found == [
        ("input", 0, 40, 64),
        ("conv", 10, 80, 32),
    ]
    names = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == "process_name"}
    assert names == {1: "NPU", 2: "AXI ports", 3: "SRAM buffers"}


def test_a_trace_of_another_replay_is_refused() -> None:
    recorder = EventRecorder(TRACED)
    run(MIXED, recorder=recorder)
    with pytest.raises(ValueError, match="zip"):
        trace_json(run(MIXED, MIXED), recorder)


def test_the_same_replay_writes_the_same_trace_compressed_or_not() -> None:
    texts = []
    for _ in range(2):
        recorder = EventRecorder(TRACED)
        texts.append(trace_json(run(MIXED, recorder=recorder), recorder))
    assert texts[0] == texts[1]
    assert compressed(texts[0]) == compressed(texts[1])
    assert gzip.decompress(compressed(texts[0])).decode() == texts[0]


def test_listeners_do_not_change_the_replay() -> None:
    assert run(MIXED) == run(MIXED, recorder=EventRecorder(TRACED))


def test_the_timeline_of_two_blocks_and_a_transfer_reads_as_it_did() -> None:
    recorder = TimelineRecorder()
    first, second = conv(Shape3D(8, 4, 16), BLOCK, weights=256), conv(BLOCK, BLOCK, blockdep=0)
    replay_network(network(program(copy(256), first, second, names=("weights", "conv", "head"))), SLOW, [recorder])
    assert recorder.text(90) == GOLDEN.read_text(encoding="utf-8")


def test_a_timeline_is_no_wider_than_asked() -> None:
    recorder = TimelineRecorder()
    replay_network(network(MIXED), SLOW, [recorder])
    rows = [line for line in recorder.text(40).splitlines() if line.endswith("|")]
    assert len(rows) == len(Unit) + 1
    assert len({len(line) for line in rows}) == 1
    assert len(rows[0]) <= 17 + 3 + 40


def test_the_legend_of_a_timeline_has_as_much_of_a_layers_name_as_fits() -> None:
    recorder = TimelineRecorder()
    name = "functional_1/" + "long_" * 20 + "layer"
    replay_network(network(program(conv(BLOCK, BLOCK), names=(f"{name};fused/operators",))), SLOW, [recorder])
    (legend,) = (line for line in recorder.text(60).splitlines() if line.startswith("A = "))
    assert len(legend) == LABELS + 60
    assert legend.startswith("A = #0 CONV_2D ")
    assert legend.endswith("_layer")
    assert name in recorder.text(200)


def test_a_window_of_a_timeline_shows_its_cycles_one_a_column_and_the_operations_in_them() -> None:
    recorder = TimelineRecorder()
    replay_network(network(MIXED), SLOW, [recorder])
    whole = recorder.text(recorder.cycles).splitlines()
    part = recorder.text(50, CycleWindow(100, 150)).splitlines()
    assert [row.partition("|")[2][:50] for row in part[1 : len(Unit) + 1]] == [
        row.partition("|")[2][100:150] for row in whole[1 : len(Unit) + 1]
    ]
    assert part[0].partition("|")[2].startswith("100 ")
    assert part[len(Unit) + 1] == f"50 of {recorder.cycles} cycles, 1 a column; a dot is a wait, a blank nothing to do"
    letters = {letter for row in part[1 : len(Unit) + 1] for letter in row.partition("|")[2] if letter.isupper()}
    assert {line[0] for line in part[len(Unit) + 2 :]} == letters


def test_the_cycles_of_a_timeline_go_on_from_program_to_program() -> None:
    recorder = TimelineRecorder()
    made = read_compiled(compile_network(cpu_split_network()).compiled)
    replayed = replay_network(made, SLOW, [recorder])
    first = replayed.replays[0].cycles
    assert recorder.cycles == replayed.cycles
    assert f"Program 1, from cycle {first} of the network" in recorder.text(80)
    assert recorder.text(80, CycleWindow(first)).startswith("Program 1, ")


def test_a_layer_whose_table_is_loaded_early_stands_where_its_kernels_run() -> None:
    made = lower(schedule("ds_cnn")).programs[0]
    replayed = run(made)
    loaded = next(index for index, op in enumerate(made.operations) if isinstance(op, DmaOperation))
    labels = [row.layer for row in layer_rows(replayed)]
    assert labels.index(made.name(loaded)) > len(labels) // 2
    kernels = [made.name(index) for index, op in enumerate(made.operations) if isinstance(op, KernelOperation)]
    assert labels == list(dict.fromkeys(kernels))
