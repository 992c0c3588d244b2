"""``validate`` and ``calibrate`` on the command line: what they print and return, and that nothing is ignored or overwritten."""

from __future__ import annotations

import csv
import importlib.util
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command_line import call, refusal
from fvp_stand_in import stand_in
from msgspec.structs import replace
from quick_comparisons import compare_quickly

import npu_testbed.comparisons.beside_vela
import npu_testbed.proofs.peers
import npu_testbed.proofs.suite
import validation.fvp.scorecard
from cascader.ethosu.search.request import Request
from cascader.frontends.vela import CompilerOptions, VelaResult, compile_network
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile
from npu_model.program import Rounding
from npu_model.shapes import Shape3D
from npu_testbed.asked.parser import HELP_WIDTH
from npu_testbed.commands.cli import build_parser
from npu_testbed.proofs.peers import BytesVerdict, litert_table, validate_litert, zoo_models
from sim import replay_network
from validation.builder import NetworkBuilder
from validation.calibrate import from_toml
from validation.fvp.bars import Scorecard
from validation.fvp.references.records import points
from validation.fvp.scorecard import score_point
from validation.zoo import build, zoo_names

COMMANDS = (
    *(("validate", peer) for peer in ("fvp", "vela", "litert", "all")),
    ("calibrate",),
    ("calibrate", "fit"),
    ("calibrate", "check"),
)
NEEDS_LITERT = pytest.mark.skipif(importlib.util.find_spec("ai_edge_litert") is None, reason="LiteRT (extra numerics) is not installed")
NEEDS_SCIPY = pytest.mark.skipif(importlib.util.find_spec("scipy") is None, reason="SciPy (extra calibrate) is not installed, which fits")
ADAPTER = "off"


@cache
def compilation() -> VelaResult:
    return compile_network(build("tiny_conv"))


