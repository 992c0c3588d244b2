"""Numbers by keys: the core finds what was kept, and nothing else."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascader.ethosu.judge.numbers import Numbers
from cascader.ethosu.judge.tables import HAS_CORE

WIDTH = 3
KEYS = st.tuples(*[st.integers(0, 3) | st.integers(-(1 << 63), (1 << 63) - 1)] * WIDTH)


def lines(numbers: Numbers) -> dict[tuple[int, ...], int]:
    """The rows of the table that the core reads."""
    flat = numbers.table.tolist()
    found = [flat[at : at + WIDTH + 1] for at in range(0, len(flat), WIDTH + 1)]
    return {tuple(key): number for number, *key in found if number >= 0}


@pytest.mark.skipif(not HAS_CORE, reason="the core was not built")
@given(st.lists(KEYS, max_size=400, unique=True))
def test_a_table_has_every_key_once_with_its_number(keys: list[tuple[int, ...]]) -> None:
    numbers = Numbers(WIDTH)
    for number, key in enumerate(keys):
        assert array("q", key) not in numbers
        numbers.add(array("q", key), number)
        assert array("q", key) in numbers
    assert lines(numbers) == {key: number for number, key in enumerate(keys)}
    assert 2 * len(numbers) <= len(numbers.table) // (WIDTH + 1)
