"""Damaged streams and schedules end in a result or in one sentence; :mod:`damage` makes them."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable

import pytest
from damage import (
    KINDS,
    damaged_decisions,
    damaged_file,
    damaged_network,
    damaged_stream,
    damaged_text,
    extreme_registers,
    outcome,
    reread,
    subjects,
)

from npu_model.documents import plain as to_plain
from npu_model.errors import InputError

CASES: dict[Callable[[random.Random], None], int] = {
    damaged_stream: 200,
    extreme_registers: 60,
    damaged_file: 75,
    damaged_network: 75,
    damaged_decisions: 125,
    damaged_text: 500,
}
"""Cases per kind that take about 1 s each; text is refused at once. `tox -e fuzz` goes on for as long as it is told."""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_damaged_input_is_computed_or_refused_in_a_sentence(kind: Callable[[random.Random], None]) -> None:
    found = Counter(outcome(kind, seed) for seed in range(CASES[kind]))
    assert found["refused"] > CASES[kind] // 20
    assert found["result"] > 0


@pytest.mark.parametrize("bits", [-1, 0, 7, 128])
def test_an_output_of_elements_that_no_tensor_has_is_refused(bits: int) -> None:
    plain = copy.deepcopy(to_plain(subjects()[0]))
    plain["network"]["outputs"][0]["dtype"]["bits"] = bits
    with pytest.raises(InputError, match=f"elements of type int{bits}: float16, .* uint8 are possible"):
        reread(plain)


def test_an_output_of_the_npu_of_elements_that_no_register_can_name_is_refused() -> None:
    plain = copy.deepcopy(to_plain(subjects()[0]))
    for port in plain["network"]["segments"][-1]["outputs"]:
        port["dtype"] |= {"bits": 16, "floating": True}
        port["shape"] = [1]
    with pytest.raises(InputError, match=r"Port .* has elements of type float16: the NPU has integers"):
        reread(plain)
