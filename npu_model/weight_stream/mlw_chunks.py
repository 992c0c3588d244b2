"""The chunks of a weight slice: a walk finds them one after the other, then their symbols are computed all at once.

A chunk's start depends on the number of symbols in the previous chunk, so the walk is a loop; it only counts. The values are then computed
for the whole slice in a few array operations.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from npu_model.shapes import ceil_div
from npu_model.weight_stream.mlw_bits import WINDOW_OFFSET, WINDOW_STEP, Bits, Int64
from npu_model.weight_stream.mlw_header import Coding, Header

_LEAD = 8
"""Weights wait for the zero runs once they are this many ahead: the decoder's buffer between the two (Vela 5.2.0's codec)."""
WEIGHTS_A_CYCLE = 8
"""Weights that the decoder outputs in a cycle: 32 in 4 cycles for each OFM channel of an ublock (Vela's estimators).

Silicon outputs no more with any memory (docs/pmu.md). The zeros of a run do not count; the FVP's cycles agree.
"""
_UNARY = 12
"""Bits of a chunk's first unary word of weights. The second word has a bit for each bit set in the first."""
_ONES = tuple(n.bit_count() for n in range(1 << _UNARY))
_NONE = (0,) * (1 << _UNARY)
_MASKS = tuple((1 << n) - 1 for n in range(_UNARY + 1))


class Chunks(Struct, frozen=True):
    """The chunks of one kind of symbol: for each its unary bits, number of symbols, first remainder's bit and last cycle.

    For weights the second unary word stands above the first one's 12 bits. A turn takes a chunk of weights, a chunk of zero runs, or one of
    each, and reads the remainders of the previous turn. A turn is a cycle; each weight beyond eight takes an eighth of a cycle more.
    """

    codes: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    remainders: list[int] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)


def _surplus(count: int) -> int:
    """Weights of a turn beyond those of one cycle."""
    return max(count - WEIGHTS_A_CYCLE, 0)


def _walk_weights(bits: Bits, header: Header) -> tuple[Chunks, int]:
    """The weight chunks of a slice without zero runs, and the bit after the last chunk.

    A chunk is its unary words and then the remainders of the previous chunk, so that the hardware can work on both at once.
    """
    coding, windows = header.weights, bits.windows
    width, unary, remainder = 0 if coding.raw else _UNARY, coding.unary, coding.remainder
    mask, carries = _MASKS[width], _NONE if coding.truncated else _ONES
    starts, codes, counts = list[int](), list[int](), list[int]()
    add_start, add_code, add_count = starts.append, codes.append, counts.append
    position, left, owed = header.body, header.count, 0
    while left > 0:
        word = windows[position >> WINDOW_STEP] >> (position & WINDOW_OFFSET)
        first = word & mask
        ones = _ONES[first]
        second = word >> width & _MASKS[ones]
        position += width + ones
        add_start(position)
        position += owed * remainder
        owed = unary - carries[second]
        left -= owed
        add_code(first | second << _UNARY)
        add_count(owed)
    # The last chunk may have room for more weights than there are. The first chunk has no earlier chunk's remainders before its own.
    counts[-1] = owed = owed + left
    late = accumulate(map(_surplus, counts))
    turns = [turn + ceil_div(surplus, WEIGHTS_A_CYCLE) for turn, surplus in enumerate(late)]
    chunks = Chunks(codes, counts, [*starts[1:], position], turns)
    return chunks, position + owed * remainder


