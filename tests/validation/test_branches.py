"""The Python core at several limits in one process: the files of one compilation each, and one by one wherever that cannot be."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cpu_networks import float_network

from cascader.frontends.children import run_child
from cascader.frontends.vela import CORES, CompilerOptions, VelaResult, compiler
from npu_model.errors import UnfinishedError
from validation.builder import NetworkBuilder
from validation.vela import branches
from validation.vela.branches import Limit, compile_at
from validation.zoo import build

PYTHON, DEFAULT = CORES[1], CompilerOptions()
U65 = CompilerOptions("ethos-u65-256", system_config="Ethos_U65_High_End", memory_mode="Dedicated_Sram")
LIMITS = (Limit("Size"), Limit("Performance"), Limit("Performance", 16_384))
Answer = VelaResult | str

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Vela compiles one by one")


def compiled(model: bytes, limits: tuple[Limit, ...] = LIMITS, target: CompilerOptions = DEFAULT) -> list[Answer]:
    """The results, or what the errors say."""
    return [found if isinstance(found, VelaResult) else str(found) for found in compile_at(model, target, limits, PYTHON, 2)]


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Answer]]:
    def found(*arguments: object) -> list[Answer]:
        with monkeypatch.context() as patch:
            patch.setattr(branches, "can_branch", lambda _: False)
            return compiled(*arguments)  # type: ignore[arg-type]  # as its own

    return found


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of processes that are started for Vela."""
    commands: list[list[str]] = []

    def noted(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return run_child(command, **options)  # type: ignore[arg-type]  # as its own

    monkeypatch.setattr(compiler, "run_child", noted)
    return commands


@pytest.mark.parametrize("target", [DEFAULT, CompilerOptions("ethos-u55-32", memory_mode="Sram_Only")], ids=str)
def test_limits_in_one_process_give_the_files_of_one_process_each(
    target: CompilerOptions, one_by_one: Callable[..., list[Answer]], started: list[list[str]]
) -> None:
    model = build("ds_cnn") if target == DEFAULT else build("tiny_residual")
    expected = one_by_one(model, LIMITS, target)
    assert len(started) == len(LIMITS)
    assert compiled(model, LIMITS, target) == expected
    assert len(started) == len(LIMITS) + 1
    assert all(isinstance(one, VelaResult) and one.database and one.core == PYTHON for one in expected)


def test_a_limit_at_which_vela_fails_costs_no_other_its_result(one_by_one: Callable[..., list[Answer]]) -> None:
    model, limits = build("ds_cnn"), (Limit("Performance", 16), Limit("Performance", 16_384))
    found = compiled(model, limits)
    assert found == one_by_one(model, limits)
    assert "Allocation exceeds staging limit" in str(found[0])
    assert isinstance(found[1], VelaResult)


def on_the_cpu() -> bytes:
    """A network of which Vela's Python core runs nothing on the NPU."""
    net = NetworkBuilder("gathered")
    return net.finish([net.gather(net.input((1, 4, 4, 8), "x"), (0, 2, 1), 1)])


@pytest.mark.parametrize(
    ("model", "limits", "target"),
    [
        (build("tiny_conv"), (Limit("Size"), Limit("Performance", 0)), DEFAULT),
        (build("tiny_conv"), (Limit("Size"), Limit("Speed")), DEFAULT),
        (build("tiny_conv"), LIMITS[:2], CompilerOptions(memory_mode="Nowhere")),
        (build("tiny_conv"), LIMITS[:2], U65),
        (on_the_cpu(), LIMITS[:2], DEFAULT),
        (float_network(), LIMITS[:2], DEFAULT),
        (b"", LIMITS[:2], DEFAULT),
    ],
    ids=["size", "strategy", "mode", "fast_scratch", "cpu", "float", "empty"],
)
def test_what_one_process_cannot_do_is_done_and_said_one_by_one(
    model: bytes, limits: tuple[Limit, ...], target: CompilerOptions, one_by_one: Callable[..., list[Answer]]
) -> None:
    assert compiled(model, limits, target) == one_by_one(model, limits, target)


@pytest.mark.parametrize(("number", "reason"), [(signal.SIGSEGV, "crashed with signal 11"), (signal.SIGALRM, "did not finish within")])
def test_a_copy_that_is_ended_is_the_only_one(number: int, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = f"self._begun()\n        if folder.endswith('1'):\n            os.kill(os.getpid(), {int(number)})"
    monkeypatch.setattr(branches, "_LAUNCH", branches._LAUNCH.replace("self._begun()", ended))
    found = compile_at(build("tiny_conv"), CompilerOptions(), LIMITS, PYTHON)
    assert [isinstance(one, VelaResult) for one in found] == [True, False, True]
    assert reason in str(found[1])
    assert isinstance(found[1], UnfinishedError) == (number == signal.SIGALRM)


def test_what_the_limits_have_in_common_may_take_no_longer_than_one_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_TESTBED_VELA_TIMEOUT", "1")
    monkeypatch.setattr(branches, "_LAUNCH", branches._LAUNCH.replace("runpy.run", "__import__('time').sleep(60); runpy.run"))
    before = time.monotonic()
    found = compile_at(build("tiny_conv"), CompilerOptions(), LIMITS, PYTHON)
    assert time.monotonic() - before < 30
    assert all(isinstance(one, UnfinishedError) for one in found)


RUN = """
import sys
from cascader.frontends.vela import CORES, CompilerOptions
from validation.vela import branches
from validation.vela.branches import Limit, compile_at
from validation.zoo import build
waiting = f"self._begun(); open({sys.argv[1]!r}, 'a').write(str(os.getpid()) + ' '); __import__('time').sleep(60)"
branches._LAUNCH = branches._LAUNCH.replace("self._begun()", waiting)
compile_at(build("tiny_conv"), CompilerOptions(), (Limit("Size"), Limit("Performance")), CORES[1], 2)
"""


def test_copies_end_with_the_process_that_asked_for_them(tmp_path: Path) -> None:
    told = tmp_path / "told"
    with subprocess.Popen([sys.executable, "-c", RUN, str(told)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        copies = wait_for(lambda: told.read_text().split() if told.exists() and len(told.read_text().split()) == 2 else [])
        process.kill()
    assert wait_for(lambda: [copy for copy in copies if not Path("/proc", copy).exists()] == copies)


def wait_for(what: Callable[[], object]) -> list[str]:
    """Wait until ``what`` says something, and return it."""
    deadline = time.monotonic() + 60
    while not (found := what()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found  # type: ignore[return-value]  # the callers know
