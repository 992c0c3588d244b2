"""How much a slow property tries: a part of it in `tox` alone, all where every network is tried (`tox -e laws`, tests marked as a law)."""

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

    >>> few_cases(["conv", "pool", "add"], ["size", "performance"])
    [('conv', 'size'), ('pool', 'performance'), ('add', 'size')]
    """
    if os.environ.get("NPU_TESTBED_ALL"):
        return list(itertools.product(*axes))
    return [tuple(axis[number % len(axis)] for axis in axes) for number in range(max(map(len, axes)))]
