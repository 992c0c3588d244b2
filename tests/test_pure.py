"""Without the compiled cores: the same answers, and `--version` says which run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from npu_model.native import PACKAGES, SWITCH, cores_text, native

ROOT = Path(__file__).parents[1]


def run(folder: Path, *words: str, pure: str) -> str:
    """Output of a command in a process with the switch at ``pure``."""
    environment = os.environ | {SWITCH: pure, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "testbed", *words]
    return subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout


def test_every_package_with_c_sources_has_a_core() -> None:
    folders = [folder.parent for name in ("npu_model", "cascader", "sim") for folder in (ROOT / name).glob("**/native") if folder.is_dir()]
    assert sorted(PACKAGES) == sorted(".".join(folder.relative_to(ROOT).parts) for folder in folders)


def test_the_version_names_the_compiled_cores_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    assert run(tmp_path, "--version", pure="").splitlines()[1:] == [cores_text()]
    assert run(tmp_path, "--version", pure="1").splitlines()[1:] == ["compiled cores: none, as NPU_TESTBED_PURE is set"]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_core_is_reported_where_it_is_imported(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    assert (package in re.split(r"[:,;] ", cores_text().partition("; not built")[0])) == (native(package) is not None)


def test_a_core_that_was_not_built_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setattr("npu_model.native._is_built", lambda package: package != "sim")
    assert cores_text() == "compiled cores: npu_model, cascader, cascader.ethosu; not built: sim"
    monkeypatch.setattr("npu_model.native._is_built", lambda _: False)
    assert cores_text().startswith("compiled cores: none, as none was built")


@pytest.mark.skipif(native("cascader") is None, reason="the compiled cores were not built, or are switched off: nothing to compare with")
def test_the_schedule_and_its_replay_are_the_same_without_the_compiled_cores(tmp_path: Path) -> None:
    written = []
    for name, pure in (("compiled", ""), ("python", "1")):
        folder = tmp_path / name
        folder.mkdir()
        run(folder, "schedule", "zoo:tiny_residual", "--optimise", "Size", "--jobs", "1", "-o", "s.json", pure=pure)
        written.append(((folder / "s.json").read_bytes(), run(folder, "simulate", "schedule", "s.json", "--json", pure=pure)))
    assert written[0] == written[1]
