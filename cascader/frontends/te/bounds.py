"""Bounds of a filter's sums: sums within them fit both the NPU's accumulators and the 64-bit expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from npu_model.errors import InputError
from npu_model.program import KernelOperation
from npu_model.weight_stream.weights import decode_scales

Array = npt.NDArray[Any]


def require_sums(name: str, operation: KernelOperation, weights: Array, records: Array) -> None:
    """Check that no sum leaves 32 bits (8-bit maps) or 40 bits, or 64 bits once scaled; InputError if one may.

    Beyond these bounds the expression and the NPU would differ.
    """
    dtype, zero = operation.ifm.dtype, operation.ifm.zero_point
    largest = max(dtype.maximum - zero, zero - dtype.minimum)
    sums = np.abs(weights.astype(np.int64)).sum(axis=(1, 2, 3)) * largest
    limit = 1 << (31 if dtype.bits == 8 else 39)
    for channel, (total, record) in enumerate(zip(sums, decode_scales(records.tobytes(), len(sums)), strict=True)):
        most = int(total) + abs(record.bias)
        if total >= limit or most * record.scale + (1 << 62) >= 1 << 63:
            raise InputError(
                f"Channel {channel} of {name!r} may reach {most} times {record.scale}: {limit} and 63 bits in all are the bounds; use "
                "smaller weights or a smaller scale."
            )
