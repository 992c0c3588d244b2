"""The partition of the shared buffer in a kernel's registers, compared with the needs of its block.

The output buffer is at the bottom. The IFM buffer follows, up to IFM_IB_END; the second operand of a binary elementwise operation begins at
IFM2_IB_START. Accumulators begin at AB_START. The banks of tables are at the top. Every buffer is double. This code serves only the check
and follows Vela 5.2.0's rules (``shared_buffer_allocation.py``). Other code partitions the buffer for schedules.
"""

from __future__ import annotations

from npu_model.accelerator import Accelerator
from npu_model.program import AccumulatorFormat, ActivationKind, KernelOperation, OperationKind, PoolKind, Upscale

_BANK_BYTES = 1024
_SUB_KERNEL = 8
"""Rows and columns of the window that one pass over the IFM block covers."""

_ACCUMULATOR_BYTES = {AccumulatorFormat.INT32: 4, AccumulatorFormat.INT40: 5, AccumulatorFormat.FP16: 2}


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _side(block: int, stride: int, taps: int, upscale: Upscale, ublock: int) -> int:
    """Rows (or columns) of the IFM block."""
    needed = (block - 1) * stride + min(taps, _SUB_KERNEL)
    if upscale is Upscale.NEAREST:
        needed = needed // 2 + 1
    elif upscale is Upscale.ZEROS:
        needed = -(-needed // 2)
    return _up(needed, ublock)


def _ifm_depth(op: KernelOperation, device: Accelerator) -> int:
    """Channels of the IFM block: the OFM block's, or the channels of one step of a sum."""
    if op.kind is not OperationKind.CONV_2D and op.pool is not PoolKind.REDUCE_SUM:
        return op.block.depth
    depth = op.ifm.shape.depth
    if op.ifm.dtype.bits == 16:
        return _up(min(depth, 16), 4)
    return _up(min(depth, 16 if op.part_kernel else 32), device.ifm_ublock.depth)


def ifm_banks(op: KernelOperation, device: Accelerator) -> int:
    """Banks of one operand's buffer."""
    kernel, granules, bits = op.kernel, device.granules, op.ifm.dtype.bits
    height = _side(op.block.height, kernel.stride_y, kernel.dilated_height, op.upscale, device.ofm_ublock.height)
    width = _side(op.block.width, kernel.stride_x, kernel.dilated_width, op.upscale, device.ofm_ublock.width)
    size = height * width * _up(_ifm_depth(op, device) * bits // 8, 8)
    of_kind = (granules.ifm8_ew, granules.ifm16_ew) if op.kind is OperationKind.ELEMENTWISE else (granules.ifm8, granules.ifm16)
    granule = {8: of_kind[0], 16: of_kind[1]}.get(bits, granules.ifm32)
    return _up(2 * -(-size // _BANK_BYTES), granule)


def accumulator_banks(op: KernelOperation, device: Accelerator) -> int:
    """Banks of the accumulators; none for elementwise operations."""
    if op.kind is OperationKind.ELEMENTWISE:
        return 0
    granules = device.granules
    granule = {
        AccumulatorFormat.INT32: granules.acc32,
        AccumulatorFormat.INT40: granules.acc40,
        AccumulatorFormat.FP16: granules.acc16,
    }[op.accumulator]
    # A ublock of two rows, with an OFM and a window of one row, needs the accumulators of that row only.
    flat = op.ofm.shape.height == 1 and op.kernel.height == 1 and device.ofm_ublock.height == 2
    height = 1 if flat else op.block.height
    size = height * op.block.width * _up(op.block.depth, 8) * _ACCUMULATOR_BYTES[op.accumulator]
    return _up(2 * -(-size // _BANK_BYTES), granule)


def partition_problem(op: KernelOperation, device: Accelerator) -> str:
    """The clause that says which buffers overlap or are too small; "" if none. Separate buffers do not appear in a stream."""
    if device.buffers is not None:
        return ""
    first = device.reserved_output_banks
    top = device.shram_banks - max(device.reserved_lut_banks, device.lut_banks * (op.activation.kind is ActivationKind.LUT))
    shram, needed = op.shram, ifm_banks(op, device)
    if op.kind is OperationKind.ELEMENTWISE:
        return _elementwise_problem(op, needed, first, top)
    if shram.ib_end > shram.ab_start:
        return f"has its IFM buffer up to bank {shram.ib_end} but its accumulators from bank {shram.ab_start} on: they overlap"
    if shram.ib_end < first + needed:
        return f"ends its IFM buffer at bank {shram.ib_end}, but block {op.block} needs {needed} banks from bank {first} on"
    accumulators = accumulator_banks(op, device)
    if shram.ab_start + accumulators > top:
        return f"has its accumulators from bank {shram.ab_start} on, but block {op.block} needs {accumulators} banks up to bank {top}"
    return ""


def _elementwise_problem(op: KernelOperation, needed: int, first: int, top: int) -> str:
    shram = op.shram
    if shram.ib_end > top:
        return f"ends its operands' buffers at bank {shram.ib_end}, but {top} is the last bank that they may end at"
    second = shram.ib2_start if op.ifm2 is not None else shram.ib_end
    if second < first + needed:
        return f"ends its first operand's buffer at bank {second}, but block {op.block} needs {needed} banks from bank {first} on"
    if op.ifm2 is not None and second + needed > shram.ib_end:
        return f"ends its second operand's buffer at bank {shram.ib_end}, but block {op.block} needs {needed} banks from bank {second} on"
    return ""
