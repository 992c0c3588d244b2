"""The decoder of compressed weight streams (MLW): from the bytes of a weight range to the symbols that the MACs read.

A stream is a row of slices with an end mark. A slice has a header (:mod:`npu_model.weight_stream.mlw_header`) and chunks of weights and
zero runs (:mod:`npu_model.weight_stream.mlw_chunks`). The format is the one that ``mlw_codec`` in Vela 5.2.0 writes; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_model.errors import InputError
from npu_model.native import native
from npu_model.weight_stream.mlw_bits import Bits, Int64
from npu_model.weight_stream.mlw_chunks import Chunks, run_symbols, walk, weight_symbols
from npu_model.weight_stream.mlw_header import Header, Palette, read_header

Int16 = npt.NDArray[np.int16]

_NATIVE = native("npu_model")
"""The compiled decoder: the symbols of an undamaged stream. None if it is not built."""

_LARGEST_INDEX = 511
"""A weight has 9 bits: sign in bit 0, magnitude up to 255."""


class Slice(Struct, frozen=True):
    """One slice of a stream: its first symbol, the number of symbols (zeros of runs included), its first bit and the bit after it."""

    first: int
    count: int
    start: int
    end: int


class Walked(Struct, frozen=True):
    """One slice with known chunks but without symbols yet: from bit ``start`` to bit ``end``."""

    bits: Bits
    header: Header
    weights: Chunks
    zeros: Chunks
    start: int
    end: int

    def runs(self) -> Int64 | None:
        """The lengths of the slice's zero runs; None if it has no runs."""
        return None if self.header.runs is None else run_symbols(self.bits, self.zeros, self.header.runs)


class _Decoded(Struct, frozen=True):
    span: Slice
    header: Header
    indices: Int64
    runs: Int64 | None


def walk_slices(stream: bytes) -> Iterator[Walked]:
    """The slices of a stream, in order; InputError if the stream is damaged."""
    bits = Bits.of(stream)
    position = 0
    palette: Palette | None = None
    while True:
        header = read_header(bits, position, palette)
        if header is None:  # The stream fills the byte. A new stream follows, or more end marks that fill it up to 16 bytes.
            position = (position + 3 + 7) // 8 * 8
            palette = None
            if position == bits.length:
                return
            continue
        palette = header.palette
        weights, zeros, end = walk(bits, header)
        yield Walked(bits, header, weights, zeros, position, end)
        position = end


def _slices(stream: bytes) -> Iterator[_Decoded]:
    """The slices of a stream, each read but not yet laid out; InputError if the stream is damaged."""
    first = 0
    for part in walk_slices(stream):
        header, runs = part.header, part.runs()
        count = header.count + (0 if runs is None else int(runs.sum()))
        yield _Decoded(Slice(first, count, part.start, part.end), header, weight_symbols(part.bits, part.weights, header.weights), runs)
        first += count


def _weights(part: _Decoded) -> Int64:
    """The weights of a slice's indices: an entry of the palette, or the direct values after it; bit 0 is the sign."""
    palette, indices = part.header.palette, part.indices
    size = len(palette.entries)
    coded = indices + (palette.direct_offset - size)
    if size:
        entries = np.array(palette.entries, np.int64)
        coded = np.where(indices < size, entries[np.minimum(indices, size - 1)], coded)
    largest = int(coded.max())
    if largest > _LARGEST_INDEX:
        raise InputError(
            f"The weight slice at bit {part.span.start} has a weight of magnitude {largest >> 1}: {_LARGEST_INDEX >> 1} is the limit of "
            "9 bits; the file is damaged; compile the network again."
        )
    return np.where(coded & 1, -(coded >> 1), coded >> 1)


def places(header: Header, runs: Int64 | None) -> Int64:
    """The position of each weight in its slice: after the zero runs before it and the weights before it."""
    first = np.arange(header.count)
    if runs is None:
        return first
    before = np.cumsum(runs) - (0 if header.new_palette else runs)
    return first + before[: header.count]


def decode(stream: bytes, limit: int | None = None) -> Int16:
    """Symbols of a stream in hardware order: weights of -255 to 255, zero point subtracted, padding zeros included.

    Memory and time are bounded by the stream: a weight takes a bit or more, and a slice holds up to 32768 weights. A zero run takes a bit
    for at most 8 zeros, so that a byte holds no more than 64 symbols. ``limit`` is the number of symbols wanted. InputError if the stream
    has no end mark, a header that the hardware does not know, a weight of more than 9 bits, or more symbols than ``limit``.
    """
    if _NATIVE is not None:
        symbols: bytes | None = _NATIVE.decode_weights(stream, -1 if limit is None else limit)
        if symbols is not None:
            weights: Int16 = np.frombuffer(symbols, np.int16).copy()
            return weights
    return _decode(stream, limit)


def _decode(stream: bytes, limit: int | None) -> Int16:
    parts = []
    for part in _slices(stream):
        span = part.span
        if limit is not None and span.first + span.count > limit:
            raise InputError(
                f"A weight stream of {len(stream)} bytes holds {span.first + span.count} or more weights: {limit} are needed; the file is "
                "damaged or belongs to another operation; compile the network again."
            )
        symbols = np.zeros(span.count, np.int16)
        symbols[places(part.header, part.runs)] = _weights(part)
        parts.append(symbols)
    return np.concatenate(parts) if parts else np.zeros(0, np.int16)
