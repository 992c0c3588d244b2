"""Operators that change nothing take no kernel."""

from __future__ import annotations

import numpy as np
import pytest
from scheduling import DEFAULT

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import import_network
from cascader.frontends.vela.model_changes import without_identities
from sim.functional import run
from validation.builder import NetworkBuilder

pytestmark = pytest.mark.law


def model(*, mean: bool, rows: int = 1) -> bytes:
    """Two convolutions, with or without a mean over the rows of 16 bits between them, of which there may be one only."""
    net = NetworkBuilder("identity", "int16")
    x = net.conv2d(net.input((1, rows, 12, 8), "features"), 16, (1, 1))
    return net.finish([net.conv2d(net.mean(x, (1,), keep=True) if mean else x, 8, (1, 1), name="last")])


def test_a_mean_of_single_elements_takes_no_kernel() -> None:
    with_mean, without = (import_network(model(mean=mean), DEFAULT) for mean in (True, False))
    assert len(with_mean.kernels) == len(without.kernels)
    features = np.random.default_rng(7).integers(-1000, 1000, (1, 1, 12, 8), dtype=np.int16)
    found, expected = (next(iter(run(lower(schedule_layer_by_layer(net, DEFAULT)), [features]).values())) for net in (with_mean, without))
    assert np.array_equal(found, expected)


def test_a_mean_of_several_elements_stays() -> None:
    several = model(mean=True, rows=2)
    assert without_identities(several) == several
    assert without_identities(model(mean=True)) != model(mean=True)
