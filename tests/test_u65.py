"""The Ethos-U65: Vela's streams for it are replayed, by the same model; nothing is scheduled for it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import call, refusal

from cascader.frontends.vela import compile_network
from cascader.frontends.zoo import build
from npu_model.accelerator import Accelerator, accelerator, accelerator_names, replay_only_names
from npu_model.compiled import CompiledNetwork, read_compiled
from npu_model.traffic import BEAT_BYTES
from sim import replay_network
from sim.functional import run
from testbed.configs import load_memory_system
from testbed.memory_options import MemoryOptions
from testbed.pipeline import VelaOptions, simulate_vela
from testbed.replay_only import MAX_READS, MAX_WRITES, as_seen_by
from testbed.verification import seeded_inputs

U65 = "ethos-u65-256"
ONE_SRAM = ("Ethos_U65_Embedded", "Shared_Sram")
SHARED = ("--system-config", ONE_SRAM[0], "--memory-mode", ONE_SRAM[1])


@cache
def compiled(name: str) -> bytes:
    return compile_network(build(name), U65, system_config=ONE_SRAM[0], memory_mode=ONE_SRAM[1], debug_database=False).compiled


@cache
def network(name: str) -> CompiledNetwork:
    return read_compiled(compiled(name))


def vela_features(name: str) -> Any:
    features = pytest.importorskip("ethosu.vela.architecture_features", reason="Vela 6 has no Python tables")
    return features.create_default_arch(features.Accelerator(name))


def test_the_u65_is_replayed_and_not_scheduled_for() -> None:
    assert replay_only_names() == (U65,)
    assert U65 not in accelerator_names()


def test_its_blocks_are_those_of_the_u55_and_its_ports_and_queues_velas() -> None:
    ours, vela = accelerator(U65), vela_features(U65)
    other = accelerator("ethos-u55-256")
    differing = {name for name in Accelerator.__slots__ if getattr(ours, name) != getattr(other, name)}
    assert differing == {"name", "port_bytes_per_cycle", "max_outstanding_dma"}
    assert (ours.macs, ours.cores) == (vela.num_macs_per_cycle, vela.ncores)
    assert ours.max_outstanding_dma == vela.max_outstanding_dma == 2
    sram = type(vela.axi0_port).Sram
    assert ours.port_bytes_per_cycle == vela.memory_bandwidths_per_cycle[sram] / vela.memory_clock_scales[sram] == 16
    assert list(vela.shram_bank_granules) == [getattr(ours.granules, name) for name in type(ours.granules).__slots__]


def test_a_data_beat_of_the_u55_is_a_word_of_its_port() -> None:
    assert {accelerator(name).port_bytes_per_cycle for name in accelerator_names()} == {BEAT_BYTES}


@pytest.mark.parametrize("name", ["tiny_residual", "ds_cnn", "resnet8"])
def test_its_stream_takes_plausible_cycles_and_half_the_beats_of_the_u55(name: str) -> None:
    wide = simulate_vela(f"zoo:{name}", VelaOptions(U65), MemoryOptions(None, *ONE_SRAM)).replay
    narrow = simulate_vela(f"zoo:{name}", VelaOptions("ethos-u55-256"), MemoryOptions(None, "Ethos_U55_High_End_Embedded", "Shared_Sram"))
    u55 = narrow.replay
    macs = sum(op.macs for program in network(name).programs for op in program.kernels)
    assert macs / accelerator(U65).macs <= wide.cycles
    assert 0.5 * u55.cycles < wide.cycles < 1.1 * u55.cycles
    # Vela schedules a little otherwise, and short rows fill a wide word less well.
    assert 0.45 < wide.beats.axi0_write / u55.beats.axi0_write < 0.7


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
    assert [(m.max_reads, m.max_writes) for m in as_seen_by(U65, system).ports] == [(MAX_READS, MAX_WRITES)] * 2
    assert as_seen_by("ethos-u55-256", system) == system
    program = network("ds_cnn")
    assert replay_network(program, as_seen_by(U65, system)).cycles <= replay_network(program, system).cycles


def test_its_stream_computes_what_the_stream_of_the_u55_computes() -> None:
    other = read_compiled(compile_network(build("tiny_residual"), "ethos-u55-256", debug_database=False).compiled)
    (inputs,) = seeded_inputs(other, 1, 0)
    expected, found = run(other, inputs), run(network("tiny_residual"), inputs)
    assert expected.keys() == found.keys()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("schedule", "zoo:tiny_conv", "-o", "s.json", "--accelerator-config", U65), "is only simulated, on Vela's schedules"),
        (("frontier", "zoo:tiny_conv", "--accelerator-config", U65), "is only simulated, on Vela's schedules"),
        (("compare", "zoo:tiny_conv", "--accelerator-config", U65), "is only simulated, on Vela's schedules"),
        (("validate", "vela", "zoo:tiny_conv", "--accelerator-config", U65), "is only simulated, on Vela's schedules"),
        (("validate", "fvp", "--live", "zoo:tiny_conv", "--accelerator-config", U65), "is only simulated, on Vela's schedules"),
        (("simulate", "vela", "zoo:tiny_conv", "--accelerator-config", U65, "--timing-adapter", "off"), "describes the memories of a U55"),
        (
            ("simulate", "vela", "zoo:tiny_conv", "--accelerator-config", U65, "--system-config", "Ethos_U55_High_End_Embedded"),
            "does not start with Ethos_U65",
        ),
        (("simulate", "vela", "zoo:tiny_conv", "--accelerator-config", "ethos-u65-512"), "'ethos-u65-512' is unknown"),
    ],
)
def test_what_a_u65_cannot_be_asked_for_is_one_sentence(
    argv: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refusal(*argv)
    assert list(tmp_path.iterdir()) == []
