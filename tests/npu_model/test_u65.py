"""The Ethos-U65: Vela's streams for it are replayed, and networks scheduled, by the same model."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asked_for import said_memory, simulate_vela
from command_line import call, refusal
from msgspec.structs import replace
from small_programs import conv

from cascader.ethosu.codegen.lowering import lower
from cascader.frontends.vela import CompilerOptions, compile_network
from npu_model.accelerator import Accelerator, accelerator, accelerator_names
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.cost.block_jobs import program_jobs
from npu_model.cost.traffic import BEAT_BYTES
from npu_model.memory.timing_adapter import profile
from npu_model.program import ByteRange, KernelOperation
from npu_model.shapes import Shape3D
from npu_model.weight_stream.order import WeightFormat
from npu_model.weight_stream.streams import coded, dealt_records, records_of
from npu_model.weight_stream.weights import core_format, encode_weights
from npu_model.weight_stream.work import operation_work, stream_work
from npu_testbed.devices.configs import load_memory_system
from npu_testbed.devices.device_memory import as_seen_by, compiled_for, memory_of
from npu_testbed.proofs.verification import seeded_inputs
from npu_testbed.replays.scheduling import read_schedule
from sim import replay_network
from sim.functional import run
from sim.hazards import network_hazards
from validation.zoo import build

U65 = "ethos-u65-256"
U65_512 = "ethos-u65-512"
NAMES = (U65, U65_512)
ONE_SRAM = ("Ethos_U65_Embedded", "Shared_Sram")
SHARED = ("--system-config", ONE_SRAM[0], "--memory-mode", ONE_SRAM[1])


@cache
def compiled(name: str, device: str = U65) -> bytes:
    options = CompilerOptions(device, system_config=ONE_SRAM[0], memory_mode=ONE_SRAM[1], debug_database=False)
    return compile_network(build(name), options).compiled


@cache
def network(name: str, device: str = U65) -> CompiledNetwork:
    return read_compiled(compiled(name, device))


def vela_features(name: str) -> Any:
    features = pytest.importorskip("ethosu.vela.architecture_features", reason="Vela 6 has no Python tables")
    return features.create_default_arch(features.Accelerator(name))


def test_the_u65_is_one_of_the_families() -> None:
    assert accelerator_names("u65") == NAMES
    assert accelerator_names() == (*accelerator_names("u55"), *NAMES)


def test_what_is_left_out_of_its_memories_is_velas_default_for_it() -> None:
    """A schedule and Vela's own compilation have the same memories, whatever is left out."""
    asked = [memory_of(U65, memory) for memory in (said_memory(), said_memory(memory_mode="Sram_Only"), said_memory("off"))]
    names = [(one.timing_adapter, one.system_config, one.memory_mode) for one in asked]
    default = "Ethos_U65_Client_Server"
    assert names == [(None, default, "Dedicated_Sram_384KB"), (None, default, "Sram_Only"), ("u65_off", None, None)]
    assert compiled_for(U65, said_memory(memory_mode="Sram_Only")) == (default, "Sram_Only")
    assert memory_of("ethos-u55-256", said_memory()) == said_memory()


def test_its_blocks_are_those_of_the_u55_and_its_ports_and_queues_velas() -> None:
    ours, vela = accelerator(U65), vela_features(U65)
    other = accelerator("ethos-u55-256")
    differing = {name for name in Accelerator.__struct_fields__ if getattr(ours, name) != getattr(other, name)}
    assert differing == {"name", "port_bytes_per_cycle", "max_outstanding_dma", "max_reads", "max_writes", "access"}
    assert (ours.macs, ours.cores) == (vela.num_macs_per_cycle, vela.ncores)
    assert ours.max_outstanding_dma == vela.max_outstanding_dma == 2
    sram = type(vela.axi0_port).Sram
    assert ours.port_bytes_per_cycle == vela.memory_bandwidths_per_cycle[sram] / vela.memory_clock_scales[sram] == 16
    assert list(vela.shram_bank_granules) == [getattr(ours.granules, name) for name in ours.granules.__struct_fields__]


def test_the_u65_with_512_macs_has_two_cores_of_256_that_put_out_twice_as_much() -> None:
    ours, vela, one = accelerator(U65_512), vela_features(U65_512), accelerator(U65)
    differing = {name for name in Accelerator.__struct_fields__ if getattr(ours, name) != getattr(one, name)}
    assert differing == {"name", "cores", "output"}
    assert (ours.macs, ours.cores, ours.macs_per_cycle) == (vela.num_macs_per_cycle, vela.ncores, 512)
    assert all(getattr(ours.output, name) * 2 == getattr(one.output, name) for name in ours.output.__struct_fields__)
    rates = ours.output
    found = (rates.mul32, rates.mul, rates.simple_add, rates.scaled_add, rates.max_pool, rates.other)
    assert found == tuple(vela.output_cycles_per_elem[2:])
    assert (rates.lut, rates.relu) == tuple(vela.activation_cycles_per_elem[:2])


