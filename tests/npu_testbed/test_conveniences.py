"""Conveniences that a user expects of a command line without having read its manual."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from command_line import call, refusal
from cpu_networks import cpu_split_network

from npu_model.accelerator import accelerator_names
from npu_testbed.ground import progress
from validation.vela.supported import operator_constraints


def test_the_names_that_options_take_are_listed() -> None:
    lines = [line.strip() for line in call("--list-configs").output.splitlines()]
    assert {*accelerator_names(), "u55_high_end", "Ethos_U55_Deep_Embedded", "Shared_Sram", "Arm/vela.ini"} <= set(lines)


@pytest.mark.parametrize("command", [("schedule",), ("frontier",), ("compare",), ("simulate", "vela")])
def test_the_help_says_that_velas_default_accelerator_is_another(command: tuple[str, ...]) -> None:
    text = " ".join(call(*command, "--help").output.split())
    assert "default: ethos-u55-128; Vela's own default is ethos-u55-256" in text


def test_a_picture_is_svg_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    assert call("schedule", "zoo:tiny_conv", "--no-cascade", "-o", path).status == 0
    for words in (
        ("frontier", "zoo:tiny_conv", "--plot", tmp_path / "x.png"),
        ("compare", "zoo:tiny_conv", "--plot", tmp_path / "x.pdf"),
        ("simulate", "schedule", path, "--sram-map", tmp_path / "x.png"),
        ("simulate", "vela", "zoo:tiny_conv", "--sram-map", tmp_path / "x.png"),
    ):
        assert "does not end in .svg" in refusal(*words)
    assert list(tmp_path.iterdir()) == [path]


def test_a_log_without_a_terminal_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    log, clock = io.StringIO(), iter([0.0, 1.0, 31.0, 32.0, 70.0])
    monkeypatch.setattr("sys.stderr", log)
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    with progress.progress() as show:
        for doing in ("one", "two", "three", "four\n"):
            show(doing)
    assert log.getvalue() == "npu-testbed: after 31 s: two\nnpu-testbed: after 70 s: four\\n\n"


def test_the_operators_that_stay_on_the_cpu_are_named(tmp_path: Path) -> None:
    split, plan = tmp_path / "split.tflite", tmp_path / "split.json"
    split.write_bytes(cpu_split_network())
    for words in (("schedule", split, "-o", plan), ("simulate", "schedule", plan), ("simulate", "vela", split)):
        said = call(*words, "--show-cpu-operations", "--no-advice").output
        assert any(line.split()[:3] == ["DEPTH_TO_SPACE", "before", "on_cpu"] for line in said.splitlines()), said
        assert "operator on the CPU" not in call(*words).output
    assert "No operator stays on the CPU." in call("simulate", "vela", "zoo:tiny_conv", "--show-cpu-operations").output


def test_the_report_of_supported_operators_is_written_where_vela_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("--supported-ops-report").output == f"Report file: {tmp_path / 'SUPPORTED_OPS.md'}\n"
    page = (tmp_path / "SUPPORTED_OPS.md").read_text(encoding="utf-8")
    constraints = operator_constraints()
    assert {line[4:] for line in page.splitlines() if line.startswith("### ")} == set(constraints)
    assert "DEPTH_TO_SPACE" not in constraints
    for conditions in constraints.values():
        assert all(condition.splitlines()[0] in page for condition in conditions)


@pytest.mark.parametrize("columns", [80, 110])
@pytest.mark.parametrize("words", ["schedule", "validate vela", "validate portfolio", "calibrate fit", "simulate vela"])
def test_help_fits_the_terminal_but_for_the_examples(words: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = call(*words.split(), "--help").output.splitlines()
    assert max(len(line) for line in lines if not line.startswith("  npu-testbed ")) <= columns
