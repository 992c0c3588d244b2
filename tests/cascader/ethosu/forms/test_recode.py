"""Weights coded anew: the same weights in fewer bytes, and no stream that was shorter as it came."""

from __future__ import annotations

import numpy as np
import pytest

from cascader.ethosu.forms.reblock import recoded
from cascader.ethosu.network.network import EthosuPart, Network, ethosu_part
from cascader.frontends.vela import import_network
from npu_model.accelerator import accelerator
from npu_model.weight_stream.weights import weights_from_stream
from validation.portfolio import build

DEVICE = accelerator("ethos-u55-32")


def layers(network: Network) -> dict[str, tuple[EthosuPart, bytes, bytes]]:
    """Per layer with weights: its payload, its stream and its scales."""
    found = {}
    for part in network.graph.parts:
        payload = ethosu_part(part)
        if payload is not None and payload.operation.weights:
            (weights,), (scales,) = payload.operation.weights, payload.operation.scales
            found[part.name] = payload, network.constants[weights.start : weights.end], network.constants[scales.start : scales.end]
    return found


@pytest.mark.parametrize("name", ["flatten_fc", "mnist", "lstm_short"])
def test_a_recoded_network_has_the_same_weights_and_scales_in_no_more_bytes(name: str) -> None:
    before = import_network(build(name), DEVICE.name)
    after = recoded(before, DEVICE)
    old, new = layers(before), layers(after)
    assert old.keys() == new.keys()
    for layer, (payload, stream, scales) in old.items():
        other, shorter, same = new[layer]
        assert len(shorter) <= len(stream)
        assert same == scales
        assert np.array_equal(weights_from_stream(payload.operation, stream, DEVICE), weights_from_stream(other.operation, shorter, DEVICE))


def test_a_large_fully_connected_layer_is_7_percent_shorter_than_in_the_cpp_cores_stream() -> None:
    before = import_network(build("flatten_fc"), DEVICE.name)
    old, new = layers(before), layers(recoded(before, DEVICE))
    assert len(new["logits"][1]) < 0.94 * len(old["logits"][1])


def test_a_network_whose_streams_are_short_stays_as_it_is() -> None:
    once = recoded(import_network(build("flatten_fc"), DEVICE.name), DEVICE)
    assert recoded(once, DEVICE) is once
