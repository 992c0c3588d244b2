"""Resting buffers: those that could not lie lower, found by moving each of them."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from cascader.allocate.extents import Extent, Extents, fixed
from cascader.allocate.moving import allocate
from cascader.allocate.resting import resting


@st.composite
def moving(draw: st.DrawFn, name: str) -> Extent:
    start, steps = draw(st.integers(0, 6)), draw(st.integers(1, 6))
    whole = fixed(name, draw(st.integers(1, 30)), start, start + steps)
    lows = [draw(st.integers(0, int(high))) for high in whole.high]
    return Extent(name, start, whole.low + lows, whole.high)


def overlap(one: Extent, at: int, two: Extent, there: int) -> bool:
    """Whether two buffers use one byte at one step."""
    for step in range(max(one.start, two.start), min(one.end, two.end)):
        a, b = step - one.start, step - two.start
        bytes_of_one = range(at + int(one.low[a]), at + int(one.high[a]))
        if set(bytes_of_one) & set(range(there + int(two.low[b]), there + int(two.high[b]))):
            return True
    return False


@settings(max_examples=150)
@given(st.data())
def test_buffers_at_rest_lie_on_the_bottom_or_on_buffers_at_rest(data: st.DataObject) -> None:
    found = [data.draw(moving(str(number))) for number in range(data.draw(st.integers(1, 7)))]
    peak, addresses = allocate(found, alignment=1, moves=20)
    known = resting(Extents.of(found), addresses, alignment=1)
    ends = [at + int(extent.high.max()) for extent, at in zip(found, addresses, strict=True)]
    assert {number for number, end in enumerate(ends) if end == peak} <= set(known)
    for number in known:
        lowered = addresses[number] - 1
        under = {
            other
            for other in range(len(found))
            if other != number and addresses[other] < addresses[number] and overlap(found[number], lowered, found[other], addresses[other])
        }
        assert under <= set(known)


def test_a_tower_rests_from_its_top_to_the_bottom_and_what_stands_beside_it_does_not() -> None:
    numbers = count()
    tower = [fixed(str(next(numbers)), size, begin, begin + 2) for size, begin in ((64, 0), (32, 1), (16, 2))]
    beside = fixed(str(next(numbers)), 16, 8, 9)
    assert resting(Extents.of([*tower, beside]), (0, 64, 96, 0)) == (0, 1, 2)
