"""The weight decoder's work on a stream: the bits that it reads and the cycles that it takes, symbol by symbol.

The format shows how the decoder works. It takes up to 12 weights (8 if they are long and uncompressed) and up to 12 zero runs together,
while the previous remainders pass (:mod:`npu_model.weight_stream.mlw_chunks`). Such a turn is one cycle here, and half a cycle more for 12
weights: the decoder takes 8 weights a cycle at most, as Arm's estimators say and silicon shows. A turn of zero runs yields any number of
zeros in its cycle.
"""

from __future__ import annotations

from array import array
from functools import lru_cache

import numpy as np
from msgspec import Struct

from npu_model.errors import InputError
from npu_model.native import native
from npu_model.weight_stream.mlw import Walked, places, walk_slices
from npu_model.weight_stream.mlw_bits import Int64
from npu_model.weight_stream.mlw_chunks import Chunks

_NATIVE = native("npu_model")
"""The compiled work: for an undamaged stream. None if it is not built."""


class DecoderWork(Struct, frozen=True):
    """The decoder's work from a stream's start up to the end of each part: bits read and cycles taken."""

    bits: tuple[int, ...]
    turns: tuple[int, ...]


def _at(chunks: Chunks, remainder: int, counts: Int64) -> tuple[Int64, Int64]:
    """Bits and cycles after the first n symbols of a kind, for each n in ``counts``; 0 for 0 symbols."""
    sizes = np.array(chunks.counts, np.int64)
    ends = np.array(chunks.remainders, np.int64) + sizes * remainder
    turns = np.array(chunks.turns, np.int64) + 1
    chunk = np.searchsorted(np.cumsum(sizes), counts)
    zero = np.zeros(1, np.int64)
    # The chunk of the n-th symbol, or chunk 0 if there is no symbol yet.
    index = np.where(counts > 0, chunk + 1, 0)
    return np.concatenate((zero, ends))[index], np.concatenate((zero, turns))[index]


def _slice_work(part: Walked, counts: Int64) -> tuple[Int64, Int64, int]:
    """Bits and cycles after the first n symbols of a slice, for each n in ``counts`` (1 or more), and its symbols."""
    header, runs = part.header, part.runs()
    total = header.count + (0 if runs is None else int(runs.sum()))
    inside = counts[counts <= total]
    stands = places(header, runs)
    weights = np.searchsorted(stands, inside)
    bits, turns = _at(part.weights, header.weights.remainder, weights)
    if header.runs is not None:
        # A weight needs the run before it; a zero needs the run that holds it.
        is_weight = (weights > 0) & (stands[np.maximum(weights - 1, 0)] == inside - 1)
        needed = weights + header.new_palette - is_weight
        zero_bits, zero_turns = _at(part.zeros, header.runs.remainder, needed)
        bits, turns = np.maximum(bits, zero_bits), np.maximum(turns, zero_turns)
    return bits, turns, total


@lru_cache(maxsize=4096)
def decoder_work(stream: bytes, counts: tuple[int, ...]) -> DecoderWork:
    """The work up to the end of each part of a stream. A part ends with the n-th symbol, for each n in ``counts``, ascending.

    The last part has all remaining bits, with the end mark and the padding. Headers and palettes take no time, because their time is
    unknown. It raises the errors of :func:`npu_model.weight_stream.mlw.decode`, and InputError if the stream does not hold the last n
    symbols.
    """
    if _NATIVE is not None:
        found = array("q", bytes(16 * len(counts)))
        if _NATIVE.decoder_work(stream, array("q", counts), found):
            return DecoderWork(tuple(found[: len(counts)]), tuple(found[len(counts) :]))
    return _decoder_work(stream, counts)


def _decoder_work(stream: bytes, counts: tuple[int, ...]) -> DecoderWork:
    wanted = np.asarray(counts, np.int64)
    bits, turns = np.zeros(wanted.size, np.int64), np.zeros(wanted.size, np.int64)
    symbols = taken = 0
    for part in walk_slices(stream):
        later = wanted > symbols
        found_bits, found_turns, count = _slice_work(part, wanted[later] - symbols)
        here = np.flatnonzero(later)[: found_bits.size]
        bits[here], turns[here] = found_bits, found_turns + taken
        taken += max((chunks.turns[-1] + 1 for chunks in (part.weights, part.zeros) if chunks.turns), default=0)
        symbols += count
    if counts and counts[-1] != symbols:
        raise InputError(
            f"A weight stream of {len(stream)} bytes holds {symbols} weights: {counts[-1]} are needed; the file is damaged or belongs to "
            "another operation; compile the network again."
        )
    bits[-1:] = 8 * len(stream)
    return DecoderWork(tuple(bits.tolist()), tuple(turns.tolist()))
