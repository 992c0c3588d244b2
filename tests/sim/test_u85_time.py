"""Time of the Ethos-U85: how far its cycles are from the published ones, and that both replays agree."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path

import pytest
from asked_for import said_memory
from command_line import call, refusal
from reference_data import shared_data
from vela_u85 import compiled

from npu_model.accelerator import accelerator
from npu_model.compiled.network import read_compiled
from npu_model.cost.deep_jobs import timed_chains
from npu_model.cost.timed import unmet_beats
from npu_model.memory.ports import measured_with
from npu_model.memory.system import MemorySystem
from npu_model.program import DmaOperation, KernelOperation, MapStorage, Program, Rows
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.devices.device_memory import system_of
from npu_testbed.reports.unseen import unseen_text
from sim import replay
from sim.engine.engine import run_engine
from sim.engine.terms import fetch_words
from sim.events import Cause, Unit
from sim.fast.quick import counted_replay, quick_replay
from validation.fvp.left_out import deep_left_out
from validation.fvp.left_out_errors import kept_left_out
from validation.fvp.references.records import measured_program, u85_points
from validation.fvp.scorecard import score_point
from validation.fvp.scores import mean_error
from validation.fvp.u65_rules import changed_device
from validation.fvp.u85_rules import CHOICES, NEUTRAL, chosen, errors
from validation.tables import share

pytestmark = pytest.mark.law

MANY_WINDOWS = "a window of several sub-kernels with several OFM blocks in depth (one layer of one network bears the rule)"


@cache
def given() -> list[dict[str, str]]:
    """Rows of the published inferences, which lie in the reference data."""
    return [row for name in ("u85_calibration.csv", "u85_ad.csv") for row in csv.DictReader((shared_data() / "fvp" / name).open())]


def test_the_error_of_networks_left_out_is_what_commands_say() -> None:
    """The package keeps it in a file: the other networks choose every constant that is no fact of the hardware."""
    (row,) = deep_left_out()
    assert row in kept_left_out(), "run: python -m validation.fvp.left_out > validation/fvp/left_out.csv"
    page = (Path(__file__).parents[2] / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert f"| ethos-u85 | on | {share(row.mean)} | {share(row.worst)} | {row.network} |" in page
    assert f"{row.mean:.1%} on average and {row.worst:.1%} at worst" in unseen_text("ethos-u85-512", memory("ethos-u85-512"))


def test_a_choice_of_constants_never_makes_its_own_points_worse() -> None:
    few = [point for point in u85_points() if point.network == "rnnoise_INT8" and point.accelerator == "ethos-u85-256"]
    found = chosen(few, NEUTRAL)
    assert mean_error(errors(few, found)) < mean_error(errors(few, NEUTRAL))
    tried = [mean_error(errors(few, {**found, "ext_latency": cycles})) for cycles in CHOICES["ext_latency"]]
    assert mean_error(errors(few, found)) == min(tried)


@pytest.mark.parametrize("key", CHOICES)
def test_the_errors_of_a_choice_are_those_of_whole_replays(key: str) -> None:
    """A choice keeps the jobs of kernels while only other constants change."""
    name = "ethos-u85-512"
    (point,) = (point for point in u85_points() if (point.network, point.accelerator) == ("rnnoise_INT8", name))
    for value in CHOICES[key]:
        device = changed_device(name, {**NEUTRAL, key: value})
        assert errors([point], {**NEUTRAL, key: value}) == [score_point(point, DEFAULT_TIMING, device).error]


def memory(device: str) -> MemorySystem:
    return system_of(device, said_memory(timing_adapter=measured_with(device)))


def stream(row: dict[str, str]) -> Program:
    (program,) = read_compiled((shared_data() / "fvp" / row["stream"]).read_bytes()).programs
    return program


def test_cycles_of_the_published_points_are_a_fifth_as_far_off_as_velas_estimate() -> None:
    found = []
    for row in given():
        cycles, active = quick_replay(stream(row), memory(row["accelerator"])).cycles, int(row["npu_active_cycles"])
        found.append(abs(cycles - active) / active)
    assert len(found) == 17
    mean = sum(found) / len(found)
    vela = [abs(int(row["vela_estimate_cycles"]) / int(row["npu_active_cycles"]) - 1) for row in given()]
    assert mean < sum(vela) / len(vela) / 5


@pytest.mark.parametrize("point", ["128-taon-kws", "512-taon-rnnoise", "1024-taon-kws", "1024-taon-yolo", "2048-taon-rnnoise"])
def test_the_compiled_replay_equals_the_engine(point: str) -> None:
    (row,) = (row for row in given() if point in row["id"])
    program, system = stream(row), memory(row["accelerator"])
    assert counted_replay(program, system) == replay(program, system)


@pytest.mark.parametrize("macs", [512, 1024, 2048])
def test_a_step_reads_the_streams_of_all_decoders_as_one_which_the_compiled_replay_can(macs: int) -> None:
    """Its core takes two reads of weights in a step, and a kernel of the Ethos-U85 has up to four streams."""
    name = f"ethos-u85-{macs}"
    device, system = accelerator(name), memory(name)
    programs = [measured_program(point.network, name) for point in u85_points() if point.accelerator == name]
    programs += [read_compiled(compiled(network, macs)).programs[0] for network in ("mobilenet_v3", "residual_int16")]
    streams = 0
    for program in programs:
        jobs = timed_chains(program, device, DEFAULT_TIMING).jobs
        assert all(len(step.weights) <= 1 for found in jobs.values() for job in found for step in job.steps)
        streams = max(streams, *(len([part for part in op.weights if part.length]) for op in program.kernels))
    assert streams == device.weight_streams
    for program in programs[-2:]:
        assert counted_replay(program, system) == replay(program, system)


@pytest.mark.parametrize("changes", [{"scale_words": 3}, {"scale_words": 40}, {"weight_bursts": 0}, {"fetch_by_port": False}])
def test_replays_agree_about_scales_whatever_their_buffer_holds(changes: dict[str, object]) -> None:
    name = "ethos-u85-1024"
    program, device = measured_program("rnnoise_INT8", name), changed_device(name, changes)
    for timing in (DEFAULT_TIMING, TimingParameters(weights_ahead=False)):
        engine = run_engine(program, device, memory(name), timing=timing)
        assert quick_replay(program, memory(name), timing, device=device).cycles == engine.env.cycle


def test_the_output_unit_waits_for_scales_and_longer_if_their_buffer_is_smaller() -> None:
    name = "ethos-u85-512"
    program, waits, cycles = measured_program("kws_micronet_m", name), [], []
    for words in (8, 16, 64):
        device = changed_device(name, {"scale_words": words})
        machine = run_engine(program, device, memory(name))
        waits.append(sum(found for (_, unit, cause), found in machine.recorder.waits.items() if (unit, cause) == (Unit.AO, Cause.SCALES)))
        cycles.append(machine.env.cycle)
    assert waits == sorted(waits, reverse=True)
    assert waits[0] > waits[1] > 0
    assert cycles[0] > cycles[1] >= cycles[2]


def test_each_port_to_the_external_memory_fetches_commands_and_its_latency_is_more_than_the_adapters() -> None:
    assert [fetch_words(accelerator(f"ethos-u85-{macs}")) for macs in (512, 1024)] == [32, 64]
    assert memory("ethos-u85-512").ports[1].read_latency == 500 + accelerator("ethos-u85-512").access.ext_latency


def test_kernels_that_no_published_inference_has_are_named() -> None:
    words = ("simulate", "vela", "portfolio:int16_resize_bilinear", "--no-advice", "--accelerator-config")
    document = json.loads(call(*words, "ethos-u85-256", "--json").output)
    text = " ".join(call(*words, "ethos-u85-256").output.split())
    reasons = {entry["reason"] for entry in document["unproven"]}
    assert {"a bilinear resize", "elements of more than 8 bits"} <= reasons
    assert all(reason in text for reason in reasons)
    assert all(entry["program"] == 0 and str(entry["operation"]) in text for entry in document["unproven"])
    assert "unproven" not in json.loads(call(*words, "ethos-u55-128", "--json").output)
    for point in u85_points():
        device = accelerator(point.accelerator)
        kinds = {unmet_beats(op, device) for op in measured_program(point.network, point.accelerator).kernels} - {""}
        assert kinds <= {MANY_WINDOWS}


def test_a_chain_is_one_kernel_whose_members_begin_and_end_together() -> None:
    (program,) = read_compiled(compiled("mobilenet_v3", 256)).programs
    system = memory("ethos-u85-256")
    timed = timed_chains(program, accelerator("ethos-u85-256"), DEFAULT_TIMING)
    assert timed.heads
    times = quick_replay(program, system).times
    assert all(times[index] == times[head] for index, head in timed.heads.items())
    kernels = {index for index, op in enumerate(program.operations) if isinstance(op, KernelOperation)}
    assert kernels == timed.jobs.keys() | timed.heads.keys()
    assert all(timed.program.operations[head].ofm.storage is not MapStorage.CHAINED for head in timed.jobs)  # type: ignore[union-attr]


def test_a_transfer_of_rows_moves_the_words_of_every_row() -> None:
    (row,) = (row for row in given() if "256-taon-rnnoise" in row["id"])
    program, system = stream(row), memory("ethos-u85-256")
    place, copy = next((i, op) for i, op in enumerate(program.operations) if isinstance(op, DmaOperation))
    operations = list(program.operations)
    operations[place] = type(copy)(
        copy.source, copy.destination, copy.destination_region, copy.to_shram, Rows(3, source=(256, 0), destination=(256, 0))
    )
    changed = Program(**{name: getattr(program, name) for name in program.__struct_fields__} | {"operations": tuple(operations)})
    more = quick_replay(changed, system).beats.axi1_read - quick_replay(program, system).beats.axi1_read
    assert more == 2 * 256 // 16
    assert counted_replay(changed, system) == replay(changed, system)


def test_a_u85_is_simulated_from_the_command_line(tmp_path: Path) -> None:
    words = ("simulate", "vela", "zoo:tiny_residual", "--accelerator-config", "ethos-u85-1024")
    assert "Off by" in call(*words, "--stalls", "--report", tmp_path / "r.html", "--trace", tmp_path / "t.json").output
    assert "u65_off" in call(*words, "--timing-adapter", "off").output
    assert "give u85_sys_dram_mid" in refusal(*words, "--timing-adapter", "u65_high_end")
    assert "searched for" in refusal("schedule", "zoo:tiny_residual", "--accelerator-config", "ethos-u85-1024", "-o", tmp_path / "s.json")


def test_a_c_array_of_a_stream_is_simulated_and_checked(tmp_path: Path) -> None:
    data = compiled("mnist", 256)
    plain, text = tmp_path / "n_vela.tflite", tmp_path / "n.cc"
    plain.write_bytes(data)
    text.write_text("const unsigned char network[] = {" + ", ".join(hex(byte) for byte in data) + "};\n")
    cycles = [next(line for line in call("simulate", "vela", path).output.splitlines() if "NPU cycles" in line) for path in (plain, text)]
    assert cycles[0] == cycles[1]
    assert call("check", text, "--max-cycles", "1").status == 1
    broken = tmp_path / "b_vela.tflite"
    broken.write_bytes(data[: len(data) // 2])
    assert refusal("simulate", "vela", broken)
