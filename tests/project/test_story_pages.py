"""The pages whose commands a shell runs name commands and options that exist; ``tox -e measured`` compares what they print."""

from __future__ import annotations

from pathlib import Path

import pytest
from story_pages import PAGES, calls, commands, true_page

from npu_testbed.cli import build_parser


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_is_one_that_the_parser_takes(page: Path) -> None:
    body = page.read_text(encoding="utf-8")
    found = list(calls(body))
    assert list(commands(body))
    assert found or page.stem == "python"
    for words in found:
        build_parser().parse_args(words)


def test_a_page_that_says_something_else_is_written_anew(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "<!-- file: a.txt -->\n```text\nfirst\nsecond\n```\n\n```console\n$ cat a.txt \\\n    | tail -n 1\n{}```\n"
    page.write_text(text.format("wrong\n"), encoding="utf-8")
    assert true_page(page) == text.format("second\n")
    page.write_text(text.format("").replace("a.txt \\", "none \\").replace("| tail", "&& tail"), encoding="utf-8")
    with pytest.raises(AssertionError, match="none"):
        true_page(page)
