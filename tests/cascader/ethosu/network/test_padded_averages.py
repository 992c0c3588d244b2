"""Averages with padding: every stripe of one divides by the elements inside the map, as the whole kernel does."""

from __future__ import annotations

import numpy as np
import pytest
from cascades import smallest
from scheduling import DEFAULT

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import import_network
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim.functional import run
from validation.builder import NetworkBuilder

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)


@pytest.mark.parametrize("window", [(3, 1), (1, 3), (3, 3), (5, 1)])
def test_a_cascade_through_an_average_with_padding_computes_the_same(window: tuple[int, int]) -> None:
    """A stripe of a 3x1 window in the middle of a map has no padding on any side."""
    net = NetworkBuilder("padded")
    x = net.conv2d(net.input((1, 22, 17, 3), "image"), 8)
    x = net.average_pool(x, window, strides=(1, 1), padding="SAME")
    network = import_network(net.finish([net.conv2d(x, 8)]), DEFAULT)
    image = np.random.default_rng(3).integers(-128, 128, (1, 22, 17, 3), dtype=np.int8)
    schedules = schedule_layer_by_layer(network, DEFAULT), smallest(network, SYSTEM)
    first, second = (next(iter(run(lower(schedule), [image]).values())) for schedule in schedules)
    assert np.array_equal(first, second)
