"""README.md says what the product does today."""

from __future__ import annotations

import os

import pytest
from readme_blocks import BLOCKS, README, command_lines, quoted

from npu_testbed.cli import build_parser

pytestmark = pytest.mark.law


def test_every_command_line_of_the_readme_parses() -> None:
    lines = command_lines()
    assert len(lines) >= 6
    for arguments in lines:
        assert callable(build_parser().parse_args(arguments).run)


@pytest.mark.parametrize("name", BLOCKS)
def test_the_measured_parts_of_the_readme_are_what_is_measured_today(name: str) -> None:
    if name == "questions" and os.environ.get("NPU_TESTBED_ALL") != "1":
        pytest.skip("a frontier and a comparison take half a minute: `tox -e measured` runs them")
    assert quoted(name) == BLOCKS[name](), "measured anew by `tox -e measured -- --write`"


def test_the_readme_is_short() -> None:
    """120 lines, and prose of at most 120 characters: tables, commands and their output may be wider."""
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    fenced = False
    for line in lines:
        fenced ^= line.startswith("```")
        assert fenced or line.startswith(("|", "python3 ")) or len(line) <= 120, line
