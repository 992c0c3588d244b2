"""A step's share of the weight streams in pieces along the depth: nothing is read or decoded twice, and nothing is left out."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from npu_model.weight_stream.shares import WeightShare

COUNTS = st.integers(0, 10_000)


@st.composite
def shares(draw: st.DrawFn) -> WeightShare:
    cores = draw(st.integers(1, 2))
    firsts, beats = (tuple(draw(COUNTS) for _ in range(cores)) for _ in range(2))
    return WeightShare(firsts, beats, draw(st.none() | COUNTS))


@given(shares(), st.integers(2, 256), st.data())
def test_pieces_come_one_behind_the_other_and_make_the_whole(share: WeightShare, depth: int, data: st.DataObject) -> None:
    inner = data.draw(st.sets(st.integers(1, depth - 1), max_size=6))
    pieces = [share.piece(start, end, depth) for start, end in pairwise(sorted({0, depth} | inner))]
    for core, (first, beats) in enumerate(zip(share.firsts, share.beats, strict=True)):
        ends = [first, *(piece.firsts[core] + piece.beats[core] for piece in pieces)]
        assert ends == [*(piece.firsts[core] for piece in pieces), first + beats]
    decoded = [piece.decoding for piece in pieces]
    if share.decoding is None:
        assert decoded == [None] * len(pieces)
    else:
        assert sum(cycles or 0 for cycles in decoded) == share.decoding


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 16))
def test_half_of_the_channels_take_half_of_the_words_and_cycles(beats: int, decoding: int, half: int) -> None:
    assert WeightShare((0,), (2 * beats,), 2 * decoding).piece(0, half, 2 * half) == WeightShare((0,), (beats,), decoding)
