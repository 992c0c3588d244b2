"""Lasting inputs: with --keep input no run writes over an input, in any budget, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from asked_for import requested
from command_line import call, refusal
from msgspec.structs import replace

import npu_testbed
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import UNKNOWN
from cascader.ethosu.network.lasting_inputs import with_lasting_inputs
from cascader.ethosu.schedule.file import from_json
from cascader.frontends.vela import import_network
from npu_model.compiled.lost_inputs import lost_inputs
from npu_model.errors import InputError
from sim.functional import run
from validation.builder import NetworkBuilder

NETWORKS = ("zoo:tiny_residual", "zoo:tiny_conv", "portfolio:mnist")


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("optimise", ["Performance", "Size"])
def test_no_run_writes_over_a_kept_input(network: str, optimise: str, tmp_path: Path) -> None:
    lost = []
    for keep in (None, "input"):
        made = npu_testbed.schedule(network, output=tmp_path / "s.json", keep=keep, optimise=optimise, effort="quick", no_advice=True)
        program = lower(from_json((tmp_path / "s.json").read_text()))
        lost.append(len(lost_inputs(program)))
        if keep:
            kept = made.arena_bytes
            inputs = [np.zeros(one.shape, str(one.dtype)) for one in program.inputs]
            assert run(program, inputs)
            assert kept >= sum(one.size for one in program.inputs)
    assert lost[1] == 0
    assert lost[0] or network != "zoo:tiny_residual"


def test_an_input_outside_the_arena_is_kept_there(tmp_path: Path) -> None:
    """The schedule files differ in what was asked alone."""
    words = ("zoo:tiny_residual", "--effort", "quick", "--home", "input=ext", "--no-advice")
    plain, kept = tmp_path / "plain.json", tmp_path / "kept.json"
    call("schedule", *words, "-o", plain)
    call("schedule", *words, "--keep", "input", "-o", kept)
    schedules = [replace(from_json(path.read_text(encoding="utf-8")), provenance=UNKNOWN) for path in (plain, kept)]
    assert schedules[0] == schedules[1]


def test_export_names_no_input_that_a_kept_one_loses(tmp_path: Path) -> None:
    call("schedule", "zoo:tiny_residual", "--keep", "input", "--effort", "quick", "--no-advice", "-o", tmp_path / "s.json")
    assert "gone after a run" not in call("export", tmp_path / "s.json", "-o", tmp_path / "m.tflite").output


def test_compile_takes_no_file_of_vela_s_that_loses_an_input(tmp_path: Path) -> None:
    said = call("compile", "zoo:tiny_residual", "--keep", "input", "--effort", "quick", "--output-dir", tmp_path).output
    assert "Written: ours." in said
    assert "--keep input asks" in said


def test_an_input_that_a_layer_writes_cannot_be_kept() -> None:
    net = NetworkBuilder("net")
    x = net.input((1, 4, 4, 8), "x")
    network = import_network(net.finish([net.conv2d(x, 8, (1, 1))]), "ethos-u55-128")
    (part,) = network.graph.parts
    overwritten = network.with_parts({part.name: [part, replace(part, name="again", outputs=part.inputs)]})
    with pytest.raises(InputError, match="Input 'x' is also written by the network"):
        with_lasting_inputs(overwritten)


def test_what_is_kept_is_part_of_the_request() -> None:
    assert requested("zoo:tiny_conv", "ethos-u55-128").keep_inputs is False
    assert "'all'" in refusal("schedule", "zoo:tiny_conv", "--keep", "all", "-o", "x.json")