def test_a_data_beat_of_the_u55_is_a_word_of_its_port() -> None:
    assert {accelerator(name).port_bytes_per_cycle for name in accelerator_names("u55")} == {BEAT_BYTES}


@pytest.mark.parametrize("name", ["tiny_residual", "ds_cnn", "resnet8"])
def test_its_stream_takes_plausible_cycles_and_half_the_beats_of_the_u55(name: str) -> None:
    config, mode = ONE_SRAM
    wide = simulate_vela(f"zoo:{name}", accelerator_config=U65, system_config=config, memory_mode=mode).replay
    narrow = simulate_vela(
        f"zoo:{name}", accelerator_config="ethos-u55-256", system_config="Ethos_U55_High_End_Embedded", memory_mode="Shared_Sram"
    )
    u55 = narrow.replay
    macs = sum(op.macs for program in network(name).programs for op in program.kernels)
    assert macs / accelerator(U65).macs <= wide.cycles
    assert 0.5 * u55.cycles < wide.cycles < 1.1 * u55.cycles
    # Vela schedules a little otherwise, and short rows fill a wide word less well.
    assert 0.45 < wide.beats.axi0_write / u55.beats.axi0_write < 0.7


@pytest.mark.parametrize("name", ["tiny_residual", "ds_cnn", "resnet8"])
def test_two_cores_are_faster_than_one_but_no_more_than_twice_as_fast(name: str) -> None:
    system = as_seen_by(U65_512, load_memory_system(*ONE_SRAM))
    one, two = (replay_network(network(name, device), system) for device in NAMES)
    assert 0.5 * one.cycles <= two.cycles < one.cycles
    macs = sum(op.macs for program in network(name, U65_512).programs for op in program.kernels)
    assert macs / 512 <= two.cycles
    for one_run in two.replays:
        assert sum(op.beats.axi1_read for op in one_run.operations) + (sum(one_run.program.words) + 3) // 4 == one_run.beats.axi1_read
    assert one.beats.axi0_write <= two.beats.axi0_write < 1.5 * one.beats.axi0_write


def test_each_core_has_half_of_the_weights_and_decodes_them_beside_the_other() -> None:
    (program,) = network("resnet8", U65_512).programs
    (single,) = network("resnet8").programs
    device = accelerator(U65_512)
    work = stream_work(program, device)
    with_weights = [i for i, op in enumerate(program.operations) if isinstance(op, KernelOperation) and op.weights]
    assert sorted(work) == with_weights
    assert all(len(cores) == 2 and len(cores[0].turns) == len(cores[1].turns) for cores in work.values())
    turns = [sum(cores[core].turns[-1] for cores in work.values()) for core in range(2)]
    whole = sum(cores[0].turns[-1] for cores in stream_work(single, accelerator(U65)).values())
    assert max(turns) < 0.6 * whole
    assert sum(turns) > 0.95 * whole
    jobs = program_jobs(program, device)
    assert all(len(step.weights) == 2 for i in with_weights for job in jobs[i] for step in job.steps)


def test_an_odd_channel_is_that_of_the_first_core_and_a_block_without_one_has_no_work() -> None:
    op = replace(conv(Shape3D(2, 2, 17), Shape3D(2, 2, 16)), parallel_mode=1)
    streams = []
    for core in range(2):
        op = replace(op, weights=(ByteRange(0, 0, 16),) * 2)
        shape, layout = core_format(op, core)
        streams.append(encode_weights(np.ones(shape, np.int16), layout, accelerator(U65_512)))
    assert [core_format(op, core)[0][0] for core in range(2)] == [9, 8]
    op = replace(op, weights=tuple(ByteRange(0, 0, len(stream)) for stream in streams))
    first, second = operation_work(op, tuple(streams), accelerator(U65_512))
    assert len(first.turns) == len(second.turns) == 2
    assert first.turns[0] < first.turns[1]
    assert second.turns[0] == second.turns[1]
    none = operation_work(op, (streams[0], b""), accelerator(U65_512))[1]
    assert none.turns == none.bits == (0, 0)


def test_its_bytes_are_counted_in_words_of_16() -> None:
    document = json.loads(call("simulate", "vela", "zoo:tiny_residual", "--accelerator-config", U65, *SHARED, "--json").output)
    assert document["accelerator"] == U65
    beats, layers = document["summary"]["beats"], document["layers"]
    assert sum(layer["axi0_write_bytes"] for layer in layers) == 16 * beats["axi0_write"]


