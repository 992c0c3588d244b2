"""Each step's part of a kernel's weight streams: from the streams if they are known, otherwise in proportion."""

from __future__ import annotations

from itertools import accumulate, pairwise

from msgspec import Struct

from npu_model.accelerator import Accelerator
from npu_model.cost.traversal import Box
from npu_model.program import KernelOperation
from npu_model.shapes import ceil_div
from npu_model.timing import TimingParameters
from npu_model.weight_stream.mlw_work import DecoderWork

TURNS_PER_32_WEIGHTS = 4
"""Turns of the decoder for 32 uncompressed 8-bit weights; the constant model's ``decoder_cycles_per_channel`` counts them."""


class WeightShare(Struct, frozen=True):
    """A step's share of the weights: port words of each core's stream before it and in it, and the decoder's cycles (None: unknown)."""

    firsts: tuple[int, ...]
    beats: tuple[int, ...]
    decoding: int | None = None

    def piece(self, start: int, end: int, depth: int) -> WeightShare:
        """The part of the share for OFM channels ``start`` to ``end`` of the step's ``depth``, if all channels need the same."""
        if end - start == depth:
            return self
        cuts = [(beats * start // depth, beats * end // depth) for beats in self.beats]
        firsts = tuple(first + cut for first, (cut, _) in zip(self.firsts, cuts, strict=True))
        decoding = None if self.decoding is None else self.decoding * end // depth - self.decoding * start // depth
        return WeightShare(firsts, tuple(last - first for first, last in cuts), decoding)


def _share(before: tuple[int, ...], after: tuple[int, ...], decoding: int | None = None) -> WeightShare:
    return WeightShare(before, tuple(b - a for a, b in zip(before, after, strict=True)), decoding)


def _slice(length: int, part: int, whole: int) -> int:
    """Bytes of a compressed stream before ``part`` of ``whole`` equal shares: the slices of a stream begin at multiples of 16 bytes."""
    return length if part == whole else length * part // whole // 16 * 16


def _dealt(length: int, ofm_box: Box, depth: int, takes: tuple[int, ...], word: int) -> list[int]:
    """Port words before each step, and after the last, in a stream for which only ``length`` in bytes is known."""
    start, end = _slice(length, ofm_box.c0, depth), _slice(length, ofm_box.c1, depth)
    total = sum(takes)
    return [ceil_div(start + (end - start) * done // total, word) for done in accumulate(takes, initial=0)]


def dealt_shares(op: KernelOperation, ofm_box: Box, takes: tuple[int, ...], word: int) -> tuple[WeightShare, ...]:
    """Shares in proportion to the depth of the block and, inside it, to what each step ``takes``."""
    columns = [_dealt(where.length, ofm_box, op.ofm.shape.depth, takes, word) for where in op.weights]
    return tuple(_share(tuple(c[i] for c in columns), tuple(c[i + 1] for c in columns)) for i in range(len(takes)))


def decoded_shares(
    op: KernelOperation, ofm_box: Box, steps: int, work: tuple[DecoderWork, ...], accelerator: Accelerator, timing: TimingParameters
) -> tuple[WeightShare, ...]:
    """Shares that follow the streams, for the ``steps`` of an OFM block.

    A decoder takes at most a turn, and reads at most a word of the port's width, in a cycle. The cores decode in parallel.
    """
    first, word = ofm_box.c0 // op.block.depth * steps, 8 * accelerator.port_bytes_per_cycle

    def words_and_turns(step: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Words and turns of each core's decoder up to the start of ``step``."""
        if not step:
            return (0,) * len(work), (0,) * len(work)
        return tuple(ceil_div(core.bits[step - 1], word) for core in work), tuple(core.turns[step - 1] for core in work)

    shares = []
    for (before, first_turns), (after, last_turns) in pairwise(words_and_turns(step) for step in range(first, first + steps + 1)):
        longest = max(b - a for a, b in zip(before + first_turns, after + last_turns, strict=True))
        shares.append(_share(before, after, _decoding(longest, timing)))
    return tuple(shares)


def _decoding(turns: int, timing: TimingParameters) -> int:
    return ceil_div(turns * timing.decoder_cycles_per_channel, TURNS_PER_32_WEIGHTS)


def decoding_cycles(work: tuple[DecoderWork, ...], timing: TimingParameters) -> int | None:
    """Cycles in which the decoders pass all weights of a kernel once; None if its streams are unknown."""
    return _decoding(max((core.turns[-1] for core in work if core.turns), default=0), timing) if timing.decodes_streams else None
