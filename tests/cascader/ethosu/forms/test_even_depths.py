"""Blocks of unlike depths: accumulators for two make them wait for each other, so that a layer gets one block for all channels."""

from __future__ import annotations

from functools import cache

import pytest
from cascades import outputs
from scheduling import DEFAULT

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.reblock import GAIN, is_uneven, reblocked
from cascader.ethosu.network.network import Network
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import import_network
from npu_model.accelerator import accelerator
from npu_model.memory.system import MemorySystem
from npu_model.program import KernelOperation, OperationKind
from npu_testbed.devices.configs import load_memory_system, load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim import quick_cycles
from validation.builder import NetworkBuilder

pytestmark = pytest.mark.law

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
SOURCES = (Sources.direct(SYSTEM), Sources.staged(SYSTEM))


def model(channels: int, window: tuple[int, int]) -> bytes:
    net = NetworkBuilder("uneven")
    return net.finish([net.conv2d(net.input((1, 48, 48, 1), "image"), channels, window)])


@cache
def plain(channels: int, window: tuple[int, int], device: str = DEFAULT) -> Network:
    return import_network(model(channels, window), device)


def convolution(network: Network) -> KernelOperation:
    (found,) = (kernel.operation for kernel in network.kernels.values() if kernel.operation.kind is OperationKind.CONV_2D)
    return found


def cycles(network: Network, device: str, system: MemorySystem = SYSTEM) -> int:
    return quick_cycles(lower(schedule_layer_by_layer(network, device)), system)


UNEVEN = [(20, (1, 5), DEFAULT), (36, (2, 2), DEFAULT), (24, (1, 5), "ethos-u55-32")]


@pytest.mark.parametrize(("channels", "window", "device"), UNEVEN)
def test_a_small_layer_in_blocks_of_unlike_depths_gets_like_ones_that_the_replay_finds_faster(
    channels: int, window: tuple[int, int], device: str
) -> None:
    before = plain(channels, window, device)
    after = reblocked(before, accelerator(device), SOURCES)
    old, new = convolution(before), convolution(after)
    assert is_uneven(old)
    assert not is_uneven(new)
    assert cycles(after, device) <= cycles(before, device) * GAIN


@pytest.mark.parametrize(("channels", "window", "device"), UNEVEN)
def test_like_blocks_compute_the_same_bytes(channels: int, window: tuple[int, int], device: str) -> None:
    before = plain(channels, window, device)
    made = schedule_layer_by_layer(reblocked(before, accelerator(device), SOURCES), device)
    check_schedule(made)
    assert outputs(lower(made)) == outputs(lower(schedule_layer_by_layer(before, device)))


def test_like_blocks_are_followed_with_the_work_of_the_decoder() -> None:
    """The 100 bytes of this layer decode in 27 cycles a block: at a usual pace for its weights, a depth of 24 looked too slow."""
    system = load_memory_system(memory_mode="Sram_Only")
    before = plain(20, (1, 5))
    after = reblocked(before, accelerator(DEFAULT), (Sources.staged(system), Sources.direct(system)))
    assert (convolution(before).block.depth, convolution(after).block.depth) == (16, 24)
    assert cycles(after, DEFAULT, system) <= 0.8 * cycles(before, DEFAULT, system)


def test_a_small_layer_whose_blocks_are_alike_stays() -> None:
    before = plain(32, (1, 5))
    assert not is_uneven(convolution(before))
    assert reblocked(before, accelerator(DEFAULT), SOURCES) is before
