"""Flash: what a schedule says of its weights and commands is what its exported file holds."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import call

from npu_model.tflite.model import read_tflite


def test_a_schedule_says_how_much_flash_its_file_takes_beside_that_of_whole_layers(tmp_path: Path) -> None:
    plan, file, words = tmp_path / "plan.json", tmp_path / "net_vela.tflite", ("--effort", "quick", "--optimise", "Size")
    said = json.loads(call("schedule", "zoo:tiny_residual", *words, "-o", plan, "--json").output)
    whole = json.loads(call("schedule", "zoo:tiny_residual", "--no-cascade", "-o", tmp_path / "whole.json", "--json").output)
    assert call("export", plan, "-o", file).status == 0
    model = read_tflite(file.read_bytes())
    stream, constants = (len(model.tensors[index].data) for index in model.operators[0].inputs[:2])
    # A payload begins with some words for the driver, and is filled up.
    assert 0 <= stream + constants - said["flash_bytes"] <= 64
    assert said["flash_bytes_layer_by_layer"] == whole["flash_bytes"] < said["flash_bytes"]
    assert "flash_bytes_layer_by_layer" not in whole
    assert f"take {said['flash_bytes']:,} bytes of flash" in call("schedule", "zoo:tiny_residual", *words, "-o", plan).output
