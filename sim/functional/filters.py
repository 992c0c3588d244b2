"""Decoded weights and scale tables, ready for the matrix product, kept per stream so that stripes share them."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import KernelOperation, OperationKind
from npu_model.weight_stream.kernels import kernel_scales, kernel_weights
from sim.functional.memory import RegionBytes
from sim.functional.rescale import Integers

Real = NDArray[np.floating[Any]]

_EXACT_FLOAT32 = 1 << 24
_EXACT_FLOAT64 = 1 << 53


class Filter(Struct, frozen=True):
    """The weights of one stream as floats that are integers.

    ``taps`` is (rows, columns, IFM channels, OFM channels), or (rows, columns, channels) for depthwise. Products and partial sums, in any
    order, stay below ``bound`` in magnitude. The float type is exact below it, so BLAS is exact.
    """

    taps: Real
    bound: int


class ScaleTable(Struct, frozen=True):
    """Bias, scale and shift per OFM channel."""

    bias: Integers
    scale: Integers
    shift: Integers


def largest_input(op: KernelOperation) -> int:
    """Largest magnitude of an IFM element after the zero point is subtracted."""
    dtype, zero = op.ifm.dtype, op.ifm.zero_point
    return max(abs(dtype.minimum - zero), abs(dtype.maximum - zero))


def _filter(op: KernelOperation, streams: tuple[bytes, ...], accelerator: Accelerator, user: str) -> Filter:
    weights = kernel_weights(op, streams, accelerator)
    sums = np.abs(weights.astype(np.int64)).sum(axis=(1, 2, 3))
    bound = int(sums.max(initial=0)) * largest_input(op)
    if bound >= _EXACT_FLOAT64:
        raise InputError(f"{user} sums up to {bound}: {_EXACT_FLOAT64} is the limit of exact arithmetic here; split the operation.")
    real = np.float32 if bound < _EXACT_FLOAT32 else np.float64
    taps = weights[:, :, :, 0].transpose(1, 2, 0) if op.kind is OperationKind.DEPTHWISE else weights.transpose(1, 2, 3, 0)
    return Filter(np.ascontiguousarray(taps, real), bound)


class FilterCache:
    """Filters and scale tables by their encoded bytes and by the parameters that decide their meaning."""

    def __init__(self) -> None:
        self._filters: dict[object, Filter] = {}
        self._scales: dict[object, ScaleTable] = {}

    def filter(self, op: KernelOperation, memory: RegionBytes, accelerator: Accelerator, user: str) -> Filter:
        """The decoded weights of a convolution or depthwise operation, encoded for this accelerator."""
        streams = tuple(memory.read(where, user) for where in op.weights)
        ifm, kernel = op.ifm, op.kernel
        geometry = (kernel.height, kernel.width, kernel.dilation_y, kernel.dilation_x, ifm.shape.depth, op.ofm.shape.depth)
        strides = (kernel.stride_y, kernel.stride_x)
        order = (op.kind, op.block.depth, op.part_kernel, op.decompose, op.modes, strides)
        key = (streams, accelerator.name, geometry, order, ifm.dtype, ifm.zero_point)
        if key not in self._filters:
            self._filters[key] = _filter(op, streams, accelerator, user)
        return self._filters[key]

    def scales(self, op: KernelOperation, memory: RegionBytes, accelerator: Accelerator, user: str) -> ScaleTable:
        """The per-channel records of a convolution or depthwise operation."""
        contents = tuple(memory.read(where, user) for where in op.scales)
        key = (op.ofm.shape.depth, op.accumulator, accelerator.commands, contents)
        if key not in self._scales:
            records = kernel_scales(op, contents, accelerator)
            fields = np.array([(record.bias, record.scale, record.shift) for record in records], np.int64)
            self._scales[key] = ScaleTable(fields[:, 0], fields[:, 1], fields[:, 2])
        return self._scales[key]
