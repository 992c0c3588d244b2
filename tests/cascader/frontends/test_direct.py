"""The direct call of Vela's C++ core beside its command line: the same files, and the command line wherever the call fails."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from few_examples import few_cases
from msgspec.structs import replace

from cascader.frontends.vela import compiler, direct
from cascader.frontends.vela.compiler import compile_network
from cascader.frontends.vela.compiler_options import CompilerOptions
from cascader.frontends.vela.debug_database import read_tables
from cascader.frontends.vela.direct import ARENA_LIMIT, DirectCall, direct_call
from cascader.frontends.vela.result import VelaResult
from validation.zoo import build

pytestmark = pytest.mark.usefixtures("every_vela_runs")


def called(name: str = "ethos-u55-128", arena: int | None = None) -> DirectCall | None:
    return direct_call(CompilerOptions(name, arena_cache_size=arena, legalise=True))


Needed = Mapping[str, tuple[str, ...]]


def rows(result: VelaResult, needed: Needed = {}) -> dict[str, Counter[frozenset[tuple[str, str]]]]:  # noqa: B006  # nobody changes it
    """The tables of the debug database, but for what Vela's own runs differ in: orders of rows and columns, and the numbers of tensors.

    The estimate has columns of each memory, in an order that hangs on where the core's memories lie in its heap. Of the tables that
    ``needed`` names these columns are there alone, or nothing.
    """
    return {
        name: Counter(
            frozenset((key, value) for key, value in row.items() if (name, key) != ("tensors", "id") and key in needed.get(name, row))
            for row in table
        )
        for name, table in read_tables(result.database).items()
        if needed.get(name, ("all",))
    }


@pytest.fixture
def by_command_line(monkeypatch: pytest.MonkeyPatch) -> Any:
    def compiled(model: bytes, name: str, options: dict[str, Any]) -> VelaResult:
        with monkeypatch.context() as patch:
            patch.setattr(compiler, "direct_call", lambda *_, **__: None)
            return compile_network(model, CompilerOptions(name, **options))

    return compiled


@pytest.mark.law
@pytest.mark.parametrize(
    ("name", "options"),
    few_cases(
        ["ethos-u55-32", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512"],
        [{"legalise": True}, {"optimise": "Size"}, {"arena_cache_size": 4096}, {"debug_database": False}],
    ),
    ids=str,
)
def test_a_direct_call_gives_the_files_of_the_command_line(name: str, options: dict[str, Any], by_command_line: Any) -> None:
    model = build("tiny_residual")
    ours, velas = compile_network(model, CompilerOptions(name, **options)), by_command_line(model, name, options)
    assert replace(ours, database="") == replace(velas, database="")
    needed = direct.NEEDED if "legalise" in options else {}
    assert rows(ours) == rows(velas, needed)
    assert bool(ours.layers) == options.get("debug_database", True)


@pytest.mark.parametrize(
    "launch", ["raise SystemExit(1)", "raise SystemExit(0)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
)
def test_the_command_line_compiles_what_a_direct_call_does_not(launch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls = build("tiny_conv"), list[int]()
    expected = compile_network(model)
    monkeypatch.setattr(direct, "_LAUNCH", launch)
    found = compile_network(model, meanwhile=lambda: calls.append(0))
    assert (replace(found, database=""), rows(found)) == (replace(expected, database=""), rows(expected))
    assert calls == [0]


@pytest.mark.parametrize(
    "other", [{"legacy": True}, {"cpu_operators": ("ADD",)}, {"memory_mode": "Sram_Only"}, {"config": Path("x")}], ids=str
)
def test_no_direct_call_is_made_for_options_that_only_the_command_line_has(other: dict[str, Any]) -> None:
    assert direct_call(CompilerOptions(legalise=True)) is not None
    assert direct_call(CompilerOptions(legalise=True, **other)) is None


def test_no_direct_call_is_made_of_another_vela(monkeypatch: pytest.MonkeyPatch) -> None:
    assert called() is not None
    assert called(arena=ARENA_LIMIT) is not None
    assert called(arena=ARENA_LIMIT + 1) is None
    with monkeypatch.context() as patch:
        patch.setattr(direct, "installed_version", lambda: "5.3.0")
        assert called() is None
    monkeypatch.setattr(direct, "find_spec", lambda _: None)
    assert called() is None


STARTED = """
import sys
from cascader.frontends.vela import compiler
from npu_testbed.commands.cli import main

def started(*_, **__):
    print([name for name in ("numpy", "tflite", "simpy", "ethosu.vela") if name in sys.modules])
    raise SystemExit

compiler.run_child = started
main(["schedule", sys.argv[1], "-o", sys.argv[2]])
"""


def test_vela_starts_before_what_reads_its_answers_is_imported(tmp_path: Path) -> None:
    model = tmp_path / "network.tflite"
    model.write_bytes(build("tiny_conv"))
    command = [sys.executable, "-c", STARTED, str(model), str(tmp_path / "schedule.json")]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == "[]\n"
