"""Several compilations in one process beside the same ones in processes of their own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cascader.frontends.vela import compiler, direct
from cascader.frontends.vela.compiler import compile_network
from cascader.frontends.vela.compiler_options import CompilerOptions, legalising
from cascader.frontends.vela.result import Known, VelaResult
from cascader.frontends.vela.together import compile_together
from npu_model.errors import UnfinishedError
from npu_testbed.commands.cli import main
from validation.zoo import build

pytestmark = pytest.mark.usefixtures("every_vela_runs")

BOTH = (legalising("ethos-u55-128"), CompilerOptions("ethos-u55-128", optimise="Size"))
ALONE = CompilerOptions("ethos-u55-128", memory_mode="Sram_Only")


def told(result: VelaResult | UnfinishedError) -> VelaResult:
    """A result without its database: the core writes rows in another order each time."""
    assert isinstance(result, VelaResult)
    return replace(result, database="")


def test_one_process_makes_the_files_of_several() -> None:
    model = build("tiny_residual")
    known = compile_together(model, BOTH)
    assert [told(known[one]) for one in BOTH] == [told(compile_network(model, one)) for one in BOTH]


def test_what_only_the_command_line_compiles_is_left_out() -> None:
    calls = list[int]()
    assert compile_together(build("tiny_conv"), (ALONE,), lambda: calls.append(0)) == {}
    assert compile_together(build("tiny_conv"), (ALONE, BOTH[0]), lambda: calls.append(1)).keys() == {BOTH[0]}
    assert calls == [0, 1]


def test_nothing_is_known_of_a_damaged_model() -> None:
    assert compile_together(build("tiny_conv")[:1000], BOTH) == {}


def test_what_a_failed_process_made_before_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = direct._LAUNCH.replace("        call(*one)", "        os._exit(1)")
    assert ends != direct._LAUNCH
    monkeypatch.setattr(direct, "_LAUNCH", ends)
    model = build("tiny_conv")
    known = compile_together(model, BOTH)
    assert known.keys() == {BOTH[0]}
    assert told(compile_network(model, BOTH[0], known=known)) == told(known[BOTH[0]])


def test_the_first_compilation_is_handed_over_while_the_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[Known]()
    compile_together(build("tiny_conv"), BOTH, lambda: time.sleep(0.5), found.append)
    assert not found  # all are there by then
    slow = direct._LAUNCH.replace("        call(*one)", "        import time\n        time.sleep(0.5)\n        call(*one)")
    assert slow != direct._LAUNCH
    monkeypatch.setattr(direct, "_LAUNCH", slow)
    known = compile_together(build("tiny_conv"), BOTH, first=found.append)
    (early,) = found
    assert early.keys() == {BOTH[0]}
    assert known.keys() == set(BOTH)
    assert told(early[BOTH[0]]) == told(known[BOTH[0]])


def test_a_first_compilation_that_fails_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[Known]()
    monkeypatch.setattr(direct, "_LAUNCH", direct._LAUNCH.replace("\ncall(*first)", "\nos._exit(1)"))
    compile_together(build("tiny_conv"), BOTH, first=found.append)
    assert not found


def test_a_compilation_that_did_not_end_is_not_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "_LAUNCH", "import time; time.sleep(60)")
    monkeypatch.setenv("NPU_TESTBED_VELA_TIMEOUT", "0.3")
    known = compile_together(build("tiny_conv"), BOTH)
    assert known.keys() == set(BOTH)
    for one in BOTH:
        with pytest.raises(UnfinishedError, match=r"within 0\.3 s"):
            compile_network(b"", one, known=known)


def test_a_compilation_asks_the_core_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls = tmp_path / "net.tflite", list[bool]()
    model.write_bytes(build("tiny_conv"))
    before = compiler.run_child

    def counted(command: Sequence[str], **named: Any) -> subprocess.CompletedProcess[str]:
        calls.append("-S" in command)
        return before(command, **named)

    monkeypatch.setattr(compiler, "run_child", counted)
    assert main(["compile", str(model), "--output-dir", str(tmp_path)]) == 0
    assert sum(calls) == 1
