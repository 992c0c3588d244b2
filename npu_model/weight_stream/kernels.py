"""Weights and scales of a kernel from the bytes of its ranges, in the order and records of the accelerator's family."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import AccumulatorFormat, KernelOperation
from npu_model.weight_stream import deep_order
from npu_model.weight_stream.deep_order import DeepFormat
from npu_model.weight_stream.fast_format import decode_fast
from npu_model.weight_stream.mlw import decode
from npu_model.weight_stream.order import Int16
from npu_model.weight_stream.weights import (
    RECORD_BYTES,
    ChannelScale,
    are_coded_here,
    core_channels,
    core_format,
    decode_scales,
    require_scales,
    weight_shape,
    weights_from_stream,
)


def _dealt_weights(op: KernelOperation, streams: Sequence[bytes], device: Accelerator) -> Int16:
    """Each core has the weights of its channels. The cores take the channels in turn."""
    if len(streams) == 1:
        return weights_from_stream(op, streams[0], device)
    weights = np.zeros(weight_shape(op), np.int16)
    for core, stream in enumerate(streams):
        if core_format(op, core)[0][0]:  # a core beyond the last channel has none
            weights[core :: len(streams)] = weights_from_stream(op, stream, device, core)
    return weights


def _dealt_scales(op: KernelOperation, tables: Sequence[bytes]) -> list[ChannelScale]:
    depth = op.ofm.shape.depth
    found: list[ChannelScale] = [ChannelScale(0, 0, 0)] * depth
    for core, table in enumerate(tables):
        found[core :: len(tables)] = decode_scales(table, core_channels(depth, core, len(tables)))
    return found


def _deep_weights(op: KernelOperation, streams: Sequence[bytes], device: Accelerator) -> Int16:
    """All streams of a U85's kernel together: a fast stream has all symbols; otherwise each stream has its groups of four channels."""
    shape, layout = weight_shape(op), DeepFormat.of(op, device)
    deep_order.require_order(shape, layout, streams)
    padded = (*streams, *[b""] * (layout.streams - len(streams)))
    flat = np.zeros(int(np.prod(shape)) + 1, np.int16)
    pieces = [np.concatenate(list(deep_order.places(shape, layout, stream))) for stream in range(layout.streams)]
    if layout.is_fast:
        every = deep_order.interleaved(pieces, layout) if layout.streams > 1 else pieces[0]
        flat[every] = decode_fast(streams[0], len(every))
    else:
        for stream, own in zip(padded, pieces, strict=True):
            if stream or (own >= 0).any():
                flat[own] = _exactly(stream, len(own))
    return flat[:-1].reshape(shape)


def _exactly(stream: bytes, count: int) -> Int16:
    """The symbols of a standard stream; InputError if their number is not the expected one."""
    symbols = decode(stream, count) if stream else np.zeros(0, np.int16)
    if len(symbols) != count:
        raise InputError(f"The weight stream holds {len(symbols)} weights: {count} are needed; the file is damaged.")
    return symbols


_DEEP_FIELDS = {AccumulatorFormat.INT32: (4, 8, 31), AccumulatorFormat.INT48: (6, 8, 15)}
"""By the type of accumulators: bytes of the bias, the byte after the scale, and bits of the scale (``EncodeBias32``, ``EncodeBias48``)."""


def _deep_scales(op: KernelOperation, tables: Sequence[bytes]) -> list[ChannelScale]:
    """One table has the records of all channels; the type of accumulators decides the width of the bias."""
    bias, scale, bits = _DEEP_FIELDS[op.accumulator]
    found = []
    for table in tables:
        require_scales(table, op.ofm.shape.depth)
        for start in range(0, op.ofm.shape.depth * RECORD_BYTES, RECORD_BYTES):
            record = table[start : start + RECORD_BYTES]
            value = int.from_bytes(record[bias:scale], "little") & (1 << bits) - 1
            found.append(ChannelScale(int.from_bytes(record[:bias], "little", signed=True), value, record[scale] & 63))
    return found


class WeightReader(Struct, frozen=True):
    """The functions of a family: weights (OHWI, zero point subtracted) from streams, and records of all channels from scale tables.

    ``is_known`` says of streams that they can be decoded, because this process has coded them.
    """

    weights: Callable[[KernelOperation, Sequence[bytes], Accelerator], Int16]
    scales: Callable[[KernelOperation, Sequence[bytes]], list[ChannelScale]]
    is_known: Callable[[KernelOperation, Sequence[bytes], Accelerator], bool]


def _unknown(_op: KernelOperation, _streams: Sequence[bytes], _device: Accelerator) -> bool:
    return False


_READERS = {
    "u55": WeightReader(_dealt_weights, _dealt_scales, are_coded_here),
    "u85": WeightReader(_deep_weights, _deep_scales, _unknown),
}


def kernel_weights(op: KernelOperation, streams: Sequence[bytes], device: Accelerator) -> Int16:
    """Weights (OHWI, zero point subtracted) of a convolution or depthwise operation; InputError if a stream is damaged or does not fit."""
    return _READERS[device.commands].weights(op, streams, device)


def require_weights(op: KernelOperation, streams: Sequence[bytes], device: Accelerator) -> None:
    """The errors of :func:`kernel_weights`; streams that this process has coded for such an operation are not decoded again."""
    if not _READERS[device.commands].is_known(op, streams, device):
        kernel_weights(op, streams, device)


def kernel_scales(op: KernelOperation, tables: Sequence[bytes], device: Accelerator) -> list[ChannelScale]:
    """The scale records of all OFM channels; InputError if a table is too short."""
    return _READERS[device.commands].scales(op, tables)


def require_kernel_scales(op: KernelOperation, tables: Sequence[bytes], device: Accelerator) -> None:
    """The errors of :func:`kernel_scales`: a table of a U85 has the records of all channels, one of another family those of its core."""
    depth, cores = op.ofm.shape.depth, 1 if device.commands == "u85" else len(tables)
    for core, table in enumerate(tables):
        require_scales(table, core_channels(depth, core % cores, cores))
