"""Comparisons beside Vela at two memory limits and few arena sizes, for tests of what is made of their figures."""

from __future__ import annotations

from functools import partial

import pytest

import npu_testbed.comparisons.beside_vela
import npu_testbed.comparisons.comparison
import npu_testbed.portfolio.examination
from npu_testbed.comparisons.comparison import compare


def compare_quickly(monkeypatch: pytest.MonkeyPatch, sweep: int = 0) -> None:
    """Have every command compare so, at ``sweep`` arena sizes beside Vela's own: for each of them Vela compiles the network anew."""
    for module in (npu_testbed.comparisons.comparison, npu_testbed.comparisons.beside_vela, npu_testbed.portfolio.examination):
        monkeypatch.setattr(module, "compare", partial(compare, rungs=2, sweep=sweep))
