"""Pooling: maximum, average and reduce-sum."""

from __future__ import annotations

import numpy as np

from npu_model.errors import InputError
from npu_model.program import KernelOperation, Padding, PoolKind, Scale
from sim.functional.memory import Memory
from sim.functional.rescale import Integers, rescale
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


def _maximum(op: KernelOperation, values: Integers, user: str) -> Integers:
    if op.global_scale and op.ofm_scale != Scale(1, 0) and op.ofm_scale.scale != 1 << op.ofm_scale.shift:
        raise InputError(f"{user} rescales a maximum by {op.ofm_scale}: whether the NPU applies that is not public; keep the scales equal.")
    lowest = op.ifm.dtype.minimum - (1 << op.ifm.dtype.bits)
    return _reduce(op, covered(op, values, lowest), np.maximum)


def _average(op: KernelOperation, values: Integers, user: str) -> Integers:
    sums = _reduce(op, covered(op, values, 0), np.add)
    if op.global_scale:
        return rescale(sums, op.ofm_scale.scale, op.ofm_scale.shift, op.rounding)
    raise InputError(f"{user} averages with padding: how the NPU divides at the border is not public; compile for a depthwise convolution.")


def _reduce_sum(op: KernelOperation, values: Integers, user: str) -> Integers:
    if op.kernel.elements != 1 or op.padding != Padding() or op.ofm.shape.depth != 1:
        raise InputError(f"{user} sums a window of {op.kernel.elements} into {op.ofm.shape.depth} channels: 1 into 1 is what the NPU does.")
    sums = covered(op, values, 0).sum(axis=2, keepdims=True)[:: op.kernel.stride_y, :: op.kernel.stride_x]
    return rescale(sums, op.ofm_scale.scale, op.ofm_scale.shift, op.rounding) if op.global_scale else sums


def pooling(op: KernelOperation, memory: Memory, user: str) -> Integers:
    """The result of a POOL operation, height x width x depth of the OFM, before zero point and clamp."""
    values = memory.gather(op.ifm, user).astype(np.int64)
    values -= op.ifm.zero_point
    if op.pool is PoolKind.REDUCE_SUM:
        return _reduce_sum(op, values, user)
    if op.ifm.shape.depth != op.ofm.shape.depth:
        raise InputError(f"{user} has {op.ifm.shape.depth} IFM and {op.ofm.shape.depth} OFM channels: pooling keeps them.")
    return _maximum(op, values, user) if op.pool is PoolKind.MAX else _average(op, values, user)
