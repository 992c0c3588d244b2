"""Block depths for constants that are copied, each block followed: beside the estimate's depths, on two cores of an Ethos-U65."""

from __future__ import annotations

from functools import cache
from math import prod

import pytest
from cascades import outputs

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.reblock import MOST_FOLLOWED, SMALLEST, reblocked
from cascader.ethosu.network.network import Network
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import import_network
from npu_model.accelerator import accelerator
from npu_testbed.devices.configs import load_memory_system
from sim import quick_cycles
from validation.builder import NetworkBuilder

pytestmark = pytest.mark.law

DEVICE = "ethos-u65-512"
SYSTEM = load_memory_system("Ethos_U65_High_End", "Sram_Only")
"""Constants in the memory of the feature maps, as if they were copied."""

LAYERS = [
    (16, 40, (16, 5), (3, 3)),
    (24, 48, (5, 12), (1, 3)),
    (32, 96, (12, 6), (1, 1)),
    (32, 48, (12, 12), (1, 3)),
    (16, 24, (16, 5), (3, 3)),
    (48, 48, (8, 12), (1, 1)),
    (32, 24, (12, 6), (3, 3)),
    (96, 96, (6, 12), (1, 1)),
    (32, 128, (8, 5), (1, 1)),
    (96, 72, (8, 12), (1, 3)),
]
"""Channels before and after, height and width, and window, where both choices differ."""
Layer = tuple[int, int, tuple[int, int], tuple[int, int]]


@cache
def forms(layer: Layer) -> tuple[Network, Network, Network]:
    """The layer as it came, in the depth of the estimate, and in the depth whose blocks were followed."""
    before, after, (height, width), window = layer
    net = NetworkBuilder("layer")
    plain = import_network(net.finish([net.conv2d(net.input((1, height, width, before), "image"), after, window)]), DEVICE)
    device = accelerator(DEVICE)
    source = (Sources.staged(SYSTEM, device=device),)
    return plain, reblocked(plain, device, source), reblocked(plain, device, source, followed=True)


def cycles(network: Network) -> int:
    return quick_cycles(lower(schedule_layer_by_layer(network, DEVICE)), SYSTEM)


def test_followed_depths_take_an_eighth_fewer_cycles_and_none_a_fifth_more() -> None:
    """Estimates decide what is followed: two of these layers lose 17 and 18 %."""
    ratios = [cycles(followed) / cycles(estimated) for _, estimated, followed in map(forms, LAYERS)]
    assert prod(ratios) ** (1 / len(ratios)) <= 0.875
    assert max(ratios) <= 1.2


@pytest.mark.parametrize("layer", LAYERS[:2])
def test_followed_depths_compute_the_same_bytes(layer: Layer) -> None:
    plain, _, followed = forms(layer)
    assert followed is not plain
    made = schedule_layer_by_layer(followed, DEVICE)
    check_schedule(made)
    assert outputs(lower(made)) == outputs(lower(schedule_layer_by_layer(plain, DEVICE)))


@pytest.mark.parametrize("layer", [(16, 16, (16, 5), (1, 1)), (128, 128, (8, 8), (3, 3))])
def test_a_layer_with_few_or_many_weights_has_the_depth_of_the_estimate(layer: Layer) -> None:
    plain, estimated, followed = forms(layer)
    (kernel,) = plain.kernels.values()
    assert not SMALLEST <= sum(span.length for span in kernel.operation.weights) <= MOST_FOLLOWED
    assert followed == estimated
