"""Peaks are called by the memory that they lie in."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import call

from cascader.frontends.vela import CompilerOptions, compile_network
from validation.zoo import build


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network for the Ethos-U65 whose feature maps all lie in the arena."""
    path = tmp_path_factory.mktemp("u65") / "n_vela.tflite"
    options = CompilerOptions("ethos-u65-256", system_config="Ethos_U65_High_End", memory_mode="Shared_Sram")
    path.write_bytes(compile_network(build("tiny_conv"), options).compiled)
    return path


@pytest.mark.parametrize(("mode", "peak"), [("Dedicated_Sram", "Peak DRAM"), ("Shared_Sram", "Peak SRAM")])
def test_a_peak_of_an_arena_in_dram_is_not_called_sram(shared: Path, mode: str, peak: str) -> None:
    memory = ("--system-config", "Ethos_U65_High_End", "--memory-mode", mode)
    printed = call("simulate", "vela", shared, "--no-advice", *memory).output
    assert peak in printed
    assert ("SRAM" in printed.replace("Shared_Sram", "")) is (mode == "Shared_Sram")
    checked = call("check", shared, "--max-bytes", 1 << 30, *memory).output
    assert f"bytes of {peak.removeprefix('Peak ')}" in checked


def test_a_fast_scratch_is_sram_though_the_arena_is_dram() -> None:
    printed = call("simulate", "vela", "zoo:tiny_conv", "--accelerator-config", "ethos-u65-256", "--no-advice").output
    assert "Peak SRAM" in printed
    assert "Peak DRAM" not in printed