@cache
def short_card() -> Scorecard:
    """The measurements that replay in a tenth of a second each."""
    return Scorecard(tuple(score_point(point) for point in points() if point.network == "rnnoise_INT8"), (), ())


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[Path]:
    """Measurements of one network on two memory systems, by a chip that takes a few per cent longer than our model."""
    (tmp_path / "tiny_vela.tflite").write_bytes(compilation().compiled)
    network = read_compiled(compilation().compiled)
    path = tmp_path / "chip.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("model", "NPU_ACTIVE", "timing_adapter"))
        for adapter in (ADAPTER, "u55_high_end"):
            cycles = replay_network(network, profile(adapter).memory_system()).cycles
            rows.writerow(("tiny_vela.tflite", cycles + cycles // 20, adapter))
    yield path
    assert (tmp_path / "tiny_vela.tflite").read_bytes() == compilation().compiled


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_a_help_text_whose_examples_parse(command: tuple[str, ...]) -> None:
    outcome = call(*command, "--help")
    assert outcome.status == 0
    examples = [line.split() for line in outcome.output.replace("\\\n", "").splitlines() if line.startswith("  npu-testbed ")]
    assert examples
    assert all(len(line) <= HELP_WIDTH for line in outcome.output.partition("example")[2].splitlines())
    assert all(callable(build_parser().parse_args(words[1:]).asked.load) for words in examples)


def test_without_a_model_the_whole_zoo_is_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(npu_testbed.proofs.peers, "validate_vela", lambda *choices: asked.append(choices) or ())
    # No score is no agreement.
    assert call("validate", "vela").status == 1
    assert call("validate", "vela", "zoo:ds_cnn", "--accelerator-config", "all", "--optimise", "Size").status == 1
    some = ("--accelerator-config", "ethos-u55-64", "--accelerator-config", "ethos-u55-32", "--accelerator-config", "ethos-u55-64")
    assert call("validate", "vela", "zoo:ds_cnn", *some, "--optimise", "Size").status == 1
    assert zoo_models() == tuple(f"zoo:{name}" for name in zoo_names())
    assert [choices[:3] for choices in asked] == [
        (zoo_models(), ("ethos-u55-128",), ("Size", "Performance")),
        (("zoo:ds_cnn",), tuple(f"ethos-u55-{macs}" for macs in (32, 64, 128, 256)), ("Size",)),
        (("zoo:ds_cnn",), ("ethos-u55-64", "ethos-u55-32"), ("Size",)),
    ]


def test_velas_sram_is_touched_to_the_byte_and_the_table_says_so() -> None:
    outcome = call("validate", "vela", "zoo:tiny_conv", "zoo:tiny_residual", "--optimise", "Size")
    assert outcome.status == 0, outcome
    assert "2 of 2 peaks equal Vela's figure, 0 differ" in outcome.output
    document = json.loads(call("validate", "vela", "zoo:tiny_conv", "--optimise", "Size", "--json").output)
    (row,) = document["networks"]
    assert (row["network"], row["verdict"], row["peak"]) == ("zoo:tiny_conv", "EQUAL", row["vela_sram"])


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A file that is no model."""
    path = tmp_path / "broken.tflite"
    path.write_bytes(b"nothing")
    return path


def test_a_network_that_fails_leaves_the_others_their_comparisons_and_misses_the_bar(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_quickly(monkeypatch, sweep=2)
    monkeypatch.setenv("COLUMNS", "400")
    options = ("--accelerator-config", "ethos-u55-32", "--system-config", "Ethos_U55_Deep_Embedded", "--jobs", "1", "--optimise", "Size")
    outcome = call("validate", "vela", broken, "zoo:tiny_conv", "--compare", *options)
    assert outcome.status == 1
    for what in ("The replay of Vela Size", "The comparison"):
        assert f"\n{what} of broken.tflite on ethos-u55-32 failed: The file is not a .tflite model" in outcome.output
    assert "Beside Vela, ethos-u55-32, Ethos_U55_Deep_Embedded, Shared_Sram\n" in outcome.output
    assert "At the same arena size, ethos-u55-32, Ethos_U55_Deep_Embedded, Shared_Sram\n" in outcome.output
    assert "This table is of Vela's default system config and memory mode.\n" in outcome.output
    rows = [line.split() for line in outcome.output.splitlines() if line.startswith("zoo:tiny_conv")]
    # Vela's replay, the comparison, and a row for each arena size.
    assert len(rows) == 1 + 1 + 2


def test_comparisons_of_several_accelerators_are_the_same_as_those_of_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    compare_quickly(monkeypatch)
    devices = ("ethos-u55-64", "ethos-u55-256")
    named = [part for device in devices for part in ("--accelerator-config", device)]
    outcome = call("validate", "vela", "zoo:tiny_conv", "--compare", *named, "--timing-adapter", "off", "--json")
    document = json.loads(outcome.output)
    assert [one["accelerator"] for one in document["comparisons"]] == list(devices)
    assert {one["memory_system"] for one in document["comparisons"]} == {"timing adapter off"}
    alone = call("compare", "zoo:tiny_conv", "--accelerator-config", devices[1], "--timing-adapter", "off", "--json")
    # An inference with the CPU's operators is what `compare` alone tells: it has a table of the CPU.
    told = [{key: value for key, value in one.items() if key != "inference"} for one in json.loads(alone.output)["networks"]]
    assert document["comparisons"][1]["networks"] == told
    assert document["passed"] is (outcome.status == 0) is all(one["passed"] for one in document["comparisons"])


def test_an_error_of_ours_in_one_network_costs_no_other_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(request: Request, *_: object, **__: object) -> object:
        raise RuntimeError(f"{request.source.name} is too odd.")

    monkeypatch.setattr(npu_testbed.comparisons.beside_vela, "compare", search)
    outcome = call("validate", "vela", "zoo:tiny_conv", "--compare", "--optimise", "Size")
    assert outcome.status == 1
    assert "1 of 1 peaks equal Vela's figure" in outcome.output
    assert (
        "The comparison of zoo:tiny_conv on ethos-u55-128 failed: Internal error RuntimeError: zoo:tiny_conv is too odd.\n"
        in outcome.output
    )


def test_a_comparison_of_which_nothing_can_be_done_is_bad_input(broken: Path) -> None:
    assert "is not a .tflite model" in refusal("validate", "vela", broken, broken, "--compare")


@NEEDS_LITERT
def test_a_network_that_ends_in_a_fully_connected_layer_differs_from_litert_only_by_velas_double_rounding() -> None:
    document = json.loads(call("validate", "litert", "zoo:ds_cnn", "zoo:tiny_conv", "--optimise", "Size", "--json").output)
    assert document["passed"]
    verdicts = {row["network"]: (row["verdict"], row["differing"] > 0) for row in document["networks"]}
    assert verdicts == {"zoo:ds_cnn": ("ROUNDED_TWICE", True), "zoo:tiny_conv": ("EQUAL", False)}


@NEEDS_LITERT
def test_a_byte_that_no_rounding_explains_misses_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    run = npu_testbed.proofs.peers.functional_outputs
    monkeypatch.setattr(
        npu_testbed.proofs.peers,
        "functional_outputs",
        lambda *given: [{name: array ^ 1 for name, array in one.items()} for one in run(*given)],
    )
    outcome = call("validate", "litert", "zoo:tiny_conv", "--optimise", "Size")
    assert outcome.status == 1
    assert "1 differ without an explanation" in outcome.output
    (score,) = validate_litert(["zoo:tiny_conv"], optimise=("Size",))
    assert (score.differing, score.verdict, score.passed) == (score.size, BytesVerdict.UNEXPLAINED, False)
    assert "UNEXPLAINED" in litert_table([score]).text()


@NEEDS_LITERT
def test_a_convolution_of_one_output_position_is_not_taken_for_a_fully_connected_layer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    net = NetworkBuilder("twins")
    convolved = net.conv2d(net.average_pool(net.conv2d(net.input((1, 8, 8, 3)), 32)), 32, (1, 1))
    model = tmp_path / "twins.tflite"
    model.write_bytes(net.finish([net.fully_connected(net.reshape(convolved, (1, 32)), 32)]))
    ran: list[CompiledNetwork] = []
    run = npu_testbed.proofs.peers.functional_outputs

    def off_by_one(network: CompiledNetwork, *given: Any) -> Any:
        ran.append(network)
        return [{name: array ^ 1 for name, array in one.items()} for one in run(network, *given)]

    monkeypatch.setattr(npu_testbed.proofs.peers, "functional_outputs", off_by_one)
    validate_litert([str(model)], optimise=("Size",))
    last = [[k.rounding for k in network.programs[0].kernels if k.ofm.shape == Shape3D(1, 1, 32)][-2:] for network in ran]
    assert last == [[Rounding.DOUBLE, Rounding.DOUBLE], [Rounding.DOUBLE, Rounding.NATURAL]]


@pytest.mark.parametrize("litert", [True, False])
def test_the_scorecard_has_a_bar_of_every_peer_and_says_what_it_could_not_check(monkeypatch: pytest.MonkeyPatch, *, litert: bool) -> None:
    if litert:
        pytest.importorskip("ai_edge_litert", reason="LiteRT (extra numerics) is not installed")
    monkeypatch.setattr(npu_testbed.proofs.suite, "litert_installed", lambda: litert)
    monkeypatch.setattr(npu_testbed.proofs.suite, "scorecard", lambda _: short_card())
    document = json.loads(call("validate", "all", "zoo:tiny_conv", "--json").output)
    verdicts = {promise["peer"]: promise["verdict"] for promise in document["promises"]}
    assert list(verdicts) == ["fvp", "silicon", "calibrate", "vela", "litert"]
    assert (verdicts["calibrate"], verdicts["vela"]) == ("passed", "passed")
    assert verdicts["litert"] == ("passed" if litert else "not checked")
    # One point is no mean, and sweeps, small kernels and single operators were not replayed here: a bar without a case is missed.
    missed = [promise["figure"] for promise in document["promises"] if promise["passed"] is False]
    assert missed
    assert all(
        any(part in figure for part in ("sweeps", "operator", "small kernels", "NPU ACTIVE", "U65", "U85", "older Velas", "of all runs"))
        for figure in missed
    )
    assert any("one cascade" in blind for blind in document["blind"])
    if litert:
        return
    outcome = call("validate", "all", "zoo:tiny_conv")
    assert outcome.status == 1
    assert "Blind: no counter of a single layer" in outcome.output
    assert f"{len(missed)} of {len(document['promises'])} bars are missed." in outcome.output


def test_silicon_is_not_checked_without_velas_python_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise InputError("Vela's Python API is not installed: install it.")

    monkeypatch.setattr(npu_testbed.proofs.suite, "vela_api", absent)
    (promise,) = npu_testbed.proofs.suite.silicon_promises(lambda _: None)
    assert (promise.verdict, promise.found) == ("not checked", "Vela's Python API is not installed: install it.")


def test_the_scorecard_passes_when_no_bar_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    bars = tuple(bar for bar in short_card().bars if bar.passed)
    monkeypatch.setattr(Scorecard, "bars", property(lambda _: bars))
    monkeypatch.setattr(npu_testbed.proofs.suite, "scorecard", lambda _: short_card())
    monkeypatch.setattr(npu_testbed.proofs.suite, "litert_installed", lambda: False)
    assert call("validate", "all", "zoo:tiny_conv").status == 0
    (broken, *others) = bars
    monkeypatch.setattr(Scorecard, "bars", property(lambda _: (replace(broken, value=broken.limit * 2), *others)))
    assert call("validate", "all", "zoo:tiny_conv").status == 1


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("validate", "vela", "zoo:nothing"), "The zoo has no network 'nothing'"),
        (("validate", "vela", "zoo:tiny_conv", "--accelerator-config", "npu"), "Accelerator 'npu' is unknown"),
        (("validate", "litert", "absent.tflite"), "cannot be read"),
        (("validate", "vela", "zoo:tiny_conv", "absent.tflite", "--compare"), "'absent.tflite' cannot be read"),
        (("validate", "vela", "zoo:tiny_conv", "--compare", "--accelerator-config", "npu"), "Accelerator 'npu' is unknown"),
        (
            ("validate", "vela", "zoo:tiny_conv", "--jobs", "1", "--config", "x.ini"),
            "--config and --jobs can only be given together with --comp",
        ),
        (
            ("validate", "vela", "zoo:tiny_conv", "--compare", "--system-config", "Flash"),
            "System config 'Flash' is not in the Vela configuration",
        ),
        (("validate", "vela", "zoo:tiny_conv", "--compare", "--timing-adapter", "off", "--memory-mode", "Sram_Only"), "choose one kind"),
        (("validate", "litert", "zoo:tiny_conv", "--optimise", "Speed"), "Speed"),
        (("validate", "fvp", "zoo:tiny_conv"), "MODEL can only be given together with --live"),
        (("validate", "fvp", "--timeout", "5", "--no-trace"), "--no-trace and --timeout can only be given together with --live"),
        (("validate", "fvp", "--live"), "--live runs 1 network on the FVP and 0 were named"),
        (("validate", "fvp", "--live", "absent.json"), "'absent.json' cannot be read"),
        (("validate", "fvp", "--live", "zoo:tiny_conv", "--fvp", "absent"), "FVP 'absent' is not a file that can be run"),
        (("validate", "fvp", "--live", "zoo:tiny_conv", "--timeout", "nan"), "is not a number of seconds from 1 to 86400"),
        (("validate", "fvp", "--live", "zoo:tiny_conv", "--model-address", "-1"), "is not an address from 0 to 0xffffffff"),
        (("calibrate", "check", "absent.toml"), "Calibration profile 'absent.toml' cannot be read"),
        (("calibrate", "fit"), "--output"),
        (("calibrate", "fit", "absent.csv", "-o", "p.toml"), "Measurements 'absent.csv' cannot be read"),
        (("calibrate", "fit", "-o", "p.toml", "--seed", "-1"), "is not a number from 0 to 4294967295"),
        (("calibrate", "fit", "-o", "p.toml", "--date", "tomorrow"), "is not a date"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_one_sentence(argv: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refusal(*argv)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for an FVP is a script with a #! line")
def test_a_live_comparison_runs_the_network_on_the_fvp_with_the_options_that_were_given(tmp_path: Path) -> None:
    fvp, firmware = stand_in(tmp_path)
    live = ("validate", "fvp", "--live", "--fvp", fvp, "--firmware", firmware, "--no-trace")
    options = ("--accelerator-config", "ethos-u55-64", "--model-address", "none", "--fvp-argument=--stat", "--optimise", "Size")
    document = json.loads(call(*live, "zoo:tiny_conv", *options, "--json").output)
    (counter,) = document["counters"]
    compiled = compile_network(build("tiny_conv"), CompilerOptions("ethos-u55-64", optimise="Size")).compiled
    cycles = replay_network(read_compiled(compiled), profile("off").memory_system()).cycles
    assert (counter["name"], counter["fvp"], counter["ours"]) == ("NPU_ACTIVE", 7, cycles)
    argv = (tmp_path / "argv").read_text(encoding="utf-8").split()
    assert "ethosu.num_macs=64" in argv
    assert "--stat" in argv
    assert "--data" not in argv
    assert "not silicon" in call(*live, "zoo:tiny_conv", "--timing-adapter", "u55_high_end").output
    assert "@0x90000000" in (tmp_path / "argv").read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for an FVP is a script with a #! line")
def test_a_compiled_network_is_run_as_it_is_so_that_options_of_velas_are_refused(tmp_path: Path) -> None:
    fvp, firmware = stand_in(tmp_path)
    model = tmp_path / "tiny_vela.tflite"
    model.write_bytes(compilation().compiled)
    live = ("validate", "fvp", "--live", model, "--fvp", fvp, "--firmware", firmware, "--no-trace")
    assert call(*live).status == 0
    assert "is compiled already, so that --optimise and --memory-mode cannot change it" in refusal(
        *live, "--optimise", "Size", "--memory-mode", "Sram_Only"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for an FVP is a script with a #! line")
def test_a_schedule_file_is_exported_for_the_fvp_and_replayed_with_the_timing_that_it_was_made_for(tmp_path: Path) -> None:
    fvp, firmware = stand_in(tmp_path)
    timing, plan = tmp_path / "timing.toml", tmp_path / "plan.json"
    timing.write_text("schema = 1\n[timing]\nkernel_start_cycles = 100\n", encoding="utf-8")
    words = ("schedule", "zoo:tiny_conv", "--no-cascade", "--accelerator-config", "ethos-u55-64", "--timing", timing, "-o", plan)
    assert call(*words, "--timing-adapter", "off", "--no-advice").status == 0
    live = ("validate", "fvp", "--live", plan, "--fvp", fvp, "--firmware", firmware, "--no-trace", "--json")
    document = json.loads(call(*live).output)
    assert document["timing"] == {"kernel_start_cycles": 100}
    assert document["counters"][0]["ours"] == json.loads(call("simulate", "schedule", plan, "--json").output)["summary"]["cycles"]
    assert "ethosu.num_macs=64" in (tmp_path / "argv").read_text(encoding="utf-8")


@NEEDS_SCIPY
def test_a_fit_is_written_the_same_every_time_and_its_check_reproduces_it(measured: Path) -> None:
    fits = [measured.with_name(name) for name in ("first.toml", "second.toml")]
    options = ("--parameter", "kernel_start_cycles", "--date", "2026-01-31", "--name", "chip")
    for path in fits:
        outcome = call("calibrate", "fit", measured, "-o", path, *options)
        assert outcome.status == 0, outcome
        assert f"Profile: {path}" in outcome.output
    assert fits[0].read_bytes() == fits[1].read_bytes()
    fitted = from_toml(fits[0].read_text(encoding="utf-8"))
    assert (fitted.name, fitted.date, fitted.timing.kernel_start_cycles > 0) == ("chip", "2026-01-31", True)
    assert {name for name, _ in fitted.tools} == {"npu-testbed", "scipy"}
    document = json.loads(call("calibrate", "check", fits[0], measured, "--json").output)
    assert (document["profile"], document["drifted"], document["seen"]["count"], document["passed"]) == ("chip", [], 2, True)
    # With a parameter changed by hand, the recorded cycles are no longer the replay's.
    text = fits[0].read_text(encoding="utf-8")
    fits[1].write_text(text.replace(f"kernel_start_cycles = {fitted.timing.kernel_start_cycles}\n", "kernel_start_cycles = 0\n", 1))
    outcome = call("calibrate", "check", fits[1], measured)
    assert outcome.status == 1
    assert "MISSED" in outcome.output


@NEEDS_SCIPY
def test_a_fit_as_json_holds_what_its_file_holds(measured: Path) -> None:
    path = measured.with_name("p.toml")
    document = json.loads(call("calibrate", "fit", measured, "-o", path, "--parameter", "output_scale", "--json").output)
    fitted = from_toml(path.read_text(encoding="utf-8"))
    held = document["profile"]
    assert (held["timing"]["output_scale"], held["timing"]["blockdep"]) == (str(fitted.timing.output_scale), fitted.timing.blockdep.value)
    assert (held["name"], held["seed"], document["output"]) == ("p", 1, str(path))


@pytest.mark.parametrize("name", ["chip.csv", "tiny_vela.tflite"])
def test_a_fit_never_overwrites_what_it_was_fitted_to(measured: Path, name: str) -> None:
    before = measured.read_bytes()
    assert "would be overwritten" in refusal("calibrate", "fit", measured, "-o", measured.with_name(name))
    assert measured.read_bytes() == before


@NEEDS_SCIPY
def test_a_fit_that_cannot_be_made_leaves_no_profile(measured: Path) -> None:
    path = measured.with_name("p.toml")
    assert "are too few to fit 3 parameters" in refusal("calibrate", "fit", measured, "-o", path)
    assert "'speed' cannot be fitted" in refusal("calibrate", "fit", measured, "-o", path, "--parameter", "speed")
    assert not path.exists()


def test_the_built_in_profile_is_checked_against_measurements_that_it_has_not_seen(measured: Path) -> None:
    profile_path = Path(validation.fvp.scorecard.__file__).parents[1] / "calibrate" / "corstone_fvp_u55.toml"
    document = json.loads(call("calibrate", "check", profile_path, measured, "--json").output)
    assert (document["seen"]["count"], document["unseen"]["count"], document["passed"]) == (0, 2, True)
    assert document["unseen"]["worst"] < 0
