"""The first 16 channels of an NPU job: a piece of their own, as nothing runs while their weights are copied."""

from __future__ import annotations

import pytest
from asked_for import system_said
from form_variants import variants
from scheduling import DEFAULT

from cascader.frontends.vela import import_network
from validation.portfolio import build


@pytest.mark.parametrize(("name", "layers"), [("cpu_words", ["conv2d_1"]), ("cpu_gather", ["conv2d_1", "conv2d_3"])])
def test_the_first_layer_of_every_npu_job_begins_with_a_piece_of_16_channels(name: str, layers: list[str]) -> None:
    """Also behind an operator on the CPU, which has no weights."""
    forms = variants(import_network(build(name), DEFAULT), DEFAULT, system_said())
    for layer in layers:
        depths = {form.kernels[f"{layer}/0"].operation.ofm.shape.depth for form in forms if f"{layer}/0" in form.kernels}
        assert 16 in depths


def test_what_the_first_layer_writes_is_dense_although_it_is_two_pieces() -> None:
    """36 channels of 12 rows take 432 bytes, in bricks 576; with those `rows_of_features` took 1.788 of Vela Size's cycles."""
    forms = variants(import_network(build("rows_of_features"), DEFAULT), DEFAULT, system_said())
    cut = [form for form in forms if "fully_connected_1/1" in form.kernels]
    assert {form.graph.tensor("fully_connected_1").size for form in cut} >= {12 * 36}
