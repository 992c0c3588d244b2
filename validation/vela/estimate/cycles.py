"""Vela's cycles of one operation: MAC, output (AO) and command issue, and the NPU cycles made of them.

Formulas of Vela 5.2.0 (Regor, ``ethos_u55_performance.cpp``). Vela computes them in 64-bit floats and cuts the
results to integers; so does this module, in the same order, as a last digit can tip the cut.
"""

from __future__ import annotations

from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from npu_model.accelerator import Accelerator
from npu_model.program import Upscale
from npu_model.shapes import Shape3D, ceil_div
from validation.vela.estimate.operation import Engine, EstimatedOperation
from validation.vela.estimate.transfers import read_block_cycles, transferred_bytes, write_block_cycles

SUBKERNEL = 8
"""Rows or columns of a window that one pass covers."""
_BIAS_BYTES_PER_READ = 256


class EstimatedCycles(Struct, frozen=True):
    """Cycles of an operation without DMA, and its multiply-accumulates.

    ``mac`` are the cycles of the MACs (None for elementwise operations). ``ao`` are the output unit's. ``command`` are the cycles that the
    commands of one block take to issue (elementwise: of all blocks). ``npu`` is the total of the NPU.
    """

    mac: int | None
    ao: int
    command: int
    npu: int
    macs: int


def ublock_of(engine: Engine, kernel_height: int, ofm: Shape3D, accelerator: Accelerator) -> Shape3D:
    """OFM ublock: 1 x 4 in place of 2 x 2 for a convolution of one OFM row of even width and one window row.

    >>> from npu_model.accelerator import accelerator
    >>> str(ublock_of(Engine.CONVOLUTION, 1, Shape3D(1, 10, 64), accelerator("ethos-u55-256")))
    '1x4x8'
    """
    ublock = accelerator.ofm_ublock
    if ublock.height == 2 and engine is Engine.CONVOLUTION and ofm.height == 1 and ofm.width % 2 == 0 and kernel_height == 1:
        return Shape3D(1, 4, ublock.depth)
    return ublock


def ublocks(shape: Shape3D, ublock: Shape3D) -> Shape3D:
    """Ublocks along each axis."""
    return Shape3D(
        *(
            ceil_div(a, b)
            for a, b in zip((shape.height, shape.width, shape.depth), (ublock.height, ublock.width, ublock.depth), strict=True)
        )
    )


