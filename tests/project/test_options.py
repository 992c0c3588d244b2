"""The table of options and the inputs of the action are what the Asks say."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from npu_testbed.asked.commands import COMMANDS
from npu_testbed.asked.option import declared
from npu_testbed.commands.check import Check
from npu_testbed.commands.cli import build_parser

ROOT = Path(__file__).parents[2]


@pytest.fixture
def site_options(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "docs")
    return import_module("site_options")


def test_the_page_and_the_action_are_as_the_asks_have_them(site_options: ModuleType) -> None:
    for path, text in site_options.written().items():
        assert path.read_text(encoding="utf-8") == text, "run python docs/site_options.py --write"


def test_the_page_has_every_option_of_every_command(site_options: ModuleType) -> None:
    table = site_options.table()
    for command in COMMANDS:
        for one in declared(command.load()):
            assert one.option.source or one.option.only == "values" or f"| `{one.flag}" in table, one.flag


def test_every_option_of_check_is_an_input_or_is_given_by_the_action(site_options: ModuleType) -> None:
    inputs = {one.name for one in site_options.asked()}
    left = {one.name for one in declared(Check)} - inputs
    assert left == {"file", "against", "tolerance", "sram_map", "markdown", "json", "update", "progress"}


@pytest.mark.skipif(sys.platform == "win32", reason="the script is for bash")
def test_the_script_gives_every_input_to_its_option_and_none_that_is_empty(site_options: ModuleType) -> None:
    asked = site_options.asked()
    script = f'set --\n{site_options.words()}\nif [ $# -gt 0 ]; then printf "%s\\n" "$@"; fi'
    values = {
        "optimise": "Size",
        "runtime": "tflm",
        "effort": "quick",
        "keep": "input",
        "home": "input=ext\noutput=ext",
        "ignore_ops": "SOFTMAX",
        "input_shape": "1,8,8,4",
        "layout": "input=NHWC",
    }
    values["keep"] = "input"
    values |= {one.name: "true" for one in asked if one.is_switch}
    given = {f"{site_options.PREFIX}{one.name.upper()}": values.get(one.name, "2") for one in asked}

    def words(environment: dict[str, str]) -> list[str]:
        done = subprocess.run(["bash", "-eu", "-c", script], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    found = build_parser().parse_args(["check", "net.tflite", *words(given)])
    assert all(getattr(found, one.name) is not None for one in asked)
    assert found.home == ["input=ext", "output=ext"]
    assert words(dict.fromkeys(given, "")) == []
