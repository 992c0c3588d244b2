"""Spans: runs of bytes along axes, byte by byte, and joined where there would be too many."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.hazards import spans
from sim.hazards.spans import Spans, _runs

AXES = st.lists(st.tuples(st.integers(1, 4), st.integers(-40, 40)), max_size=3)


def held(found: Spans) -> set[int]:
    return {byte for start, end in zip(found.starts.tolist(), found.ends.tolist(), strict=True) for byte in range(start, end)}


def touched(base: int, length: int, axes: list[tuple[int, int]]) -> set[int]:
    """Every byte, run by run."""
    places = product(*(range(count) for count, _ in axes))
    starts = [base + sum(at * stride for at, (_, stride) in zip(place, axes, strict=True)) for place in places]
    return {start + byte for start in starts for byte in range(length)}


@given(st.integers(0, 100), st.integers(1, 20), AXES)
def test_spans_are_the_bytes_of_all_runs_in_order_and_apart(base: int, length: int, axes: list[tuple[int, int]]) -> None:
    found = _runs(base, length, axes)
    assert held(found) == touched(base, length, axes)
    assert (found.starts[1:] > found.ends[:-1]).all()


@given(st.integers(0, 100), st.integers(1, 20), AXES, st.integers(1, 6))
def test_of_too_many_runs_the_nearest_are_taken_with_their_gaps(base: int, length: int, axes: list[tuple[int, int]], most: int) -> None:
    """No byte is left out, none is added before the first or behind the last one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spans, "MOST_RUNS", most)
        found = _runs(base, length, axes)
    every, bytes_held = touched(base, length, axes), held(found)
    assert every <= bytes_held
    assert (min(bytes_held), max(bytes_held)) == (min(every), max(every))
    assert len(found.starts) <= most
