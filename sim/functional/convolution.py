"""Convolution and depthwise convolution: sums of products, bias, and the per-channel rescaling.

The sums run in floating point, which is exact because every partial sum is an integer that the type holds
(:class:`sim.functional.filters.Filter`).
"""

from __future__ import annotations

import numpy as np

from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import AccumulatorFormat, AccumulatorInput, KernelOperation, OperationKind
from sim.functional.filters import Filter, FilterCache, Real, ScaleTable
from sim.functional.memory import RegionBytes
from sim.functional.products import first_accumulators, product
from sim.functional.rescale import Integers, magnitude, rescale, scaled_ofm
from sim.functional.window import covered

_PATCH_ELEMENTS = 1 << 21
"""Elements of the im2col matrix that are made at a time: a few megabytes stay in the processor's caches."""

_ACCUMULATOR_BITS = {AccumulatorFormat.INT32: 32, AccumulatorFormat.INT40: 40, AccumulatorFormat.INT48: 48}


def _patches(op: KernelOperation, image: Real, first: int, rows: int) -> Real:
    """Windows of OFM rows ``first`` to ``first + rows`` as a matrix: one row per window, (tap row, tap column, channel) in it."""
    kernel = op.kernel
    step_y, step_x, step_c = image.strides
    shape = (rows, op.ofm.shape.width, kernel.height, kernel.width, image.shape[2])
    strides = (step_y * kernel.stride_y, step_x * kernel.stride_x, step_y * kernel.dilation_y, step_x * kernel.dilation_x, step_c)
    windows = np.lib.stride_tricks.as_strided(image[first * kernel.stride_y :], shape, strides, writeable=False)
    return windows.reshape(rows * op.ofm.shape.width, -1)


def _convolve(op: KernelOperation, image: Real, weights: Real) -> Real:
    height, width, depth = op.ofm.shape.height, op.ofm.shape.width, op.ofm.shape.depth
    matrix = weights.reshape(-1, depth)
    result = np.empty((height, width, depth), image.dtype)
    step = max(1, _PATCH_ELEMENTS // (width * len(matrix)))
    for first in range(0, height, step):
        rows = min(step, height - first)
        np.matmul(_patches(op, image, first, rows), matrix, out=result[first : first + rows].reshape(rows * width, depth))
    return result


def _depthwise(op: KernelOperation, image: Real, weights: Real) -> Real:
    kernel, ofm = op.kernel, op.ofm.shape
    result = np.zeros((ofm.height, ofm.width, ofm.depth), image.dtype)
    product = np.empty_like(result)
    for y in range(kernel.height):
        for x in range(kernel.width):
            top, left = y * kernel.dilation_y, x * kernel.dilation_x
            rows = slice(top, top + (ofm.height - 1) * kernel.stride_y + 1, kernel.stride_y)
            columns = slice(left, left + (ofm.width - 1) * kernel.stride_x + 1, kernel.stride_x)
            np.multiply(image[rows, columns], weights[y, x], out=product)
            result += product
    return result


def _biased(op: KernelOperation, sums: Real, bound: int, table: ScaleTable, user: str) -> Integers:
    """Accumulators with their bias; InputError if one leaves its format, because no source says what the hardware does then."""
    bits = _ACCUMULATOR_BITS.get(op.accumulator)
    if bits is None:
        raise InputError(f"{user} accumulates in {op.accumulator.name}: only integer accumulators are modelled; compile with 8 or 16 bits.")
    accumulators = sums.astype(np.int64)
    accumulators += table.bias
    limit = 1 << (bits - 1)
    if bound + magnitude(table.bias) >= limit and magnitude(accumulators) >= limit:
        raise InputError(
            f"{user} accumulates {magnitude(accumulators)}, beyond {bits} bits: what the NPU does then is not public; rescale the weights."
        )
    return accumulators


def _check(op: KernelOperation, user: str) -> None:
    if op.ifm.dtype.bits == 32:
        raise InputError(f"{user} has a 32-bit IFM: convolutions read 8 or 16 bits; the stream is damaged.")
    if op.global_scale:
        raise InputError(f"{user} uses the global OFM scale: convolutions are modelled with their per-channel scales only.")
    if op.kind is OperationKind.DEPTHWISE and op.ifm.shape.depth != op.ofm.shape.depth:
        raise InputError(f"{user} has {op.ifm.shape.depth} IFM and {op.ofm.shape.depth} OFM channels: depthwise needs equal numbers.")


def convolution(op: KernelOperation, memory: RegionBytes, cache: FilterCache, accelerator: Accelerator, user: str) -> Integers:
    """The rescaled sums of a CONV_2D or DEPTHWISE operation, height x width x depth of the OFM, before zero point and clamp.

    Without an output they are the accumulators.
    """
    if op.modes.weights_from_ifm2:
        products = product(op, memory, user)
        return scaled_ofm(op, products) if op.modes.has_output else products
    _check(op, user)
    weights: Filter = cache.filter(op, memory, accelerator, user)
    values = memory.gather(op.ifm, user).astype(weights.taps.dtype)
    values -= op.ifm.zero_point
    image = covered(op, values, 0)
    sums = _depthwise(op, image, weights.taps) if op.kind is OperationKind.DEPTHWISE else _convolve(op, image, weights.taps)
    table = cache.scales(op, memory, accelerator, user)
    accumulators = _biased(op, sums, weights.bound, table, user)
    if op.modes.accumulators is not AccumulatorInput.RESET:
        accumulators = accumulators + first_accumulators(op, memory, user)
    if not op.modes.has_output:
        return accumulators
    return rescale(accumulators, table.scale, table.shift, op.rounding)
