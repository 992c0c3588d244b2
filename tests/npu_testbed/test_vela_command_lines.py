"""Command lines as public scripts have them: what Vela takes, `compile` takes too, or says in a sentence why not."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import call
from vendor_ini import board_ini

from validation.zoo import build

U55 = "--config Arm/vela.ini --system-config Ethos_U55_High_End_Embedded --memory-mode"
BOARD = "--config board.ini --system-config My_Sys_Cfg --memory-mode"
TAKEN = (
    "net.tflite",
    "--output-dir=build net.tflite",
    "net.tflite --accelerator-config=ethos-u55-128 --output-dir build/deep",
    f"net.tflite --accelerator-config ethos-u55-256 {U55} Shared_Sram --optimise Performance",
    f"--optimise Size --accelerator-config ethos-u55-64 {U55} Sram_Only net.tflite",
    "net.tflite --accelerator-config ethos-u55-128 --system-config Ethos_U55_Deep_Embedded --memory-mode Shared_Sram",
    f"{BOARD} Any --accelerator-config ethos-u55-64 net.tflite",
    f"{BOARD} Small --arena-cache-size 65536 net.tflite",
    "net.tflite --arena-cache-size=262144 --tensor-allocator Greedy --verbose-performance --timing",
    "net.tflite --enable-debug-db --verbose-cycle-estimate --verbose-allocation --show-cpu-operations",
    "net.tflite --tensor-allocator HillClimb --hillclimb-max-iterations 5000 --recursion-limit 2000 --max-block-dependency 3",
    "net.tflite --output-format raw --debug-force-regor",
    "net.tflite --cpu-tensor-alignment 64 --verbose-all",
    "net.tflite --ignore-ops CONV_2D --ignore-ops SOFTMAX,MEAN",
    "net.tflite --accel ethos-u55-32 --optim Size",
    "net.tflite --debug-force-legacy-core",
    "net.tflite --cop-format COP1 --disable-cascading",
    "net.tflite --disable-chaining --disable-fwd --force-symmetric-int-weights",
)
REFUSED = {
    f"net.tflite {BOARD} Any --config Arm/vela.ini": "write the sections that are needed",
    "net.tflite --accelerator-config ethos-u85-256": "Programs of the ethos-u85-256 are not",
    "net.tflite --cop-format COP2 --separate-io-regions": "the driver payload is written as COP1",
    "net.tflite --disable-buffering": "the cascader has no such switch",
    "net.tflite --max-block-dependency 2": "leave it out, or give 3",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.tflite").write_bytes(build("tiny_conv"))
    (tmp_path / "board.ini").write_text(board_ini(65536))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def velas_status(line: str) -> int:
    words = [sys.executable, "-m", "ethosu.vela", *shlex.split(line)]
    return subprocess.run(words, capture_output=True, check=False).returncode


@pytest.mark.parametrize("line", TAKEN)
def test_what_vela_takes_compile_takes(line: str, folder: Path) -> None:
    ignoring = "--ignore-ops CONV_2D" in line  # all of the network is then on the CPU, which Vela hands on as it is
    assert velas_status(line) == 0
    quickly = () if "--disable-cascading" in line else ("--effort", "quick")
    ours = call("compile", *shlex.split(line), *quickly, "--jobs", "1")
    assert ours.status == (2 if ignoring else 0), ours.errors
    if ignoring:
        assert "on the CPU" in ours.errors
        return
    output = folder / ("build/deep" if "build/deep" in line else "build" if "build" in line else "output")
    assert (output / ("net_vela.npz" if "raw" in line else "net_vela.tflite")).is_file()


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_not_taken_is_refused_with_the_reason_and_leaves_nothing(line: str, folder: Path) -> None:
    assert velas_status(f"{line} --output-dir theirs") == 0
    ours = call("compile", *shlex.split(line))
    assert ours.status == 2
    assert REFUSED[line] in ours.errors
    assert not (folder / "output").exists()
