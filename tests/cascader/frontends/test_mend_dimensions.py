"""Fully connected layers that keep their input's dimensions are rounded once whichever of Vela's cores legalises them."""

from __future__ import annotations

from pathlib import Path

import pytest
import tflite
from asked_for import schedule
from msgspec.structs import replace

from cascader.frontends.vela import CompilerOptions, compile_network, mended_network
from npu_model.tflite.record_reader import read_records
from npu_model.tflite.writer import write_tflite
from npu_testbed.proofs.file_verification import verify
from npu_testbed.replays.scheduling import write_schedule
from validation.builder import NetworkBuilder


def dense_of_a_sequence() -> bytes:
    """A FULLY_CONNECTED of (1, 20, 24), as Keras has it: the layer of 20 rows without the reshapes around it."""
    net = NetworkBuilder("sequence")
    x = net.input((1, 20, 24), "tokens")
    rows = net.reshape(x, (20, 24))
    made = net.reshape(net.fully_connected(rows, 36), (1, 20, 36))
    records = read_records(net.finish([made]))
    first, layer, last = records.operators
    fields = (*(entry for entry in layer.fields if entry[0] != "KeepNumDims"), ("KeepNumDims", True))
    kept = replace(layer, version=5, inputs=(first.inputs[0], *layer.inputs[1:]), outputs=last.outputs, fields=fields)
    assert layer.code == tflite.BuiltinOperator.FULLY_CONNECTED
    return write_tflite(replace(records, operators=(kept,)))


@pytest.mark.parametrize("legacy", [False, True])
def test_both_cores_compilations_are_mended(*, legacy: bool) -> None:
    model = dense_of_a_sequence()
    found = mended_network(compile_network(model, CompilerOptions("ethos-u55-128", legalise=True, legacy=legacy)), model)
    assert len(found.layers) == 1


def test_all_that_is_searched_equals_litert(tmp_path: Path) -> None:
    path = tmp_path / "sequence.tflite"
    path.write_bytes(dense_of_a_sequence())
    for optimise in ("Performance", "Size"):
        write_schedule(schedule(str(path), "ethos-u55-128", optimise=optimise), tmp_path / "plan.json")
        result = verify(tmp_path / "plan.json", str(path))
        assert all(row.differing == 0 for row in result.comparisons if row.reference != "Vela's legalised stream")
