"""Estimates of an Ethos-U65's kernels beside their replays alone: ports and data paths that loads, weights and stores share."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from small_programs import ARENA, conv, feature_map, program

from cascader.ethosu.cost.estimate_terms import Terms
from cascader.ethosu.cost.estimates import Estimates, decoding_bytes
from cascader.ethosu.cost.memory_path import Where
from npu_model.accelerator import accelerator
from npu_model.memory.system import MemorySystem
from npu_model.program import ByteRange, FeatureMap, Kernel, KernelOperation, Layout, OperationKind
from npu_model.shapes import Shape3D
from npu_testbed.asked.ask import OnMemory
from npu_testbed.asked.request import requested
from sim.fast.quick import quick_replay

_MEMORY = OnMemory[Any](system_config="Ethos_U65_High_End", memory_mode="Dedicated_Sram")
SYSTEM = replace(requested("zoo:tiny_conv", "ethos-u65-256", _MEMORY).memory, region_ports=(1, 0, 0, 1, 1, 1, 1, 1))
"""The arena of small programs is in the SRAM; all else is in the DRAM."""
DRAM = 3


def outside(one: FeatureMap) -> FeatureMap:
    """A map in the DRAM."""
    return replace(one, region=DRAM)


def staged(one: KernelOperation) -> KernelOperation:
    """A kernel whose weights are in the arena."""
    return replace(one, weights=tuple(ByteRange(ARENA, span.start, span.end) for span in one.weights))


def added(block: Shape3D, *, second: int, shape: Shape3D) -> KernelOperation:
    """A sum of a map in the DRAM and of a second one there, or in the arena."""
    one = conv(shape, block, shape.depth)
    return replace(one, kind=OperationKind.ELEMENTWISE, ifm=outside(one.ifm), ifm2=replace(one.ifm, region=second))


def expected(one: KernelOperation, device: str, system: MemorySystem = SYSTEM) -> int:
    """The cycles that a kernel is expected to take in its block."""
    where = Where.of(one, by_size=True)
    estimates = Estimates(Terms.of(accelerator(device), system, choose_blocks=False, where=where))
    found = estimates.of(one, (), decoding_bytes(()))
    is_staged = any(span.region == ARENA for span in one.weights)
    return (found.staged if is_staged else found.direct).facts.cycles


def replayed(one: KernelOperation, device: str, system: MemorySystem = SYSTEM) -> int:
    """The cycles that its replay takes alone."""
    (times,) = quick_replay(program(one, accelerator=device), system).times.values()
    return times.finished - times.issued


PLANE = Shape3D(32, 64, 16)
_SLICED = conv(Shape3D(24, 24, 64), Shape3D(8, 8, 16), 64, weights=4096)
_LONG = conv(Shape3D(1, 148, 32), Shape3D(2, 50, 32), 39, Kernel(1, 48), weights=59904)
_STORED_OUTSIDE = conv(PLANE, Shape3D(2, 32, 16), 16, weights=256)
_ALL_OUTSIDE = staged(conv(PLANE, Shape3D(4, 32, 16), 16, weights=256))
_IN_WORDS = feature_map(_SLICED.ofm.shape, 1 << 16, Layout.NHWC)
CLOSE, NEAR = 0.015, 0.11


@pytest.mark.parametrize("device", ["ethos-u65-256", "ethos-u65-512"])
@pytest.mark.parametrize(
    ("kernel", "error"),
    [
        (staged(_LONG), CLOSE),
        (added(Shape3D(8, 32, 16), second=ARENA, shape=PLANE), CLOSE),
        (added(Shape3D(8, 32, 16), second=DRAM, shape=PLANE), CLOSE),
        (replace(staged(_SLICED), ofm=outside(_IN_WORDS)), CLOSE),
        (replace(_STORED_OUTSIDE, ofm=outside(_STORED_OUTSIDE.ofm)), NEAR),
        (replace(_ALL_OUTSIDE, ifm=outside(_ALL_OUTSIDE.ifm), ofm=outside(_ALL_OUTSIDE.ofm)), NEAR),
    ],
    ids=[
        "loads that fill the input buffer leave staged weights a burst a turn",
        "operands of two memories come at once",
        "operands of one memory come one after the other",
        "single words wait for the stores that are under way",
        "stores wait behind weights in the same memory",
        "stores wait behind loads in the same memory",
    ],
)
def test_a_kernel_alone_is_expected_to_take_its_replay(kernel: KernelOperation, error: float, device: str) -> None:
    """Measured: the first four to 1 %, the other two from 4 % below to 11 % above, as a gap in front of each block's reads is a mean."""
    assert expected(kernel, device) == pytest.approx(replayed(kernel, device), rel=error)
