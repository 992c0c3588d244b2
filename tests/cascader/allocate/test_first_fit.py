"""First fit in Python: the lowest free address for each buffer in its turn, and the addresses that the compiled core finds."""

from __future__ import annotations

import pytest
from allocation_judge import validate
from hypothesis import given, settings
from hypothesis import strategies as st
from moving_extents import extents

from cascader.allocate import Extent, allocate
from cascader.allocate.extents import fixed
from cascader.allocate.first_fit import _NO_LIMIT, _FirstFit, search

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
