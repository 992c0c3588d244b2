"""Every docstring of Python and of C opens with a verb or a noun: a reader learns from its first word what the thing is or does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RIDDLE = re.compile(r'^\s*r?(?:"""|/\*+ )(?:What|Of|Whose|How|Which)\b.*', re.MULTILINE)


def riddles(folder: str) -> list[str]:
    files = [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in {".py", ".c", ".h"}]
    assert files
    return [f"{path.name}: {found.strip()}" for path in files for found in RIDDLE.findall(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("folder", ["npu_model", "cascader", "sim", "validation", "npu_testbed", "benchmarks", "examples", "tests"])
def test_docstrings_open_with_a_verb_or_a_noun(folder: str) -> None:
    assert riddles(folder) == []


@pytest.mark.parametrize("line", ['"""What a word is."""', '    r"""Of both."""', "/* How far. */"])
def test_a_riddle_is_found(line: str) -> None:
    assert RIDDLE.findall(f"x = 1\n{line}\n") == [line]