def step_cycles(op: EstimatedOperation, blocks: Shape3D, taps: int, accelerator: Accelerator) -> tuple[int, int]:
    """MAC cycles of one sub-kernel of ``taps`` elements over a block of ``blocks`` ublocks, and its number of kernel steps.

    With n = taps, s = ublocks in the plane, d = in depth, w = 4 * ublock depth (the weight buffer's floor):
    pooling max(4, n) s d, times half the element's bits but on 32 MACs; depthwise max(w, 4 s bytes) ceil(n / 4) d;
    part kernel max(w, 4 s) ceil(n / 4, 16-bit: 2) d ceil(IFM block depth / 8); else max(w, 4 s) n d.
    """
    plane, depth, bits = blocks.height * blocks.width, blocks.depth, op.ifm.bits
    floor = 4 * ublock_of(op.engine, op.kernel.height, op.ofm.shape, accelerator).depth
    if op.engine is Engine.POOL:
        return max(4, taps) * plane * depth * (1 if accelerator.macs == 32 else bits // 2), 1
    if op.engine is Engine.DEPTHWISE:
        steps = ceil_div(taps, 4)
        return max(floor, 4 * plane * (bits // 8)) * steps * depth, steps
    if op.engine is Engine.CONVOLUTION and op.part_kernel:
        steps = ceil_div(taps, 2 if bits == 16 else 4)
        return max(floor, 4 * plane) * steps * depth * ceil_div(op.clipped_ifm_block.depth, 8), steps
    return max(floor, 4 * plane) * taps * depth, taps


def pipeline_delay(blocks: Shape3D, steps: int, *, acc40: bool, macs: int) -> int:
    """Cycles that the MAC pipeline waits for itself when a block is a single ublock in the plane.

    A delay of 2 cycles (3 with 40-bit accumulators on 64 and 128 MACs; on 32 MACs 3, or 7) per step. With several ublocks in depth the
    delay is per ublock and step, except for the first. 32 MACs with 40-bit accumulators also wait once per ublock in depth if the block is
    one ublock high or wide.

    >>> pipeline_delay(Shape3D(1, 1, 1), 9, acc40=False, macs=128), pipeline_delay(Shape3D(1, 1, 4), 9, acc40=False, macs=128)
    (18, 64)
    """
    delay, delay40 = (3, 7) if macs == 32 else (2, 3 if macs <= 128 else 2)
    if acc40:
        delay = delay40
    total = 0
    if blocks.height * blocks.width == 1:
        total = delay * steps if blocks.depth == 1 else delay * (steps - 1) * blocks.depth
    if macs == 32 and acc40 and blocks.depth > 1 and 1 in (blocks.height, blocks.width):
        total += delay * blocks.depth
    return total


def mac_cycles_per_block(op: EstimatedOperation, accelerator: Accelerator) -> int:
    """MAC cycles of one OFM block: over all sub-kernels of 8 x 8 taps and, for reductions in depth, all IFM depth blocks."""
    blocks = ublocks(op.clipped_ofm_block, ublock_of(op.engine, op.kernel.height, op.ofm.shape, accelerator))
    ifm_depth = op.clipped_ifm_block.depth
    total = 0
    for x in range(0, op.kernel.width, SUBKERNEL):
        for y in range(0, op.kernel.height, SUBKERNEL):
            taps = min(op.kernel.height - y, SUBKERNEL) * min(op.kernel.width - x, SUBKERNEL)
            cycles, steps = step_cycles(op, blocks, taps, accelerator)
            delay = pipeline_delay(blocks, steps, acc40=op.acc40, macs=accelerator.macs)
            if op.engine is Engine.CONVOLUTION and op.part_kernel:
                delay *= ceil_div(ifm_depth, 8)
            total += cycles + delay
    if op.engine in (Engine.CONVOLUTION, Engine.REDUCE_SUM):
        total *= ceil_div(op.ifm.shape.depth, ifm_depth)
    return total // accelerator.cores


def ao_cycles_per_element(op: EstimatedOperation, accelerator: Accelerator) -> float:
    """Output-unit cycles per OFM element: the larger of the operator's rate and the fused activation's (Vela's tables)."""
    rates = accelerator.output
    elementwise = op.engine is Engine.ELEMENTWISE
    if elementwise and op.ifm.bits == 32:
        rate = rates.unary32 if op.ifm2 is None else rates.binary32
    elif op.operator == "Mul":
        rate = rates.mul32 if op.ofm.bits == 32 else rates.mul
    elif not elementwise and op.acc40:
        rate = rates.acc40
    elif op.operator in ("Add", "Sub"):
        rate = rates.scaled_add
    else:
        rate = rates.max_pool if op.operator == "MaxPool" else rates.other
    if op.activation in ("Sigmoid", "Tanh", "LUT"):
        rate = max(rate, rates.lut)
    elif op.activation in ("Relu", "Relu0To1", "Relu6", "ReluN1To1"):
        rate = max(rate, rates.relu)
    return float(rate)


def _elementwise(op: EstimatedOperation, accelerator: Accelerator) -> EstimatedCycles:
    elements = op.ofm.stored_elements
    rate = ao_cycles_per_element(op, accelerator)
    # Vela takes reading and writing a block to overlap.
    block_cycles = max(write_block_cycles(op, op.ofm), read_block_cycles(op, op.ifm))
    command = ceil((block_cycles / op.ofm_block.elements + rate) / 4.0 * elements)
    ao = ceil(rate * elements)
    return EstimatedCycles(None, ao, command, max(ao, command), 0)


def _transpose(op: EstimatedOperation) -> EstimatedCycles:
    """Vela takes a transposition for a copy: the slower of reading and writing."""
    read = transferred_bytes(op.ifm, op.ifm_block, op.ifm.shape.elements, bits=op.ifm.bits, read=True)
    written = transferred_bytes(op.ofm, op.ofm_block, op.ofm.stored_elements, bits=op.ofm.bits, read=False)
    source, destination = op.ifm.memory, op.ofm.memory
    npu = max(source.cycles(read) + source.read_latency, destination.cycles(written) + destination.write_latency)
    return EstimatedCycles(None, 0, 0, npu, 0)


def _bias_cycles_per_block(op: EstimatedOperation) -> float:
    if op.weights is None or not op.engine.has_weights:
        return 0.0
    return 10.0 * op.clipped_ofm_block.depth * op.weights.source.read_latency / _BIAS_BYTES_PER_READ


def _with_macs(op: EstimatedOperation, accelerator: Accelerator, *, first: bool, last: bool) -> EstimatedCycles:
    block = op.clipped_ofm_block
    ublock = ublock_of(op.engine, op.kernel.height, op.ofm.shape, accelerator)
    # Blocks at the edge count by the ublocks that they have.
    blocks = float(ublocks(op.ofm.shape, ublock).elements) / ublocks(block, ublock).elements
    compute = ceil(ao_cycles_per_element(op, accelerator) * block.elements)
    ao = max(float(compute), _bias_cycles_per_block(op))
    mac = mac_cycles_per_block(op, accelerator)
    read, write = read_block_cycles(op, op.ifm), write_block_cycles(op, op.ofm)
    command = ((abs(write - read) if blocks > 1 else 0) + mac + ao) / 4
    balanced_mac, balanced_ao = max(mac, command), max(ao, command)
    if balanced_mac > balanced_ao:
        total = int(balanced_mac * blocks)
        if last:
            total = int(total + balanced_ao)
    else:
        total = int(balanced_ao * blocks + balanced_mac)
    total += (write if last else 0) + (read if first else 0)
    macs = op.kernel.elements * op.ofm.shape.elements * (1 if op.engine.is_equal_depth else op.ifm.shape.depth)
    return EstimatedCycles(int(mac * blocks + ao), int(compute * blocks + mac), int(command), total, macs)


def estimate_cycles(op: EstimatedOperation, accelerator: Accelerator, *, first: bool = True, last: bool = True) -> EstimatedCycles:
    """Cycles of an operation, or of one OFM depth slice of it.

    The first slice starts with a block's read, the last one ends with a block's write. NPU cycles: the longer of MAC
    and AO stage, neither shorter than the command issue, times the blocks, plus the other stage once, plus the first
    and last block's memory cycles.
    """
    if op.engine is Engine.TRANSPOSE:
        return _transpose(op)
    if op.engine is Engine.ELEMENTWISE:
        return _elementwise(op, accelerator)
    return _with_macs(op, accelerator, first=first, last=last)


def _needed(ofm: int, stride: int, window: int, upscale: Upscale) -> int:
    """Rows or columns of IFM under ``ofm`` of the OFM."""
    rows = (ofm - 1) * stride + window
    return rows if upscale is Upscale.NONE else ceil_div(rows + (upscale is Upscale.NEAREST), 2)


def last_slice_cycles(op: EstimatedOperation, accelerator: Accelerator) -> int:
    """NPU cycles of the last OFM depth slice of a stripe: the time that Vela gives the next operation's weights to arrive in."""
    weights = op.weights
    if weights is None:
        return estimate_cycles(op, accelerator).npu
    stripe, kernel, ifm = op.stripe, op.kernel, op.ifm.shape
    height = min(_needed(stripe.height, kernel.stride_y, kernel.dilated_height, op.upscale), ifm.height)
    width = min(_needed(stripe.width, kernel.stride_x, kernel.dilated_width, op.upscale), ifm.width)
    part = replace(
        op,
        ifm=replace(op.ifm, shape=Shape3D(height, width, ifm.depth)),
        ofm=replace(op.ofm, shape=Shape3D(stripe.height, stripe.width, weights.depth_slices[-1])),
    )
    return estimate_cycles(part, accelerator, first=len(weights.depth_slices) == 1).npu
