"""README.md says what the product does today."""

from __future__ import annotations

import pytest
from readme_blocks import BLOCKS, command_lines, quoted

from testbed.cli import build_parser


def test_every_command_line_of_the_readme_parses() -> None:
    lines = command_lines()
    assert len(lines) >= 6
    for arguments in lines:
        assert callable(build_parser().parse_args(arguments).run)


@pytest.mark.parametrize("name", BLOCKS)
def test_the_measured_parts_of_the_readme_are_what_is_measured_today(name: str) -> None:
    assert quoted(name) == BLOCKS[name](), "measured anew by `PYTHONPATH=. python tests/readme_blocks.py`"
