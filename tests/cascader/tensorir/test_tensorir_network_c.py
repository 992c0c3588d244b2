"""A cascaded network as one C file: built by a C compiler, it runs in an arena of exactly the stated size and refuses one byte less."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from command_line import call
from tensorir_proofs import smallest

from cascader.ethosu.codegen.lowering import lower
from cascader.tensorir.c_source import schedule_c
from npu_testbed.proofs.verification import functional_outputs, seeded_inputs
from npu_testbed.replays.scheduling import write_schedule

NEEDS_CC = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
GUARD = 256


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("c")
    for name, content in schedule_c(smallest("tiny_residual"), "net").items():
        (folder / name).write_bytes(content)
    command = [
        "cc",
        "-std=c99",
        "-pedantic",
        "-Wall",
        "-Werror",
        "-O1",
        "-shared",
        "-fPIC",
        "-o",
        str(folder / "net.so"),
        str(folder / "net.c"),
    ]
    subprocess.run(command, check=True, timeout=120)
    return ctypes.CDLL(str(folder / "net.so"))


def run(library: ctypes.CDLL, size: int, inputs: bytes, output_size: int) -> tuple[int, bytes, int]:
    """Status, outputs and damaged bytes of a run in an arena of ``size`` bytes between guards."""
    store = np.random.default_rng(1).integers(0, 256, size + 2 * GUARD + 16).astype(np.uint8)
    start = GUARD + -(store.ctypes.data + GUARD) % 16
    before = store.copy()
    outputs = ctypes.create_string_buffer(output_size)
    status = library.net_run(ctypes.c_void_p(store.ctypes.data + start), ctypes.c_size_t(size), inputs, outputs)
    outside = np.ones(len(store), bool)
    outside[start : start + size] = status != 0
    return status, outputs.raw, int((store != before)[outside].sum())


@NEEDS_CC
def test_c_runs_in_exactly_the_arena_of_the_schedule_and_refuses_one_byte_less(library: ctypes.CDLL) -> None:
    plan = smallest("tiny_residual")
    network = lower(plan)
    arrays = seeded_inputs(network, 2, 0)
    for inputs, expected in zip(arrays, functional_outputs(network, arrays), strict=True):
        given = b"".join(inputs[port.name].tobytes() for port in plan.network.inputs)
        wanted = b"".join(expected[port.name].tobytes() for port in plan.network.outputs)
        assert run(library, plan.arena_size, given, len(wanted)) == (0, wanted, 0)
        assert run(library, plan.arena_size - 1, given, len(wanted)) == (-1, bytes(len(wanted)), 0)


def test_the_same_schedule_gives_the_same_c() -> None:
    assert schedule_c(smallest("tiny_conv"), "net") == schedule_c(smallest("tiny_conv"), "net")


def test_export_writes_the_c_file_and_its_header(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    write_schedule(smallest("tiny_conv"), plan)
    outcome = call("export", plan, "--format", "tir-c", "-o", tmp_path / "net.c")
    assert outcome.status == 0
    header = (tmp_path / "net.h").read_text()
    assert f"NET_ARENA_SIZE {smallest('tiny_conv').arena_size}\n" in header
    assert "int net_run(" in (tmp_path / "net.c").read_text()


def test_a_compiled_network_cannot_be_written_as_c_for_other_processors(tmp_path: Path) -> None:
    plan, network = tmp_path / "plan.json", tmp_path / "net.tflite"
    write_schedule(smallest("tiny_conv"), plan)
    call("export", plan, "-o", network)
    outcome = call("export", network, "--format", "tir-c", "-o", tmp_path / "other.c")
    assert outcome.status == 2
    assert "needs a schedule file" in outcome.errors
    assert not (tmp_path / "other.c").exists()
