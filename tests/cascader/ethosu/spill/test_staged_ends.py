"""Ends that transfers carry: the same outputs, and fewer cycles where kernels would wait for the memory of the ends."""

from __future__ import annotations

import numpy as np
import pytest
from cascades import expected, outputs, smallest
from scheduling import DEFAULT, network

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.network.homes import on_ports, with_homes
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.wanted_homes import wanted_home
from cascader.ethosu.spill.staged_ends import staged_ends
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import import_network
from examples.tiled_convolution import CHANNELS, HALO
from npu_model.accelerator import accelerator
from npu_model.memory.timing_adapter import profile
from sim import quick_cycles
from sim.functional import run
from sim.hazards import network_hazards
from validation.builder import NetworkBuilder

SYSTEM = profile("u55_high_end").memory_system()
DEVICE = accelerator(DEFAULT)
ENDS = [wanted_home("input=ext", SYSTEM), wanted_home("output=ext", SYSTEM)]


def fastest(form: Network, budget: int) -> int:
    """Cycles of the schedule that is expected to be the fastest of a form; more than any takes if none fits."""
    system = on_ports(SYSTEM, form.homes)
    plans = Cascader(form, DEFAULT, system)
    for draft in plans.drafts_at(budget)[:1]:
        check_schedule(plans.schedule(draft))
        lowered = lower(plans.schedule(draft))
        assert not network_hazards(lowered)
        return quick_cycles(lowered, system)
    return 1 << 40


@pytest.mark.parametrize("name", ["tiny_residual", "resnet8"])
def test_a_network_computes_the_same_with_its_ends_staged(name: str) -> None:
    found = list(staged_ends(network(name), ENDS, SYSTEM, DEVICE))
    assert found
    for form in found:
        made = smallest(form, on_ports(SYSTEM, form.homes))
        check_schedule(made)
        lowered = lower(made)
        assert not network_hazards(lowered)
        assert outputs(lowered) == expected(name)


def convolution(side: int) -> Network:
    """The convolution of examples/tiled_convolution: a framed image, of which it makes ``side`` x ``side`` pixels."""
    net = NetworkBuilder("convolution")
    image = net.input((1, side + HALO, side + HALO, CHANNELS), "image")
    return import_network(net.finish([net.conv2d(image, CHANNELS, padding="VALID")]), DEFAULT)


def test_load_convolve_and_store_overlap_without_a_hand() -> None:
    """The ring of examples/tiled_convolution, found: rows come, are convolved and leave at the pace of the slower memory."""
    before = convolution(64)
    plain = fastest(with_homes(before, ENDS), 20_000)
    found = min(fastest(form, 20_000) for form in staged_ends(before, ENDS, SYSTEM, DEVICE))
    memory = SYSTEM.ports[1]
    assert memory.pulse is not None
    least = 2 * 64 * 64 * 16 // 8 * (memory.pulse.on + memory.pulse.off) // 56
    assert least < found < plain
    assert found < least * 1.25


def test_ends_in_the_arenas_memory_are_not_staged() -> None:
    near = [wanted_home("input=sram", SYSTEM)]
    assert list(staged_ends(network("tiny_residual"), near, SYSTEM, DEVICE)) == []
    assert list(staged_ends(network("tiny_residual"), (), SYSTEM, DEVICE)) == []


def test_an_output_that_is_read_on_is_read_in_the_arena() -> None:
    net = NetworkBuilder("several")
    first = net.conv2d(net.input((1, 24, 24, 3), "image"), 16, activation="RELU")
    before = import_network(net.finish([first, net.conv2d(first, 8)]), DEFAULT)
    image = np.random.default_rng(2).integers(-128, 128, (1, 24, 24, 3)).astype(np.int8)
    whole = smallest(before, SYSTEM)
    for form in staged_ends(before, ENDS, SYSTEM, DEVICE):
        made = smallest(form, on_ports(SYSTEM, form.homes))
        check_schedule(made)
        one, other = (list(run(lower(plan), [image]).values()) for plan in (whole, made))
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
