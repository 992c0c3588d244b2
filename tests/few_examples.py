"""Sizes of slow properties: a part of the examples in `tox` alone, all in `tox -e laws`, and in tests marked as a law."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any


def few(count: int) -> int:
    """Examples of a property whose examples take long: a third of ``count``, at least ten; with NPU_TESTBED_ALL all of them."""
    return count if os.environ.get("NPU_TESTBED_ALL") else min(count, max(10, -(-count // 3)))


def few_cases(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Cases of a slow test with several parameters, for parametrize: each value of each axis in one case, or with NPU_TESTBED_ALL all.

    Each axis begins one value later in each round than the axis before, so that two axes of one length meet in other pairs.

    >>> few_cases(["conv", "pool", "add", "mean"], ["size", "performance"], ["quick", "standard"])
    [('conv', 'size', 'quick'), ('pool', 'performance', 'standard'), ('add', 'performance', 'quick'), ('mean', 'size', 'standard')]
    """
    if os.environ.get("NPU_TESTBED_ALL"):
        return list(itertools.product(*axes))
    longest = max(map(len, axes))
    return [tuple(axis[(number + late * (number // len(axis))) % len(axis)] for late, axis in enumerate(axes)) for number in range(longest)]
