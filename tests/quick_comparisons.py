"""Comparisons beside Vela at two memory limits and few arena sizes, for tests of what is made of their figures."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import npu_testbed.comparisons.beside_vela
import npu_testbed.comparisons.comparison
import npu_testbed.portfolio.examination
from cascader.ethosu.search.request import Request, Run
from npu_testbed.comparisons.comparison import Folders, Sides, compare


def compare_quickly(monkeypatch: pytest.MonkeyPatch, sweep: int = 0) -> None:
    """Have every command compare so, at ``sweep`` arena sizes beside Vela's own: for each of them Vela compiles the network anew."""

    def quick(request: Request, run: Run = Run(None), sides: Sides = Sides(), folders: Folders = Folders()) -> Any:  # noqa: B008  # frozen
        return compare(replace(request, rungs=2), run, replace(sides, sweep=sweep), folders)

    for module in (npu_testbed.comparisons.comparison, npu_testbed.comparisons.beside_vela, npu_testbed.portfolio.examination):
        monkeypatch.setattr(module, "compare", quick)
