"""Networks of next to nothing: moved bytes alone, or a lone activation that needs no byte of an arena in SRAM."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import call

from validation.builder import NetworkBuilder


def network(kinds: str) -> bytes:
    """A network of RESHAPEs (r), flattenings (f) and RELUs (a)."""
    net = NetworkBuilder("trivial")
    made = net.input((1, 8, 8, 8), "x")
    for kind in kinds:
        if kind == "r":
            made = net.reshape(made, (1, 16, 4, 8) if made.shape == (1, 8, 8, 8) else (1, 8, 8, 8))
        else:
            made = net.flatten(made) if kind == "f" else net.unary("RELU", made)
    return net.finish([made])


@pytest.mark.parametrize("kinds", ["r", "rr", "f", "a", "ra", "fa"])
@pytest.mark.parametrize("memory", [(), ("--accelerator-config", "ethos-u65-256", "--memory-mode", "Dedicated_Sram")], ids=["SRAM", "DRAM"])
def test_a_network_without_a_kernel_or_without_a_byte_of_sram_is_scheduled_and_verified(
    kinds: str, memory: tuple[str, ...], tmp_path: Path
) -> None:
    model, made = tmp_path / "net.tflite", tmp_path / "made.json"
    model.write_bytes(network(kinds))
    assert call("schedule", model, *memory, "--jobs", "1", "--no-advice", "-o", made).status == 0
    assert call("verify", made, "--model", model, "--inferences", "1").status == 0
    assert call("frontier", model, *memory, "--jobs", "1").status == 0


def test_networks_of_next_to_nothing_are_compiled(tmp_path: Path) -> None:
    names = ["r", "f", "a"]
    for kinds in names:
        (tmp_path / f"{kinds}.tflite").write_bytes(network(kinds))
    for device in ("ethos-u55-64", "ethos-u65-512"):
        models = [tmp_path / f"{kinds}.tflite" for kinds in names]
        assert call("compile", *models, "--accelerator-config", device, "--output-dir", tmp_path / device).status == 0
        assert len(list((tmp_path / device).glob("*_vela.tflite"))) == len(names)
