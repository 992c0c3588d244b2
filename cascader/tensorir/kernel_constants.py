"""Constants of a kernel as it computes with them: weights decoded from their stream, the table of its channels, its look-up table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cascader.ethosu.network.network import CONSTANTS, LUT_SLOT, EthosuPart
from cascader.tensorir.numerics import channel_table, clip_type, lut_entries, magnitude, table_bound
from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import AccumulatorFormat, ActivationKind, ByteRange, KernelOperation, OperationKind
from npu_model.values import dataclass
from npu_model.weight_stream.weights import decode_scales, weights_from_stream


@dataclass(frozen=True, slots=True, eq=False)
class FilterValues:
    """Weights (OHWI, zero point off), the flat table that :func:`channel_table` describes, and the type that holds every sum."""

    weights: NDArray[np.int16]
    table: NDArray[np.int64]
    accumulator: str


def take(constants: bytes, span: ByteRange, what: str) -> bytes:
    """The bytes of a range of the network's constants; InputError if it is elsewhere."""
    if span.region != CONSTANTS or span.end > len(constants):
        raise InputError(
            f"{what} reads bytes {span.start} to {span.end} of region {span.region}, which are no constants: make the schedule anew."
        )
    return constants[span.start : span.end]


def lut_values(part: EthosuPart, constants: bytes, accelerator: Accelerator, what: str) -> NDArray[np.int64] | None:
    """The part's look-up table, None if it has none; of a 16-bit one all bases, then all slopes."""
    operation, load = part.operation, part.lut
    if operation.activation.kind is not ActivationKind.LUT:
        return None
    if load is None:
        raise InputError(f"{what} uses a look-up table that it does not load: make the schedule anew.")
    entries = lut_entries(operation, what)
    wide = clip_type(operation).bits == 16
    word = "<u4" if wide else f"<{'i' if operation.ofm.dtype.signed else 'u'}{operation.ofm.dtype.bytes}"
    start = accelerator.lut_address + operation.activation.lut * LUT_SLOT - load.destination
    content = take(constants, load.source, what)[max(start, 0) :][: entries * np.dtype(word).itemsize]
    values = np.frombuffer(content, word)
    if start < 0 or len(values) != entries:
        raise InputError(f"{what} reads {entries} entries of a table of which {len(values)} are loaded: make the schedule anew.")
    if wide:
        values = np.concatenate([(values & 0xFFFF).astype("<u2").view("<i2"), (values >> 16).astype("<u2").view("<i2")])
    return values.astype(np.int64)


def _check(operation: KernelOperation, what: str) -> None:
    if operation.ifm.dtype.bits == 32 or operation.global_scale or len(operation.weights) != 1 or len(operation.scales) != 1:
        raise InputError(
            f"{what} reads {operation.ifm.dtype} with {len(operation.weights)} weight streams: 8 or 16 bits and one are expressed."
        )
    if operation.accumulator is AccumulatorFormat.FP16:
        raise InputError(f"{what} accumulates in FP16: integer accumulators are expressed in TensorIR; compile with 8 or 16 bits.")
    if operation.kind is OperationKind.DEPTHWISE and operation.ifm.shape.depth != operation.ofm.shape.depth:
        raise InputError(f"{what} has {operation.ifm.shape.depth} IFM and {operation.ofm.shape.depth} OFM channels: they must be as many.")


def filter_values(operation: KernelOperation, constants: bytes, accelerator: Accelerator, what: str) -> FilterValues:
    """The constants of a convolution or depthwise operation; InputError if 64 bits do not hold what it computes."""
    _check(operation, what)
    weights = weights_from_stream(operation, take(constants, operation.weights[0], what), accelerator)
    records = decode_scales(take(constants, operation.scales[0], what), operation.ofm.shape.depth)
    rows = channel_table([(record.bias, record.scale, record.shift) for record in records], operation.rounding)
    bound = int(np.abs(weights.astype(np.int64)).sum(axis=(1, 2, 3)).max(initial=0)) * magnitude(operation.ifm)
    if table_bound(rows, bound) >= 1 << 63:
        raise InputError(f"{what} may reach {table_bound(rows, bound)} before its shift: TensorIR computes in 64 bits; use smaller scales.")
    return FilterValues(weights, np.array(rows, np.int64).ravel(), "int32" if bound < 1 << 31 else "int64")