def test_without_options_its_memories_are_velas_own_defaults_for_it(tmp_path: Path) -> None:
    document = json.loads(call("simulate", "vela", "zoo:tiny_residual", "--accelerator-config", U65, "--json").output)
    assert document["memory_system"]["name"] == "Ethos_U65_Client_Server, Dedicated_Sram_384KB"
    assert document["summary"]["cycles"] > 0
    path = tmp_path / "net_vela.tflite"
    path.write_bytes(compiled("tiny_residual"))
    as_it_is = json.loads(call("simulate", "vela", path, *SHARED, "--json").output)
    from_source = json.loads(call("simulate", "vela", "zoo:tiny_residual", "--accelerator-config", U65, *SHARED, "--json").output)
    assert as_it_is["summary"]["cycles"] == from_source["summary"]["cycles"]


def test_it_has_twice_the_outstanding_transactions_of_a_u55() -> None:
    system = load_memory_system(*ONE_SRAM)
    assert [(m.max_reads, m.max_writes) for m in as_seen_by(U65, system).ports] == [(64, 32)] * 2
    assert as_seen_by("ethos-u55-256", system) == system
    program = network("ds_cnn")
    assert replay_network(program, as_seen_by(U65, system)).cycles <= replay_network(program, system).cycles


@pytest.mark.parametrize("device", NAMES)
@pytest.mark.parametrize("name", ["tiny_residual", "ds_cnn"])
def test_its_stream_computes_what_the_stream_of_the_u55_computes(name: str, device: str) -> None:
    other = read_compiled(compile_network(build(name), CompilerOptions("ethos-u55-256", debug_database=False)).compiled)
    (inputs,) = seeded_inputs(other, 1, 0)
    expected, found = run(other, inputs), run(network(name, device), inputs)
    assert expected.keys() == found.keys()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_adapters_that_are_off_keep_the_arena_of_a_u65_outside() -> None:
    """Dedicated_Sram: constants and arena behind AXI1, with the ports' width as the only bound."""
    from_source = call("simulate", "vela", "zoo:tiny_residual", "--accelerator-config", U65, "--timing-adapter", "off", "--json")
    document = json.loads(from_source.output)
    assert document["memory_system"]["name"] == "timing adapter u65_off"
    assert profile("u65_off").memory_system().region_ports == (1, 1, 0, 1, 1, 1, 1, 1)
    assert all((port.read_latency, port.max_reads, port.pulse) == (0, 0, None) for port in profile("u65_off").memory_system().ports)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("simulate", "vela", "zoo:tiny_conv", "--accelerator-config", U65, "--timing-adapter", "u55_high_end"), "of another family"),
        (("simulate", "vela", "zoo:tiny_conv", "--timing-adapter", "u65_high_end"), "give u55_high_end, a file of your own"),
        (("simulate", "vela", "zoo:tiny_conv", "--timing-adapter", "u65_off"), "give u55_high_end, a file of your own"),
        (
            ("simulate", "vela", "zoo:tiny_conv", "--accelerator-config", U65, "--system-config", "Ethos_U55_High_End_Embedded"),
            "is another NPU's, as ethos-u65-256 is an Ethos_U65",
        ),
        (("simulate", "vela", "zoo:tiny_conv", "--accelerator-config", "ethos-u65-1024"), "'ethos-u65-1024' is unknown"),
    ],
)
def test_what_a_u65_cannot_be_asked_for_is_one_sentence(
    argv: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refusal(*argv)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", ["Shared_Sram", "Sram_Only", "Dedicated_Sram"])
@pytest.mark.parametrize("device", NAMES)
def test_a_schedule_for_it_is_exact_and_has_no_hazard(device: str, mode: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    memory = ("--system-config", "Ethos_U65_High_End", "--memory-mode", mode)
    call("schedule", "zoo:tiny_residual", "--accelerator-config", device, *memory, "-o", path, "--effort", "quick", "--no-advice")
    document = json.loads(call("verify", path, "--json").output)
    assert document["passed"] is True
    assert not network_hazards(lower(read_schedule(path)))


def test_a_kernel_of_one_channel_leaves_the_second_core_without_weights() -> None:
    device = accelerator(U65_512)
    streams = coded(np.ones((1, 1, 1, 8), np.int16), WeightFormat(8), device)
    assert [bool(stream) for stream in streams] == [True, False]
    records = bytes(range(30))
    assert records_of(dealt_records(records, device), 3) == records
