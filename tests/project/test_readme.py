"""README.md says what the product does today."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from command_line import call
from readme_blocks import BLOCKS, PICTURE, README, command_lines, main_line, picture, quoted, table_commands

from npu_testbed.commands.cli import build_parser

pytestmark = pytest.mark.law

EVERY = os.environ.get("NPU_TESTBED_ALL")


def test_every_command_line_of_the_readme_parses() -> None:
    lines = command_lines()
    assert len(lines) >= 6
    for arguments in lines:
        assert callable(build_parser().parse_args(arguments).asked.load)


@pytest.mark.skipif(EVERY != "1", reason="`tox -e measured` measures all parts")
@pytest.mark.parametrize("name", BLOCKS)
def test_the_measured_parts_of_the_readme_are_what_is_measured_today(name: str) -> None:
    assert quoted(name) == BLOCKS[name](), "measured anew by `tox -e measured -- --write`"


@pytest.mark.skipif(EVERY != "1", reason="a frontier next to Vela takes half a minute: `tox -e measured` draws it")
def test_the_picture_of_the_readme_is_what_its_command_draws_today() -> None:
    assert picture() == PICTURE.read_text(encoding="utf-8"), "drawn anew by `tox -e measured -- --write`"


def test_the_readme_shows_a_picture_of_the_network_that_it_schedules() -> None:
    (shown,) = re.findall(r"^!\[.*\]\((.*)\)$", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert README.parent / shown == PICTURE
    model = next(word for word in main_line().split() if word.startswith("zoo:"))
    assert f">{model} on ethos-u55-128" in PICTURE.read_text(encoding="utf-8")


def test_the_commands_of_the_table_run_one_after_the_other_on_a_file_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").mkdir()
    shutil.copy(README.parent / "examples" / "keyword_spotter.tflite", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    every = table_commands()
    assert [words[0] for words in every] == ["schedule", "verify", "compare", "compile", "simulate", "inspect", "check", "sweep", "compile"]
    # A comparison and a sweep take ten times as long as the others.
    for words in every if EVERY == "1" else [one for one in every if one[0] not in {"compare", "sweep"}]:
        outcome = call(*words)
        assert outcome.status == 0, (words, outcome)


def test_the_set_up_commands_are_the_first_code_of_the_readme() -> None:
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert [kind for kind, _ in blocks[:2]] == ["sh", "sh"]
    assert all(text.startswith("python3 -m venv .venv && . .venv/bin/activate && pip install ") for _, text in blocks[:2])
    assert [line for line in README.read_text(encoding="utf-8").splitlines() if re.match("python3 -m venv .*tox", line)] == [
        blocks[1][1].strip()
    ]


def test_the_readme_is_short() -> None:
    """110 lines, and prose of at most 120 characters: tables, commands and their output may be wider."""
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 110
    fenced = False
    for line in lines:
        fenced ^= line.startswith("```")
        assert fenced or line.startswith(("|", "python3 ")) or len(line) <= 120, line
