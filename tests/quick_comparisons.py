"""Comparisons beside Vela at two memory limits and few arena sizes, for tests of what is made of their figures."""

from __future__ import annotations

from functools import partial

import pytest

import testbed.compare.beside_vela
import testbed.compare.comparison
import testbed.portfolio.examination
from testbed.compare.comparison import compare


def compare_quickly(monkeypatch: pytest.MonkeyPatch, sweep: int = 0) -> None:
    """Have every command compare so, at ``sweep`` arena sizes beside Vela's own: for each of them Vela compiles the network anew."""
    for module in (testbed.compare.comparison, testbed.compare.beside_vela, testbed.portfolio.examination):
        monkeypatch.setattr(module, "compare", partial(compare, rungs=2, sweep=sweep))
