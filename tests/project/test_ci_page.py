"""The page on continuous integration and the action: what they run parses, and does what they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import call

from npu_testbed.commands.cli import build_parser

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github" / "actions" / "check" / "action.yml"
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")


def workflows() -> dict[str, Any]:
    page = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    found = re.findall(r"^<!-- workflow: (\w+) -->\n```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    return {name: yaml.safe_load(text) for name, text in found}


def action() -> Any:
    return yaml.safe_load(ACTION.read_text(encoding="utf-8"))


def parsed(words: list[str]) -> Any:
    """The arguments of a command line, which names npu-testbed first; a redirection is left out."""
    kept = words[: words.index(">")] if ">" in words else words
    assert kept[0] == "npu-testbed"
    return build_parser().parse_args(kept[1:])


def test_the_workflow_of_github_gives_inputs_that_the_action_has_and_options_that_check_has() -> None:
    steps = workflows()["github"]["jobs"]["check"]["steps"]
    (used,) = [step["with"] for step in steps if step["uses"] == "./.github/actions/check"]
    inputs = action()["inputs"]
    assert used.keys() <= inputs.keys()
    assert {name for name, one in inputs.items() if one.get("required")} <= used.keys()
    options = [f"--{name}={value}" for name, value in used.items() if name not in ("model", "baseline", "comment")]
    found = parsed(["npu-testbed", "check", used["model"], "--against", used["baseline"], *options])
    assert found.arena_cache_size == 262144


def test_the_job_of_gitlab_runs_a_command_that_check_takes() -> None:
    job = workflows()["gitlab"]["npu"]
    (command,) = job["script"]
    found = parsed(shlex.split(command))
    assert {found.sram_map, shlex.split(command)[-1]} == set(job["artifacts"]["paths"])


def test_every_input_of_the_action_is_read_and_every_reading_is_an_input() -> None:
    text = ACTION.read_text(encoding="utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == action()["inputs"].keys()
    for step in action()["runs"]["steps"]:
        assert "${{" not in step.get("run", ""), "an input in a script would be run as a part of it"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.platform == "win32":
        pytest.skip("the scripts are for bash")
    folder = tmp_path_factory.mktemp("ci")
    (folder / "bin").mkdir()
    command = folder / "bin" / "npu-testbed"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m npu_testbed "$@"\n')
    command.chmod(0o755)
    assert call("check", "zoo:tiny_conv", "--against", folder / "baseline.json", "--update").status == 0
    return folder


@pytest.mark.parametrize(("options", "status"), [("", 0), ("--max-bytes 16", 1), ("--timing-adapter off", 2)])
def test_the_scripts_of_the_action_write_the_summary_and_end_with_the_status_of_the_check(scripts: Path, options: str, status: int) -> None:
    temporary = scripts / f"run{status}"
    temporary.mkdir()
    files = {"RUNNER_TEMP": temporary, "GITHUB_OUTPUT": temporary / "output", "GITHUB_STEP_SUMMARY": temporary / "summary"}
    asked = {"MODEL": "zoo:tiny_conv", "BASELINE": scripts / "baseline.json", "TOLERANCE": "1", "OPTIONS": options}
    given = {**files, **asked, "PICTURE": "https://example.org/arena", "STATUS": str(status)}
    environment = os.environ | {name: str(value) for name, value in given.items()} | {"PATH": f"{scripts / 'bin'}:{os.environ['PATH']}"}
    steps = {step["name"]: step.get("run") for step in action()["runs"]["steps"]}
    ends = {
        name: subprocess.run(["bash", "-e", "-c", steps[name]], env=environment, capture_output=True, check=False).returncode
        for name in ("Check", "Tell", "Verdict")
    }
    assert ends == {"Check": 0, "Tell": 0, "Verdict": status}
    assert files["GITHUB_OUTPUT"].read_text() == f"status={status}\n"
    summary = files["GITHUB_STEP_SUMMARY"].read_text()
    assert ("### zoo:tiny\\_conv" in summary) == (status < 2)
    assert ("is for another memory system" in summary) == (status == 2)
    assert (temporary / "npu-testbed" / "arena.svg").exists() == (status < 2)
