"""`compile` keeps its promise, checked before anything is written.

Without an arena size it is never larger and never slower than Vela; with one, the fastest in that size, and never slower than Vela.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from asked_for import compile_model, said_memory, simulate_vela, system_said
from command_line import call, refusal
from few_examples import few_cases
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from vendor_ini import board_ini

from cascader.ethosu.search.request import OPTIMISE, Request, Source
from npu_model.compiled.network import read_compiled
from npu_model.errors import InputError
from npu_testbed.asked.request import requested
from npu_testbed.compilation import compiler, promise
from npu_testbed.compilation.compile_options import FEWEST_BYTES, FEWEST_CYCLES, PROMISE, Target
from npu_testbed.compilation.peer import Peer, PeerFigures, vela_peer
from npu_testbed.compilation.promise import fits, shortfall
from npu_testbed.replays.memory_use import arena_bytes
from validation.zoo import build

MODELS = ("zoo:ds_cnn", "zoo:tiny_residual", "portfolio:mnist")


@cache
def compiled(model: str, optimise: str = "Performance", aim: str = PROMISE) -> compiler.Compilation:
    """The compilation of a network, searched once for all tests that ask the same."""
    return compile_model(model, Target(aim=aim), optimise=optimise)


def figures(path: Path, *memory: str) -> PeerFigures:
    """Bytes that a compiled file asks for, and the cycles of its replay, by another command than the one that wrote it."""
    document = json.loads(call("simulate", "vela", path, *memory, "--json").output)["summary"]
    return PeerFigures(arena_bytes(read_compiled(path.read_bytes())), document["cycles"])


def both(model: str, folder: Path, *words: str) -> tuple[PeerFigures, PeerFigures]:
    """Figures of our file and of Vela's for the same command line."""
    name = model.partition(":")[2]
    assert call("compile", model, "--output-dir", folder / "ours", *words, "--jobs", "1").status == 0
    (folder / f"{name}.tflite").write_bytes(build(name))
    command = [sys.executable, "-m", "ethosu.vela", f"{name}.tflite", "--output-dir", "theirs", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return figures(folder / "ours" / f"{name}_vela.tflite"), figures(folder / "theirs" / f"{name}_vela.tflite")


@pytest.mark.law
@pytest.mark.parametrize(("accelerator", "optimise"), few_cases(["ethos-u55-32", "ethos-u55-256"], ["Performance", "Size"]))
def test_the_file_that_is_written_is_no_larger_and_no_slower_than_what_velas_command_writes(
    accelerator: str, optimise: str, tmp_path: Path
) -> None:
    ours, theirs = both("zoo:tiny_residual", tmp_path, "--accelerator-config", accelerator, "--optimise", optimise)
    assert ours.memory <= theirs.memory
    assert ours.cycles <= theirs.cycles
    assert ours.memory < theirs.memory if optimise == "Size" else ours.cycles < theirs.cycles


@pytest.mark.law
@pytest.mark.parametrize(("model", "optimise"), few_cases(MODELS, ["Size", "Performance"]))
def test_the_verdict_is_that_of_two_replays(model: str, optimise: str) -> None:
    found = compiled(model, optimise)
    theirs = simulate_vela(model, accelerator_config="ethos-u55-128", optimise=optimise)
    verdict = found.verdict
    assert verdict.ours is not None
    assert verdict.vela == PeerFigures(arena_bytes(theirs.network), theirs.replay.cycles)
    written = read_compiled(next(iter(found.files.values())))
    assert arena_bytes(written) == (verdict.ours if verdict.written == "ours" else verdict.vela).memory
    assert arena_bytes(written) <= verdict.vela.memory
    assert found.simulation.replay.cycles <= verdict.vela.cycles


def test_the_smallest_that_is_no_slower_is_smaller_than_the_fastest_and_larger_than_the_smallest_of_all() -> None:
    sizes = {aim: compiled("zoo:ds_cnn", aim=aim).verdict.ours for aim in (FEWEST_BYTES, FEWEST_CYCLES)}
    kept = compiled("zoo:ds_cnn", "Size").verdict.ours
    smallest, fastest = sizes[FEWEST_BYTES], sizes[FEWEST_CYCLES]
    assert smallest is not None
    assert fastest is not None
    assert kept is not None
    assert smallest.memory < kept.memory < fastest.memory
    assert smallest.cycles > kept.cycles > fastest.cycles


@pytest.mark.parametrize("where", ["option", "ini"])
def test_an_arena_size_is_the_budget_and_is_refused_below_the_smallest(where: str, tmp_path: Path) -> None:
    memory = ""
    for bound in (6144, 2560):
        if where == "ini":
            ini = tmp_path / f"{bound}.ini"
            ini.write_text(board_ini(bound))
            given: tuple[object, ...] = ("--config", ini, "--system-config", "My_Sys_Cfg", "--memory-mode", "Small")
        else:
            given = ("--arena-cache-size", bound)
        words = ("compile", "zoo:tiny_conv", "--output-dir", tmp_path / str(bound), "--jobs", "1", *given)
        outcome = call(*words)
        if bound == 2560:
            assert outcome.status == 2
            assert "bytes are the smallest arena reached" in outcome.errors
            assert not (tmp_path / "2560").exists()
        else:
            memory = outcome.output
            assert arena_bytes(read_compiled((tmp_path / str(bound) / "tiny_conv_vela.tflite").read_bytes())) <= bound
    assert "Promise: the fewest cycles in at most 6,144 bytes." in memory


def test_where_ours_is_slower_velas_own_file_is_written_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = compiled("zoo:ds_cnn", aim=FEWEST_BYTES).schedule
    assert slow is not None
    monkeypatch.setattr(compiler, "best_schedule", lambda *_: slow)
    outcome = call("compile", "zoo:ds_cnn", "--accelerator-config", "ethos-u55-128", "--output-dir", tmp_path, "--enable-debug-db")
    assert "Written: Vela's own schedule. Ours takes" in outcome.output
    (tmp_path / "ds_cnn.tflite").write_bytes(build("ds_cnn"))
    command = [sys.executable, "-m", "ethosu.vela", "ds_cnn.tflite", "--output-dir", "theirs", "--accelerator-config", "ethos-u55-128"]
    subprocess.run([*command, "--enable-debug-db"], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "ds_cnn_vela.tflite").read_bytes() == (tmp_path / "theirs" / "ds_cnn_vela.tflite").read_bytes()
    assert not (tmp_path / "ds_cnn_schedule.json").exists()


def test_where_ours_is_none_velas_own_file_is_written_and_the_reason_is_said(tmp_path: Path) -> None:
    words = ("--system-config", "Ethos_U55_Deep_Embedded", "--memory-mode", "Shared_Sram", "--cpu-tensor-alignment", "4096")
    outcome = call("compile", "zoo:tiny_residual", "--output-dir", tmp_path, *words, "--jobs", "1")
    assert outcome.status == 0
    assert "no multiple of 4096" in outcome.output
    network = read_compiled((tmp_path / "tiny_residual_vela.tflite").read_bytes())
    assert all(binding.byte_range.start % 4096 == 0 for binding in (*network.inputs, *network.outputs))


def test_where_ours_does_not_fit_into_velas_bytes_no_option_that_was_not_given_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    def smaller(*words: Any) -> Peer:
        peer = vela_peer(*words)
        return replace(peer, figures=PeerFigures(16, peer.figures.cycles))

    monkeypatch.setattr(compiler, "vela_peer", smaller)
    verdict = compile_model("zoo:tiny_conv").verdict
    assert (verdict.written, verdict.reason) == ("vela", "No schedule of ours was found in the 16 bytes that Vela plans.")
    with pytest.raises(InputError, match="--arena-cache-size 15 is below"):
        compile_model("zoo:tiny_conv", budget=15)


def test_a_wrong_stream_of_velas_is_nothing_to_compare_with(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise InputError("Vela's stream is wrong.")

    monkeypatch.setattr(compiler, "vela_peer", wrong)
    verdict = compile_model("zoo:tiny_conv").verdict
    assert (verdict.written, verdict.vela, verdict.without_vela) == ("ours", None, "Vela's stream is wrong.")


def test_in_dedicated_sram_ours_is_in_the_fast_scratch_and_its_file_replays_there_as_was_said(tmp_path: Path) -> None:
    text = board_ini(65536).replace("axi1_port=OffChipFlash", "axi1_port=Dram").replace("OffChipFlash_", "Dram_")
    (tmp_path / "board.ini").write_text(text)
    given = ("--config", tmp_path / "board.ini", "--system-config", "My_Sys_Cfg", "--memory-mode", "Parted")
    words = ("compile", "zoo:tiny_residual", "--output-dir", tmp_path, *given, "--jobs", "1", "--json")
    found = json.loads(call(*words).output)["promise"]
    assert found["written"] == "ours"
    assert found["ours"]["bytes"] <= 65536
    assert found["ours"]["cycles"] <= found["vela"]["cycles"]
    replayed = json.loads(call("simulate", "vela", tmp_path / "tiny_residual_vela.tflite", *given, "--json").output)["summary"]
    assert (replayed["planned_bytes"], replayed["cycles"]) == (found["ours"]["bytes"], found["ours"]["cycles"])


def test_two_aims_at_once_are_refused(tmp_path: Path) -> None:
    words = ("compile", "zoo:tiny_conv", "--fewest-bytes", "--fewest-cycles", "--output-dir", tmp_path / "o")
    assert "each gives the other up" in refusal(*words)
    assert not (tmp_path / "o").exists()


FIGURES = st.builds(PeerFigures, st.integers(1, 40), st.integers(1, 40))
SYSTEM = system_said()
AIMS = st.sampled_from(("promise", FEWEST_BYTES, FEWEST_CYCLES))


@given(ours=FIGURES, vela=FIGURES, optimise=st.sampled_from(OPTIMISE), aim=AIMS, bound=st.none() | st.integers(1, 40))
def test_what_is_no_larger_and_no_slower_falls_short_of_nothing_and_what_is_both_of_all(
    ours: PeerFigures, vela: PeerFigures, optimise: str, aim: str, bound: int | None
) -> None:
    clause = shortfall(ours, vela, Request(Source("net"), "ethos-u55-128", SYSTEM, bound, optimise), aim)
    if not fits(vela, bound) or (ours.memory <= vela.memory and ours.cycles <= vela.cycles):
        assert clause == ""
    elif (ours.memory > vela.memory and ours.cycles > vela.cycles) or (aim == "promise" and bound is None):
        assert clause


def test_what_velas_command_refuses_ends_as_there(tmp_path: Path) -> None:
    (tmp_path / "text.tflite").write_text("hello")
    (tmp_path / "any.ini").write_text("[System_Config.A]\n[Memory_Mode.B]\n")
    model = tmp_path / "tiny_conv.tflite"
    model.write_bytes(build("tiny_conv"))
    lines = (
        ("missing.tflite",),
        (tmp_path / "text.tflite",),
        (model, "--config", "missing.ini", "--system-config", "A", "--memory-mode", "B"),
        (model, "--config", tmp_path / "any.ini", "--system-config", "C", "--memory-mode", "B"),
        (model, "--memory-mode", "C"),
        (model, "--output-dir", model),
        (model, "--accelerator-config", "ethos-u55-512"),
        (model, "--arena-cache-size", "many"),
        (model, "--cpu-tensor-alignment", "24"),
        (model, "--no-such-option"),
        (),
    )
    for words in lines:
        output = () if "--output-dir" in words else ("--output-dir", tmp_path / "none")
        theirs = subprocess.run([sys.executable, "-m", "ethosu.vela", *map(str, (*words, *output))], capture_output=True, check=False)
        ours = call("compile", *words, *output)
        assert (words, ours.status) == (words, theirs.returncode)
        assert ours.errors.startswith("npu-testbed: error: ")


def test_vela_options_are_taken_by_their_beginnings_as_vela_takes_them(tmp_path: Path) -> None:
    words = ("compile", "zoo:tiny_conv", "--accel", "ethos-u55-64", "--output-d", tmp_path, "--optim=Size", "--jobs", "1")
    assert "ethos-u55-64" in call(*words).output


def test_the_promise_is_about_the_memory_mode_that_is_asked_for() -> None:
    memory = said_memory(None, "Ethos_U55_Deep_Embedded", "Sram_Only")
    verdict = compile_model("zoo:tiny_residual", ask=memory).verdict
    theirs = simulate_vela(
        "zoo:tiny_residual", accelerator_config="ethos-u55-128", system_config="Ethos_U55_Deep_Embedded", memory_mode="Sram_Only"
    )
    assert verdict.vela == PeerFigures(arena_bytes(theirs.network), theirs.replay.cycles)
    assert verdict.written == "ours" or verdict.reason
    assert promise.described(requested("zoo:tiny_residual", ask=memory), "promise", verdict.vela) == verdict.promise
