"""MAC activity: the cycles in which the MAC array multiplies, as the PMU of silicon counts them.

A step may take longer: the weight decoder, the previous kernel step's accumulators, or a filling pool hold the array up. Public counters of
an Ethos-U55 with 256 MACs have both counts for fully connected kernels (docs/pmu.md).
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct
from msgspec.structs import replace

from npu_model.accelerator import Accelerator
from npu_model.cost.cycles import is_half, mac_pace, ofm_ublock
from npu_model.cost.deep_jobs import deep_mac_cycles
from npu_model.cost.deep_traffic import deep_blocks
from npu_model.cost.traversal import ifm_channel_steps, ofm_blocks, reduces_depth, sub_kernels
from npu_model.program import KernelOperation, OperationKind
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters

DOT_PRODUCT_CHANNELS = 8
"""IFM channels (of 8 bits) that an output lane multiplies in a cycle."""


class MacActivity(Struct, frozen=True):
    """Cycles in which the array is active, and the part of them in which its dot products are active (0 except for convolutions)."""

    active: int
    dot_products: int

    def __add__(self, other: MacActivity) -> MacActivity:
        return MacActivity(self.active + other.active, self.dot_products + other.dot_products)

    def times(self, count: int) -> MacActivity:
        """The activity of ``count`` repetitions."""
        return MacActivity(self.active * count, self.dot_products * count)


NO_ACTIVITY = MacActivity(0, 0)


def _step(
    op: KernelOperation, accelerator: Accelerator, timing: TimingParameters, box: tuple[int, int, int], taps: int, channels: int
) -> MacActivity:
    """One sub-kernel over one IFM block for an OFM block of height, width and depth ``box``."""
    height, width, depth = box
    ublock = ofm_ublock(op, accelerator)
    deep = ublock.depth * accelerator.cores
    plane, ublocks = ceil_div(height, ublock.height) * ceil_div(width, ublock.width), ceil_div(depth, deep)
    pace = replace(mac_pace(op, accelerator, taps, channels, timing), floor=0, delay=0, fill=0)
    active = pace.cycles(plane, ublocks, is_half=is_half(depth, deep))
    if op.kind is OperationKind.CONV_2D:
        groups = ceil_div(channels * op.ifm.dtype.bytes, DOT_PRODUCT_CHANNELS)
        return MacActivity(active, plane * ublocks * taps * groups)
    if op.kind is OperationKind.DEPTHWISE:
        return MacActivity(active, plane * ublocks * taps * op.ifm.dtype.bytes)
    return MacActivity(active, 0)


def _deep_activity(op: KernelOperation, device: Accelerator) -> MacActivity:
    """The activity on an Ethos-U85, whose microblocks take only as long as their dot products."""
    cycles = sum(deep_mac_cycles(op, device, block.box, step.c1 - step.c0) for block in deep_blocks(op, device) for step in block.steps)
    return MacActivity(cycles, cycles if op.kind in (OperationKind.CONV_2D, OperationKind.DEPTHWISE) else 0)


_OWN = {"u85": _deep_activity}
"""Families with a rule of their own."""


def mac_activity(op: KernelOperation, accelerator: Accelerator, timing: TimingParameters = DEFAULT_TIMING) -> MacActivity:
    """The activity of a kernel operation, over all of its OFM blocks, IFM blocks and sub-kernels."""
    if op.kind is OperationKind.ELEMENTWISE:
        return NO_ACTIVITY
    own = _OWN.get(accelerator.commands)
    if own is not None:
        return own(op, accelerator)
    total, parts = NO_ACTIVITY, Counter(part.taps for part in sub_kernels(op))
    shapes = Counter((box.y1 - box.y0, box.x1 - box.x0, box.c1 - box.c0) for box in ofm_blocks(op))
    first = next(ofm_blocks(op))
    channels = Counter(last - first for first, last in ifm_channel_steps(op, first)) if reduces_depth(op) else Counter({0: 1})
    for shape, blocks in shapes.items():
        for taps, times in parts.items():
            for count, steps in channels.items():
                total += _step(op, accelerator, timing, shape, taps, count or shape[2]).times(blocks * times * steps)
    return total
