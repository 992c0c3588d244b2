"""Every promise of docs/promises.md is kept by tests that are there, in environments that are there."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def rows() -> list[list[str]]:
    text = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    lines = text.partition("\n## ")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")][2:]


def tox() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string((ROOT / "tox.ini").read_text(encoding="utf-8"))
    return parser


def environments() -> set[str]:
    """The names of all environments, those of the interpreters too."""
    found = {"tests", "py310", "py311", "py312", "py313"}
    for section in tox().sections():
        name = section.partition(":")[2]
        stem, factors = name.partition("{")[::2]
        found |= {stem + factor for factor in factors.rstrip("}").split(",")} if factors else {name}
    return found


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_a_promise_names_tests_and_environments_that_are_there(row: list[str]) -> None:
    _, tests, always, fully = (re.findall(r"`([^`]+)`", cell) for cell in row)
    assert [name for name in tests if len(list((ROOT / "tests").rglob(f"{name}.py"))) != 1] == []
    assert always
    assert set(always) <= set(re.split(r",\s*", tox()["tox"]["env_list"]))
    assert set(fully) <= environments()
    assert fully


def test_every_environment_keeps_a_promise() -> None:
    named = {name for row in rows() for cell in row[2:] for name in re.findall(r"`([^`]+)`", cell)}
    assert environments() - named - {"", "py311", "py312"} == set()


def test_the_environments_run_test_files_that_are_there() -> None:
    named = re.findall(r"tests/[\w/]+\.py", (ROOT / "tox.ini").read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).is_file()] == []
    # All tests in TensorIR, and those alone, are chosen by their names.
    assert not {name for name in named if "test_tensorir_" in name}
