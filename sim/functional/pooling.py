"""Pooling: maximum, average and reduce-sum."""

from __future__ import annotations

import numpy as np

from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import AccumulatorInput, Kernel, KernelOperation, Padding, PoolKind, Rounding
from sim.functional.memory import RegionBytes
from sim.functional.products import first_accumulators
from sim.functional.rescale import Integers, rescale, scaled_ofm
from sim.functional.window import covered


def _reduce(op: KernelOperation, image: Integers, function: np.ufunc) -> Integers:
    """``function`` over every window, rows first: both maximum and sum may be taken one axis after the other."""
    kernel, ofm = op.kernel, op.ofm.shape
    for axis, taps, stride, extent in ((0, kernel.height, kernel.stride_y, ofm.height), (1, kernel.width, kernel.stride_x, ofm.width)):
        dilation = kernel.dilation_y if axis == 0 else kernel.dilation_x
        shifted = []
        for tap in range(taps):
            first = tap * dilation
            part = slice(first, first + (extent - 1) * stride + 1, stride)
            shifted.append(image[part] if axis == 0 else image[:, part])
        result = shifted[0].copy()
        for other in shifted[1:]:
            function(result, other, out=result)
        image = result
    return image


def _maximum(op: KernelOperation, values: Integers) -> Integers:
    """The maximum, without a scale: Vela 5.0.0 leaves an average's 1/n in OFM_SCALE, and LiteRT agrees only if the NPU ignores it."""
    lowest = op.ifm.dtype.minimum - (1 << op.ifm.dtype.bits)
    return _reduce(op, covered(op, values, lowest), np.maximum)


def round_half_away(sums: Integers, counts: Integers) -> Integers:
    """``sums / counts`` to the nearest integer, halves away from zero: TFLite's rule for average pooling.

    >>> round_half_away(np.array([5, -5, 7]), np.array([2, 2, 3])).tolist()
    [3, -3, 2]
    """
    return np.asarray(np.sign(sums) * ((2 * np.abs(sums) + counts) // (2 * counts)), np.int64)


def truncated(sums: Integers, counts: Integers, user: str) -> Integers:
    """``sums / counts``, towards zero; InputError if a count is not a power of two, because no kernel confirms it.

    >>> truncated(np.array([7, -7, 3]), np.array([4, 4, 1]), "it").tolist()
    [1, -1, 3]
    """
    odd = counts[(counts & (counts - 1)) != 0]
    if odd.size:
        raise InputError(f"{user} averages {int(odd[0])} elements with padding and TRUNCATE rounding: only powers of two are known.")
    return np.asarray(np.sign(sums) * (np.abs(sums) // counts), np.int64)


_DIVIDES_BY_ONE = ("u85",)
"""Command layouts in which an average with a scale of one divides. In others such a pool is a sum, which the cascader's forms use."""


def _average(op: KernelOperation, values: Integers, device: Accelerator, user: str) -> Integers:
    """With padding the NPU divides by the number of elements inside the IFM, on the U85 wherever OFM_SCALE is one; else OFM_SCALE divides.

    Vela's two cores say so: one has per-channel mode without a scale, the other a global scale of one. LiteRT agrees with the result of
    both, with either rounding mode that they choose. Velas up to 3.0 make a bilinear resize of such pools and ask them to truncate:
    TensorFlow Lite 2.2, which they were made for, truncates there too.
    """
    sums = _reduce(op, covered(op, values, 0), np.add)
    is_one = op.ofm_scale.scale == 1 << op.ofm_scale.shift
    divides = is_one and op.kernel != Kernel() and device.commands in _DIVIDES_BY_ONE
    if op.padding == Padding() and not divides:
        if not op.global_scale:
            raise InputError(f"{user} averages without padding and without a global scale: what divides the sum is not public.")
        return rescale(sums, op.ofm_scale.scale, op.ofm_scale.shift, op.rounding)
    if op.global_scale and not is_one:
        raise InputError(f"{user} averages with padding and a global {op.ofm_scale}: only a scale of one is known.")
    inside = covered(op, np.ones((op.ifm.shape.height, op.ifm.shape.width, 1), np.int64), 0)
    counts = _reduce(op, inside, np.add)
    return truncated(sums, counts, user) if op.rounding is Rounding.TRUNCATE else round_half_away(sums, counts)


def _reduce_sum(op: KernelOperation, values: Integers, user: str) -> Integers:
    if op.kernel != Kernel() or op.padding != Padding() or op.ofm.shape.depth != 1:
        raise InputError(f"{user} sums a window of {op.kernel.elements} into {op.ofm.shape.depth} channels: 1 into 1 is what the NPU does.")
    sums = values.sum(axis=2, keepdims=True)
    return rescale(sums, op.ofm_scale.scale, op.ofm_scale.shift, op.rounding) if op.global_scale else sums


def pooling(op: KernelOperation, memory: RegionBytes, device: Accelerator, user: str) -> Integers:
    """The result of a POOL operation, height x width x depth of the OFM, before zero point and clamp."""
    if op.pool is PoolKind.NONE:
        return _handed_on(op, memory, user)
    values = memory.gather(op.ifm, user).astype(np.int64)
    values -= op.ifm.zero_point
    if op.pool is PoolKind.REDUCE_SUM:
        return _reduce_sum(op, values, user)
    if op.ifm.shape.depth != op.ofm.shape.depth:
        raise InputError(f"{user} has {op.ifm.shape.depth} IFM and {op.ofm.shape.depth} OFM channels: pooling keeps them.")
    if op.pool in (PoolKind.ARGMAX_X, PoolKind.ARGMAX_Y):
        return _place_of_maximum(op, values, user)
    if op.pool is PoolKind.SUM:
        return scaled_ofm(op, _reduce(op, covered(op, values, 0), np.add))
    if op.pool is PoolKind.MIN:
        return _reduce(op, covered(op, values, op.ifm.dtype.maximum + (1 << op.ifm.dtype.bits)), np.minimum)
    return _maximum(op, values) if op.pool is PoolKind.MAX else _average(op, values, device, user)


def _handed_on(op: KernelOperation, memory: RegionBytes, user: str) -> Integers:
    """The second operand, scaled: a pool without a function passes its accumulators on."""
    if op.ifm2 is None or op.modes.accumulators is not AccumulatorInput.IFM2:
        raise InputError(f"{user} pools nothing: what its accumulators hold then is not public.")
    found = first_accumulators(op, memory, user)
    return scaled_ofm(op, found) if op.modes.has_output else found


def _place_of_maximum(op: KernelOperation, values: Integers, user: str) -> Integers:
    """The index of the largest element along the columns or the rows, the first of several. One window covers all of them."""
    axis = 1 if op.pool is PoolKind.ARGMAX_X else 0
    window = op.kernel.height, op.kernel.width
    if window[axis] != values.shape[axis] or window[1 - axis] != 1 or op.padding != Padding():
        raise InputError(f"{user} looks for a maximum in {window} of {values.shape}: the whole of one axis is what compilers emit.")
    return np.asarray(values.argmax(axis=axis, keepdims=True), np.int64)
