"""The order in which an Ethos-U85 reads weights: from an OHWI array to the symbols of each of its weight streams and back.

Sources: Vela 5.2.0 ``architecture/ethosu85/ethos_u85_weight_encoder.cpp`` (order) and ``ethos_u85.cpp`` (depth of an IFM block, which no
register holds). This order gives the position of every symbol in the published streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import Kernel, KernelOperation, OperationKind
from npu_model.program.check import ofm_ublock_of
from npu_model.shapes import round_up

Places = npt.NDArray[np.int64]
"""Positions of symbols in the flat OHWI array; -1 is a zero for padding."""

_SUBKERNEL = 8
_GROUP = 4
"""OFM channels that a stream gets at a time."""
_PAUSE_TAPS = 10
_SMALL, _MIDDLE = 256, 512
"""The most MACs for which a depthwise stream of 8 bits has no pauses, or short ones."""


class DeepFormat(Struct, frozen=True):
    """All facts except the shape that decide the order of a kernel's weights.

    ``ublock_depth`` and ``block_depth`` are depths of the OFM; ``ifm_block_depth`` is the IFM channels of a step. Taps are padded to a
    multiple of ``taps_multiple``. ``inner_depth`` IFM channels follow a tap, ``lanes`` at a time. ``pause`` is in taps, after every ten
    taps of a depthwise stream.
    """

    streams: int
    ublock_depth: int
    block_depth: int
    ifm_block_depth: int
    taps_multiple: int
    inner_depth: int
    lanes: int
    pause: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    is_depthwise: bool
    is_fast: bool

    @classmethod
    def of(cls, op: KernelOperation, device: Accelerator) -> DeepFormat:
        """The format that the registers of a convolution or depthwise operation describe."""
        kernel: Kernel = op.kernel
        ublock_depth, bits, sparse = ofm_ublock_of(op, device).depth, op.ifm.dtype.bits, op.modes.sparse_weights
        depthwise, wide = op.kind is OperationKind.DEPTHWISE, bits == 16
        depth = ifm_block_depth(device.macs, ublock_depth, bits, part_kernel=op.part_kernel, sparse=sparse)
        pause = 0 if not wide and device.macs <= _SMALL else 2 if device.macs <= _MIDDLE else 6
        stride = (kernel.stride_y, kernel.stride_x) if depthwise or op.part_kernel else (1, 1)
        return cls(
            streams=device.weight_streams,
            ublock_depth=ublock_depth,
            block_depth=op.block.depth,
            ifm_block_depth=1 if depthwise else depth,
            taps_multiple=_PAUSE_TAPS if depthwise else (10 if wide or sparse else 5) if op.part_kernel else 1,
            inner_depth=1 if depthwise else 8 if op.part_kernel and wide and not sparse else depth,
            lanes=1 if depthwise else 16 if sparse else 8,
            pause=pause if depthwise else 0,
            stride=stride,
            dilation=(kernel.dilation_y, kernel.dilation_x),
            is_depthwise=depthwise,
            is_fast=op.modes.fast_weights,
        )


def ifm_block_depth(macs: int, ublock_depth: int, bits: int, *, part_kernel: bool, sparse: bool) -> int:
    """IFM channels that a step sums (``ethos_u85.cpp`` ``FindBlockConfig``).

    >>> ifm_block_depth(256, 16, 8, part_kernel=False, sparse=False)
    32
    """
    if part_kernel:
        return 16
    if bits == 32 or (macs <= _SMALL and ublock_depth == 16 and not sparse):
        return 32
    return 128 if sparse and bits == 8 else 64


def _taps(rows: int, columns: int, stride: tuple[int, int]) -> list[tuple[int, int]]:
    """The taps of a sub-kernel in their order: phase by phase, row by row in each phase, backwards in odd rows."""
    found = []
    for phase_y in range(stride[0]):
        for phase_x in range(stride[1]):
            across = range(phase_x, columns, stride[1])
            for number, y in enumerate(range(phase_y, rows, stride[0])):
                found += [(y, x) for x in (across if number % 2 == 0 else reversed(across))]
    return found


def _with_pauses(places: Places, taps: int, layout: DeepFormat) -> Places:
    """Symbols of some ublocks (ublock, tap, symbol), with the padding zeros of their taps, ublock by ublock."""
    unit = layout.inner_depth * layout.ublock_depth
    missing = round_up(taps, layout.taps_multiple) - taps
    parts: list[Any] = []
    for first in range(0, taps, _PAUSE_TAPS):
        last = min(first + _PAUSE_TAPS, taps)
        is_last = last == taps
        zeros = (missing + layout.pause if is_last and missing else layout.pause) * unit // layout.streams
        parts += [places[:, first:last].reshape(len(places), -1), np.full((len(places), zeros), -1, np.int64)]
    return np.concatenate(parts, axis=1)


def _block_places(shape: Sequence[int], layout: DeepFormat, stream: int, z: int, j: int) -> Iterator[Places]:
    """Positions of one stream's symbols for the OFM block at ``z`` and the IFM block at ``j``."""
    depth, height, width, channels = shape
    count = -(-min(layout.block_depth, depth - z) // layout.ublock_depth)
    step = _GROUP * layout.streams
    own = np.array([first + lane for first in range(_GROUP * stream, layout.ublock_depth, step) for lane in range(_GROUP)], np.int64)
    ofm = z + np.arange(count)[:, None] * layout.ublock_depth + own
    ofm = np.where(ofm < depth, ofm * (height * width * channels), -1)[:, None, None, :, None]
    inner = np.arange(layout.inner_depth).reshape(-1, layout.lanes)
    for x in range(0, width, _SUBKERNEL // layout.dilation[1]):
        columns = min(width - x, _SUBKERNEL // layout.dilation[1])
        for y in range(0, height, _SUBKERNEL // layout.dilation[0]):
            rows = min(height - y, _SUBKERNEL // layout.dilation[0])
            taps = _taps(rows, columns, layout.stride)
            spots = np.array([((y + row) * width + x + column) * channels for row, column in taps])[None, :, None, None, None]
            for part in range(0, min(layout.ifm_block_depth, channels - j), layout.inner_depth):
                ifm = j + part + inner
                ifm = np.where(ifm < channels, ifm, -1)[None, None, :, None, :]
                places = np.where((ofm < 0) | (ifm < 0), -1, ofm + spots + ifm)
                yield _with_pauses(places.reshape(count, len(taps), -1), len(taps), layout).reshape(-1)


def places(shape: Sequence[int], layout: DeepFormat, stream: int) -> Iterator[Places]:
    """Positions of one stream's symbols, part by part: IFM blocks upwards in the first OFM block, downwards in the next."""
    blocks = range(0, 1 if layout.is_depthwise else shape[3], layout.ifm_block_depth)
    for number, z in enumerate(range(0, shape[0], layout.block_depth)):
        for j in blocks if number % 2 == 0 else reversed(blocks):
            yield from _block_places(shape, layout, stream, z, j)


def interleaved(pieces: Sequence[Places], layout: DeepFormat) -> Places:
    """The single sequence of a fast stream: blocks of all streams' sequences in turn."""
    unit = layout.ublock_depth * layout.inner_depth * layout.taps_multiple // layout.streams
    return np.stack([piece.reshape(-1, unit) for piece in pieces], axis=1).reshape(-1)


def require_order(shape: Sequence[int], layout: DeepFormat, streams: Sequence[bytes]) -> None:
    """InputError if these streams cannot hold a kernel's weights: there are too many for the bytes, or the block is invalid."""
    if layout.block_depth % _GROUP or layout.ublock_depth % (_GROUP * layout.streams):
        raise InputError(
            f"OFM blocks of {layout.block_depth} channels in microblocks of {layout.ublock_depth} cannot be dealt to {layout.streams} "
            "weight streams: the file is damaged."
        )
    weights, size = int(np.prod(shape, dtype=object)), sum(map(len, streams))
    if weights > MOST_SYMBOLS_A_BYTE * size:
        raise InputError(f"Weight streams of {size} bytes cannot hold {weights} weights: the file is damaged; compile the network again.")


MOST_SYMBOLS_A_BYTE = 64
"""The most symbols in a byte of a stream: a zero run takes a bit for up to 8 zeros."""
