"""The cycles of a block: pure functions of operation, block and accelerator.

The formulas are Arm's own throughput rules (Vela 5.2.0 ``npu_performance.py`` and regor ``ethos_u55_performance.cpp``)
where the FVP agrees with them; each deviation says so.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from msgspec import Struct

from npu_model.accelerator import Accelerator
from npu_model.cost.traversal import reduces_depth
from npu_model.program import AccumulatorFormat, ActivationKind, ElementwiseKind, KernelOperation, OperationKind, PoolKind
from npu_model.shapes import Shape3D, ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters

CYCLES_PER_UBLOCK_STEP = 4
"""MAC cycles of one OFM ublock for 32 (8-bit) IFM channels: each lane does an 8-deep dot product per cycle."""


def ofm_ublock(op: KernelOperation, accelerator: Accelerator) -> Shape3D:
    """The ublock in which the operation is processed.

    With 2 x 2 ublocks, convolutions of one OFM row, an even width and a window of one row use 1 x 4 (Vela, Regor).
    """
    ublock = accelerator.ofm_ublock
    flat = op.ofm.shape.height == 1 and op.ofm.shape.width % 2 == 0 and op.kernel.height == 1
    if flat and ublock.height == 2 and op.kind in (OperationKind.CONV_2D, OperationKind.DEPTHWISE):
        return Shape3D(1, 2 * ublock.width, ublock.depth)
    return ublock


def kernel_step_delay(op: KernelOperation, accelerator: Accelerator) -> int:
    """Cycles that a kernel step waits for the accumulators of the previous step.

    Rule and numbers are Vela's for planes of one ublock in any convolution. The FVP's cycles support them for every plane of depthwise
    convolutions, and show nothing about the others.
    """
    wide = op.accumulator is AccumulatorFormat.INT40
    if accelerator.macs == 32:
        return 7 if wide else 3
    return 3 if wide and accelerator.macs <= 128 else 2


def mac_cycles(  # noqa: PLR0913  # a block of a kernel
    op: KernelOperation,
    accelerator: Accelerator,
    block: Shape3D,
    taps: int,
    ifm_channels: int,
    timing: TimingParameters = DEFAULT_TIMING,
    decoding: int | None = None,
) -> int:
    """MAC cycles of one step: one sub-kernel of ``taps`` over one IFM block of ``ifm_channels`` for one OFM ``block``.

    ``decoding`` is the weight decoder's cycles for the step if its stream is known: the step takes at least as long, and w below is 0 for
    convolutions of 8 bits. Depthwise and 16-bit steps have few weights, so the decoder cannot explain w, which stays.

    With n = taps, s = ublocks in height x width, d = ublocks in depth of each core, w = 4 * ublock depth (weight decoder):

    - convolution, depth first: max(w, 4 s) n d per 32 (8-bit) or 16 (16-bit) IFM channels
    - convolution, part kernel: max(w, 4 s) ceil(n / 4, 16-bit: 2) d ceil(channels / 8)
    - depthwise: max(w, 4 s bytes) k d with k = ceil(n / 4), and :func:`kernel_step_delay` (k - 1) d times, k times if d is 1
    - REDUCE_SUM: as depth first, without weights
    - pooling: 8 + max(16, n, 16-bit: 2 n) s d, with 8 in the place of 16 for a last ublock of which half the channels or fewer are used

    Elementwise operations use no MACs: 0.

    A 3x3 depth-first step of an 8x8x16 block on 128 MACs: 8 x 4 ublocks in the plane, 2 in depth, 9 taps:

    >>> 4 * (8 * 4) * 9 * 2
    2304
    """
    ublock = ofm_ublock(op, accelerator)
    plane = ceil_div(block.height, ublock.height) * ceil_div(block.width, ublock.width)
    depth = ceil_div(block.depth, ublock.depth * accelerator.cores)
    pace = mac_pace(op, accelerator, taps, ifm_channels, timing, is_known=decoding is not None)
    return max(decoding or 0, pace.cycles(plane, depth, is_half=is_half(block.depth, ublock.depth * accelerator.cores)))


def is_half(channels: int, depth: int) -> bool:
    """Whether at most half of the last ublock, ``depth`` deep, is among ``channels``."""
    return 0 < channels % depth <= depth // 2


class MacPace(Struct, frozen=True):
    """The formula of :func:`mac_cycles` for any block: ``fill + max(floor, plane * s) * steps * d``, and the delays between kernel steps.

    A last ublock of half the channels or fewer takes ``spared`` cycles less for each ublock of the plane.
    """

    floor: int
    plane: int
    steps: int
    delay: int = 0
    fill: int = 0
    spared: int = 0

    def cycles(self, plane: int, depth: int, *, is_half: bool = False) -> int:
        """MAC cycles for ``plane`` ublocks in height x width and ``depth`` in depth; ``is_half`` says that half of the last one is used."""
        waits = self.steps if depth == 1 else (self.steps - 1) * depth
        full = self.fill + max(self.floor, self.plane * plane) * self.steps * depth + self.delay * waits
        return full - self.spared * plane if is_half else full


def mac_pace(
    op: KernelOperation,
    accelerator: Accelerator,
    taps: int,
    ifm_channels: int,
    timing: TimingParameters = DEFAULT_TIMING,
    *,
    is_known: bool = False,
) -> MacPace:
    """The part of :func:`mac_cycles` that holds for any block.

    ``is_known`` says that the weight decoder's cycles are counted separately.
    """
    if op.kind is OperationKind.ELEMENTWISE:
        return MacPace(0, 0, 0)
    size = op.ifm.dtype.bytes
    if op.kind is OperationKind.POOL and not reduces_depth(op):
        # A 16-bit element passes the lane twice, except on 32 MACs (Vela).
        passes = 2 if size == 2 and accelerator.macs > 32 else 1
        whole = max(timing.pool_floor, taps * passes)
        if not timing.pool_passes:
            return MacPace(0, whole, 1)
        # The ublock's channels go through in two halves.
        half = ceil_div(timing.pool_floor, 2)
        return MacPace(0, whole, 1, fill=half, spared=whole - max(half, taps * passes))
    is_depthwise = op.kind is OperationKind.DEPTHWISE
    has_floor = op.kind is not OperationKind.POOL and (is_depthwise or size == 2 or not is_known)
    decoder = timing.decoder_cycles_per_channel * ofm_ublock(op, accelerator).depth if has_floor else 0
    if is_depthwise:
        delay = kernel_step_delay(op, accelerator) if timing.depthwise_delays else 0
        return MacPace(decoder, CYCLES_PER_UBLOCK_STEP * size, ceil_div(taps, 4), delay)
    if op.part_kernel:
        return MacPace(decoder, CYCLES_PER_UBLOCK_STEP, ceil_div(taps, 4 // size) * ceil_div(ifm_channels, 8))
    return MacPace(decoder, CYCLES_PER_UBLOCK_STEP, taps)


def _operation_rate(op: KernelOperation, accelerator: Accelerator) -> Fraction:
    """Cycles per OFM element of the operation itself."""
    rates = accelerator.output
    if op.kind is OperationKind.ELEMENTWISE:
        if op.ifm.dtype.bits == 32:
            return rates.binary32 if op.is_binary else rates.unary32
        if op.elementwise is ElementwiseKind.MUL:
            return rates.mul32 if op.ofm.dtype.bits == 32 else rates.mul
        if op.elementwise in (ElementwiseKind.ADD, ElementwiseKind.SUB):
            return rates.scaled_add
        return rates.other
    if op.pool is PoolKind.MAX:
        return rates.max_pool
    return rates.acc40 if op.accumulator is AccumulatorFormat.INT40 else rates.other


def _activation_rate(op: KernelOperation, accelerator: Accelerator) -> Fraction | None:
    """Least cycles per OFM element that the activation allows; None if it does not clamp."""
    if op.activation.kind is not ActivationKind.NONE:
        return accelerator.output.lut
    dtype = op.ofm.dtype
    clamps = op.activation.minimum > dtype.minimum or op.activation.maximum < dtype.maximum
    return accelerator.output.relu if clamps else None


def output_rate(op: KernelOperation, accelerator: Accelerator, timing: TimingParameters = DEFAULT_TIMING) -> Fraction:
    """Output-unit (AO) cycles per OFM element: the larger of the operation's and the activation's rate."""
    rate, least = _operation_rate(op, accelerator), _activation_rate(op, accelerator)
    rate = rate if least is None else max(rate, least)
    return rate if timing.output_scale == 1 else rate * timing.output_scale


def output_elements(block: Shape3D, accelerator: Accelerator) -> int:
    """The elements that the output unit's rate counts for a block: those of the core with the most channels, times the cores.

    The rates of a device are those of all its cores. The cores take the block's ublocks in depth in turn, as the MAC array does: the second
    of two cores rests if a block has at most 8 channels. With one core these are the elements of the block.

    >>> from npu_model.accelerator import accelerator
    >>> [output_elements(Shape3D(1, 1, depth), accelerator("ethos-u65-512")) for depth in (8, 16, 20, 24)]
    [16, 16, 24, 32]
    """
    if not accelerator.access.own_channels:
        return block.elements
    ublock = accelerator.ofm_ublock.depth
    rounds, rest = divmod(block.depth, ublock * accelerator.cores)
    return block.height * block.width * accelerator.cores * (rounds * ublock + min(rest, ublock))


def output_cycles(op: KernelOperation, accelerator: Accelerator, elements: int, timing: TimingParameters = DEFAULT_TIMING) -> int:
    """Output-unit (AO) cycles of a block with ``elements`` :func:`output_elements`."""
    return timing.output_start_cycles + ceil(output_rate(op, accelerator, timing) * elements)