def _walk_both(bits: Bits, header: Header, runs: Coding) -> tuple[Chunks, Chunks, int]:
    """The weight chunks and the zero-run chunks of a slice, which alternate, and the bit after the last chunk.

    Zero runs come only while no more zero runs than weights are known, weights only while they are less than 8 ahead.
    """
    coding, windows, total = header.weights, bits.windows, header.run_count
    weights, zeros = Chunks(), Chunks()
    width = 0 if coding.raw else _UNARY
    mask, carries, run_mask = _MASKS[width], _NONE if coding.truncated else _ONES, _MASKS[runs.unary]
    position, weight, zero, turn, late = header.body, 0, 0, 0, 0
    owes_weights = owes_zeros = False
    while True:
        has_weights = weight - zero < _LEAD and weight < header.count
        has_zeros = weight >= zero and zero < total
        word = windows[position >> WINDOW_STEP] >> (position & WINDOW_OFFSET)
        first = code = second = 0
        if has_weights:
            first = word & mask
            word >>= width
            position += width
        if has_zeros:
            code = word & run_mask
            word >>= runs.unary
            position += runs.unary
        if has_weights:
            ones = _ONES[first]
            second = word & _MASKS[ones]
            position += ones
        if owes_weights:
            weights.remainders.append(position)
            position += weights.counts[-1] * coding.remainder
        if owes_zeros:
            zeros.remainders.append(position)
            position += zeros.counts[-1] * runs.remainder
        if has_weights:
            weights.codes.append(first | second << _UNARY)
            weights.counts.append(min(coding.unary - carries[second], header.count - weight))
            late += _surplus(weights.counts[-1])
            weights.turns.append(turn + ceil_div(late, WEIGHTS_A_CYCLE))
            weight += weights.counts[-1]
        if has_zeros:
            zeros.codes.append(code)
            zeros.counts.append(min(runs.unary - _ONES[code], total - zero))
            zeros.turns.append(turn + ceil_div(late, WEIGHTS_A_CYCLE))
            zero += zeros.counts[-1]
        owes_weights, owes_zeros = has_weights, has_zeros
        turn += 1
        if not (has_weights or has_zeros):
            return weights, zeros, position


def walk(bits: Bits, header: Header) -> tuple[Chunks, Chunks, int]:
    """The weight chunks of a slice, its zero-run chunks (none without zero runs) and the bit after them.

    InputError if they continue after the stream's last bit.
    """
    try:
        if header.runs is None:
            weights, end = _walk_weights(bits, header)
            zeros = Chunks()
        else:
            weights, zeros, end = _walk_both(bits, header, header.runs)
    except IndexError:  # This is cheaper than a comparison of every chunk with the end.
        raise bits.out_of_bits() from None
    if end > bits.length:
        raise bits.out_of_bits()
    return weights, zeros, end


def _quotients(steps: npt.NDArray[np.int32], ends: npt.NDArray[np.bool_], count: int) -> Int64:
    """The first ``count`` unary numbers: sums of ``steps`` up to each of ``ends``. A number may cross a chunk border."""
    sums = np.cumsum(steps, dtype=np.int64)[np.flatnonzero(ends)[:count]]
    return np.diff(sums, prepend=np.int64(0))


def _finish(bits: Bits, chunks: Chunks, coding: Coding, quotients: Int64 | int) -> Int64:
    """Quotients with their remainders."""
    counts = np.array(chunks.counts, np.int64)
    width = coding.remainder
    before = np.cumsum(counts) - counts
    starts = np.repeat(np.array(chunks.remainders, np.int64) - before * width, counts)
    starts += width * np.arange(starts.size)
    found: Int64 = (quotients << width) + bits.fields(starts, width)
    return found


def weight_symbols(bits: Bits, chunks: Chunks, coding: Coding) -> Int64:
    """The indices of a slice's weights.

    A raw index is its remainder. Any other index is a unary number: a bit 0 ends it, and a bit 1 counts one and takes a bit of the second
    word. There, 0 ends the number, and 1 counts one more and continues, or ends it too if the code is truncated.
    """
    if coding.raw:
        return _finish(bits, chunks, coding, 0)
    codes = np.array(chunks.codes, np.int32)[:, None]
    first = codes >> np.arange(_UNARY, dtype=np.int32) & 1
    rank = np.cumsum(first, axis=1, dtype=np.int32) - first
    second = codes >> (_UNARY + rank) & first
    ends = np.ones_like(second, np.bool_) if coding.truncated else second == 0
    return _finish(bits, chunks, coding, _quotients(first + second, ends, sum(chunks.counts)))


def run_symbols(bits: Bits, chunks: Chunks, coding: Coding) -> Int64:
    """The lengths of a slice's zero runs. In the unary word, 1 counts one and 0 ends the number."""
    codes = np.array(chunks.codes, np.int32)[:, None]
    steps = codes >> np.arange(coding.unary, dtype=np.int32) & 1
    return _finish(bits, chunks, coding, _quotients(steps, steps == 0, sum(chunks.counts)))
