"""The model that a network was compiled from: its signatures go on where their tensors do."""

from __future__ import annotations

import pytest
from hand_built import Graph
from msgspec.structs import replace

from npu_model.compiled.network import CompiledNetwork
from npu_model.export.original import Original
from npu_model.tflite.record_reader import read_records
from npu_model.tflite.records import SignatureRecord
from npu_model.tflite.writer import write_tflite


def model(inputs: tuple[tuple[str, int], ...]) -> bytes:
    """A convolution whose signature has such inputs, by name and number; the image is tensor 0."""
    graph = Graph()
    x = graph.tensor("image", (1, 4, 4, 8))
    y = graph.conv(x, 8, "conv")
    assert x == 0
    records = read_records(graph.finish([x], [y]))
    return write_tflite(replace(records, signatures=(SignatureRecord("serve", inputs, (("y", y),)),)))


def moved(inputs: tuple[tuple[str, int], ...]) -> tuple[SignatureRecord, ...]:
    """The signatures in a file in which the image is tensor 7 and the result tensor 9."""
    return Original(model(inputs), CompiledNetwork((), 0, (), ())).signatures([("image", 7)], [("conv", 9)])


def test_a_signature_has_the_new_numbers_of_its_tensors() -> None:
    assert moved((("x", 0),)) == (SignatureRecord("serve", (("x", 7),), (("y", 9),)),)


@pytest.mark.parametrize("lost", [1, 1 << 20])
def test_a_signature_of_a_tensor_that_is_lost_or_was_never_there_is_left_out(lost: int) -> None:
    assert moved((("x", 0), ("w", lost))) == ()
