"""Bytes that Vela's estimator counts for a transfer, and the first and last block's memory cycles that follow from them."""

from __future__ import annotations

from npu_model.program import Layout
from npu_model.shapes import Shape3D
from validation.vela.estimate.operation import EstimatedOperation, VelaOperand, clip

_BRICK = 16
_LONGEST_WRITE = 64


def burst_bits(operand: VelaOperand, block: Shape3D, *, bits: int, read: bool) -> int:
    """Bits that are consecutive in memory when ``block`` is moved, as Vela 5.2.0 sees it (``EstimateMemoryTransfer``).

    An NHCWB16 block moves rows of bricks. An NHWC block moves rows if it has all channels, else pixels: reads whole
    ones, writes 16 channels and at most 64 bytes. Vela compares a stride in bytes with a depth in elements to tell
    whether a block has all channels, so 16-bit maps never count as whole; kept, as the aim is Vela's number.

    >>> from fractions import Fraction
    >>> from validation.vela.estimate.memories import VelaMemory
    >>> sram = VelaMemory("Sram", Fraction(8), 32, 32, 32)
    >>> image = VelaOperand(Shape3D(32, 32, 3), 8, Layout.NHWC, sram)
    >>> burst_bits(image, Shape3D(6, 34, 8), bits=8, read=True) // 8
    8
    """
    row = block.width * block.depth * bits
    if operand.layout is Layout.NHCWB16:
        whole = operand.shape.width * bits * _BRICK // 8 == block.depth
        return row if whole else _BRICK * bits * block.width
    if operand.layout is Layout.NHWC:
        whole = operand.shape.depth * bits // 8 == block.depth
        if read:
            return row if whole else bits * block.depth
        return row if whole and block.depth <= _BRICK else min(8 * _LONGEST_WRITE, _BRICK * bits, block.depth * bits)
    return 8


def transferred_bytes(operand: VelaOperand, block: Shape3D, elements: int, *, bits: int, read: bool) -> int:
    """Bytes of ``elements``, scaled up by how much shorter than the memory's burst the consecutive ones are."""
    longest = operand.memory.burst_bytes
    burst = min(longest, burst_bits(operand, block, bits=bits, read=read) // 8)
    return elements * bits // 8 * longest // burst


def read_block_cycles(op: EstimatedOperation, ifm: VelaOperand) -> int:
    """Cycles until one IFM block is read, latency included; the longer of both operands (Vela 5.2.0 ``MinimumIfmCycles``).

    ``ifm`` stands for the operation's own IFM, of which a slice may need less.
    """
    # Vela takes the first operand's element for both.
    bits = ifm.bits
    return max(
        operand.memory.read_latency
        + operand.memory.cycles(transferred_bytes(operand, op.ifm_block, clip(op.ifm_block, operand.shape).elements, bits=bits, read=True))
        for operand in (ifm, op.ifm2)
        if operand is not None
    )


def write_block_cycles(op: EstimatedOperation, ofm: VelaOperand) -> int:
    """Cycles until one OFM block is written, latency included (Vela 5.2.0 ``MinimumOfmCycles``)."""
    size = transferred_bytes(ofm, op.ofm_block, clip(op.ofm_block, ofm.shape).elements, bits=ofm.bits, read=False)
    return ofm.memory.write_latency + ofm.memory.cycles(size)
