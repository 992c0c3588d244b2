"""Vela's bytes of one operation, per memory, kind and direction, and the access cycles that it makes of them."""

from __future__ import annotations

from collections import Counter
from enum import Enum

from msgspec import Struct

from npu_model.shapes import Shape3D, ceil_div
from validation.vela.estimate.cycles import SUBKERNEL
from validation.vela.estimate.memories import SHRAM, VelaMemory
from validation.vela.estimate.operation import Engine, EstimatedOperation, stored_elements
from validation.vela.estimate.transfers import transferred_bytes


class VelaAccess(Enum):
    """Kinds of data that are moved, in Vela's spelling."""

    LUT = "Lut"
    FEATURE_MAP = "FeatureMap"
    WEIGHTS = "Weights"
    SCALES = "Scales"


class VelaTraffic(Struct, frozen=True):
    """Bytes read and written and cycles of access by memory and kind, and cycles of each memory in all (LUTs left out, as in Vela)."""

    read: dict[tuple[VelaMemory, VelaAccess], int]
    written: dict[tuple[VelaMemory, VelaAccess], int]
    cycles: dict[tuple[VelaMemory, VelaAccess], int]
    total_cycles: dict[VelaMemory, int]


def elementwise_reads(op: EstimatedOperation) -> tuple[int, int]:
    """Elements read of IFM and IFM2 by an elementwise operation (Vela 5.2.0 ``MeasureElementAccess``).

    A tensor, broadcast or not, is read as often as the OFM has elements; a single 8-bit element is a register and costs
    nothing, a wider one is read once. The IFM's layout rounds channels for both.
    """
    layout, whole = op.ifm.layout, stored_elements(op.ofm.shape, op.ifm.layout)
    if op.ifm.shape.elements == 1:
        if op.ifm.bits > 8:
            return stored_elements(op.ifm.shape, layout), 0
        return 0, whole if op.ifm2 is not None else 0
    if op.ifm2 is None:
        return whole, 0
    if op.ifm2.shape.elements > 1:
        return whole, whole
    return whole, stored_elements(op.ifm2.shape, layout) if op.ifm2.bits > 8 else 0


def weight_passes(op: EstimatedOperation) -> int:
    """Number of times that the weights are read: once per OFM block in the plane."""
    block = op.clipped_ofm_block
    return ceil_div(op.ofm.shape.height, block.height) * ceil_div(op.ofm.shape.width, block.width)


def ifm_reads(op: EstimatedOperation) -> int:
    """IFM elements that an operation with a window reads: whole IFM blocks over all channels, per sub-kernel and OFM block.

    OFM blocks in depth count for reductions in depth alone; edges are not clipped (Vela 5.2.0 ``MeasureElementAccess``).
    """
    block, kernel = op.clipped_ifm_block, op.kernel
    passes = ceil_div(kernel.width, SUBKERNEL) * ceil_div(kernel.height, SUBKERNEL)
    depth_blocks = 1 if op.engine.is_equal_depth else ceil_div(op.ofm.shape.depth, op.clipped_ofm_block.depth)
    fetch = stored_elements(Shape3D(block.height, block.width, op.ifm.shape.depth), op.ifm.layout)
    return fetch * passes * weight_passes(op) * depth_blocks


def _feature_map_bytes(op: EstimatedOperation) -> tuple[int, int, int]:
    """Bytes of IFM, IFM2 and OFM, scaled by how short their bursts are."""
    if op.engine is Engine.TRANSPOSE:
        first, second = op.ifm.shape.elements, 0
    else:
        first, second = elementwise_reads(op) if op.engine is Engine.ELEMENTWISE else (ifm_reads(op), 0)
    return (
        transferred_bytes(op.ifm, op.ifm_block, first, bits=op.ifm.bits, read=True),
        0 if op.ifm2 is None else transferred_bytes(op.ifm2, op.ifm_block, second, bits=op.ifm2.bits, read=True),
        transferred_bytes(op.ofm, op.ofm_block, op.ofm.stored_elements, bits=op.ofm.bits, read=False),
    )


def _weight_traffic(
    op: EstimatedOperation, read: Counter[tuple[VelaMemory, VelaAccess]], written: Counter[tuple[VelaMemory, VelaAccess]]
) -> None:
    weights = op.weights
    if weights is None:
        return
    passes = weight_passes(op)
    if weights.staging is not None:
        copied = weights.encoded_bytes + weights.scale_bytes
        read[weights.home, VelaAccess.WEIGHTS] += copied
        written[weights.staging, VelaAccess.WEIGHTS] += copied
    read[weights.source, VelaAccess.WEIGHTS] += passes * weights.encoded_bytes
    read[weights.source, VelaAccess.SCALES] += passes * weights.scale_bytes


def _weight_access(op: EstimatedOperation) -> Counter[tuple[VelaMemory, VelaAccess]]:
    """Bytes that count as weight and scale access, which are not those of the traffic.

    What is copied during the previous operation does not count; scales count at home even if they are staged
    (Vela 5.2.0 ``MeasureAccessCycles``).
    """
    access: Counter[tuple[VelaMemory, VelaAccess]] = Counter()
    weights = op.weights
    if weights is None:
        return access
    passes = weight_passes(op)
    if weights.staging is not None:
        copied = max(weights.encoded_bytes - (weights.first_transfer_bytes if weights.pre_buffered else 0), 0)
        access[weights.home, VelaAccess.WEIGHTS] += copied
        access[weights.staging, VelaAccess.WEIGHTS] += copied
    access[weights.source, VelaAccess.WEIGHTS] += passes * weights.encoded_bytes
    access[weights.home, VelaAccess.SCALES] += passes * weights.scale_bytes
    return access


def estimate_traffic(op: EstimatedOperation) -> VelaTraffic:
    """The traffic of the operation, as Vela counts it: reads and writes of a memory share its bandwidth."""
    read: Counter[tuple[VelaMemory, VelaAccess]] = Counter()
    written: Counter[tuple[VelaMemory, VelaAccess]] = Counter()
    ifm, ifm2, ofm = _feature_map_bytes(op)
    access = _weight_access(op)
    access[op.ifm.memory, VelaAccess.FEATURE_MAP] += ifm
    read[op.ifm.memory, VelaAccess.FEATURE_MAP] += ifm
    if op.ifm2 is not None:
        access[op.ifm2.memory, VelaAccess.FEATURE_MAP] += ifm2
        read[op.ifm2.memory, VelaAccess.FEATURE_MAP] += ifm2
    access[op.ofm.memory, VelaAccess.FEATURE_MAP] += ofm
    written[op.ofm.memory, VelaAccess.FEATURE_MAP] += ofm
    _weight_traffic(op, read, written)
    totals: Counter[VelaMemory] = Counter()
    for (memory, _), size in access.items():
        totals[memory] += size
    cycles = {(memory, kind): memory.cycles(size) for (memory, kind), size in access.items()}
    if op.lut is not None:
        read[op.lut.home, VelaAccess.LUT] += op.lut.size
        written[SHRAM, VelaAccess.LUT] += op.lut.size
        cycles[op.lut.home, VelaAccess.LUT] = op.lut.home.cycles(op.lut.size)
        cycles[SHRAM, VelaAccess.LUT] = SHRAM.cycles(op.lut.size)
    return VelaTraffic(dict(read), dict(written), cycles, {memory: memory.cycles(size) for memory, size in totals.items()})
