"""First fit in Python: the lowest free address for each buffer in its turn, and the addresses that the compiled core finds."""

from __future__ import annotations

import pytest
from allocation_judge import validate
from hypothesis import given, settings
from hypothesis import strategies as st
from moving_extents import extents

from cascader.allocate import Extent, allocate
from cascader.allocate.extents import fixed
from cascader.allocate.first_fit import _NO_LIMIT, Draw, _FirstFit, search

pytestmark = pytest.mark.law


def lowest(found: list[Extent], order: list[int], alignment: int) -> list[int]:
    """The addresses of first fit by trying one after the other."""
    addresses: dict[int, int] = {}
    for turn, index in enumerate(order):
        address = 0
        placed = order[:turn]
        while validate([found[i] for i in (*placed, index)], [*(addresses[i] for i in placed), address], 1 << 40, alignment) is not None:
            address += alignment
        addresses[index] = address
    return [addresses[index] for index in range(len(found))]


BUFFERS = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=5)


@settings(max_examples=100)
@given(st.data(), BUFFERS, st.sampled_from([1, 4, 16]))
def test_each_buffer_goes_to_the_lowest_address_that_those_before_it_leave(
    data: st.DataObject, sizes: list[tuple[int, int, int]], alignment: int
) -> None:
    found = [fixed(str(number), size, start, start + steps) for number, (size, start, steps) in enumerate(sizes)]
    order = data.draw(st.permutations(range(len(found))))
    peak, addresses = _FirstFit(found, alignment).place(order, _NO_LIMIT)
    assert addresses == lowest(found, order, alignment)
    assert peak == max(address + int(e.high.max()) for e, address in zip(found, addresses, strict=True))


@settings(max_examples=100)
@given(extents(count=6, size=60, steps=5), st.sampled_from([1, 16]))
def test_the_python_form_finds_what_the_compiled_core_finds(found: list[Extent], alignment: int) -> None:
    assert search(found, alignment, 20, 1) == allocate(found, alignment=alignment, moves=20)


def many() -> list[Extent]:
    """150 buffers, some hundredths of whose bytes no greedy order saves."""
    draw = Draw(3)
    starts = [draw.below(120) for _ in range(150)]
    return [fixed(str(number), 16 + 16 * draw.below(39), start, start + 1 + draw.below(24)) for number, start in enumerate(starts)]


def test_of_many_buffers_those_that_meet_the_peak_are_moved_alike_in_python_and_compiled() -> None:
    found = many()
    greedy, best = allocate(found, moves=0), allocate(found, moves=150)
    assert search(found, 16, 150, 1) == best
    assert validate(found, best[1], best[0], 16) is None
    assert best[0] < greedy[0]
