"""Drawn networks: the same from the same number everywhere, of every recipe, and such that LiteRT runs them."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from command_line import call, refusal

from npu_model.errors import InputError
from npu_model.tflite.model import read_tflite
from npu_testbed.models.sources import load_model
from npu_testbed.portfolio.run import chosen
from validation.builder import NetworkBuilder
from validation.litert.judge import litert_installed, reference_outputs
from validation.portfolio import NETWORKS, drawn_network, drawn_networks, portfolio_network

SOME = range(0, 120, 3)

DIGEST = "49171f0588e936b28dcbfb96e5b04d40"
"""SHA-256 (its first half) of the networks of ``SOME``, one after the other."""


def test_a_number_gives_the_same_network_on_every_platform() -> None:
    found = hashlib.sha256()
    for number in SOME:
        found.update(drawn_network(number).build())
    assert found.hexdigest()[:32] == DIGEST


def test_forty_networks_have_every_recipe_every_precision_and_most_operators_that_people_use() -> None:
    some = [drawn_network(number) for number in SOME]
    assert {network.precision for network in some} == {"int8", "int16", "uint8"}
    assert len({network.idiom.split(",")[0] for network in some}) >= 9
    codes = {operator.code for network in some for operator in read_tflite(network.build()).operators}
    assert len(codes) >= 30
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "CONCATENATION", "TRANSPOSE_CONV", "RESHAPE", "GATHER", "SOFTMAX", "LOGISTIC"} <= codes


def test_a_drawn_network_is_a_model_and_a_network_of_the_portfolio() -> None:
    network = portfolio_network("drawn_17")
    assert network.build() == load_model("portfolio:drawn_17").data == drawn_networks(1, 17)[0].build()
    assert chosen(("drawn_17", "mnist"))[-1].name == "drawn_17"
    assert not {"drawn_17", "drawn"} & {name for entry in NETWORKS for name in (entry.name, entry.group)}


def test_litert_gives_every_output_of_a_few_in_the_shape_that_was_written() -> None:
    if not litert_installed():
        pytest.skip("LiteRT (ai-edge-litert) is not installed")
    for number in (1, 9, 32, 34):
        data = drawn_network(number).build()
        model = read_tflite(data)
        (found,) = reference_outputs(data, [_noughts(data)])
        assert {model.tensors[index].name: model.tensors[index].shape for index in model.outputs} == {n: v.shape for n, v in found.items()}


def _noughts(data: bytes) -> dict[str, np.ndarray]:
    model = read_tflite(data)
    tensors = [model.tensors[index] for index in model.inputs]
    return {tensor.name: np.zeros(tensor.shape, tensor.dtype.lower()) for tensor in tensors}


def test_a_number_or_a_count_out_of_bounds_is_refused() -> None:
    with pytest.raises(InputError, match="no network 'drawn_01'"):
        portfolio_network("drawn_01")
    with pytest.raises(InputError, match="from 0 to 999,999, not 1,000,000"):
        portfolio_network("drawn_1000000")
    with pytest.raises(InputError, match="draw at least 1"):
        drawn_networks(0)
    with pytest.raises(InputError, match="choose another seed"):
        drawn_networks(2, 999_999)


def test_the_command_lists_what_it_draws_and_refuses_what_does_not_go_together() -> None:
    outcome = call("validate", "portfolio", "--drawn", 3, "--seed", 40, "--list")
    assert outcome.status == 0
    assert [word for word in outcome.output.split() if word.startswith("drawn_")] == ["drawn_40", "drawn_41", "drawn_42"]
    assert "--drawn takes the place of names" in refusal("validate", "portfolio", "mnist", "--drawn", 3)
    assert "--seed can only be given together with --drawn" in refusal("validate", "portfolio", "--seed", 3)


def test_each_group_of_a_convolution_reads_its_own_channels() -> None:
    net = NetworkBuilder("grouped")
    x = net.input((1, 8, 8, 12), "image")
    y = net.conv2d(x, 8, groups=4)
    assert y.shape == (1, 8, 8, 8)
    (operator,) = read_tflite(data := net.finish([y])).operators
    assert read_tflite(data).tensors[operator.inputs[1]].shape == (8, 3, 3, 3)
    with pytest.raises(InputError, match="divisor of its 12 channels and 8 filters"):
        net.conv2d(x, 8, groups=3)
